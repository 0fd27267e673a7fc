package native

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

func TestFinalTextWithUsage(t *testing.T) {
	m := scripted.New(info, scripted.Step{Text: []string{"Hello ", "there"}, Usage: &llm.Usage{Input: 100, Output: 10, CacheRead: 5}})
	b := newBed(t, one(m), nil)
	end := b.say("hi")
	want := turn.Event{Kind: turn.Final, Text: "Hello there", Usage: &turn.Usage{Provider: "p", Model: "m", Calls: 1, Input: 100, Output: 10, CacheRead: 5, Cost: 120e-6, Context: 115, Window: 200_000}}
	if diff := cmp.Diff(want, end); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	valid(t, m.Requests()...)
}

// Final and intermediate texts are distinct: §16 #13 as far as a runner goes.
func TestIntermediateTextIsWholeAndNotInTheReply(t *testing.T) {
	m := scripted.New(info,
		scripted.Step{Thinking: []string{"hm"}, Text: []string{"Let me ", "look."}, Calls: []llm.Call{scripted.Call("echo", `{"label":"Look around"}`)}},
		scripted.Text("All ", "good."))
	b := newBed(t, one(m), tools(echo("echo")))
	s, err := b.run(b.accept("check"))
	if err != nil {
		t.Fatal(err)
	}
	var whole []string
	for _, e := range s.Events() {
		if e.Kind == turn.Text && !e.Partial {
			whole = append(whole, e.Text)
		}
	}
	if diff := cmp.Diff([]string{"Let me look."}, whole); diff != "" {
		t.Errorf("intermediate texts (-want +got):\n%s", diff)
	}
	if got := s.End().Text; got != "All good." {
		t.Errorf("final text = %q", got)
	}
	valid(t, m.Requests()...)
}

// §16 #1: a line of progress per call, headless or not.
func TestProgressLinePerCallOnEveryConversation(t *testing.T) {
	for _, conv := range []chat.Address{room, {Space: chat.Session, ID: "s"}, {Space: chat.Bridge, ID: "b"}} {
		m := scripted.New(info,
			scripted.Tools(scripted.Call("echo", `{"label":"First\nstep"}`), scripted.Call("echo", `{}`)),
			scripted.Text("done"))
		b := newBed(t, one(m), tools(echo("echo")))
		req := b.accept("go")
		req.Conversation = conv
		s, err := b.run(req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"→ First step", "→ echo"}, labels(s.Events())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", conv, diff)
		}
		for _, want := range []string{"status tool-start", "tool-end"} {
			if got := kinds(s.Events()); !strings.Contains(got, want) {
				t.Errorf("%s: events %s, want %s", conv, got, want)
			}
		}
	}
}

func TestParallelCallsKeepTheirOrder(t *testing.T) {
	var running, most atomic.Int32
	all := make(chan struct{}) // closed when four run at once
	slow := fakeTool{"slow", func(ctx context.Context, c tool.Call) tool.Result {
		if n := running.Add(1); n == 4 {
			close(all)
		} else {
			most.Store(max(most.Load(), n))
		}
		defer running.Add(-1)
		select {
		case <-all:
		case <-ctx.Done():
		}
		return tool.Result{Text: "did " + string(c.Args)}
	}}
	var calls []llm.Call
	for i := range 4 {
		calls = append(calls, llm.Call{ID: fmt.Sprint("c", i), Name: "slow", Args: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	m := scripted.New(info, scripted.Tools(calls...), scripted.Text("done"))
	b := newBed(t, one(m), tools(slow))
	b.say("go")
	var got []string
	for _, r := range results(last(t, m).Messages) {
		got = append(got, r.ID+" "+r.Text)
	}
	want := []string{`c0 did {"n":0}`, `c1 did {"n":1}`, `c2 did {"n":2}`, `c3 did {"n":3}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.restart()
	h, err := b.n.open(t.Context(), room, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(last(t, m).Messages[1:], h.msgs[1:3]); diff != "" {
		t.Errorf("history after a restart (-want +got):\n%s", diff)
	}
}

func TestMoreCallsThanMayRunAtOnce(t *testing.T) {
	var running, most atomic.Int32
	busy := fakeTool{"busy", func(context.Context, tool.Call) tool.Result {
		n := running.Add(1)
		defer running.Add(-1)
		for {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				return tool.Result{Text: "ok"}
			}
		}
	}}
	var calls []llm.Call
	for range 30 {
		calls = append(calls, scripted.Call("busy", `{}`))
	}
	m := scripted.New(info, scripted.Tools(calls...), scripted.Text("done"))
	b := newBed(t, one(m), tools(busy))
	b.say("go")
	if n := len(results(last(t, m).Messages)); n != 30 {
		t.Errorf("%d results, want 30", n)
	}
	if n := most.Load(); n > parallel {
		t.Errorf("%d calls ran at once, want at most %d", n, parallel)
	}
}

func TestUnknownToolNamesTheNearest(t *testing.T) {
	m := scripted.New(info, scripted.Tools(scripted.Call("bsh", `{}`)), scripted.Text("sorry"))
	b := newBed(t, one(m), tools(echo("read"), echo("bash")))
	b.say("go")
	r := results(last(t, m).Messages)
	if len(r) != 1 || !r[0].IsError || !strings.Contains(r[0].Text, `Did you mean "bash"`) {
		t.Errorf("result = %+v", r)
	}
}

func TestPanicInAToolIsItsResult(t *testing.T) {
	m := scripted.New(info, scripted.Tools(scripted.Call("bad", `{}`)), scripted.Text("went on"))
	b := newBed(t, one(m), tools(fakeTool{"bad", func(context.Context, tool.Call) tool.Result { panic("boom") }}))
	if end := b.say("go"); end.Text != "went on" {
		t.Errorf("final = %q", end.Text)
	}
	r := results(last(t, m).Messages)
	if len(r) != 1 || !r[0].IsError || strings.Contains(r[0].Text, "boom") {
		t.Errorf("result = %+v", r)
	}
}

func TestToolCannotEndTheTurn(t *testing.T) {
	var got error
	m := scripted.New(info, scripted.Tools(scripted.Call("end", `{}`)), scripted.Text("done"))
	b := newBed(t, one(m), tools(fakeTool{"end", func(_ context.Context, c tool.Call) tool.Result {
		got = c.Emit(turn.Event{Kind: turn.Final, Text: "ha"})
		return tool.Result{Text: "x"}
	}}))
	if end := b.say("go"); end.Text != "done" || got == nil {
		t.Errorf("final = %q, Emit = %v", end.Text, got)
	}
}

func TestToolEndIsCutForDisplayButWholeForTheModel(t *testing.T) {
	long := strings.Repeat("é", 5000)
	m := scripted.New(info, scripted.Tools(scripted.Call("long", `{"label":"x"}`)), scripted.Text("done"))
	b := newBed(t, one(m), tools(fakeTool{"long", func(context.Context, tool.Call) tool.Result { return tool.Result{Text: long} }}))
	s, err := b.run(b.accept("go"))
	if err != nil {
		t.Fatal(err)
	}
	end := s.Wait(func(e turn.Event) bool { return e.Tool != nil && e.Tool.Phase == turn.End }).Tool
	if len(end.Result) > shownResult || !strings.HasPrefix(long, end.Result) || end.Result == "" {
		t.Errorf("display of %d bytes", len(end.Result))
	}
	if r := results(last(t, m).Messages); r[0].Text != long {
		t.Errorf("the model got %d bytes of %d", len(r[0].Text), len(long))
	}
}

// §16 #10: [SILENT] is never literal text, not even as a piece of a stream.
func TestSilentIsNeverShown(t *testing.T) {
	for _, pieces := range [][]string{{"[SILENT]"}, {" \n[SIL", "ENT] nothing new"}, {"[", "S", "ILENT]x"}} {
		m := scripted.New(info, scripted.Text(pieces...))
		b := newBed(t, one(m), nil)
		s, err := b.run(b.accept("check"))
		if err != nil {
			t.Fatal(err)
		}
		if end := s.End(); !end.Silent || end.Text != "" {
			t.Errorf("%q: end = %+v", pieces, end)
		}
		if got := kinds(s.Events()); got != "final" {
			t.Errorf("%q: events %s, want final alone", pieces, got)
		}
	}
	m := scripted.New(info, scripted.Text("[S", "ee] this"))
	b := newBed(t, one(m), nil)
	s, err := b.run(b.accept("check"))
	if err != nil || s.End().Silent || s.End().Text != "[See] this" {
		t.Errorf("end = %+v, %v", s.End(), err)
	}
}

func TestAnswersWithoutWordsAreFailures(t *testing.T) {
	for name, c := range map[string]struct {
		step scripted.Step
		want string
	}{
		"empty":   {scripted.Step{}, "empty answer"},
		"blank":   {scripted.Text(" \n"), "empty answer"},
		"length":  {scripted.Step{Stop: llm.StopLength}, "longest output"},
		"refused": {scripted.Step{Stop: llm.StopRefused}, "declined"},
	} {
		t.Run(name, func(t *testing.T) {
			m := scripted.New(info, c.step, scripted.Text("fine"))
			b := newBed(t, one(m), nil)
			_, err := b.run(b.accept("first"))
			var e *runner.Error
			if !errors.As(err, &e) || e.Code != turn.CodeModel || !strings.Contains(e.Text, c.want) {
				t.Fatalf("Run = %v, want %q", err, c.want)
			}
			b.say("second")
			if got := dump(last(t, m).Messages); !strings.Contains(got, "first") {
				t.Errorf("the message of the failed turn is lost:\n%s", got)
			}
			valid(t, m.Requests()...)
		})
	}
}

func TestLengthWithTextIsAnAnswerWithANotice(t *testing.T) {
	m := scripted.New(info, scripted.Step{Text: []string{"so far"}, Stop: llm.StopLength}, scripted.Text("ok"))
	b := newBed(t, one(m), nil)
	if end := b.say("go"); !strings.HasPrefix(end.Text, "so far\n\n[") {
		t.Errorf("final = %q", end.Text)
	}
	b.say("on")
	if got := dump(last(t, m).Messages); strings.Contains(got, "longest output") {
		t.Errorf("the notice is in the history:\n%s", got)
	}
}

// A call in an answer that was cut off may be half a call: F31 for tools.
func TestCallsOfACutAnswerAreNotRun(t *testing.T) {
	ran := false
	m := scripted.New(info, scripted.Step{Calls: []llm.Call{scripted.Call("write", `{}`)}, Stop: llm.StopLength}, scripted.Text("again"))
	b := newBed(t, one(m), tools(fakeTool{"write", func(context.Context, tool.Call) tool.Result { ran = true; return tool.Result{} }}))
	b.say("go")
	if r := results(last(t, m).Messages); ran || len(r) != 1 || !r[0].IsError {
		t.Errorf("ran = %v, results %+v", ran, r)
	}
}

func TestCallsWithoutIDsOfTheirOwn(t *testing.T) {
	m := scripted.New(info,
		scripted.Tools(llm.Call{ID: "same", Name: "echo", Args: []byte(`{"n":1}`)}, llm.Call{ID: "same", Name: "echo", Args: []byte(`{"n":2}`)}),
		scripted.Text("done"))
	b := newBed(t, one(m), tools(echo("echo")))
	b.say("go")
	valid(t, m.Requests()...)
	if r := results(last(t, m).Messages); len(r) != 2 || r[0].Text == r[1].Text {
		t.Errorf("results = %+v", r)
	}
}

func TestFailingCheckpointEndsTheTurnAndReloads(t *testing.T) {
	m := scripted.New(info, scripted.Text("one"), scripted.Text("two"))
	b := newBed(t, one(m), nil)
	req := b.accept("first")
	s := b.sink(req)
	s.before = func(what string) error {
		if what == "checkpoint" {
			return errDisk
		}
		return nil
	}
	if err := b.n.Run(t.Context(), req, s); !errors.Is(err, errDisk) {
		t.Fatalf("Run = %v, want %v", err, errDisk)
	}
	b.say("second")
	if got := dump(last(t, m).Messages); strings.Contains(got, "one") {
		t.Errorf("what was never saved is in the history:\n%s", got)
	}
	valid(t, m.Requests()...)
}
