package veil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/redact"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

const canary = "canary-hunter2"

func newVeil() *Veil {
	r := redact.New(redact.Options{})
	r.Add(secret.New(canary))
	return New(r)
}

// shown is what JSON shows of a value.
func shown(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

type fakeTool struct {
	name   string
	result tool.Result
	calls  int
}

func (f *fakeTool) Spec() tool.Spec { return tool.Spec{Name: f.name} }
func (f *fakeTool) Call(context.Context, tool.Call) tool.Result {
	f.calls++
	return f.result
}

func TestToolResultsHoldNoValue(t *testing.T) {
	f := &fakeTool{name: "bash", result: tool.Result{Text: "a " + canary, Display: canary + " b", IsError: true}}
	got := newVeil().Tools([]tool.Tool{f})[0].Call(t.Context(), tool.Call{Args: json.RawMessage(`{"command":"echo [REDACTED-SECRET]"}`)})
	if diff := cmp.Diff(tool.Result{Text: "a " + redact.Mark, Display: redact.Mark + " b", IsError: true}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMarksAreNeverWrittenBack(t *testing.T) {
	for _, name := range []string{"write", "edit"} {
		f := &fakeTool{name: name}
		v := newVeil().Tool(f)
		if got := v.Call(t.Context(), tool.Call{Args: json.RawMessage(`{"content":"key=[REDACTED-SECRET]"}`)}); !got.IsError || f.calls != 0 {
			t.Errorf("%s with the mark: %+v, %d calls", name, got, f.calls)
		}
		if v.Call(t.Context(), tool.Call{Args: json.RawMessage(`{"content":"fine"}`)}); f.calls != 1 {
			t.Errorf("%s without the mark is not called", name)
		}
	}
}

type fakeModel struct{ got llm.Request }

func (*fakeModel) Info() llm.Info { return llm.Info{Model: "m"} }
func (f *fakeModel) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	f.got = req
	return func(func(llm.Event, error) bool) {}
}

func TestModelRequestsHoldNoValue(t *testing.T) {
	f := &fakeModel{}
	req := llm.Request{System: "system " + canary, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: "nothing"}}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: "is " + canary}, {Kind: llm.ImagePart, Data: []byte{1}}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "hm", Opaque: "sig"}, {Kind: llm.CallPart, Call: &llm.Call{ID: "1", Args: json.RawMessage(`{"c":"` + canary + `"}`)}}}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.ResultPart, Result: &llm.Result{ID: "1", Text: canary}}}},
	}}
	before := shown(t, req)
	m := newVeil().Models([]llm.Model{f})[0]
	for range m.Stream(t.Context(), req) {
	}
	if got := shown(t, f.got); strings.Contains(got, canary) || strings.Count(got, redact.Mark) != 4 || !strings.Contains(got, `"opaque":"sig"`) {
		t.Errorf("the model got %s", got)
	}
	if shown(t, req) != before {
		t.Error("the caller's request was changed")
	}
	if m.Info().Model != "m" {
		t.Error("Info is another one")
	}
}

type recorder []audit.Entry

func (r *recorder) Append(e audit.Entry) { *r = append(*r, e) }

func TestAuditHoldsNoValue(t *testing.T) {
	var r recorder
	newVeil().Audit(&r).Append(audit.Entry{Command: "curl -H 'X: " + canary + "'", By: canary})
	if got := shown(t, r); strings.Contains(got, canary) || !strings.Contains(got, "curl") {
		t.Errorf("recorded %s", got)
	}
}

// sinkLog keeps what reaches the engine.
type sinkLog struct {
	events []turn.Event
	states []string
	err    error
}

func (s *sinkLog) Emit(e turn.Event) error { s.events = append(s.events, e); return s.err }
func (s *sinkLog) Checkpoint(_ context.Context, state any) error {
	data, err := json.Marshal(state)
	s.states = append(s.states, string(data))
	return err
}

type runnerFunc func(context.Context, turn.Request, turn.Sink) error

func (f runnerFunc) Run(ctx context.Context, req turn.Request, s turn.Sink) error {
	return f(ctx, req, s)
}

type talker struct{ runnerFunc }

func (talker) Compact(context.Context, chat.Address) (string, error) {
	return canary, errors.New(canary)
}
func (talker) Reset(context.Context, chat.Address) error { return nil }

func TestWhatARunnerSaysHoldsNoValue(t *testing.T) {
	log, begun := &sinkLog{}, 0
	r := newVeil().Runner(runnerFunc(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		for _, e := range []turn.Event{
			{Kind: turn.Status, Label: canary},
			{Kind: turn.Thinking, Text: "thinking of canary-"}, {Kind: turn.Thinking, Text: "hunter2 now"},
			{Kind: turn.Text, Text: "it is cana", Partial: true}, {Kind: turn.Text, Text: "ry-hunter", Partial: true}, {Kind: turn.Text, Text: "2, and canary-", Partial: true},
			{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "1", Name: "bash", Label: canary, Args: json.RawMessage(`{"` + canary + `":1}`), Phase: turn.Start}},
			{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "1", Result: canary, Phase: turn.End}},
			{Kind: turn.Text, Text: "dropped cana", Partial: true}, {Kind: turn.Text, Void: true},
			{Kind: turn.FileOut, Filename: canary, Title: canary, Local: "WEBUI-a/b"},
			{Kind: turn.AskFor, Ask: &turn.Ask{ID: "q", Text: canary, Command: canary, Tool: canary, By: canary, Picked: canary, Options: []turn.Option{{Label: canary, About: canary}}}},
			{Kind: turn.Text, Text: "tail can", Partial: true},
			{Kind: turn.Final, Text: "the end: " + canary},
		} {
			if err := s.Emit(e); err != nil {
				return err
			}
		}
		return s.Checkpoint(ctx, map[string]any{"said": canary})
	}), func(context.Context) { begun++ })
	if err := r.Run(t.Context(), turn.Request{}, log); err != nil || begun != 1 {
		t.Fatal(err, begun)
	}
	if got := shown(t, log); strings.Contains(got, "canary-hunter") || strings.Contains(shown(t, log.events)+strings.Join(log.states, ""), "canary-h") {
		t.Errorf("said %s", got)
	}
	var text strings.Builder
	for _, e := range log.events {
		if e.Partial {
			text.WriteString(e.Text)
		}
		if e.Void {
			text.WriteString("|")
		}
	}
	if want := "it is " + redact.Mark + ", and canary-dropped |tail "; text.String() != want {
		t.Errorf("the pieces add up to %q, want %q", text.String(), want)
	}
	if last := log.events[len(log.events)-1]; last.Text != "the end: "+redact.Mark {
		t.Errorf("the end is %+v", last)
	}
	if log.states[0] != `{"said":"`+redact.Mark+`"}` {
		t.Errorf("saved %s", log.states[0])
	}
	if err := r.Run(t.Context(), turn.Request{}, &sinkLog{err: runner.ErrLeaving}); !errors.Is(err, runner.ErrLeaving) {
		t.Errorf("the sink's error: %v", err)
	}
	if err := (&sink{r: newVeil().r}).Checkpoint(t.Context(), func() {}); err == nil {
		t.Error("a state that cannot be encoded is saved")
	}
}

func TestErrorsHoldNoValue(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code turn.Code
	}{
		"plain":      {fmt.Errorf("%s: %w", canary, runner.ErrInterrupted), ""},
		"known":      {&runner.Error{Code: turn.CodeModel, Text: "the model says " + canary, Err: errors.New(canary)}, turn.CodeModel},
		"underneath": {&runner.Error{Code: turn.CodeModel, Text: "fine", Err: errors.New(canary)}, turn.CodeModel},
	} {
		r := newVeil().Runner(runnerFunc(func(context.Context, turn.Request, turn.Sink) error { return c.err }), nil)
		err := r.Run(t.Context(), turn.Request{}, &sinkLog{})
		var known *runner.Error
		if errors.As(err, &known) != (c.code != "") || known != nil && (known.Code != c.code || strings.Contains(known.Err.Error(), canary)) {
			t.Errorf("%s: %#v", name, err)
		}
		if strings.Contains(err.Error(), canary) || name == "plain" && !errors.Is(err, runner.ErrInterrupted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same := errors.New("nothing in it")
	r := newVeil().Runner(runnerFunc(func(context.Context, turn.Request, turn.Sink) error { return same }), nil)
	if err := r.Run(t.Context(), turn.Request{}, &sinkLog{}); err != same {
		t.Errorf("an error without a value became %v", err)
	}
}

func TestConversationalStays(t *testing.T) {
	v := newVeil()
	if _, ok := v.Runner(runnerFunc(nil), nil).(runner.Conversational); ok {
		t.Error("a runner that keeps nothing became one that does")
	}
	c, ok := v.Runner(talker{}, nil).(runner.Conversational)
	if !ok {
		t.Fatal("a runner that keeps a context no longer does")
	}
	text, err := c.Compact(t.Context(), chat.Address{})
	if text != redact.Mark || err.Error() != redact.Mark || c.Reset(t.Context(), chat.Address{}) != nil {
		t.Errorf("Compact = %q, %v", text, err)
	}
}

func TestRecordsHoldNoValue(t *testing.T) {
	v := newVeil()
	m := chat.Message{ID: "1", Text: canary, Prompt: canary, Files: []chat.File{{Original: "a"}, {Original: canary, Local: "WEBUI-a/x"}}}
	for name, rec := range map[string]turn.Record{
		"accepted": {Accepted: &turn.Accepted{Message: m}}, "heard": {Heard: &m}, "notice": {Notice: &turn.Notice{Text: canary}},
		"failed": {Event: &turn.Event{Kind: turn.Failed, Error: canary, Text: canary}},
	} {
		before := shown(t, rec)
		got := v.Record(rec)
		if strings.Contains(shown(t, got), canary) || !strings.Contains(shown(t, got), redact.Mark) {
			t.Errorf("%s: %s", name, shown(t, got))
		}
		if shown(t, rec) != before {
			t.Errorf("%s: what was given was changed", name)
		}
	}
	empty := turn.Record{Turn: "x"}
	if got := v.Record(empty); got.Turn != "x" {
		t.Errorf("an empty record: %+v", got)
	}
}
