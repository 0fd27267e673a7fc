package approval

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// A LiveRequest is a question of somebody who waits for its answer inside of a
// turn: an agent program that wants to call a tool, or that asks what to do.
type LiveRequest struct {
	Conversation chat.Address
	// Text is what people are asked, Command what it is about, Tool the call that
	// waits.
	Text, Command, Tool string
	// Options make it a question with answers to pick: one, or more if Many, or the
	// person's own words. Always offers "always" beside yes and no.
	Options      []turn.Option
	Many, Always bool
	// Reason, Rule and Span are the policy's, Dir is where the call would happen.
	Reason, Rule, Span, Dir string
	Requester               chat.Person
	Turn                    turn.ID
	Origin                  turn.Origin
}

// An Outcome is what became of a live question.
type Outcome struct {
	// State is Approved, Declined, Answered, Expired or Withdrawn.
	State State
	// By names the person; Words is what they said, Picked their answer to a
	// question with options. Always: yes, and to the like.
	By, Words, Picked string
	Always            bool
}

// A Live is a live question. It is nowhere but in memory: when the process ends,
// so does the turn that waits.
type Live struct {
	Question Question
	book     *Book
	over     chan Outcome // one value, from whoever takes the question out of the book
	gone     bool         // nobody waits any more; guarded by Book.mu
}

// Ask puts a live question. It waits as long as a question where somebody is
// there. The caller must call Wait.
func (b *Book) Ask(r LiveRequest) (*Live, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := 0
	for _, e := range b.open {
		if e.Channel == r.Conversation.Channel() {
			waiting++
		}
	}
	if waiting >= maxOpen {
		return nil, errFull
	}
	now := b.opts.Now().UTC().Truncate(time.Millisecond)
	hash := Hash(r.Tool + "\x00" + r.Command + "\x00" + r.Text)
	l := &Live{book: b, over: make(chan Outcome, 1), Question: Question{
		Channel: r.Conversation.Channel(), Command: r.Command, Hash: hash, Text: r.Text, Tool: r.Tool,
		Options: r.Options, Many: r.Many, Always: r.Always, Reason: r.Reason, Rule: r.Rule, Span: r.Span, Dir: r.Dir,
		Requester: r.Requester, Turn: r.Turn, Origin: r.Origin, At: now, Until: now.Add(b.opts.Attended), Waits: true,
	}}
	// A long random mark: whoever has it may have seen the question.
	var mark [16]byte
	rand.Read(mark[:]) //nolint:errcheck // never fails: it ends the process instead
	l.Question.ID = hex.EncodeToString(mark[:]) + "-" + hash
	b.open[l.Question.ID] = &entry{Question: l.Question, live: l}
	b.wake()
	b.log.Info("an agent asks", "question", l.Question.ID, "conversation", l.Question.Channel, "turn", r.Turn, "tool", r.Tool, "rule", r.Rule)
	return l, nil
}

// Wait returns what becomes of the question. When ctx ends it is withdrawn.
func (l *Live) Wait(ctx context.Context) Outcome {
	select {
	case o := <-l.over:
		return o
	case <-ctx.Done():
	}
	l.book.mu.Lock()
	l.gone = true
	if e := l.book.open[l.Question.ID]; e != nil && !e.taken {
		l.book.end(e.ID, Withdrawn)
	}
	l.book.mu.Unlock()
	return <-l.over // an answer that is on its way to disk counts
}

// finish tells the asker. It is called once, with the question out of the book.
func (l *Live) finish(o Outcome) { l.over <- o }

// A Choice is an answer by a button or a call of the API.
type Choice struct {
	Yes bool
	// Words belong to a yes: a label or several, a number, "always", or the
	// person's own words.
	Words string
}

// reading is how an answer is understood.
type reading struct {
	yes, always bool
	picked      string
	// loose says that the words could mean something else if they were said to
	// somebody else.
	loose bool
}

// maxWords bounds an answer in the person's own words.
const maxWords = 4000

// read understands what somebody says to a live question; ok is false if it is no
// answer to it.
func (q Question) read(text string) (r reading, ok bool) {
	text = strings.TrimSpace(text)
	if len(q.Options) > 0 {
		if text == "" || len(text) > maxWords {
			return r, false
		}
		if picked, ok := q.pick(text); ok {
			return reading{yes: true, picked: picked}, true
		}
		return reading{yes: true, picked: text, loose: true}, true
	}
	if q.Always {
		switch words, _ := tokenize(text); strings.Join(words, " ") {
		case "always", "yes always", "always allow", "allow always", "always yes", "always allow it", "yes for the session", "allow for the session":
			return reading{yes: true, always: true}, true
		}
	}
	yes, no := Affirms(text)
	return reading{yes: yes}, yes || no
}

// pick finds the options that a text names, by label or by number.
func (q Question) pick(text string) (labels string, ok bool) {
	if l, ok := q.label(text); ok {
		return l, true
	}
	if !q.Many {
		return "", false
	}
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		l, ok := q.label(part)
		if !ok {
			return "", false
		}
		all = append(all, l)
	}
	return strings.Join(all, ", "), true
}

func (q Question) label(text string) (string, bool) {
	text = strings.Trim(strings.TrimSpace(text), "\"'`.*_")
	for _, o := range q.Options {
		if strings.EqualFold(text, o.Label) {
			return o.Label, true
		}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(text, "#"))
	if err != nil || n < 1 || n > len(q.Options) {
		return "", false
	}
	return q.Options[n-1].Label, true
}

// choose understands a Choice.
func (q Question) choose(c Choice) (r reading, ok bool) {
	switch {
	case !c.Yes:
		return reading{}, true
	case len(q.Options) > 0:
		return q.read(c.Words)
	}
	return reading{yes: true, always: q.Always && strings.EqualFold(strings.TrimSpace(c.Words), "always")}, true
}
