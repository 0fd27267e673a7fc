package facilitate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/journal/mem"
	"github.com/iris-operator/iris/facilitate/mind/offline"
	"github.com/iris-operator/iris/facilitate/mind/script"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface/decisions"
	"github.com/iris-operator/iris/facilitate/surface/poll"
	"github.com/iris-operator/iris/facilitate/tool"
)

// A desk is a bridge that reaches whoever runs the room.
type desk struct {
	*bridge
	told []facilitate.HostEffect
}

func (d *desk) Host(_ context.Context, e facilitate.HostEffect) error {
	d.told = append(d.told, e)
	return nil
}

// TestOpenPoll: the vote is on options that people proposed, is announced once,
// and fixes them; afterwards nobody's line changes what is voted on.
func TestOpenPoll(t *testing.T) {
	d := &desk{bridge: newBridge()}
	a := sit(t, facilitate.Config{Surface: poll.New(), Port: d, Tools: tool.All()})
	for _, ev := range []facilitate.Event{
		facilitate.Message("ana", "Where do we eat on Friday?"), facilitate.Message("ben", "I propose the steak house"),
	} {
		run(t, a, ev)
	}
	if got := kinds(run(t, a, facilitate.Message("ana", "Iris, open the vote please"))); strings.Contains(got, "open_poll") {
		t.Fatalf("a vote on one option: %s", got)
	}
	run(t, a, facilitate.Message("eve", "I propose the noodle bar"))
	acts := run(t, a, facilitate.Message("ana", "Iris, please open the vote"))
	if kinds(acts) != "open_poll:open_poll" || acts[0].Item == "" || !strings.Contains(flow.Reveal(acts[0].Public), "noodle bar") {
		t.Fatalf("%s", kinds(acts))
	}
	announced := 0
	for _, e := range d.room {
		if e.Poll == acts[0].Item {
			announced++
		}
	}
	card := a.Canvas()[0]
	if announced != 1 || !card.Vote || card.Slot != "vote" || card.Result["vote"] != "open" || len(card.Options["options"]) != 2 {
		t.Errorf("announced %d times: %+v", announced, card)
	}
	run(t, a, facilitate.Message("di", "I propose the casino"))
	if got := a.Canvas()[0].Options["options"]; len(got) != 2 {
		t.Errorf("the options of an open vote are %v", got)
	}
	if got := kinds(run(t, a, facilitate.Message("ana", "Iris, open the vote again"))); strings.Contains(got, "open_poll") {
		t.Errorf("a vote opened twice: %s", got)
	}
	run(t, a, facilitate.Contribution("cy", card.ID, map[string]any{"vote": "the noodle bar"}))
	run(t, a, facilitate.Set("ana", card.ID, "status", "closed"))
	if card = a.Canvas()[0]; card.Vote || card.Result["vote"] != "" || card.Fields["winner"] == "" {
		t.Errorf("after close: %+v", card)
	}
}

// TestATellerOpensTheVote by its own rules, and no other stance does.
func TestATellerOpensTheVote(t *testing.T) {
	for _, name := range policy.Names() {
		p, err := policy.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		a := sit(t, facilitate.Config{Surface: poll.New(), Policy: p, Tools: tool.All()})
		var acts []facilitate.Act
		for _, text := range []string{"Where do we eat on Friday?", "I propose the steak house", "I propose the noodle bar", "I am ready to vote"} {
			acts = append(acts, run(t, a, facilitate.Message("ana", text))...)
		}
		if got := strings.Contains(kinds(acts), "open_poll"); got != (name == "vote-teller") {
			t.Errorf("%s: %s", name, kinds(acts))
		}
	}
}

// TestPin: one item is before the others, without a word.
func TestPin(t *testing.T) {
	b := &desk{bridge: newBridge()}
	a := sit(t, facilitate.Config{Port: b, Tools: tool.All()})
	run(t, a, facilitate.OpenItem("ana", "hall", "Which hall"))
	run(t, a, facilitate.OpenItem("ana", "food", "Which food"))
	calls := b.calls
	acts := run(t, a, facilitate.Message("ben", "Iris, pin that please"))
	if kinds(acts) != "pin:pin" || acts[0].Item != "food" || !acts[0].Public.Empty() || b.calls != calls {
		t.Fatalf("%s, %d deliveries", kinds(acts), b.calls-calls)
	}
	cards := a.Canvas()
	if cards[0].ID != "food" || !cards[0].Pinned || cards[1].Pinned {
		t.Errorf("the board is %+v", cards)
	}
	if got := kinds(run(t, a, facilitate.Message("ben", "Iris, pin that again please"))); got != "" {
		t.Errorf("pinned twice: %s", got)
	}
	run(t, a, facilitate.OpenItem("ana", "music", "Which music"))
	run(t, a, facilitate.Message("ben", "Iris, now pin this please"))
	if cards = a.Canvas(); cards[0].ID != "music" || cards[1].Pinned || cards[2].Pinned {
		t.Errorf("two pins: %+v", cards)
	}
}

// TestSchedule: Iris asks to be woken, the host's timer is told when, also after
// a restart, and the tick ends the plan.
func TestSchedule(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	cfg := facilitate.Config{Store: mem.New(), Secret: []byte("k"), Tools: tool.All(), Clock: func() time.Time { return now }}
	a := sit(t, cfg)
	run(t, a, facilitate.Message("ana", "Where do we eat on Friday?"))
	acts := run(t, a, facilitate.Message("ben", "Iris, remind us later"))
	if kinds(acts) != "schedule:later" || len(a.Plans()) != 1 || a.Plans()[0] != (room.Plan{Name: "later", At: now.Add(time.Hour).UnixMilli()}) {
		t.Fatalf("%s %v", kinds(acts), a.Plans())
	}
	if got := kinds(run(t, a, facilitate.Message("ben", "Iris, again later"))); got != "" {
		t.Errorf("planned twice: %s", got)
	}
	a.Close()
	a = sit(t, cfg)
	if len(a.Plans()) != 1 {
		t.Fatalf("after a restart the plans are %v", a.Plans())
	}
	run(t, a, facilitate.Message("di", "Hi all"))
	if got := kinds(run(t, a, facilitate.Tick("later"))); got != "post:recap" || len(a.Plans()) != 0 {
		t.Errorf("at the tick: %q, plans %v", got, a.Plans())
	}
}

// TestHostTool: whoever runs the room is told in words made from what the room
// sees; nobody in the room is, and a room that has the tool needs the line.
func TestHostTool(t *testing.T) {
	if _, err := facilitate.New(t.Context(), facilitate.Config{Participants: people("ana"), Port: newBridge(), Tools: []any{tool.Post(), tool.Escalate()}}); !errors.Is(err, facilitate.ErrConfig) {
		t.Errorf("a tool on the host without a line to the host: %v", err)
	}
	d, key := &desk{bridge: newBridge()}, facilitate.NewOperatorKey()
	var asked []string
	m := func(_ context.Context, r flow.Request) (flow.Response, error) {
		switch {
		case r.Level == flow.RankSelf:
			return flow.Response{Text: `{"notes":[],"choice":{"tool":"escalate","intent":"conflict","rationale":"cy told me of 4711"}}`}, nil
		case strings.Contains(r.System, "one message to the room"):
			asked = append(asked, r.Prompt)
			return flow.Response{Text: `{"text":"They go round in circles."}`}, nil
		}
		return flow.Response{Text: `{"items":[],"record":{}}`}, nil
	}
	a := sit(t, facilitate.Config{Port: d, Operator: key, Model: m, Tools: []any{tool.Post(), tool.Escalate()}})
	a.Take(t.Context(), facilitate.Caucus("cy", "my number is 4711 and that is it"))
	acts := run(t, a, facilitate.Message("ana", "we are going round in circles"))
	if kinds(acts) != "escalate:conflict" || len(d.told) != 1 || d.told[0].Text != "They go round in circles." || d.told[0].Intent != tool.Conflict {
		t.Fatalf("%s, told %+v", kinds(acts), d.told)
	}
	if len(d.room)+len(d.person) != 0 || len(asked) != 1 || strings.Contains(asked[0], "4711") || !strings.Contains(asked[0], "not to the room") {
		t.Errorf("others were told %v %v; the prompt was %q", d.room, d.person, asked)
	}
	for _, w := range []facilitate.Audience{facilitate.ForRoom(), facilitate.ForPerson("ana"), facilitate.ForPerson("cy")} {
		if got := context_(t, a, w) + fmt.Sprintf("%+v", read(t, a, w, 0)); strings.Contains(got, "circles.") {
			t.Errorf("somebody in the room reads it: %s", got)
		}
	}
	if got := fmt.Sprintf("%+v", read(t, a, facilitate.ForSelf(key), 0)); !strings.Contains(got, "escalation") {
		t.Error("the operator does not see the call")
	}
	if got := kinds(run(t, a, facilitate.Message("ana", "and round again, as we do"))); got != "" || len(d.told) != 1 {
		t.Errorf("called twice within the hour: %s", got)
	}
}

// TestHostToolKeepsPrivateWords: words that were only said in private do not reach
// the host either, whoever wrote the text.
func TestHostToolKeepsPrivateWords(t *testing.T) {
	m := script.New(script.Answers{
		Self: []string{script.Choose(room.Choice{Tool: "none"}), script.Choose(room.Choice{Tool: "escalate", Intent: tool.Stuck})},
		Say:  []string{`{"text":"Somebody has 4711 in mind."}`},
	})
	a := sit(t, facilitate.Config{Mind: m, Tools: tool.All()})
	run(t, a, facilitate.Caucus("cy", "my number is 4711 and that is it"))
	if acts := run(t, a, facilitate.Message("ana", "where do we stand?")); len(acts) != 0 {
		t.Errorf("told the host: %s", kinds(acts))
	}
}

// A thief is a tool that keeps what it is handed.
type thief struct {
	board tool.Board
	host  tool.HostHost
	self  tool.SelfHost
}

type roomThief struct{ *thief }

func (k roomThief) Spec() tool.Spec {
	return tool.Spec{Name: "a", Intents: []string{tool.HoldSpace}, Silent: true}
}
func (k roomThief) Run(_ context.Context, h tool.RoomHost, _ string, _ flow.Text[flow.Room]) error {
	k.board = h.Board()
	return nil
}

type hostThief struct{ *thief }

func (k hostThief) Spec() tool.Spec {
	return tool.Spec{Name: "b", Intents: []string{tool.Stuck}, Silent: true}
}
func (k hostThief) Run(ctx context.Context, h tool.HostHost, _ string, text flow.Text[flow.Host]) error {
	k.host = h
	return h.Tell(ctx, text) // empty: nothing
}

type selfThief struct{ *thief }

func (k selfThief) Spec() tool.Spec { return tool.Spec{Name: "c", Intents: []string{tool.Soon}} }
func (k selfThief) Run(ctx context.Context, h tool.SelfHost, _ string) error {
	k.self = h
	return h.Plan(ctx, "not a name", time.Hour)
}

// TestKeptHostsAreDead: what a tool was handed does nothing after its act.
func TestKeptHostsAreDead(t *testing.T) {
	k := &thief{}
	m := script.New(script.Answers{Self: []string{
		script.Choose(room.Choice{Tool: "a", Intent: tool.HoldSpace}), script.Choose(room.Choice{Tool: "b", Intent: tool.Stuck}), script.Choose(room.Choice{Tool: "c", Intent: tool.Soon}),
	}})
	a := sit(t, facilitate.Config{Mind: m, Tools: []any{roomThief{k}, hostThief{k}, selfThief{k}}})
	for _, text := range []string{"Where do we eat on Friday?", "and when do we go there?", "who comes with us then?"} {
		if acts := run(t, a, facilitate.Message("ana", text)); len(acts) != 0 {
			t.Errorf("%s", kinds(acts))
		}
	}
	ctx, text := t.Context(), flow.Public("x")
	for what, err := range map[string]error{
		"pin": k.board.Pin(ctx), "poll": k.board.OpenPoll(ctx, text), "tell": k.host.Tell(ctx, flow.ToHost(text)), "plan": k.self.Plan(ctx, "soon", time.Hour),
	} {
		if err == nil {
			t.Errorf("a kept host can %s", what)
		}
	}
	if !k.board.Read().Empty() || a.Room().Log.Len() != 3 || len(a.Plans()) != 0 {
		t.Error("a kept host reads or writes")
	}
}

// TestBitsOfAllTools: what the other tools add to the ledger is counted too.
func TestBitsOfAllTools(t *testing.T) {
	set, err := tool.NewSet(tool.Pin(), tool.OpenPoll(), tool.Schedule(), tool.Escalate())
	if err != nil {
		t.Fatal(err)
	}
	v := beat.Vocabulary{Tools: set.Names(), Items: []string{"a", "b", "c"}, Intents: []string{"pin", "open_poll", tool.Soon, tool.Later, tool.Tomorrow, tool.Stuck, tool.NeedsHost}}
	// pin 3, poll 3, timers 3, escalate 2 intents on one of three items or none.
	if got := facilitate.Outcomes(set, v); got != 3+3+3+2*4 {
		t.Errorf("%d outcomes", got)
	}
	full := beat.Vocabulary{Intents: append(tool.RoomIntents(), append(v.Intents, tool.PersonIntents()...)...), Items: make([]string, room.MaxOpenItems), Releases: make([]string, 8)}
	all, err := tool.NewSet(tool.All()...)
	if err != nil {
		t.Fatal(err)
	}
	if bits := math.Log2(float64(facilitate.Outcomes(all, full))) + 1; bits > 12 {
		t.Errorf("a full board and all tools carry %.2f bits", bits)
	}
}

// TestAChoiceNeedsItsItem: a tool on an item is refused without one.
func TestAChoiceNeedsItsItem(t *testing.T) {
	m := script.New(script.Answers{Self: []string{script.Choose(room.Choice{Tool: "pin", Intent: "pin"}), script.Choose(room.Choice{Tool: "pin", Intent: "pin"})}})
	a := sit(t, facilitate.Config{Surface: decisions.New(), Mind: m, Tools: tool.All()})
	if acts := run(t, a, facilitate.OpenItem("ana", "hall", "Which hall")); len(acts) != 0 || a.Canvas()[0].Pinned {
		t.Errorf("%s", kinds(acts))
	}
}

// TestIngestCaucus: a line on a private line is no public event, asks no model, and
// is the author's whatever comes later; who thinks can be changed in between.
func TestIngestCaucus(t *testing.T) {
	a := sit(t, facilitate.Config{Model: func(context.Context, flow.Request) (flow.Response, error) {
		t.Error("a model was asked")
		return flow.Response{}, nil
	}})
	if err := a.IngestCaucus(t.Context(), "cy", "I can spend at most 15 euros"); err != nil {
		t.Fatal(err)
	}
	if err := a.IngestCaucus(t.Context(), "nobody", "let me in"); !errors.Is(err, facilitate.ErrEvent) {
		t.Errorf("somebody who is not on the roster: %v", err)
	}
	if a.Room().Log.Len() != 0 || a.Room().Turn != 0 || len(a.Caucus("cy")) != 1 || a.LastMessage().Channel != facilitate.TCaucus {
		t.Errorf("%d public lines, %d on the private line, last %+v", a.Room().Log.Len(), len(a.Caucus("cy")), a.LastMessage())
	}
	if strings.Contains(context_(t, a, facilitate.ForRoom()), "15") || strings.Contains(context_(t, a, facilitate.ForPerson("ana")), "euros") {
		t.Error("others read it")
	}
	a.SetMind(offline.New())
	acts, err := a.React(t.Context())
	if err != nil || kinds(acts) != "caucus:ask_consent>cy" {
		t.Errorf("with another mind: %s %v", kinds(acts), err)
	}
}

// TestTheModelIsToldWhatToolsDo, and of intents only those that the policy allows.
func TestTheModelIsToldWhatToolsDo(t *testing.T) {
	p, err := policy.Preset("vote-teller")
	if err != nil {
		t.Fatal(err)
	}
	system := ""
	m := func(_ context.Context, r flow.Request) (flow.Response, error) {
		if r.Level == flow.RankSelf {
			system = r.System
		}
		return flow.Response{Text: `{"items":[],"record":{},"notes":[],"choice":{"tool":"none","rationale":"r"}}`}, nil
	}
	a := sit(t, facilitate.Config{Model: m, Policy: p, Tools: tool.All()})
	run(t, a, facilitate.Message("ana", "Where do we eat on Friday?"))
	_, menu, ok := strings.Cut(system, "# The tools")
	if !ok {
		t.Fatalf("the system text is %s", system)
	}
	for _, want := range []string{"- open_poll: open the vote", "Needs an item in focus", "- nudge: remind one person in private of your open question. Intents: nudge. Needs a target.", "- schedule: ", "soon, later, tomorrow", "needs_host", "- none: hold"} {
		if !strings.Contains(menu, want) {
			t.Errorf("no %q in %s", want, menu)
		}
	}
	for _, never := range []string{tool.NameTension, tool.CoachWording, tool.Safety} {
		if strings.Contains(menu, never) {
			t.Errorf("%q is not the policy's: %s", never, menu)
		}
	}
}
