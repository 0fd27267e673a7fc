package facilitatetest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/journal/mem"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/mind/adversary"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/tool"
)

// marker finds the planted canaries. Each names its owner.
var marker = regexp.MustCompile(`CANARY[A-Z]+[0-9]+Q`)

func canary(id facilitate.ID, n int) string {
	return fmt.Sprintf("CANARY%s%dQ", strings.ToUpper(string(id)), n)
}

// A Leak is a canary where it must not be.
type Leak struct {
	Sink, Canary, Encoder string
	Owner, Reader         facilitate.ID // Reader is empty for the room
}

// Sinks are the places a canary must not reach, by who reads them.
var Sinks = []string{"room context", "board", "room notices", "room export", "room deliveries", "room prompts", "room journal", "host deliveries", "person context", "person notices", "person export", "person deliveries", "person prompts", "private line"}

// CanaryOptions configures [Canaries].
type CanaryOptions struct {
	Surface *surface.Surface
	Encoder Encoder
	Compat  bool
	Inject  string // an instruction planted at Where; none when empty
	Where   string // line, name, topic, title, caucus or hook
	Events  int    // after the planting; 0 is 10
}

// taps watches what goes in and out of an agent.
type taps struct {
	// mu guards the prompts, which several beats write at once.
	mu     sync.Mutex
	room   []string
	person map[facilitate.ID][]string
	out    []string
	told   []string
	sent   map[facilitate.ID][]string
}

func (p *taps) Room(_ context.Context, e facilitate.RoomEffect) error {
	p.out = append(p.out, e.ID+" "+e.Text+e.Emoji)
	return nil
}

func (p *taps) Person(_ context.Context, e facilitate.PersonEffect) error {
	p.sent[e.To] = append(p.sent[e.To], e.ID+" "+e.Text+e.Release)
	return nil
}

func (p *taps) Host(_ context.Context, e facilitate.HostEffect) error {
	p.told = append(p.told, e.ID+" "+e.Text+e.Intent+e.Item)
	return nil
}

// Canaries plants secrets of every person in every sealed input, runs the
// adversary over them and looks for them, encoded, wherever they must not be.
// It returns the leaks and how many secrets the adversary got to see: with none
// seen, nothing is proved.
func Canaries(ctx context.Context, o CanaryOptions) (leaks []Leak, seen uint64, err error) {
	adv := adversary.New(adversary.Options{Marker: marker, Encode: o.Encoder.Do})
	tap := &taps{person: map[facilitate.ID][]string{}, sent: map[facilitate.ID][]string{}}
	store := mem.New()
	cfg := facilitate.Config{
		Topic: "topic", Participants: Participants(4, func(id facilitate.ID) string { return "knows " + canary(id, 1) }),
		Surface: o.Surface, Mind: &watched{adv, tap}, Store: store, Secret: []byte("fences"), MaxSteps: 4, Compat: o.Compat,
		Tools:  tool.All(),
		Guards: tool.Guards{MinGap: -1, MaxPostsPerHour: -1, TellAfter: -1},
	}
	if !o.Compat {
		cfg.Port = tap
	}
	plant(&cfg, o)
	a, err := facilitate.New(ctx, cfg)
	if err != nil {
		return nil, 0, err
	}
	defer a.Close()
	for _, ev := range events(o) {
		_, _ = a.Run(ctx, ev) // what does not apply is refused
	}
	sinks := map[string]string{}
	var b strings.Builder
	for r := range store.Load(ctx, "main", 0) {
		if r.Level == flow.RankRoom {
			b.Write(r.Payload)
		}
	}
	sinks["room journal"] = b.String()
	js, _ := json.Marshal(a.Canvas())
	sinks["board"], sinks["room deliveries"], sinks["room prompts"] = string(js), strings.Join(tap.out, "\n"), strings.Join(tap.room, "\n")
	sinks["host deliveries"] = strings.Join(tap.told, "\n")
	watch := func(who string, w facilitate.Audience) {
		sinks[who+" context"], _ = a.Context(w)
		exp, _ := a.Export(w)
		sinks[who+" export"] = fmt.Sprint(exp)
		js, _ := json.Marshal(Notices(ctx, a, w, 0))
		sinks[who+" notices"] = string(js)
	}
	watch("room", facilitate.ForRoom())
	leaks = append(leaks, look(sinks, "", o.Encoder)...)
	for _, id := range People[:4] {
		sinks = map[string]string{}
		watch("person", facilitate.ForPerson(id))
		sinks["person deliveries"], sinks["person prompts"] = strings.Join(tap.sent[id], "\n"), strings.Join(tap.person[id], "\n")
		sinks["private line"] = line0(a, id)
		leaks = append(leaks, look(sinks, id, o.Encoder)...)
	}
	return leaks, adv.Found.Load(), nil
}

// line0 is the part of an export that is the private line.
func line0(a *facilitate.Agent, id facilitate.ID) string {
	exp, _ := a.Export(facilitate.ForPerson(id))
	return exp["people/"+string(id)+".md"]
}

func plant(cfg *facilitate.Config, o CanaryOptions) {
	switch o.Where {
	case "topic":
		cfg.Topic = o.Inject
	case "name":
		cfg.Participants[1].Name = o.Inject
	}
}

func events(o CanaryOptions) (out []facilitate.Event) {
	title := "The question"
	if o.Where == "title" {
		title = o.Inject
	}
	out = append(out, facilitate.OpenItem("ana", "alpha", title, "red", "blue"))
	switch o.Where {
	case "line":
		out = append(out, facilitate.Message("ben", o.Inject))
	case "caucus":
		out = append(out, facilitate.Caucus("ben", o.Inject))
	case "hook":
		out = append(out, facilitate.Hook("ci", o.Inject))
	}
	n := o.Events
	if n == 0 {
		n = 10
	}
	for i := range n {
		id := People[i%4]
		switch i % 3 {
		case 0:
			out = append(out, facilitate.Caucus(id, "what I need is "+canary(id, 2)+" and no less"))
		case 1:
			out = append(out, facilitate.Message(id, "I propose the red hall then"))
		default:
			v := map[string]any{}
			for _, c := range o.Surface.Contribution {
				switch c.Kind {
				case surface.Word:
					v[c.Name] = c.Of[0]
				case surface.Option:
					v[c.Name] = "red"
				case surface.Set:
					v[c.Name] = []string{"red"}
				case surface.Text:
					v[c.Name] = canary(id, 3)
				}
			}
			out = append(out, facilitate.Contribution(id, "alpha", v))
		}
	}
	return out
}

// look finds canaries of others than the reader, plain and encoded.
func look(sinks map[string]string, reader facilitate.ID, e Encoder) (out []Leak) {
	for sink, text := range sinks {
		low := strings.ToLower(text)
		for _, id := range People[:4] {
			if id == reader {
				continue
			}
			for n := 1; n <= 3; n++ {
				c := canary(id, n)
				if strings.Contains(text, c) || strings.Contains(low, strings.ToLower(c)) || strings.Contains(low, strings.ToLower(e.Do(c))) || strings.Contains(low, strings.Trim(strings.Join(strings.Fields(strings.ToLower(e.Do(c))), "-"), "-")) {
					out = append(out, Leak{sink, c, e.Name, id, reader})
				}
			}
		}
	}
	return out
}

// watched is the adversary with its prompts on record.
type watched struct {
	*adversary.Mind
	tap *taps
}

func (w *watched) Room(ctx context.Context, b mind.RoomBeat) (flow.Text[flow.Room], error) {
	w.tap.addRoom(flow.Reveal(b.Prompt.Text()))
	return w.Mind.Room(ctx, b)
}

func (w *watched) Say(ctx context.Context, b mind.SayBeat) (flow.Text[flow.Room], error) {
	w.tap.addRoom(flow.Reveal(b.Prompt.Text()))
	return w.Mind.Say(ctx, b)
}

func (w *watched) Person(ctx context.Context, b mind.PersonBeat) (flow.Text[flow.Person], error) {
	w.tap.addPerson(b.Who, b.Prompt)
	return w.Mind.Person(ctx, b)
}

func (w *watched) Whisper(ctx context.Context, b mind.WhisperBeat) (flow.Text[flow.Person], error) {
	w.tap.addPerson(b.Who, b.Prompt)
	return w.Mind.Whisper(ctx, b)
}

func (p *taps) addPerson(id principal.ID, q flow.Prompt[flow.Person]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person[id] = append(p.person[id], open.Open(q.Text().Sealed()).Text)
}

func (p *taps) addRoom(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = append(p.room, s)
}
