package native

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

// §16 #5: a retry goes on after the last finished result; nothing runs again
// and the message is not repeated.
func TestRetryResumesAfterTheLastResult(t *testing.T) {
	ran := 0
	m := scripted.New(info,
		scripted.Tools(scripted.Call("once", `{}`)),
		scripted.Step{Text: []string{"half"}, Err: &llm.Error{Class: llm.ClassCut, Provider: "p", Text: "cut"}},
		scripted.Fail(llm.ClassOverloaded, "busy"),
		scripted.Text("whole"))
	b := newBed(t, one(m), tools(fakeTool{"once", func(context.Context, tool.Call) tool.Result { ran++; return tool.Result{Text: "did it"} }}))
	s, err := b.run(b.accept("go"))
	if err != nil || s.End().Text != "whole" || ran != 1 {
		t.Fatalf("Run = %v, end %+v, ran %d times", err, s.End(), ran)
	}
	if diff := cmp.Diff([]string{"→ once", "Retrying (1/3)...", "Retrying (2/3)..."}, labels(s.Events())); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got := kinds(s.Events()); !strings.Contains(got, "piece void status status piece final") {
		t.Errorf("events = %s", got)
	}
	all := m.Requests()
	for _, r := range all[2:] {
		if diff := cmp.Diff(all[1].Messages, r.Messages); diff != "" {
			t.Errorf("a retry asked something else (-first +retry):\n%s", diff)
		}
	}
}

// §16 #2: a marker or an error of the model is never an answer.
func TestModelErrorIsAnError(t *testing.T) {
	m := scripted.Func(info, func(int, llm.Request) scripted.Step { return scripted.Fail(llm.ClassOverloaded, "too\nmany") })
	b := newBed(t, one(m), nil)
	s, err := b.run(b.accept("go"))
	var e *runner.Error
	if !errors.As(err, &e) || e.Code != turn.CodeModel || e.Text != "The model did not answer: scripted: too many" {
		t.Fatalf("Run = %#v", err)
	}
	if s.End() != nil || len(m.Requests()) != 3 {
		t.Errorf("end = %+v after %d attempts", s.End(), len(m.Requests()))
	}
}

// F27: a request that one conversation gets refused says nothing about others.
func TestInvalidRequestStaysInItsConversation(t *testing.T) {
	second := scripted.New(info, scripted.Text("second"))
	m := scripted.Func(info, func(_ int, req llm.Request) scripted.Step {
		if strings.Contains(dump(req.Messages), "bad") {
			return scripted.Fail(llm.ClassInvalid, "messages.3: broken")
		}
		return scripted.Text("fine")
	})
	b := newBed(t, []llm.Model{m, second}, nil)
	_, err := b.run(b.accept("bad"))
	var e *runner.Error
	if !errors.As(err, &e) || !strings.Contains(e.Text, "messages.3: broken") {
		t.Fatalf("Run = %v", err)
	}
	if n := len(second.Requests()); n != 0 {
		t.Errorf("a wrong request was shown to %d other models", n)
	}
	other := b.accept("good")
	other.Conversation = chat.Address{Space: chat.Web, ID: "other"}
	if s, err := b.run(other); err != nil || s.End().Text != "fine" {
		t.Errorf("another conversation: Run = %v", err)
	}
}

func TestFallbackVisitsEachModelOnce(t *testing.T) {
	named := func(name string, steps ...scripted.Step) *scripted.Model {
		i := info
		i.Provider, i.Model = name, name
		return scripted.New(i, steps...)
	}
	fail := scripted.Fail(llm.ClassQuota, "no credit")
	first := named("a", fail, scripted.Text("back again"))
	second := named("b", scripted.Step{Text: []string{"x"}, Calls: []llm.Call{scripted.Call("echo", `{}`)}}, fail)
	third := named("c", scripted.Text("from c"))
	b := newBed(t, []llm.Model{first, second, third}, tools(echo("echo")))
	s, err := b.run(b.accept("go"))
	if err != nil || s.End().Text != "from c" || s.End().Usage.Model != "c" {
		t.Fatalf("Run = %v, end %+v", err, s.End())
	}
	if a, c := len(first.Requests()), len(third.Requests()); a != 1 || c != 1 {
		t.Errorf("a was asked %d times, c %d times, want once each", a, c)
	}
	if diff := cmp.Diff([]string{"a did not answer, asking b", "→ echo", "b did not answer, asking c"}, labels(s.Events())); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if end := b.say("next"); end.Text != "back again" {
		t.Errorf("the next turn began with another model: %q", end.Text)
	}
}

func TestNoModelAnswersNamesEachReason(t *testing.T) {
	a := scripted.New(llm.Info{}, scripted.Fail(llm.ClassAuth, "bad key"))
	c := scripted.New(llm.Info{}, scripted.Fail(llm.ClassQuota, "no credit"))
	b := newBed(t, []llm.Model{a, c}, nil)
	_, err := b.run(b.accept("go"))
	if err == nil || !strings.Contains(err.Error(), "bad key") || !strings.Contains(err.Error(), "no credit") {
		t.Errorf("Run = %v", err)
	}
}

func TestNoModelConfigured(t *testing.T) {
	b := newBed(t, nil, nil)
	_, err := b.run(b.accept("go"))
	var e *runner.Error
	if !errors.As(err, &e) || e.Code != turn.CodeModel {
		t.Errorf("Run = %v", err)
	}
}

// F44 and §16 #5: silence of the model ends an attempt; time in tools does not
// count.
func TestSilenceCountsModelTimeOnly(t *testing.T) {
	for name, c := range map[string]struct {
		step scripted.Step
		want turn.Code
	}{
		"answers": {scripted.Text("done"), ""},
		"hangs":   {scripted.Hang("st"), turn.CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := scripted.Func(info, func(n int, _ llm.Request) scripted.Step {
					if n == 1 {
						return scripted.Tools(scripted.Call("slow", `{}`))
					}
					return c.step
				})
				a := &memory{}
				n, err := New(Options{
					Archive: a, Workspace: "/ws", Silence: 90 * time.Second, Location: time.UTC,
					Models: func(context.Context) ([]llm.Model, error) { return one(m), nil },
					Tools:  []tool.Tool{fakeTool{"slow", func(context.Context, tool.Call) tool.Result { time.Sleep(5 * time.Minute); return tool.Result{} }}},
				})
				if err != nil {
					t.Fatal(err)
				}
				var sink quiet
				err = n.Run(t.Context(), turn.Request{ID: turn.NewID(), Conversation: room, Message: chat.Message{ID: "1", Text: "go"}}, &sink)
				var e *runner.Error
				switch {
				case c.want == "" && (err != nil || sink.end.Text != "done"):
					t.Errorf("Run = %v, end %+v", err, sink.end)
				case c.want != "" && (!errors.As(err, &e) || e.Code != c.want || !strings.Contains(e.Text, "LLM response timeout after 90s")):
					t.Errorf("Run = %v, want code %s", err, c.want)
				}
			})
		})
	}
}

// F44: a stream that stalls after any piece ends the same way.
func TestStallAfterEachPiece(t *testing.T) {
	pieces := []string{"a", "b", "c"}
	for k := range len(pieces) + 1 {
		synctest.Test(t, func(t *testing.T) {
			m := scripted.Func(info, func(int, llm.Request) scripted.Step { return scripted.Hang(pieces[:k]...) })
			n, err := New(Options{Archive: &memory{}, Workspace: "/ws", Models: func(context.Context) ([]llm.Model, error) { return one(m), nil }})
			if err != nil {
				t.Fatal(err)
			}
			var sink quiet
			err = n.Run(t.Context(), turn.Request{ID: turn.NewID(), Conversation: room, Message: chat.Message{ID: "1", Text: "go"}}, &sink)
			var e *runner.Error
			if !errors.As(err, &e) || e.Code != turn.CodeTimeout {
				t.Errorf("stall after %d pieces: Run = %v", k, err)
			}
			if n := len(m.Requests()); n != 3 {
				t.Errorf("stall after %d pieces: %d attempts", k, n)
			}
		})
	}
}

func TestTooLongCompactsOnceAndAsksAgain(t *testing.T) {
	var asked []string
	m := scripted.Func(info, func(_ int, req llm.Request) scripted.Step {
		switch {
		case strings.HasPrefix(req.System, "You shorten"):
			asked = append(asked, "summary")
			return scripted.Text("they counted")
		case len(req.Messages) > 7:
			asked = append(asked, "too long")
			return scripted.Fail(llm.ClassTooLong, "prompt is too long")
		}
		asked = append(asked, "answer")
		return scripted.Text(strings.Repeat("word ", 4000))
	})
	b := newBed(t, one(m), nil)
	for range 4 {
		b.say("go " + strings.Repeat("on ", 200))
	}
	want := []string{"answer", "answer", "answer", "answer"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	s, err := b.run(b.accept("and now"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"too long", "summary", "answer"}, asked[4:]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Compacting context..."}, labels(s.Events())); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	got := dump(last(t, m).Messages)
	if !strings.Contains(got, "they counted") || !strings.Contains(got, "and now") {
		t.Errorf("request after the compaction:\n%.3000s", got)
	}
	valid(t, m.Requests()...)
}

func TestStillTooLongSaysWhatToDo(t *testing.T) {
	m := scripted.Func(info, func(int, llm.Request) scripted.Step { return scripted.Fail(llm.ClassTooLong, "prompt is too long") })
	b := newBed(t, one(m), nil)
	_, err := b.run(b.accept("go"))
	if err == nil || !strings.Contains(err.Error(), "too long for the model") {
		t.Errorf("Run = %v", err)
	}
}

func TestPicturesNeverReachAModelWithoutEyes(t *testing.T) {
	seeing := scripted.New(info, scripted.Tools(scripted.Call("look", `{}`)), scripted.Text("a cat"), scripted.Fail(llm.ClassQuota, "no credit"))
	plain := info
	plain.Images = false
	blindModel := scripted.New(plain, scripted.Text("ok"))
	b := newBed(t, []llm.Model{seeing, blindModel}, tools(fakeTool{"look", func(context.Context, tool.Call) tool.Result {
		return tool.Result{Text: "seen", Images: []tool.Image{{Mime: "image/png", Data: []byte("png")}}}
	}}))
	b.say("look")
	if r := results(last(t, seeing).Messages); len(r[0].Images) != 1 {
		t.Errorf("the model that sees got %+v", r)
	}
	b.say("and now")
	for _, r := range results(last(t, blindModel).Messages) {
		if len(r.Images) > 0 || !strings.Contains(r.Text, "cannot see") {
			t.Errorf("the model without eyes got %+v", r)
		}
	}
}

func TestThinkingIsAskedForWhereTheModelHasIt(t *testing.T) {
	for _, has := range []bool{true, false} {
		i := info
		i.Thinking = has
		m := scripted.New(i, scripted.Step{Thinking: []string{"hm", "m"}, Text: []string{"x"}})
		b := newBed(t, one(m), func(o *Options) { o.Thinking = 4000 })
		s, err := b.run(b.accept("go"))
		if err != nil {
			t.Fatal(err)
		}
		if got := last(t, m).Thinking; got != map[bool]int64{true: 4000}[has] {
			t.Errorf("model that can think %v: asked for %d", has, got)
		}
		if !slices.ContainsFunc(s.Events(), func(e turn.Event) bool { return e.Kind == turn.Thinking }) {
			t.Error("no thinking event")
		}
	}
}

type panicking struct{ llm.Model }

func (panicking) Stream(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(func(llm.Event, error) bool) { panic("boom") }
}

func TestPanicInAModelFailsTheTurn(t *testing.T) {
	b := newBed(t, one(panicking{scripted.New(info)}), nil)
	_, err := b.run(b.accept("go"))
	if err == nil || strings.Contains(err.Error(), "boom") {
		t.Errorf("Run = %v, want an error without internals", err)
	}
}

// A panic of whoever shows the pieces is not the model's.
func TestPanicOfTheConsumerPasses(t *testing.T) {
	events := func(yield func(llm.Event, error) bool) { yield(llm.Event{Text: "a"}, nil) }
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v, want the consumer's own panic", p)
		}
	}()
	for range guarded(events) {
		panic("mine")
	}
}

// memory is an archive without files.
type memory struct{}

func (*memory) Entries(_ context.Context, _ chat.Address, after string) ([]session.Entry, error) {
	return nil, nil
}
func (*memory) Unseen(context.Context, chat.Address, map[string]bool, func(string) bool) ([]session.Line, error) {
	return nil, nil
}
func (*memory) Reset(context.Context, chat.Address) error { return nil }
func (*memory) Path(local string) (string, error)         { return local, nil }

// quiet is a sink that keeps the end.
type quiet struct{ end turn.Event }

func (q *quiet) Emit(e turn.Event) error {
	if e.Terminal() {
		q.end = e
	}
	return nil
}
func (*quiet) Checkpoint(context.Context, any) error { return nil }
