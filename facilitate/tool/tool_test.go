package tool_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
	"github.com/iris-operator/iris/facilitate/tool"
)

type named struct{ spec tool.Spec }

func (n named) Spec() tool.Spec { return n.spec }
func (n named) Run(context.Context, tool.RoomHost, string, flow.Text[flow.Room]) error {
	return nil
}

func TestSetRefusesWhatIsNoTool(t *testing.T) {
	s, err := tool.NewSet(tool.Post(), tool.Caucus(), tool.React(), tool.Nudge())
	if err != nil || len(s.Names()) != 4 {
		t.Fatal(err)
	}
	if _, ok := s.Room("post"); !ok {
		t.Error("no post")
	}
	if _, ok := s.Room("caucus"); ok {
		t.Error("caucus acts on the room")
	}
	if _, ok := s.Person("caucus"); !ok {
		t.Error("no caucus")
	}
	if _, ok := s.Spec("mail"); ok {
		t.Error("a tool nobody registered")
	}
	for _, bad := range [][]any{{7}, {tool.Post(), tool.Post()}, {tool.Caucus(), tool.Caucus()}, {struct{ tool.RoomHost }{}}, {named{tool.Spec{Name: "none"}}}, {named{tool.Spec{Name: ""}}}, {named{tool.Spec{Name: "A b"}}}, {tool.Caucus(), named{tool.Spec{Name: "caucus"}}}} {
		if _, err := tool.NewSet(bad...); err == nil {
			t.Errorf("NewSet(%v) works", bad)
		}
	}
	if _, err := tool.NewSet(named{tool.Spec{Name: "none"}}); !errors.Is(err, tool.ErrName) {
		t.Error(err)
	}
}

type host struct {
	posted, sent, reacted, told, planned string
	pinned                               bool
}

func (h *host) Post(_ context.Context, t flow.Text[flow.Room]) error {
	h.posted = flow.Reveal(t)
	return nil
}
func (h *host) Board() tool.Board          { return h }
func (h *host) Read() flow.Text[flow.Room] { return flow.Public("- [a]") }
func (h *host) Pin(context.Context) error  { h.pinned = true; return nil }
func (h *host) OpenPoll(_ context.Context, t flow.Text[flow.Room]) error {
	h.posted = "poll: " + flow.Reveal(t)
	return nil
}
func (h *host) Tell(_ context.Context, t flow.Text[flow.Host]) error {
	h.told = open.Open(t.Sealed()).Text
	return nil
}
func (h *host) Plan(_ context.Context, name string, after time.Duration) error {
	h.planned = name + " " + after.String()
	return nil
}
func (h *host) React(_ context.Context, e string) error { h.reacted = e; return nil }
func (h *host) Send(_ context.Context, t flow.Text[flow.Person]) error {
	h.sent = open.Open(t.Sealed()).Text
	return nil
}

func TestBuiltinsUseTheirHost(t *testing.T) {
	h := &host{}
	ctx := t.Context()
	tool.Post().Run(ctx, h, "", flow.Public("p"))
	tool.React().Run(ctx, h, "ack", flow.Public(""))
	tool.Caucus().Run(ctx, h, "", flow.Private("a", "c"))
	if h.posted != "p" || h.reacted != "👍" || h.sent != "c" {
		t.Errorf("%+v", h)
	}
	tool.Nudge().Run(ctx, h, "", flow.Private("a", "n"))
	if h.sent != "n" || tool.Emoji("zz") != "" || tool.Emoji("seen") == "" || tool.Emoji("celebrate") == "" {
		t.Errorf("%+v", h)
	}
	tool.Pin().Run(ctx, h, "pin", flow.Public(""))
	tool.OpenPoll().Run(ctx, h, "open_poll", flow.Public("which?"))
	tool.Escalate().Run(ctx, h, tool.Stuck, flow.ToHost(flow.Public("help")))
	tool.Schedule().Run(ctx, h, tool.Soon)
	if !h.pinned || h.posted != "poll: which?" || h.told != "help" || h.planned != "soon 10m0s" {
		t.Errorf("%+v", h)
	}
	if tool.Schedule().Run(ctx, h, "whenever"); h.planned != "soon 10m0s" {
		t.Errorf("planned %q for a word outside of the closed set", h.planned)
	}
}

func TestAllToolsFitInOneSet(t *testing.T) {
	s, err := tool.NewSet(tool.All()...)
	if err != nil || len(s.Names()) != 8 || !s.Hosts() {
		t.Fatalf("%v %v", s.Names(), err)
	}
	for name, where := range map[string]string{"post": "room", "react": "room", "pin": "room", "open_poll": "room", "caucus": "person", "nudge": "person", "escalate": "host", "schedule": "self"} {
		_, room := s.Room(name)
		_, person := s.Person(name)
		_, host := s.Host(name)
		_, self := s.Self(name)
		if got := map[string]bool{"room": room, "person": person, "host": host, "self": self}; !got[where] || len(s.Names()) != 8 {
			t.Errorf("%s is %v, want %s", name, got, where)
		}
		if spec, ok := s.Spec(name); !ok || spec.Name != name || len(spec.Intents) == 0 || spec.Description == "" {
			t.Errorf("%s: %+v", name, spec)
		}
	}
}

func TestGuards(t *testing.T) {
	now := time.UnixMilli(10_000_000)
	set, _ := tool.NewSet(tool.Post(), tool.Caucus(), tool.Nudge(), tool.React())
	var s room.State
	at := now.UnixMilli()
	do := func(k room.Kind, l flow.Rank, owner principal.ID, b room.Body) {
		n, _, err := s.Apply(room.Entry{Seq: s.Seq + 1, Kind: k, Level: l, Owner: owner, At: at, Body: open.Seal(b)})
		if err != nil {
			t.Fatal(err)
		}
		s = n
	}
	fresh := func() {
		s, _ = room.New("r", "", builtin.Named("decisions"), room.Seat{Person: principal.Person{ID: "ana"}}, room.Seat{Person: principal.Person{ID: "ben"}})
		at = now.UnixMilli()
	}
	line := func(who principal.ID) {
		do(room.KMessage, flow.RankRoom, "", room.Body{Message: &room.Message{Author: who, Text: "x"}})
	}
	whisper := func(from principal.ID) {
		do(room.KCaucus, flow.RankPerson, "ana", room.Body{Line: &room.Line{From: from, Text: "x"}})
	}
	g := tool.Guards{MaxPostsPerHour: 2}
	check := func(name string, c room.Choice, when time.Time, quiet bool) {
		t.Helper()
		if why := g.Check(&s, set, c, when); (why != "") != quiet {
			t.Errorf("%s: %q", name, why)
		}
	}
	post, ask := room.Choice{Tool: "post", Intent: tool.Recap}, room.Choice{Tool: "caucus", Target: "ana", Intent: tool.DiscoverSpecific}
	fresh()
	line("ana")
	check("first post", post, now, false)
	line("iris")
	line("ana")
	line("ben")
	check("two lines later", post, now, true)
	check("a direct answer", room.Choice{Tool: "post", Intent: tool.AnswerDirect}, now, false)
	check("a reaction", room.Choice{Tool: "react", Intent: "ack"}, now, false)
	line("ana")
	check("three lines later", post, now, false)
	line("iris")
	check("third within the hour", room.Choice{Tool: "post", Intent: tool.AnswerDirect}, now, true)
	check("a release", room.Choice{Tool: "post", Intent: tool.CarryRelease}, now, false)
	check("an hour later", room.Choice{Tool: "post", Intent: tool.AnswerDirect}, now.Add(61*time.Minute), false)

	fresh()
	check("first question", ask, now, false)
	check("nobody", room.Choice{Tool: "caucus", Target: "zoe"}, now, true)
	whisper("iris")
	check("second question", ask, now, true)
	check("consent behind a question", room.Choice{Tool: "caucus", Target: "ana", Intent: tool.AskConsent}, now, false)
	nudge := room.Choice{Tool: "nudge", Target: "ana", Intent: tool.NudgeIntent}
	check("nudge at once", nudge, now, true)
	check("nudge a day later", nudge, now.Add(25*time.Hour), false)
	whisper("iris")
	check("a second nudge", nudge, now.Add(60*time.Hour), true)
	whisper("ana")
	check("after an answer", ask, now, false)
	do(room.KOptOut, flow.RankPerson, "ana", room.Body{Text: "caucus"})
	check("after opting out", ask, now, true)
	do(room.KLeave, flow.RankRoom, "", room.Body{Person: &principal.Person{ID: "ben"}})
	check("somebody away", room.Choice{Tool: "caucus", Target: "ben"}, now, true)
	check("an unknown tool", room.Choice{Tool: "zz"}, now, false)
}

func TestAcknowledgements(t *testing.T) {
	for s, want := range map[string]bool{"ok": true, "Thanks!": true, "ok, got it": true, "👍": true, "ok?": false, "ok let us vote": false, "great, fine, good, ok, yes": false, "I need tea": false} {
		if got := tool.Acknowledges(s); got != want {
			t.Errorf("Acknowledges(%q) = %v", s, got)
		}
	}
}
