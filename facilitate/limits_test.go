package facilitate_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/mind/script"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/tool"
)

// TestOnlyTheStandardLibrary lists what the tree links.
func TestOnlyTheStandardLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		pkg = strings.TrimSpace(pkg)
		if first, _, _ := strings.Cut(pkg, "/"); strings.Contains(first, ".") && !strings.HasPrefix(pkg, "github.com/iris-operator/iris/facilitate") {
			t.Errorf("links %s", pkg)
		}
	}
}

// TestEveryGrantIsCarried: G9. Whatever the model chooses and writes, granted
// words are said, exactly and once.
func TestEveryGrantIsCarried(t *testing.T) {
	for i := range 60 {
		words := fmt.Sprintf("wish number %d", i)
		say := []string{`{"text":"Somebody has a wish."}`, "I will not say that", `{"text":"As asked: ` + words + `, please."}`, `{}`}[i%4]
		how := []string{"named", "unattributed"}[i%2]
		m := script.New(script.Answers{
			Person: map[facilitate.ID][]string{"cy": {`{"proposal":{"wording":"` + words + `","attribution":"` + how + `"}}`}},
			Self:   []string{script.Choose(room.Choice{Tool: "caucus", Target: "cy", Intent: tool.AskConsent})},
			Say:    []string{say, say, say, say},
		})
		a := sit(t, facilitate.Config{Mind: m})
		run(t, a, facilitate.Caucus("cy", "I have a wish for the evening"))
		run(t, a, facilitate.Consent("cy", "r1", true))
		if strings.Contains(context_(t, a, facilitate.ForRoom()), words) {
			t.Fatal("said at the moment of consent")
		}
		acts := run(t, a, []facilitate.Event{facilitate.Message("ana", "what else is there?"), facilitate.Tick("later")}[i/2%2])
		if len(acts) != 1 || !strings.Contains(flow.Reveal(acts[0].Public), words) {
			t.Fatalf("%d: acts %s", i, kinds(acts))
		}
		got := context_(t, a, facilitate.ForRoom())
		if !strings.Contains(got, words) || strings.Contains(got, "by cy") != (how == "named") || len(a.Room().Statements) != 1 {
			t.Fatalf("%d: %s", i, got)
		}
		if acts := run(t, a, facilitate.Message("ben", "and now to something else")); len(acts) != 0 {
			t.Fatalf("%d: carried again", i)
		}
	}
}

// TestARevokedGrantIsNot takes it back in time, and too late.
func TestARevokedGrantIsNot(t *testing.T) {
	a := sit(t, facilitate.Config{})
	for _, ev := range []facilitate.Event{facilitate.Caucus("cy", "I can spend at most 15 euros"), facilitate.Consent("cy", "r1", true), facilitate.Revoke("cy", "r1"), facilitate.Message("ana", "where do we eat?")} {
		run(t, a, ev)
	}
	if got := context_(t, a, facilitate.ForRoom()); strings.Contains(got, "15 euros") {
		t.Error("said after it was taken back")
	}
	if err := a.Take(t.Context(), facilitate.Consent("cy", "r1", true)); err == nil {
		t.Error("granted after it was taken back")
	}
}

func TestBargeInDropsAnOvertakenPost(t *testing.T) {
	var a *facilitate.Agent
	m := func(ctx context.Context, r flow.Request) (flow.Response, error) {
		switch {
		case r.Level == flow.RankSelf:
			return flow.Response{Text: `{"choice":{"tool":"post","intent":"recap","rationale":"r"}}`}, nil
		case strings.Contains(r.System, "one message to the room"):
			if _, err := a.Ingest(ctx, "ben", "wait, one more thing"); err != nil {
				t.Error(err)
			}
			return flow.Response{Text: `{"text":"So far so good."}`}, nil
		}
		return flow.Response{Text: `{"items":[],"record":{}}`}, nil
	}
	for _, barge := range []bool{false, true} {
		a = sit(t, facilitate.Config{Model: m, BargeIn: barge, MaxSteps: 1})
		if acts := run(t, a, facilitate.Message("ana", "let us sum up please")); len(acts) == 0 != barge {
			t.Errorf("barge-in %v: %s", barge, kinds(acts))
		}
	}
}

func TestBudgetEndsAskingAndNotTheRoom(t *testing.T) {
	asked := 0
	m := func(context.Context, flow.Request) (flow.Response, error) {
		asked++
		return flow.Response{Text: `{"items":[],"record":{},"choice":{"tool":"none"}}`, Usage: flow.Usage{In: 100}}, nil
	}
	a := sit(t, facilitate.Config{Model: m, MaxTokens: 250})
	for range 5 {
		run(t, a, facilitate.Message("ana", "what shall we do about it?"))
	}
	if asked > 5 || a.Room().Log.Len() != 5 {
		t.Errorf("asked %d times, %d lines", asked, a.Room().Log.Len())
	}
}

func TestCancelledTurnsKeepTheLine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := func(ctx context.Context, r flow.Request) (flow.Response, error) {
		cancel()
		<-ctx.Done()
		return flow.Response{}, ctx.Err()
	}
	a := sit(t, facilitate.Config{Model: m})
	if _, err := a.Run(ctx, facilitate.Message("ana", "where do we eat?")); err == nil {
		t.Error("a cancelled turn says nothing")
	}
	a.SetModel(nil)
	if _, err := a.React(t.Context()); err != nil || a.Room().Log.Len() != 1 || len(a.Canvas()) != 1 {
		t.Errorf("the turn is not made up for: %v", err)
	}
}

// TestOverlapIsCaught: a tool that got hold of private words elsewhere does not
// get them into the room.
func TestOverlapIsCaught(t *testing.T) {
	m := script.New(script.Answers{
		Self: []string{script.Choose(room.Choice{Tool: "none"}), script.Choose(room.Choice{Tool: "post", Intent: tool.Recap}), script.Choose(room.Choice{Tool: "post", Intent: tool.Recap})},
		Say:  []string{`{"text":"Some of us have 4711 in mind."}`},
	})
	a := sit(t, facilitate.Config{Mind: m})
	run(t, a, facilitate.Caucus("cy", "my number is 4711 and that is it"))
	if acts := run(t, a, facilitate.Message("ana", "where do we stand?")); len(acts) != 0 {
		t.Errorf("posted %s", flow.Reveal(acts[0].Public))
	}
}

func TestOptingOut(t *testing.T) {
	a := sit(t, facilitate.Config{})
	run(t, a, facilitate.OptOut("cy", "caucus"))
	run(t, a, facilitate.OptOut("di", "all"))
	for _, ev := range arc[:3] {
		if got := kinds(run(t, a, ev)); ev.Text == "I propose the steak house" && got != "caucus:discover_specific>eve" {
			t.Errorf("%q", got)
		}
	}
	run(t, a, facilitate.Message("di", "I need my rest because of work"))
	if got := context_(t, a, facilitate.ForPerson("di")); strings.Contains(got, "interest:") {
		t.Error("a record about somebody who opted out")
	}
}

// TestNoPostRightBehindAPrivateReply: its moment would tell of the reply.
func TestNoPostRightBehindAPrivateReply(t *testing.T) {
	m := func(_ context.Context, r flow.Request) (flow.Response, error) {
		if strings.Contains(r.System, "one message to the room") {
			return flow.Response{Text: `{"text":"Let us go on."}`}, nil
		}
		return flow.Response{Text: `{"items":[],"record":{},"choice":{"tool":"post","intent":"hold_space","rationale":"r"}}`}, nil
	}
	a := sit(t, facilitate.Config{Model: m, MaxSteps: 1, Guards: tool.Guards{MinGap: -1}})
	for _, c := range []struct {
		ev    facilitate.Event
		posts int
	}{
		{facilitate.Message("ana", "where shall we eat?"), 1}, {facilitate.Caucus("cy", "I need somewhere quiet"), 0},
		{facilitate.Tick("later"), 1}, {facilitate.Caucus("cy", "I need somewhere cheap"), 0}, {facilitate.OpenItem("ana", "x", "Another thing"), 1},
	} {
		if acts := run(t, a, c.ev); len(acts) != c.posts {
			t.Errorf("%s: %d posts, want %d", c.ev.Type, len(acts), c.posts)
		}
	}
}
