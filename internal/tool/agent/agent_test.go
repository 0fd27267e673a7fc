package agent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/tool/tooltest"
	"github.com/iris-operator/iris/internal/turn"
)

func open(t testing.TB, ask func(context.Context, Question, func(string)) (string, error)) *Agent {
	t.Helper()
	a, err := New(Options{
		Ask: ask, Names: func() []string { return []string{"Billing", "lookout"} },
		Fit: func(_ chat.Address, text string) string { return tool.Head(text, 100, 10<<10).Text },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTool(t *testing.T) {
	tooltest.Run(t, func(t *testing.T) tooltest.Subject {
		return tooltest.Subject{
			Tool: open(t, func(ctx context.Context, q Question, _ func(string)) (string, error) {
				switch q.Text {
				case "long":
					<-ctx.Done()
					return "", ctx.Err()
				case "big":
					return strings.Repeat("very much\n", 100_000), nil
				}
				return "done", nil
			}),
			Good: `{"label":"x","name":"billing","question":"how much?"}`,
			Big:  `{"label":"x","name":"billing","question":"big"}`,
			Long: `{"label":"x","name":"billing","question":"long"}`,
		}
	})
}

// What the agent is asked, what people see meanwhile, what the model gets.
func TestAsking(t *testing.T) {
	var got []Question
	a := open(t, func(_ context.Context, q Question, progress func(string)) (string, error) {
		got = append(got, q)
		progress("looking")
		if q.Text == "fail" {
			return "", errors.New("Bridge failed (failed): no paper")
		}
		return "42 \xff", nil
	})
	var seen []turn.Event
	call := func(args string) tool.Result {
		c := tooltest.Call(args)
		c.Request.Message.From.Name = "ada"
		c.Emit = func(e turn.Event) error { seen = append(seen, e); return nil }
		return a.Call(t.Context(), c)
	}
	for args, want := range map[string]tool.Result{
		`{"label":"x","name":"@billing","question":"how much?"}`:                           {Text: "42 \uFFFD"},
		`{"label":"x","name":"BILLING","question":"and now?","conversation":"may"}`:        {Text: "42 \uFFFD"},
		`{"label":"x","name":"billing","question":"fail"}`:                                 tool.Fail("@Billing: Bridge failed (failed): no paper"),
		`{"label":"x","name":"nobody","question":"x"}`:                                     tool.Fail(`there is no agent "nobody"; there are Billing, lookout`),
		`{"label":"x","name":"billing","question":" "}`:                                    tool.Fail(`argument "question" is empty`),
		`{"label":"x","name":"billing","question":"` + strings.Repeat("x", 300_000) + `"}`: tool.Fail("the question has 300000 bytes; at most 262144"),
	} {
		if diff := cmp.Diff(want, call(args)); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", args, diff)
		}
	}
	if len(got) != 3 || len(seen) != 3 || seen[0].Label != "@Billing: looking" {
		t.Errorf("asked %+v, shown %+v", got, seen)
	}
	for _, q := range got {
		want := Question{Agent: "Billing", Text: q.Text, User: "ada"}
		if q.Text == "and now?" {
			want.Key = "SESSION-tooltest-ask-may"
		}
		if q != want {
			t.Errorf("asked %+v, want %+v", q, want)
		}
	}
}

// Two questions in one conversation wait for each other: the second would take
// the place of the first. Others do not.
func TestOneQuestionAtATimeInAConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int32
		a := open(t, func(_ context.Context, q Question, _ func(string)) (string, error) {
			if n := now.Add(1); q.Key != "" {
				most.Store(max(most.Load(), n))
			}
			all.Add(1)
			time.Sleep(time.Second)
			now.Add(-1)
			return "done", nil
		})
		begun := time.Now()
		done := make(chan tool.Result, 8)
		for range 4 {
			go func() {
				done <- a.Call(t.Context(), tooltest.Call(`{"label":"x","name":"billing","question":"x","conversation":"c"}`))
			}()
		}
		for range 4 {
			<-done
		}
		if most.Load() != 1 || time.Since(begun) != 4*time.Second {
			t.Errorf("%d at once, %v in all", most.Load(), time.Since(begun))
		}
		begun = time.Now()
		for range 4 {
			go func() { done <- a.Call(t.Context(), tooltest.Call(`{"label":"x","name":"billing","question":"x"}`)) }()
		}
		for range 4 {
			<-done
		}
		if time.Since(begun) != time.Second {
			t.Errorf("questions without a conversation took %v", time.Since(begun))
		}
		// Whoever waits may be told to stop.
		go func() {
			done <- a.Call(t.Context(), tooltest.Call(`{"label":"x","name":"billing","question":"x","conversation":"c"}`))
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r := a.Call(ctx, tooltest.Call(`{"label":"x","name":"billing","question":"x","conversation":"c"}`)); !r.IsError {
			t.Errorf("a stopped call: %+v", r)
		}
		<-done
		if all.Load() != 9 {
			t.Errorf("%d questions", all.Load())
		}
	})
}

func TestWithoutAgents(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New takes no options")
	}
	a := open(t, silent)
	a.opts.Names = func() []string { return nil }
	if r := a.Call(t.Context(), tooltest.Call(`{"label":"x","name":"billing","question":"x"}`)); r.Text != "there are no agents" {
		t.Errorf("%+v", r)
	}
}

func silent(context.Context, Question, func(string)) (string, error) { return "", nil }
