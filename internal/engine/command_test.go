package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func command(t testing.TB, e *engine.Engine, a chat.Address, v transport.Verb) transport.Reply {
	t.Helper()
	r, err := e.Command(ctx, transport.Command{Conversation: a, Verb: v})
	if err != nil {
		t.Fatalf("Command(%s): %v", v, err)
	}
	return r
}

// F25, spec 3.12, B.1: all stop routes give the same result, the turn keeps its
// text, what waits goes on.
func TestStopRoutesAgree(t *testing.T) {
	tg := chat.Address{Space: chat.Telegram, ID: "5"}
	obey := func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		_ = s.Emit(text("half"))
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), runner.ErrStopped) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		return s.Emit(turn.Event{Kind: turn.Final, Text: "half", Stopped: true})
	}
	leave := func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		_ = s.Emit(text("half"))
		<-ctx.Done()
		return ctx.Err()
	}
	fails := func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		_ = s.Emit(text("half"))
		<-ctx.Done()
		return s.Emit(turn.Event{Kind: turn.Failed, Code: turn.CodeModel, Error: "context canceled"})
	}
	routes := map[string]func(e *engine.Engine, id turn.ID) (transport.Reply, error){
		"a word in the chat": func(e *engine.Engine, _ turn.ID) (transport.Reply, error) {
			s := submission(tg, "s1", "stop")
			s.Direct = true
			r, err := e.Submit(ctx, s)
			return r.Reply, err
		},
		"the API": func(e *engine.Engine, _ turn.ID) (transport.Reply, error) {
			return e.Command(ctx, transport.Command{Conversation: tg, Verb: transport.Stop})
		},
		"the turn's id": func(e *engine.Engine, id turn.ID) (transport.Reply, error) {
			return e.Command(ctx, transport.Command{Conversation: tg, Verb: transport.Stop, Turn: id})
		},
	}
	for route, stop := range routes {
		for how, run := range map[string]enginetest.Runner{"obeys": obey, "returns": leave, "fails": fails} {
			t.Run(route+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
						if req.Message.Text == "next" {
							return enginetest.Echo(ctx, req, s)
						}
						return run(ctx, req, s)
					})})
					direct := func(text string) transport.Receipt {
						s := submission(tg, "", text)
						s.Direct = true
						r, err := e.Submit(ctx, s)
						if err != nil {
							t.Fatal(err)
						}
						return r
					}
					first, next := direct("first"), direct("next")
					synctest.Wait()
					reply, err := stop(e, first.Turn)
					if want := (transport.Reply{Text: "_Stopping..._", Running: true}); err != nil || reply != want {
						t.Errorf("reply %+v, %v", reply, err)
					}
					want := turn.Event{Kind: turn.Final, Turn: first.Turn, Text: "half", Stopped: true}
					if diff := cmp.Diff(want, end(t, e, first.Turn)); diff != "" {
						t.Errorf("end (-want +got):\n%s", diff)
					}
					if ev := end(t, e, next.Turn); ev.Text != "next" || ev.Stopped {
						t.Errorf("next %+v", ev)
					}
					synctest.Wait()
					if reply, err := stop(e, first.Turn); reply.Running || err != nil || reply.Text != "_Nothing running_" && route != "a word in the chat" {
						t.Errorf("second stop: %+v, %v", reply, err)
					}
				})
			})
		}
	}
}

func TestStopBeforeAnyText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(g.run)})
		r := say(t, e, sess, "", "x")
		synctest.Wait()
		command(t, e, sess, transport.Stop)
		if diff := cmp.Diff(turn.Event{Kind: turn.Final, Turn: r.Turn, Stopped: true}, end(t, e, r.Turn)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStopAWaitingTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		j := enginetest.NewJournal()
		e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(g.run)})
		var ids []turn.ID
		for i := range 3 {
			ids = append(ids, say(t, e, sess, "", fmt.Sprint(i)).Turn)
		}
		synctest.Wait()
		r, err := e.Command(ctx, transport.Command{Conversation: sess, Verb: transport.Stop, Turn: ids[1]})
		if err != nil || !r.Running || r.Text != "_Stopping..._" {
			t.Errorf("reply %+v, %v", r, err)
		}
		if ev := end(t, e, ids[1]); !ev.Stopped || ev.Kind != turn.Final || ev.Text != "" {
			t.Errorf("stopped: %+v", ev)
		}
		// Of another conversation, or of nobody: nothing happens.
		for _, c := range []transport.Command{
			{Conversation: web, Verb: transport.Stop, Turn: ids[0]}, {Conversation: sess, Verb: transport.Stop, Turn: turn.NewID()},
		} {
			if r, err := e.Command(ctx, c); err != nil || r.Text != "_Nothing running_" {
				t.Errorf("stop %v in %s: %+v, %v", c.Turn, c.Conversation, r, err)
			}
		}
		close(g.let)
		if a, b := end(t, e, ids[0]), end(t, e, ids[2]); a.Text != "re: 0" || b.Text != "re: 2" {
			t.Errorf("the others: %+v, %+v", a, b)
		}
		stop()
		for id, n := range ends(records(t, j, sess)) {
			if n != 1 {
				t.Errorf("turn %s has %d ends", id, n)
			}
		}
	})
}

// A command that a platform delivers twice stops one turn.
func TestARepeatedCommandActsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(g.run)})
		first, next := say(t, e, web, "1", "x"), say(t, e, web, "2", "y")
		synctest.Wait()
		if r := say(t, e, web, "s", "stop"); r.Outcome != transport.Commanded || r.Duplicate {
			t.Errorf("stop: %+v", r)
		}
		synctest.Wait()
		if r := say(t, e, web, "s", "stop"); r.Outcome != transport.Commanded || !r.Duplicate || r.Reply.Text != "" {
			t.Errorf("repeat: %+v", r)
		}
		close(g.let)
		if a, b := end(t, e, first.Turn), end(t, e, next.Turn); !a.Stopped || b.Stopped {
			t.Errorf("ends: %+v, %+v", a, b)
		}
	})
}

// keeper is a runner with a context.
type keeper struct {
	*gate
	compact func(ctx context.Context) (string, error)
	reset   func(ctx context.Context) error
}

func (k keeper) Run(ctx context.Context, r turn.Request, s turn.Sink) error { return k.run(ctx, r, s) }
func (k keeper) Compact(ctx context.Context, _ chat.Address) (string, error) {
	return k.compact(ctx)
}
func (k keeper) Reset(ctx context.Context, _ chat.Address) error { return k.reset(ctx) }

// Spec 3.8, B.1, 16 #7.
func TestCompact(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		err  error
		want string
	}{
		"says what it did": {"_Compacted: 9 tokens summarised_", nil, "_Compacted: 9 tokens summarised_"},
		"says nothing":     {"", nil, "_Compaction complete_"},
		"a failure is one": {"ignored", errors.New("no model"), "_Compaction failed: no model_"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keeper{gate: newGate()}
				hold := make(chan struct{})
				k.compact = func(context.Context) (string, error) { <-hold; return c.line, c.err }
				j := enginetest.NewJournal()
				e, _ := enginetest.Start(t, engine.Options{Journal: j, Runners: map[string]runner.Runner{"native": k}})
				r := say(t, e, web, "", "x")
				synctest.Wait()
				if got := command(t, e, web, transport.Compact); !got.Running || !strings.HasPrefix(got.Text, "_Can't compact while running — ") {
					t.Errorf("while running: %+v", got)
				}
				close(k.let)
				end(t, e, r.Turn)
				synctest.Wait()
				// In chat the receipt does not wait for it; the lane does.
				if got := say(t, e, web, "", "compact"); got.Reply.Text != "_Compacting context..._" {
					t.Errorf("in chat: %+v", got)
				}
				next := say(t, e, web, "", "next")
				synctest.Wait()
				if !e.Running(web) || len(k.began) != 1 {
					t.Errorf("the lane is not held: running %v, %d turns began", e.Running(web), len(k.began))
				}
				close(hold)
				end(t, e, next.Turn)
				synctest.Wait()
				got, err := e.Command(ctx, transport.Command{Conversation: web, Verb: transport.Compact})
				if got.Text != c.want || !errors.Is(err, c.err) {
					t.Errorf("Command = %+v, %v", got, err)
				}
				var notices []string
				for _, r := range records(t, j, web) {
					if r.Notice != nil {
						notices = append(notices, r.Notice.Text)
					}
				}
				if diff := cmp.Diff([]string{c.want, c.want}, notices); diff != "" {
					t.Errorf("notices (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCompactCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper{gate: newGate(), compact: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
		e, _ := enginetest.Start(t, engine.Options{Runners: map[string]runner.Runner{"native": k}})
		done := make(chan transport.Reply, 1)
		go func() {
			r, _ := e.Command(ctx, transport.Command{Conversation: web, Verb: transport.Compact})
			done <- r
		}()
		synctest.Wait()
		command(t, e, web, transport.Stop)
		if r := <-done; r.Text != "_Compaction stopped_" {
			t.Errorf("reply %+v", r)
		}
	})
}

// Spec 3.12, 16 #6: a reset stops the running turn and waits for its end; what
// waits runs in the new context.
func TestResetWaitsForTheRunningTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper{gate: newGate()}
		j := enginetest.NewJournal()
		resets, hold := 0, make(chan struct{})
		var first turn.ID
		k.reset = func(context.Context) error {
			if resets++; resets == 1 && ends(records(t, j, web))[first] != 1 {
				t.Error("reset beside the running turn")
			}
			<-hold
			return nil
		}
		e, _ := enginetest.Start(t, engine.Options{Journal: j, Runners: map[string]runner.Runner{"native": k}})
		first = say(t, e, web, "", "first").Turn
		synctest.Wait() // it runs
		next := say(t, e, web, "", "next")
		both := make(chan transport.Reply, 2)
		for range 2 { // two at once are one
			go func() { both <- command(t, e, web, transport.Reset) }()
		}
		synctest.Wait()
		close(hold)
		for range 2 {
			if r := <-both; r.Text != "_Context cleared — starting fresh_" || !r.Running {
				t.Errorf("reply %+v", r)
			}
		}
		if ev := end(t, e, first); !ev.Stopped {
			t.Errorf("first %+v", ev)
		}
		close(k.let)
		if ev := end(t, e, next.Turn); ev.Text != "re: next" {
			t.Errorf("next %+v", ev)
		}
		want := []string{"accepted", "begun", "started", "accepted", "final", "notice", "begun", "started", "final"}
		all := records(t, j, web)
		if diff := cmp.Diff(want, kinds(all)); diff != "" {
			t.Errorf("journal (-want +got):\n%s", diff)
		}
		if resets != 1 || !all[5].Notice.Reset {
			t.Errorf("%d resets, notice %+v", resets, all[5].Notice)
		}
		synctest.Wait()
		if r := say(t, e, web, "", "/clear"); r.Reply.Text != "_Clearing context..._" || r.Reply.Running {
			t.Errorf("in chat, idle: %+v", r.Reply)
		}
	})
}

func TestResetThatFailsSaysSo(t *testing.T) {
	k := keeper{gate: newGate(), reset: func(context.Context) error { return errors.New("cli gone") }}
	e, _ := enginetest.Start(t, engine.Options{Runners: map[string]runner.Runner{"native": k}})
	r, err := e.Command(ctx, transport.Command{Conversation: web, Verb: transport.Reset})
	if err == nil || r.Text != "_The context was not cleared: cli gone_" {
		t.Errorf("reply %+v, %v", r, err)
	}
	k.reset = func(context.Context) error { panic("boom") }
	e, _ = enginetest.Start(t, engine.Options{Runners: map[string]runner.Runner{"native": k}})
	if _, err := e.Command(ctx, transport.Command{Conversation: web, Verb: transport.Reset}); err == nil {
		t.Error("a reset that panics succeeded")
	}
	if ev := end(t, e, func() turn.ID { close(k.let); return say(t, e, web, "", "x").Turn }()); ev.Kind != turn.Final {
		t.Errorf("the lane after the panic: %+v", ev)
	}
}

func TestOtherCommands(t *testing.T) {
	var asked []string
	e, stop := enginetest.Start(t, engine.Options{
		Verbose: func(_ context.Context, a chat.Address, arg string) (string, error) {
			asked = append(asked, a.Channel()+" "+arg)
			return "_Verbose tool output: " + arg + "_", nil
		},
		Answer: func(_ context.Context, a transport.Answer) (transport.Reply, error) {
			return transport.Reply{Text: a.Ask}, nil
		},
	})
	if r := say(t, e, web, "", "verbose on"); r.Reply.Text != "_Verbose tool output: on_" || asked[0] != "WEBUI-w on" {
		t.Errorf("verbose: %+v, %v", r, asked)
	}
	if r := command(t, e, web, transport.Help); !strings.Contains(r.Text, "compact") {
		t.Errorf("help: %+v", r)
	}
	if r := command(t, e, web, transport.Compact); r.Text == "" {
		t.Errorf("compact without a context: %+v", r)
	}
	if r := command(t, e, web, transport.Reset); r.Text != "_Context cleared — starting fresh_" {
		t.Errorf("reset without a context: %+v", r)
	}
	if r, err := e.Answer(ctx, transport.Answer{Ask: "7"}); err != nil || r.Text != "7" {
		t.Errorf("Answer = %+v, %v", r, err)
	}
	if _, err := e.Command(ctx, transport.Command{Conversation: web, Verb: "dance"}); err == nil {
		t.Error("an unknown verb")
	}
	if _, err := e.Command(ctx, transport.Command{Verb: transport.Stop}); err == nil {
		t.Error("a command without a conversation")
	}
	stop()
	for _, v := range []transport.Verb{transport.Compact, transport.Reset} {
		if r, err := e.Command(ctx, transport.Command{Conversation: web, Verb: v}); err == nil && v == transport.Reset {
			t.Errorf("%s after the end: %+v", v, r)
		}
	}
	bare, _ := enginetest.Start(t, engine.Options{})
	if r := say(t, bare, web, "", "verbose"); r.Reply.Text != "_verbose cannot be set here_" {
		t.Errorf("verbose without settings: %+v", r)
	}
	if _, err := bare.Answer(ctx, transport.Answer{}); !errors.Is(err, transport.ErrUnknownAsk) {
		t.Errorf("Answer without questions: %v", err)
	}
}

// A compaction that ignores its stop frees the lane.
func TestAStuckCompactionLosesItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		k := keeper{gate: newGate(), compact: func(context.Context) (string, error) { <-hold; return "late", nil }}
		close(k.let)
		e, _ := enginetest.Start(t, engine.Options{Runners: map[string]runner.Runner{"native": k}})
		failed := make(chan error, 1)
		go func() {
			_, err := e.Command(ctx, transport.Command{Conversation: web, Verb: transport.Compact})
			failed <- err
		}()
		synctest.Wait()
		next := say(t, e, web, "", "next")
		command(t, e, web, transport.Stop)
		if ev := end(t, e, next.Turn); ev.Text != "re: next" {
			t.Errorf("next %+v", ev)
		}
		if err := <-failed; err == nil {
			t.Error("a compaction that was given up succeeded")
		}
		close(hold)
	})
}

// TestCommandsOfAgentPrograms: where an agent program answers, its commands go to
// the hook, help included; elsewhere there are none.
func TestCommandsOfAgentPrograms(t *testing.T) {
	cli, other := chat.Address{Space: chat.Web, ID: "cli"}, chat.Address{Space: chat.Web, ID: "native"}
	var got []transport.Command
	h, _ := enginetest.Start(t, engine.Options{
		Runners: runners(func(_ context.Context, _ turn.Request, s turn.Sink) error {
			return s.Emit(turn.Event{Kind: turn.Final})
		}),
		Snapshot: func(a chat.Address) route.Snapshot {
			snap := route.Snapshot{Default: "native"}
			if a == cli {
				snap.Programs = []string{"native"}
			}
			return snap
		},
		Program: func(_ context.Context, c transport.Command) (string, bool, error) {
			if c.Conversation != cli {
				return "", false, nil
			}
			if got = append(got, c); c.Verb == transport.Mode {
				return "", true, errors.New("no such mode")
			}
			return "done " + string(c.Verb), true, nil
		},
	})
	for text, want := range map[string]string{"/status": "done status", "help": "done help", "/mode x": "_no such mode_", "/nosuch": "done unknown"} {
		if r := say(t, h, cli, text, text); r.Outcome != transport.Commanded || r.Reply.Text != want {
			t.Errorf("%s: %+v, want %q", text, r, want)
		}
		reply, ok, err := h.Line(ctx, cli, chat.Person{ID: "ann"}, text)
		if !ok || err != nil || reply.Text != want {
			t.Errorf("Line(%s) = %+v, %t, %v, want %q", text, reply, ok, err, want)
		}
	}
	if last := got[len(got)-1]; last.From.ID != "ann" {
		t.Errorf("the hook got %+v", last)
	}
	for _, text := range []string{"/status", "hello"} {
		if r := say(t, h, other, text, text); r.Outcome != transport.Accepted {
			t.Errorf("%s where no program answers: %+v", text, r)
		}
		if _, ok, err := h.Line(ctx, other, chat.Person{}, text); ok || err != nil {
			t.Errorf("Line(%s) where no program answers: %t, %v", text, ok, err)
		}
	}
	if r := say(t, h, other, "h", "help"); !strings.Contains(r.Reply.Text, "stop") {
		t.Errorf("help: %+v", r)
	}
	if _, err := h.Command(ctx, transport.Command{Conversation: other, Verb: transport.Status}); err == nil {
		t.Error("status where no program answers worked")
	}
}
