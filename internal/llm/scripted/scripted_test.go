package scripted

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/iris-operator/iris/internal/llm"
)

// consume returns the pieces, the message and the error of a stream, and fails
// the test when something follows the end.
func consume(t *testing.T, ctx context.Context, m llm.Model, req llm.Request) (pieces []string, msg *llm.Message, err error) {
	t.Helper()
	for e, failure := range m.Stream(ctx, req) {
		if msg != nil || err != nil {
			t.Fatalf("event %+v, %v after the end", e, failure)
		}
		switch {
		case failure != nil:
			err = failure
		case e.Done != nil:
			msg = &e.Done.Message
		default:
			pieces = append(pieces, e.Text+e.Thinking)
		}
	}
	if msg == nil && err == nil {
		t.Fatal("the stream has no end")
	}
	return pieces, msg, err
}

func ask(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: text}}}}}
}

func TestSteps(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		step   Step
		pieces []string
		want   llm.Message
		class  llm.Class
	}{
		"text": {
			step: Text("Hel", "", "lo"), pieces: []string{"Hel", "lo"},
			want: llm.Message{Stop: llm.StopEnd, Parts: []llm.Part{{Kind: llm.TextPart, Text: "Hello"}}},
		},
		"empty": {want: llm.Message{Stop: llm.StopEnd}},
		"everything": {
			step: Step{Thinking: []string{"hm"}, Text: []string{"now"}, Usage: &llm.Usage{Input: 3},
				Calls: []llm.Call{Call("bash", `{}`), {ID: "x", Name: "read", Args: []byte(`{"path":"a"}`)}}},
			pieces: []string{"hm", "now"},
			want: llm.Message{Stop: llm.StopTools, Usage: &llm.Usage{Input: 3}, Parts: []llm.Part{
				{Kind: llm.ThinkingPart, Text: "hm"}, {Kind: llm.TextPart, Text: "now"},
				{Kind: llm.CallPart, Call: &llm.Call{ID: "call-1-1", Name: "bash", Args: []byte(`{}`)}},
				{Kind: llm.CallPart, Call: &llm.Call{ID: "x", Name: "read", Args: []byte(`{"path":"a"}`)}},
			}},
		},
		"stop":          {step: Step{Stop: llm.StopLength}, want: llm.Message{Stop: llm.StopLength}},
		"fails":         {step: Fail(llm.ClassQuota, "no credit"), class: llm.ClassQuota},
		"fails late":    {step: Step{Text: []string{"a"}, Err: boom}, pieces: []string{"a"}, class: llm.ClassInvalid},
		"broken":        {step: Tools(Call("bash", `{"a":`)), class: llm.ClassBroken},
		"not an object": {step: Tools(Call("bash", `null`)), class: llm.ClassBroken},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(llm.Info{}, c.step)
			pieces, msg, err := consume(t, t.Context(), m, ask("hi"))
			if diff := cmp.Diff(c.pieces, pieces); diff != "" {
				t.Errorf("pieces (-want +got):\n%s", diff)
			}
			if llm.ClassOf(err) != c.class {
				t.Fatalf("err = %v, want class %q", err, c.class)
			}
			if c.class != "" {
				return
			}
			c.want.Role, c.want.Provider, c.want.Model = llm.Assistant, "scripted", "scripted"
			if diff := cmp.Diff(&c.want, msg); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForeignErrorIsKept(t *testing.T) {
	boom := errors.New("boom")
	if _, _, err := consume(t, t.Context(), New(llm.Info{}, Step{Err: boom}), ask("")); !errors.Is(err, boom) {
		t.Errorf("err = %v, want it to wrap boom", err)
	}
}

func TestScriptEnds(t *testing.T) {
	m := New(llm.Info{Provider: "p", Model: "m"}, Text("a"))
	if m.Info().Provider != "p" || m.Info().Model != "m" {
		t.Errorf("Info() = %+v", m.Info())
	}
	consume(t, t.Context(), m, ask("1"))
	_, _, err := consume(t, t.Context(), m, ask("2"))
	if llm.ClassOf(err) != llm.ClassInvalid || !strings.Contains(err.Error(), "request 2, but the script has 1 steps") {
		t.Errorf("err = %v", err)
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	m := New(llm.Info{}, Text("a"), Text("b"))
	req := ask("first")
	m.Stream(t.Context(), req) // never consumed, never counted
	consume(t, t.Context(), m, req)
	req.Messages[0].Parts[0].Text = "changed"
	consume(t, t.Context(), m, req)
	var got []string
	for _, r := range m.Requests() {
		got = append(got, r.Messages[0].Parts[0].Text)
	}
	if !slices.Equal(got, []string{"first", "changed"}) {
		t.Errorf("requests = %q", got)
	}
}

func TestFuncSeesTheRequest(t *testing.T) {
	m := Func(llm.Info{}, func(n int, req llm.Request) Step {
		return Text(strings.Repeat("!", n) + req.Messages[0].Parts[0].Text)
	})
	consume(t, t.Context(), m, ask("x"))
	if pieces, _, _ := consume(t, t.Context(), m, ask("y")); !slices.Equal(pieces, []string{"!!y"}) {
		t.Errorf("pieces = %q", pieces)
	}
}

func TestHangEndsWithTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped by hand")
		done := make(chan error, 1)
		go func() {
			_, _, err := consume(t, ctx, New(llm.Info{}, Hang("half")), ask(""))
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("ended with %v before ctx", err)
		default:
		}
		cancel(stopped)
		if err := <-done; !errors.Is(err, stopped) {
			t.Errorf("err = %v, want the cause", err)
		}
	})
}

func TestGateHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		m := New(llm.Info{}, Step{Gate: gate, Text: []string{"a"}}, Step{Gate: gate, Text: []string{"b"}})
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, _, err := consume(t, ctx, m, ask("")); !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v, want canceled", err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		close(gate)
		if pieces, _, err := consume(t, t.Context(), m, ask("")); err != nil || !slices.Equal(pieces, []string{"b"}) {
			t.Errorf("pieces = %q, %v", pieces, err)
		}
		if _, _, err := consume(t, ctx, m, ask("")); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want canceled", err)
		}
	})
}

func TestConsumerMayLeave(t *testing.T) {
	n := 0
	for range New(llm.Info{}, Text("a", "b", "c")).Stream(t.Context(), ask("")) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("got %d events after leaving at the first", n)
	}
}
