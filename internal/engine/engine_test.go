package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) {
	if victim() {
		return
	}
	goleak.VerifyTestMain(m)
}

var (
	ctx  = context.Background()
	sess = chat.Address{Space: chat.Session, ID: "1"}
	web  = chat.Address{Space: chat.Web, ID: "w"}
)

func runners(f enginetest.Runner) map[string]runner.Runner {
	return map[string]runner.Runner{"native": f}
}

// say submits a text to a conversation.
func say(t testing.TB, e *engine.Engine, a chat.Address, id, text string) transport.Receipt {
	t.Helper()
	r, err := e.Submit(ctx, submission(a, id, text))
	if err != nil {
		t.Fatalf("Submit(%q): %v", text, err)
	}
	return r
}

func submission(a chat.Address, id, text string) transport.Submission {
	return transport.Submission{Address: a, Origin: turn.FromChat, Message: chat.Message{ID: id, Text: text}}
}

// end waits for a turn.
func end(t testing.TB, e *engine.Engine, id turn.ID) turn.Event {
	t.Helper()
	ev, err := e.Wait(ctx, id)
	if err != nil {
		t.Fatalf("Wait(%s): %v", id, err)
	}
	return ev
}

// records decodes what a journal holds of a conversation.
func records(t testing.TB, j *enginetest.Journal, a chat.Address) (all []turn.Record) {
	t.Helper()
	for _, data := range j.All(a.Channel()) {
		var r turn.Record
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// kinds names records, one word each.
func kinds(all []turn.Record) (words []string) {
	for _, r := range all {
		switch {
		case r.Accepted != nil:
			words = append(words, "accepted")
		case r.Begun != nil:
			words = append(words, "begun")
		case r.Event != nil:
			words = append(words, string(r.Event.Kind))
		case r.Checkpoint != nil:
			words = append(words, "checkpoint")
		case r.Heard != nil:
			words = append(words, "heard")
		case r.Notice != nil:
			words = append(words, "notice")
		}
	}
	return words
}

// gate is a runner whose turns say that they run and then wait to be let go.
type gate struct {
	began chan turn.Request
	let   chan struct{}
}

func newGate() *gate { return &gate{make(chan turn.Request, 100), make(chan struct{})} }

func (g *gate) run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	g.began <- req
	select {
	case <-g.let:
		return sink.Emit(turn.Event{Kind: turn.Final, Text: "re: " + req.Message.Text})
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestTurnFromDoorToDoor(t *testing.T) {
	j, a := enginetest.NewJournal(), &enginetest.Archive{}
	e, _ := enginetest.Start(t, engine.Options{Journal: j, Archive: a, Runners: runners(func(ctx context.Context, req turn.Request, sink turn.Sink) error {
		if req.Conversation != sess || req.Message.Text != "hello" || req.Attempt != 1 || req.Origin != turn.FromAPI || req.Resume != nil {
			return fmt.Errorf("request %+v", req)
		}
		for _, ev := range []turn.Event{
			{Kind: turn.Started},
			{Kind: turn.Text, Text: "let me look"},
			{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "1", Name: "bash", Phase: turn.Start}},
		} {
			if err := sink.Emit(ev); err != nil {
				return err
			}
		}
		if err := sink.Checkpoint(ctx, map[string]int{"step": 1}); err != nil {
			return err
		}
		return sink.Emit(turn.Event{Kind: turn.Final, Text: "done"})
	})})
	s := submission(sess, "m1", "hello")
	s.Origin = turn.FromAPI
	r, err := e.Submit(ctx, s)
	if err != nil || r.Outcome != transport.Accepted || r.Seq != 1 || r.Waiting != 0 || r.Duplicate {
		t.Fatalf("Submit = %+v, %v", r, err)
	}
	if ev := end(t, e, r.Turn); ev.Text != "done" || ev.Turn != r.Turn || ev.Kind != turn.Final {
		t.Errorf("end = %+v", ev)
	}
	want := []string{"accepted", "begun", "started", "text", "tool", "checkpoint", "final"}
	if diff := cmp.Diff(want, kinds(records(t, j, sess))); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	var projected []turn.Record
	for _, p := range a.Of(sess) {
		projected = append(projected, p.Record)
	}
	if diff := cmp.Diff([]string{"accepted", "checkpoint", "final"}, kinds(projected)); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	if pins := j.Pins(); len(pins) != 0 {
		t.Errorf("pins after the end: %v", pins)
	}
	if st, err := e.Turn(ctx, r.Turn); err != nil || st.Status != engine.Ended || st.End.Text != "done" || st.Conversation != sess {
		t.Errorf("Turn = %+v, %v", st, err)
	}
	if e.Running(sess) || len(e.Conversations()) != 0 {
		t.Error("something still runs")
	}
}

// Promise 1: the receipt comes after the fsync.
func TestSubmitReturnsAfterTheMessageIsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := enginetest.NewJournal()
		hold := make(chan struct{})
		j.FailSync = func() error { <-hold; return nil }
		e, _ := enginetest.Start(t, engine.Options{Journal: j})
		var got atomic.Int32
		submit := func() {
			if r, err := e.Submit(ctx, submission(sess, "m", "x")); err != nil || r.Turn == "" {
				t.Errorf("Submit = %+v, %v", r, err)
			}
			got.Add(1)
		}
		go submit()
		synctest.Wait()
		go submit() // the repeat of a message that is not on disk yet waits, too
		synctest.Wait()
		if got.Load() != 0 {
			t.Error("a receipt before the fsync")
		}
		close(hold)
		synctest.Wait()
		if got.Load() != 2 {
			t.Errorf("%d receipts after the fsync, want 2", got.Load())
		}
	})
}

func TestSubmitIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		g := newGate()
		j := enginetest.NewJournal()
		e, _ := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			ran.Add(1)
			return g.run(ctx, req, s)
		})})
		var wg sync.WaitGroup
		receipts := make([]transport.Receipt, 20)
		for i := range receipts {
			wg.Go(func() { receipts[i] = say(t, e, sess, "m1", "hi") })
		}
		wg.Wait()
		first := 0
		for _, r := range receipts {
			if r.Turn != receipts[0].Turn || r.Seq != receipts[0].Seq {
				t.Errorf("receipt %+v, want the same turn as %+v", r, receipts[0])
			}
			if !r.Duplicate {
				first++
			}
		}
		close(g.let)
		end(t, e, receipts[0].Turn)
		if again := say(t, e, sess, "m1", "hi"); !again.Duplicate || again.Turn != receipts[0].Turn {
			t.Errorf("after the end: %+v", again)
		}
		if first != 1 || ran.Load() != 1 {
			t.Errorf("%d first receipts, %d runs, want 1 and 1", first, ran.Load())
		}
		// The id belongs to the address; no id is never a repeat.
		other, none := say(t, e, web, "m1", "hi"), say(t, e, sess, "", "hi")
		if other.Duplicate || none.Duplicate || other.Turn == none.Turn {
			t.Errorf("other = %+v, none = %+v", other, none)
		}
	})
}

func TestSubmitWithATurnIDIsIdempotent(t *testing.T) {
	e, _ := enginetest.Start(t, engine.Options{})
	id := turn.NewID()
	s := submission(sess, "", "hi")
	s.Turn = id
	var wg sync.WaitGroup
	var firsts atomic.Int32
	for range 10 {
		wg.Go(func() {
			r, err := e.Submit(ctx, s)
			if err != nil || r.Turn != id {
				t.Errorf("Submit = %+v, %v", r, err)
			}
			if !r.Duplicate {
				firsts.Add(1)
			}
		})
	}
	wg.Wait()
	if firsts.Load() != 1 {
		t.Errorf("%d first receipts", firsts.Load())
	}
	end(t, e, id)
	s.Message.ID = "another"
	if r, err := e.Submit(ctx, s); err != nil || !r.Duplicate || r.Turn != id {
		t.Errorf("same turn, another message id: %+v, %v", r, err)
	}
	s.Address = web
	if _, err := e.Submit(ctx, s); err == nil {
		t.Error("a turn id of another conversation was taken")
	}
	s.Turn = "not-a-uuid"
	if _, err := e.Submit(ctx, s); err == nil {
		t.Error("a bad turn id was taken")
	}
}

// Spec 3.2, B.1: one running, five waiting, the seventh is refused before
// anything is written; a repeat is no newcomer.
func TestQueueHoldsFiveAndRefusesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		j := enginetest.NewJournal()
		e, _ := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(g.run)})
		var ids []turn.ID
		for i := range 6 {
			r := say(t, e, sess, fmt.Sprint("m", i), fmt.Sprint(i))
			if r.Waiting != i {
				t.Errorf("turn %d: Waiting = %d", i, r.Waiting)
			}
			ids = append(ids, r.Turn)
		}
		synctest.Wait()
		before := j.Last(sess.Channel())
		if _, err := e.Submit(ctx, submission(sess, "m7", "7")); !errors.Is(err, transport.ErrBusy) {
			t.Errorf("seventh: %v, want ErrBusy", err)
		}
		if r := say(t, e, sess, "m3", "3"); !r.Duplicate || r.Turn != ids[3] || r.Waiting != 3 {
			t.Errorf("repeat while full: %+v", r)
		}
		if after := j.Last(sess.Channel()); after != before {
			t.Errorf("a refusal wrote %d records", after-before)
		}
		say(t, e, web, "m7", "another conversation is not full")
		synctest.Wait()
		if got, want := e.Conversations(), []engine.Conversation{{Address: sess, Running: true, Waiting: 5}, {Address: web, Running: true}}; cmp.Diff(want, got) != "" {
			t.Errorf("Conversations = %+v", got)
		}
		if st, err := e.Turn(ctx, ids[2]); err != nil || st.Status != engine.Waiting || st.Waiting != 2 {
			t.Errorf("Turn = %+v, %v", st, err)
		}
		close(g.let)
		for i, id := range ids {
			if ev := end(t, e, id); ev.Text != fmt.Sprint("re: ", i) {
				t.Errorf("turn %d: %+v", i, ev)
			}
		}
		for i := range 6 {
			req := <-g.began
			if req.Conversation == web {
				req = <-g.began
			}
			if req.Message.Text != fmt.Sprint(i) {
				t.Errorf("turn %d was %q: out of order", i, req.Message.Text)
			}
		}
		if r := say(t, e, sess, "m7", "7"); r.Duplicate {
			t.Error("what was refused counts as taken")
		}
	})
}

func TestQueueIsRaceFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(g.run)})
		var taken, busy atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				switch _, err := e.Submit(ctx, submission(sess, "", "x")); {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, transport.ErrBusy):
					busy.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if taken.Load() != 6 || busy.Load() != 44 {
			t.Errorf("taken %d, refused %d, want 6 and 44", taken.Load(), busy.Load())
		}
		close(g.let)
	})
}

// Spec 16 #3, 16 #12: one turn at a time in a conversation, each with its own
// message; conversations side by side.
func TestOneTurnAtATimePerConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		inside := map[chat.Address]int{}
		most := 0
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			mu.Lock()
			inside[req.Conversation]++
			if inside[req.Conversation] > 1 {
				t.Errorf("two turns at once in %s", req.Conversation)
			}
			total := 0
			for _, n := range inside {
				total += n
			}
			most = max(most, total)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inside[req.Conversation]--
			mu.Unlock()
			return s.Emit(turn.Event{Kind: turn.Final, Text: req.Message.Text})
		})})
		began := time.Now()
		var wg sync.WaitGroup
		for c := range 8 {
			conv := chat.Address{Space: chat.Session, ID: fmt.Sprint(c)}
			for i := range 5 {
				r := say(t, e, conv, "", fmt.Sprint(c, i))
				wg.Go(func() {
					if ev := end(t, e, r.Turn); ev.Text != fmt.Sprint(c, i) {
						t.Errorf("conversation %d turn %d was answered %q", c, i, ev.Text)
					}
				})
			}
		}
		wg.Wait()
		if most != 8 || time.Since(began) != 5*time.Second {
			t.Errorf("%d at once in %s, want 8 in 5 s", most, time.Since(began))
		}
	})
}

func TestRoutingInTheEngine(t *testing.T) {
	a := &enginetest.Archive{}
	j := enginetest.NewJournal()
	name := func(n string) enginetest.Runner {
		return func(_ context.Context, req turn.Request, s turn.Sink) error {
			return s.Emit(turn.Event{Kind: turn.Final, Text: n + ": " + req.Message.Text + "/" + req.Message.Prompt})
		}
	}
	slack := chat.Address{Space: chat.Slack, ID: "C1"}
	e, _ := enginetest.Start(t, engine.Options{
		Journal: j, Archive: a,
		Runners: map[string]runner.Runner{"native": name("native"), "claude": name("claude"), "billing": name("billing")},
		Snapshot: func(c chat.Address) route.Snapshot {
			s := route.Snapshot{Default: "native", Agents: []string{"billing", "gone"}}
			if c == sess {
				s.Runner = "claude"
			}
			return s
		},
	})
	for _, c := range []struct {
		at         chat.Address
		text, want string
	}{
		{web, "hi", "native: hi/"}, {sess, "stop", "claude: stop/"}, {web, "@billing: sum?", "billing: @billing: sum?/sum?"},
	} {
		if ev := end(t, e, say(t, e, c.at, "", c.text).Turn); ev.Text != c.want {
			t.Errorf("%s %q = %q, want %q", c.at, c.text, ev.Text, c.want)
		}
	}
	if _, err := e.Submit(ctx, submission(web, "", "@gone hi")); !errors.Is(err, transport.ErrUnknownRunner) {
		t.Errorf("unknown runner: %v", err)
	}
	r := say(t, e, slack, "m1", "chatter")
	if again := say(t, e, slack, "m1", "chatter"); r.Outcome != transport.Logged || again.Outcome != transport.Logged || !again.Duplicate || again.Seq != r.Seq {
		t.Errorf("chatter: %+v then %+v", r, again)
	}
	if got := a.Of(slack); len(got) != 1 || got[0].Record.Heard == nil || got[0].Record.Heard.Text != "chatter" {
		t.Errorf("archive of the channel: %+v", got)
	}
	if r := say(t, e, web, "", " "); r.Outcome != transport.Ignored {
		t.Errorf("nothing said: %+v", r)
	}
	for _, bad := range []chat.Address{{}, {Space: chat.Session, ID: "../x"}, {Space: chat.Slack, ID: "SESSION-1"}} {
		if _, err := e.Submit(ctx, submission(bad, "", "x")); err == nil {
			t.Errorf("address %+v was taken", bad)
		}
	}
	if _, err := e.Submit(ctx, submission(sess, strings.Repeat("x", 257), "x")); err == nil {
		t.Error("an endless message id was taken")
	}
}

func TestHearNoticeAndSave(t *testing.T) {
	j, a := enginetest.NewJournal(), &enginetest.Archive{}
	e, _ := enginetest.Start(t, engine.Options{Journal: j, Archive: a})
	seq, err := e.Hear(ctx, sess, chat.Message{ID: "i1", Text: "[team]: hi"})
	again, err2 := e.Hear(ctx, sess, chat.Message{ID: "i1", Text: "[team]: hi"})
	if err != nil || err2 != nil || seq != 1 || again != 1 {
		t.Errorf("Hear = %d, %v, then %d, %v", seq, err, again, err2)
	}
	if err := e.Notice(ctx, sess, "note"); err != nil {
		t.Error(err)
	}
	if err := e.Save(ctx, sess, map[string]int{"a": 1}); err != nil {
		t.Error(err)
	}
	if err := e.Save(ctx, sess, func() {}); err == nil {
		t.Error("a state that is no JSON was saved")
	}
	if err := e.Notice(ctx, chat.Address{}, "x"); err == nil {
		t.Error("a notice to nowhere")
	}
	if diff := cmp.Diff([]string{"heard", "notice", "checkpoint"}, kinds(records(t, j, sess))); diff != "" {
		t.Error(diff)
	}
	if len(a.Of(sess)) != 3 {
		t.Errorf("archive: %+v", a.Of(sess))
	}
}

// trimmed is a journal that has dropped a record and kept its key.
type trimmed struct{ *enginetest.Journal }

func (trimmed) Read(context.Context, string, int64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) { yield(journal.Record{}, journal.ErrTruncated) }
}

func TestARepeatOfWhatIsNoLongerKept(t *testing.T) {
	j := enginetest.NewJournal()
	e, stop := enginetest.Start(t, engine.Options{Journal: j})
	first := say(t, e, sess, "1", "x")
	end(t, e, first.Turn)
	stop()
	e, _ = enginetest.Start(t, engine.Options{Journal: trimmed{j}})
	if r := say(t, e, sess, "1", "x"); !r.Duplicate || r.Outcome != transport.Accepted || r.Seq != first.Seq {
		t.Errorf("repeat: %+v", r)
	}
	if _, err := e.Wait(ctx, first.Turn); !errors.Is(err, journal.ErrTruncated) {
		t.Errorf("Wait = %v", err)
	}
}

// The text kept of a turn is bounded, whole runes, and the newest.
func TestSalvageIsBounded(t *testing.T) {
	e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(_ context.Context, _ turn.Request, s turn.Sink) error {
		for range 10 {
			if err := s.Emit(turn.Event{Kind: turn.Text, Partial: true, Text: strings.Repeat("é", 50_001)}); err != nil {
				return err
			}
		}
		return s.Emit(turn.Event{Kind: turn.Text, Partial: true, Text: "the end"})
	})})
	ev := end(t, e, say(t, e, sess, "", "x").Turn)
	if len(ev.Text) > 256<<10 || len(ev.Text) < 255<<10 || !utf8.ValidString(ev.Text) || !strings.HasSuffix(ev.Text, "éthe end") {
		t.Errorf("%d bytes, valid %v", len(ev.Text), utf8.ValidString(ev.Text))
	}
}

func TestIdleConversationsCostNothing(t *testing.T) {
	j := enginetest.NewJournal()
	e, stop := enginetest.Start(t, engine.Options{Journal: j, Archive: &enginetest.Archive{}})
	for i := range 50 {
		end(t, e, say(t, e, chat.Address{Space: chat.Session, ID: fmt.Sprint(i)}, "", "x").Turn)
	}
	stop()
	if lanes, turns, behind := e.Sizes(); lanes+turns+behind != 0 {
		t.Errorf("%d lanes, %d turns, %d archives are kept", lanes, turns, behind)
	}
}
