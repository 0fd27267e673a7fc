package facilitate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/journal/mem"
	"github.com/iris-operator/iris/facilitate/mind/script"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

func people(ids ...string) (out []facilitate.Participant) {
	for _, id := range ids {
		out = append(out, facilitate.Participant{ID: principal.ID(id), Name: strings.ToUpper(id[:1]) + id[1:]})
	}
	return out
}

func sit(t *testing.T, cfg facilitate.Config) *facilitate.Agent {
	t.Helper()
	if cfg.Participants == nil {
		cfg.Participants = people("ana", "ben", "cy", "di", "eve")
	}
	a, err := facilitate.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func run(t *testing.T, a *facilitate.Agent, ev facilitate.Event) []facilitate.Act {
	t.Helper()
	acts, err := a.Run(t.Context(), ev)
	if err != nil {
		t.Fatalf("%s by %s: %v", ev.Type, ev.Author, err)
	}
	return acts
}

// kinds draws acts as "tool:intent>target".
func kinds(acts []facilitate.Act) string {
	var out []string
	for _, x := range acts {
		s := x.Tool + ":" + x.Intent
		if x.Target != "" {
			s += ">" + string(x.Target)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func context_(t *testing.T, a *facilitate.Agent, w facilitate.Audience) string {
	t.Helper()
	s, err := a.Context(w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A bridge is a port that keeps what it delivered, by id.
type bridge struct {
	room   map[string]facilitate.RoomEffect
	person map[string]facilitate.PersonEffect
	calls  int
	before bool // fail before the effect is shown
	fail   func(call int) error
}

func newBridge() *bridge {
	return &bridge{room: map[string]facilitate.RoomEffect{}, person: map[string]facilitate.PersonEffect{}, fail: func(int) error { return nil }}
}

func (b *bridge) Room(_ context.Context, e facilitate.RoomEffect) error {
	b.calls++
	err := b.fail(b.calls)
	if err == nil || !b.before {
		b.room[e.ID] = e
	}
	return err
}

func (b *bridge) Person(_ context.Context, e facilitate.PersonEffect) error {
	b.calls++
	err := b.fail(b.calls)
	if err == nil || !b.before {
		b.person[e.ID] = e
	}
	return err
}

// TestTheWholeArc goes from a question to consented words in the room.
func TestTheWholeArc(t *testing.T) {
	b := newBridge()
	key := facilitate.NewOperatorKey()
	a := sit(t, facilitate.Config{Topic: "Friday", Port: b, Operator: key})
	for _, c := range []struct {
		ev   facilitate.Event
		want string
	}{
		{facilitate.Message("ana", "Where do we eat on Friday?"), ""},
		{facilitate.Message("ben", "Hi all"), ""},
		{facilitate.Message("ben", "I propose the steak house"), "caucus:discover_specific>cy"},
		{facilitate.Caucus("cy", "not sure"), "caucus:discover_specific>cy"},
		{facilitate.Caucus("cy", "I can spend at most 15 euros"), "caucus:ask_consent>cy"},
		{facilitate.Caucus("cy", "hm, let me think"), "caucus:receipt>cy"},
		{facilitate.Caucus("cy", "yes, share it"), "caucus:receipt>cy"},
		{facilitate.Message("ana", "The steak house is nice"), "post:carry_release"},
	} {
		if got := kinds(run(t, a, c.ev)); got != c.want {
			t.Errorf("%s %q by %s: %q, want %q", c.ev.Type, c.ev.Text, c.ev.Author, got, c.want)
		}
	}
	words := "I can spend at most 15 euros"
	if got := context_(t, a, facilitate.ForRoom()); !strings.Contains(got, words) || strings.Contains(got, "by cy") {
		t.Errorf("room context after release:\n%s", got)
	}
	posted := false
	for _, e := range b.room {
		posted = posted || strings.Contains(e.Text, words)
	}
	asked := false
	for _, e := range b.person {
		asked = asked || e.Release == "r1" && e.To == "cy"
		if e.To != "cy" {
			t.Errorf("a private act for %s", e.To)
		}
	}
	if !posted || !asked {
		t.Errorf("delivered: %v %v", b.room, b.person)
	}
	card := a.Canvas()[0]
	if card.Fields["title"] != "Where do we eat on Friday?" || len(card.Options["options"]) != 1 || card.Result["weighedIn"] != "2" {
		t.Errorf("card %+v", card)
	}
	if got := len(a.Caucus("cy")); got != 9 {
		t.Errorf("%d private lines", got)
	}
	if self := context_(t, a, facilitate.ForSelf(key)); !strings.Contains(self, "I opened a private line with Cy") {
		t.Error("no introspection")
	}
	exp, err := a.Export(facilitate.ForSelf(key))
	if err != nil || !strings.Contains(exp["iris/introspection/log.md"], "I held") || exp["people/cy.md"] == "" {
		t.Errorf("export: %v %v", exp, err)
	}
}

func TestRefusals(t *testing.T) {
	a := sit(t, facilitate.Config{})
	for _, ev := range []facilitate.Event{
		{Type: "shout", Author: "ana"}, facilitate.Message("zoe", "x"), facilitate.Message("iris", "x"), facilitate.Caucus("self", "x"),
		facilitate.Contribution("ana", "x", nil), facilitate.Consent("ana", "r9", true), facilitate.Revoke("ana", "r9"), facilitate.OptOut("ana", "all of it"),
		facilitate.Set("ana", "x", "status", "decided"), facilitate.OpenItem("ana", "x", ""), facilitate.Join(facilitate.Participant{ID: "room"}), facilitate.Leave("zoe"), facilitate.Erase("zoe"),
	} {
		if _, err := a.Run(t.Context(), ev); !errors.Is(err, facilitate.ErrEvent) {
			t.Errorf("%+v: %v", ev, err)
		}
	}
	if a.Room().Log.Len() != 0 || a.LastMessage() != nil {
		t.Error("a refused event left something")
	}
	for _, w := range []facilitate.Audience{facilitate.ForPerson("zoe"), facilitate.ForPerson("self"), facilitate.ForSelf(nil), facilitate.ForSelf(facilitate.NewOperatorKey())} {
		if _, err := a.Context(w); !errors.Is(err, facilitate.ErrAudience) {
			t.Errorf("context of %+v: %v", w, err)
		}
		if _, err := a.Export(w); !errors.Is(err, facilitate.ErrAudience) {
			t.Errorf("export of %+v: %v", w, err)
		}
	}
	for name, cfg := range map[string]facilitate.Config{
		"nobody": {}, "twice": {Participants: people("ana", "ana")}, "reserved": {Participants: []facilitate.Participant{{ID: "iris"}}},
		"room id": {ID: "../x", Participants: people("ana")}, "tool": {Participants: people("ana"), Tools: []any{7}},
		"compat with a bridge": {Participants: people("ana"), Compat: true, Port: newBridge()},
	} {
		if _, err := facilitate.New(t.Context(), cfg); !errors.Is(err, facilitate.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.Close()
	if _, err := a.Run(t.Context(), facilitate.Message("ana", "x")); !errors.Is(err, facilitate.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestRepeatsAreIgnored(t *testing.T) {
	a := sit(t, facilitate.Config{})
	ev := facilitate.Message("ana", "once")
	ev.Key = "k1"
	run(t, a, ev)
	run(t, a, ev)
	if n := a.Room().Log.Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
	if m, err := a.Ingest(t.Context(), "ben", "two"); err != nil || m.Seq != 2 || m.Author != "ben" {
		t.Errorf("Ingest = %+v, %v", m, err)
	}
	if l := a.LastMessage(); l.Author != "ben" || l.Channel != facilitate.TMessage {
		t.Errorf("last %+v", l)
	}
}

func TestBeatsOneByOne(t *testing.T) {
	m := script.New(script.Answers{
		Room: []string{`{"items":[{"id":"eat","title":"Where to eat"}],"summary":null}`},
		Self: []string{script.Choose(room.Choice{Tool: "post", Intent: "open_question", Focus: "eat"}), script.Choose(room.Choice{Tool: "none"})},
		Say:  []string{`{"text":"What do you need?","tool":"caucus","target":"ben"}`},
	})
	a := sit(t, facilitate.Config{Mind: m})
	a.Ingest(t.Context(), "ana", "Where to eat?")
	if d, err := a.Reflect(t.Context()); err != nil || len(d.Items) != 1 {
		t.Fatalf("%+v %v", d, err)
	}
	if x, err := a.Act(t.Context()); x != nil || err != nil {
		t.Errorf("acted before a choice: %v %v", x, err)
	}
	c, err := a.Decide(t.Context())
	if err != nil || c.Tool != "post" {
		t.Fatalf("%+v %v", c, err)
	}
	x, err := a.Act(t.Context())
	if err != nil || x == nil || x.Tool != "post" || flow.Reveal(x.Public) != "What do you need?" {
		t.Fatalf("%+v %v", x, err)
	}
	if y, _ := a.Act(t.Context()); y != nil {
		t.Error("one choice, two acts")
	}
	if c, _ := a.Decide(t.Context()); c.Tool != room.None {
		t.Errorf("%+v", c)
	}
	if !a.IsLive() {
		t.Error("a script is not the offline mind")
	}
	a.SetModel(nil)
	if a.IsLive() {
		t.Error("no model is live")
	}
}

func TestModelsAreSwappedAndPoliciesJournaled(t *testing.T) {
	a := sit(t, facilitate.Config{})
	var levels []string
	a.SetModel(func(_ context.Context, r flow.Request) (flow.Response, error) {
		levels = append(levels, r.Level.String()+"/"+string(r.Principal))
		switch r.Level {
		case flow.RankSelf:
			return flow.Response{Text: `{"tool":"none","rationale":"r"}`, Usage: flow.Usage{In: 5, Out: 2}}, nil
		}
		return flow.Response{Text: `{"items":[],"record":{}}`}, nil
	})
	run(t, a, facilitate.Message("ana", "hello there everybody"))
	if got := strings.Join(levels, " "); !strings.Contains(got, "room/") || !strings.Contains(got, "person/ana") || !strings.Contains(got, "self/") || a.Spent() != 7 {
		t.Errorf("asked at %s, spent %d", got, a.Spent())
	}
	coach, _ := policy.Preset("coach")
	if err := a.SetPolicy(t.Context(), coach); err != nil {
		t.Fatal(err)
	}
}

func TestABrokenModelCostsTheBeatAndSaysSo(t *testing.T) {
	key := facilitate.NewOperatorKey()
	for name, m := range map[string]flow.Model{
		"fails": func(context.Context, flow.Request) (flow.Response, error) { return flow.Response{}, errors.New("boom") },
		"nonsense": func(context.Context, flow.Request) (flow.Response, error) {
			return flow.Response{Text: "I cannot"}, nil
		},
		"nowhere": func(_ context.Context, r flow.Request) (flow.Response, error) {
			return flow.Response{Text: `{"items":[],"record":{},"tool":"caucus","target":"self","rationale":"x"}`}, nil
		},
	} {
		store := mem.New()
		a := sit(t, facilitate.Config{Model: m, Operator: key, Store: store})
		if acts := run(t, a, facilitate.Message("ana", "hello there everybody")); len(acts) != 0 {
			t.Errorf("%s: %s", name, kinds(acts))
		}
		a.Close()
		found := false
		for n, err := range a.Subscribe(t.Context(), facilitate.ForSelf(key), 0) {
			if err != nil {
				t.Fatal(err)
			}
			found = found || n.Type == "beat.failed"
		}
		if !found || a.Room().Log.Len() != 1 {
			t.Errorf("%s: nobody says so", name)
		}
	}
}
