package facilitatetest

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/tool"
)

// A probe is a mind whose choices follow from the seed alone, so that they are
// the same in both runs, and whose every text is a fingerprint of the prompt it
// was given: a prompt that differs shows at once.
type probe struct {
	r *rand.Rand
	// mu guards the prompts, which several beats write at once.
	mu     sync.Mutex
	room   []string
	person map[principal.ID][]string
}

func newProbe(seed uint64) *probe {
	return &probe{r: rand.New(rand.NewPCG(seed, 9)), person: map[principal.ID][]string{}}
}

func print(s string) string {
	h := fnv.New64a()
	h.Write([]byte(s))
	return fmt.Sprintf("%x", h.Sum64())
}

func (p *probe) note(who principal.ID, text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who == "" {
		p.room = append(p.room, text)
	} else {
		p.person[who] = append(p.person[who], text)
	}
	return print(text)
}

func (p *probe) Room(_ context.Context, b mind.RoomBeat) (flow.Text[flow.Room], error) {
	f := p.note("", open.Open(b.Prompt.Text().Sealed()).Text)
	d := room.RoomDelta{Summary: "sum " + f, Items: []room.ItemPatch{{ID: "beta", Fields: map[string]room.FieldPatch{b.Surface.Label(): {Text: "beta " + f}}}}}
	n := b.Public.Log.Len()
	for _, fl := range b.Surface.Shared {
		if fl.List && n > 0 {
			d.Items[0].Ops = map[string][]room.ListOp{fl.Name: {{Op: "add", Label: "red hall", Evidence: []uint64{n}}}}
		}
	}
	return flow.Public(beat.Encode(d, b.Surface)), nil
}

func (p *probe) Person(_ context.Context, b mind.PersonBeat) (flow.Text[flow.Person], error) {
	text := open.Open(b.Prompt.Text().Sealed()).Text
	f := p.note(b.Who, text)
	d := room.PersonDelta{Interest: "i " + f, HelpNext: "h " + f, Regards: []room.Regard{{Toward: "ana", Note: f}}, Item: "alpha", Value: map[string]any{"stance": f}}
	thread := open.Open(b.File).Thread
	for _, l := range thread {
		if _, rest, ok := strings.Cut(l.Text, "PROPOSE<"); ok && l.From == b.Who {
			d.Wording, _, _ = strings.Cut(rest, ">")
		}
	}
	return flow.Private(b.Who, beat.EncodePerson(d)), nil
}

func (p *probe) Self(_ context.Context, b mind.SelfBeat) (flow.Text[flow.Self], error) {
	pick := func(of []string) string {
		k := p.r.IntN(1 << 20)
		if len(of) == 0 {
			return ""
		}
		return of[k%len(of)]
	}
	c := room.Choice{Tool: pick([]string{"none", "post", "caucus", "caucus", "post", "caucus", "pin", "open_poll", "schedule", "escalate"}), Rationale: print(open.Open(b.Prompt.Text().Sealed()).Text)}
	c.Target, c.Focus = principal.ID(pick(b.Vocabulary.People)), pick([]string{"alpha", ""})
	c.Intent = pick([]string{"discover_specific", "ask_consent", "reflect_back"})
	own := map[string][]string{
		"post": {"recap", "open_question", "answer_direct"}, "pin": {"pin"}, "open_poll": {"open_poll"}, "schedule": {"soon", "later"}, "escalate": {"stuck"},
	}[c.Tool]
	if own != nil {
		c.Intent, c.Target = pick(own), ""
		if b.State.Item(c.Focus) == nil || b.State.Item(c.Focus).Hidden {
			c.Focus = ""
		}
	}
	for _, who := range b.State.People.All() { // what is proposed is the same in both runs
		box, _ := b.State.File(who.ID)
		for _, r := range open.Open(box).Releases {
			if r.State == release.Proposed && !who.Away {
				c.Tool, c.Target, c.Intent = "caucus", who.ID, "ask_consent"
			}
		}
	}
	return flow.Inner(beat.EncodeSelf(room.SelfDelta{Choice: c, Notes: []room.Note{{Item: "alpha", Read: c.Rationale}}})), nil
}

func (p *probe) Say(_ context.Context, b mind.SayBeat) (flow.Text[flow.Room], error) {
	f := p.note("", open.Open(b.Prompt.Text().Sealed()).Text)
	if b.Statement != nil {
		f += " " + b.Statement.Wording
	}
	return flow.Public(beat.EncodeText("say " + f)), nil
}

func (p *probe) Whisper(_ context.Context, b mind.WhisperBeat) (flow.Text[flow.Person], error) {
	return flow.Private(b.Who, beat.EncodeText("whisper "+p.note(b.Who, open.Open(b.Prompt.Text().Sealed()).Text))), nil
}

// Reflect is the one beat of compatibility mode: its board comes from a prompt
// that holds everything, which is the leak to be found.
func (p *probe) Reflect(_ context.Context, q flow.Prompt[flow.Self], _ *room.State) (flow.Text[flow.Self], error) {
	f := print(open.Open(q.Text().Sealed()).Text)
	return flow.Inner(`{"items":[{"id":"beta","title":"beta ` + f + `","question":"beta ` + f + `","clause":"beta ` + f + `"}]}`), nil
}

// A Difference is where two runs came apart.
type Difference struct {
	Seed  uint64
	Step  int
	Where string
	A, B  string
}

// TwoRun plays histories of about n events on surface twice, with other secrets,
// and after every event compares, byte for byte, what the room and the person
// whose inputs are the same can see: contexts, board, notices, exports and every
// prompt. It returns the number of pairs compared, the differences, and how
// often each type of notice was seen, which tells what the histories cover.
func TwoRun(ctx context.Context, s func() *surface.Surface, seed uint64, histories, n int, spoil func(*facilitate.Config)) (pairs int, diffs []Difference, seenTypes map[string]int, err error) {
	seenTypes = map[string]int{}
	for i := range histories {
		h := NewHistory(seed+uint64(i), n, s())
		var seen [2][]map[string]string
		for k := range 2 {
			if seen[k], err = play(ctx, h, k, seed+uint64(i), s(), spoil, seenTypes); err != nil {
				return pairs, diffs, seenTypes, err
			}
		}
		for step := range seen[0] {
			pairs++
			for where, a := range seen[0][step] {
				if b := seen[1][step][where]; a != b {
					diffs = append(diffs, Difference{seed + uint64(i), step, where, a, b})
				}
			}
		}
	}
	return pairs, diffs, seenTypes, nil
}

// play runs one version and returns what could be seen after each event.
func play(ctx context.Context, h History, k int, seed uint64, s *surface.Surface, spoil func(*facilitate.Config), types map[string]int) (out []map[string]string, err error) {
	m := newProbe(seed)
	cfg := facilitate.Config{
		Topic: "topic", Participants: Participants(len(People), func(id facilitate.ID) string { return h.Reads[k][id] }),
		Surface: s, Mind: m, Secret: []byte("fences"), MaxSteps: 2, Tools: tool.All(), Clock: func() time.Time { return time.UnixMilli(1_000_000) },
	}
	if spoil != nil {
		spoil(&cfg)
	}
	a, err := facilitate.New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	roomAt, personAt := uint64(0), uint64(0)
	for _, ev := range h.Events[k] {
		acts, evErr := a.Run(ctx, ev) // an event that does not apply is refused in both runs
		saw := map[string]string{"refused": fmt.Sprint(evErr != nil)}
		for _, act := range acts {
			saw["host told"] += open.Open(act.Host.Sealed()).Text + "\n"
		}
		for name, w := range map[string]facilitate.Audience{"room": facilitate.ForRoom(), "person": facilitate.ForPerson(h.Fixed)} {
			if saw[name+" context"], err = a.Context(w); err != nil {
				return nil, err
			}
			exp, err := a.Export(w)
			if err != nil {
				return nil, err
			}
			js, _ := json.Marshal(exp)
			saw[name+" export"] = string(js)
			at := &roomAt
			if name == "person" {
				at = &personAt
			}
			for _, n := range Notices(ctx, a, w, *at) {
				*at = n.Seq
				types[n.Type]++
				js, _ := json.Marshal(n)
				saw[name+" notices"] += string(js) + "\n"
			}
		}
		js, _ := json.Marshal(a.Canvas())
		saw["board"] = string(js)
		saw["room prompts"] = strings.Join(m.room, "\x00")
		saw["person prompts"] = strings.Join(m.person[h.Fixed], "\x00")
		m.room, m.person[h.Fixed] = nil, nil
		out = append(out, saw)
	}
	return out, nil
}

// Notices returns what w can read now after from.
func Notices(ctx context.Context, a *facilitate.Agent, w facilitate.Audience, from uint64) (out []facilitate.Notice) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	for n, err := range a.Subscribe(ctx, w, from) {
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}
