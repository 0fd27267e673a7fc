package approval

import (
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

//go:embed text/*.md
var texts embed.FS

// A Request is a command that the policy holds and somebody wants to run now.
type Request struct {
	Conversation chat.Address
	Command      string
	// Reason, Rule and Span are the policy's.
	Reason, Rule, Span string
	// Dir and Env are what the command would run in. What differs from turn to
	// turn does not belong into Env.
	Dir string
	Env []string
	// Host says where a path of the command is on this machine, and false for one
	// that cannot be seen from here. nil means at the same path.
	Host func(path string) (string, bool)
	// Requester is who wanted it: the author of the turn's message.
	Requester chat.Person
	Turn      turn.ID
	Origin    turn.Origin
}

// A Held is what Hold found.
type Held struct {
	// Granted says that the command may run now, once; By names the person and
	// the message that allowed it.
	Granted bool
	By      string
	// Otherwise Question waits for an answer. Fresh says that it was put now,
	// and not before.
	Question Question
	Fresh    bool
	// Changed names what is no longer what it was when the question was put, if
	// that is why the command must be asked for again.
	Changed string
	// Text is what the model is told: why the command did not run, and that it
	// is to ask and end its turn.
	Text string
}

// Hold takes the grant for a command, or puts a question. The same command in
// the same conversation is one question, which keeps its time, as long as the
// files it names are the same. When Hold returns nil the question is on disk.
//
// An error means that nothing was asked: the command must not run.
func (b *Book) Hold(r Request) (Held, error) {
	hash := Hash(r.Command)
	scene := look(r.Command, r.Dir, r.Env, r.Host)
	k := key{r.Conversation.Channel(), hash}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.opts.Now()
	var changed string
	if g, ok := b.grants[k]; ok {
		// Whatever comes now, it is used up.
		delete(b.grants, k)
		switch {
		case !now.Before(g.until):
		case g.question.Command != r.Command || !strings.HasSuffix(g.question.ID, "-"+hash):
			changed = "the command"
		default:
			if changed = g.question.Scene.differs(scene); changed == "" {
				return Held{Granted: true, By: g.by, Question: g.question}, nil
			}
		}
	}
	waiting := 0
	for _, e := range b.open {
		if e.Channel != k.channel || e.taken || !now.Before(e.Until) {
			continue
		}
		waiting++
		if e.Hash != hash || e.live != nil {
			continue
		}
		// People have seen the question as it was put then.
		if what := e.Scene.differs(scene); what != "" {
			b.end(e.ID, Withdrawn)
			waiting--
			changed = what
			continue
		}
		return Held{Question: e.Question, Text: heldText(e.Question, "")}, nil
	}
	if waiting >= maxOpen {
		return Held{}, errFull
	}
	q := b.question(r, hash, scene, now)
	if err := b.write(q); err != nil {
		return Held{}, err
	}
	b.open[q.ID] = &entry{Question: q}
	b.wake()
	b.log.Info("command held", "question", q.ID, "conversation", q.Channel, "turn", q.Turn, "rule", q.Rule, "until", q.Until)
	return Held{Question: q, Fresh: true, Changed: changed, Text: heldText(q, changed)}, nil
}

// Hash is how questions name a command.
func Hash(command string) string {
	sum := sha256.Sum256([]byte(command))
	return hex.EncodeToString(sum[:])
}

// question makes a new one. mu must be held.
func (b *Book) question(r Request, hash string, scene Scene, now time.Time) Question {
	wait := b.opts.Attended
	if r.Origin.Unattended() {
		wait = b.opts.Unattended
	}
	// Whole milliseconds: what is read back from disk is what was written.
	now = now.UTC().Truncate(time.Millisecond)
	q := Question{
		Channel: r.Conversation.Channel(), Command: r.Command, Hash: hash, Reason: r.Reason, Rule: r.Rule, Span: r.Span,
		Dir: r.Dir, Requester: r.Requester, Turn: r.Turn, Origin: r.Origin, At: now, Until: now.Add(wait), Scene: scene,
		Text: "May this command run once? The policy holds it: " + r.Reason + ".",
	}
	for q.ID == "" || b.open[q.ID] != nil {
		var mark [4]byte
		rand.Read(mark[:]) //nolint:errcheck // never fails: it ends the process instead
		q.ID = hex.EncodeToString(mark[:]) + "-" + hash
	}
	return q
}

// Mark is the short form of an id that people may say or type.
func Mark(id string) string {
	mark, _, _ := strings.Cut(id, "-")
	return mark
}

// heldText tells the model what to do with a held command.
func heldText(q Question, changed string) string {
	name := "held"
	conv, _ := q.Conversation() // its own channel id
	switch {
	case q.Origin.Unattended():
		name = "unattended"
	case conv.Space == chat.Bridge:
		name = "bridge"
	}
	why := ""
	if changed != "" {
		why = "An approval was given before, or asked for, but " + changed + " has changed since, so it does not count. "
	}
	return fill(name, "{reason}", q.Reason, "{changed}", why, "{until}", q.Until.Format("2006-01-02 15:04 MST"))
}

// fill puts values into one of the texts.
func fill(name string, pairs ...string) string {
	text, err := texts.ReadFile("text/" + name + ".md")
	if err != nil {
		panic(err) // the binary was built without its own files
	}
	return strings.NewReplacer(pairs...).Replace(strings.TrimSpace(string(text)))
}
