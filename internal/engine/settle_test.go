package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// questions hands out one settlement per question to everybody who says "yes",
// and a refusal to those who say "sure".
type questions struct {
	mu   sync.Mutex
	open []string
	done []string // question and whether it was taken
}

func (q *questions) settle(_ chat.Address, s transport.Submission) *engine.Settlement {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.Message.Text == "sure" {
		return &engine.Settlement{Refusal: "not you"}
	}
	if s.Message.Text != "yes" || len(q.open) == 0 {
		return nil
	}
	id := q.open[0]
	q.open = q.open[1:]
	return &engine.Settlement{Question: id, Prompt: "approved " + id, Done: func(taken bool) { q.over(id, taken) }}
}

func (q *questions) over(id string, taken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if taken {
		q.done = append(q.done, id+" taken")
		return
	}
	q.done = append(q.done, id+" not taken")
	q.open = append([]string{id}, q.open...)
}

func proven(a chat.Address, id, text string) transport.Submission {
	s := submission(a, id, text)
	s.Proven, s.Direct = true, true
	return s
}

func TestWordsSettleAQuestion(t *testing.T) {
	q := &questions{open: []string{"q1"}}
	j := enginetest.NewJournal()
	var got turn.Request
	e, _ := enginetest.Start(t, engine.Options{Journal: j, Settle: q.settle, Runners: runners(func(_ context.Context, req turn.Request, s turn.Sink) error {
		if len(q.done) == 0 {
			t.Error("the turn runs before the question is over")
		}
		got = req
		return s.Emit(turn.Event{Kind: turn.Final, Text: "ran"})
	})})
	s := proven(web, "m1", "yes")
	s.Runner = "somebody else"
	r, err := e.Submit(ctx, s)
	if err != nil || r.Outcome != transport.Accepted {
		t.Fatalf("Submit: %+v, %v", r, err)
	}
	end(t, e, r.Turn)
	if got.Origin != turn.FromApproval || got.Message.Prompt != "approved q1" || got.Message.Text != "yes" {
		t.Errorf("the runner got %+v", got)
	}
	if !slices.Equal(q.done, []string{"q1 taken"}) {
		t.Errorf("done = %v", q.done)
	}
	if a := records(t, j, web)[0].Accepted; a.Answers != "q1" || a.Origin != turn.FromApproval || a.Runner != "native" {
		t.Errorf("record %+v", a)
	}
}

// TestAYesThatIsNone: what no proven person said in the conversation answers
// nothing.
func TestAYesThatIsNone(t *testing.T) {
	q := &questions{open: []string{"q1"}}
	e, _ := enginetest.Start(t, engine.Options{Settle: q.settle})
	for name, change := range map[string]func(*transport.Submission){
		"not proven":  func(s *transport.Submission) { s.Proven = false },
		"a bot":       func(s *transport.Submission) { s.Message.From.Bot = true },
		"an event":    func(s *transport.Submission) { s.Origin = turn.FromEvent },
		"a schedule":  func(s *transport.Submission) { s.Origin = turn.FromSchedule },
		"other words": func(s *transport.Submission) { s.Message.Text = "what is it?" },
		"a command":   func(s *transport.Submission) { s.Message.Text = "help" },
	} {
		s := proven(web, "m-"+name, "yes")
		change(&s)
		r, err := e.Submit(ctx, s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.Turn != "" {
			end(t, e, r.Turn)
		}
	}
	if len(q.done) != 0 || len(q.open) != 1 {
		t.Errorf("done = %v, open = %v", q.done, q.open)
	}
}

func TestARepeatedYesSettlesOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &questions{open: []string{"newest", "older"}}
		e, _ := enginetest.Start(t, engine.Options{Settle: q.settle})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := e.Submit(ctx, proven(web, "m1", "yes")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if r, err := e.Submit(ctx, proven(web, "m1", "yes")); err != nil || !r.Duplicate {
			t.Errorf("later: %+v, %v", r, err)
		}
		taken := 0
		for _, d := range q.done {
			if d == "newest taken" || d == "older taken" {
				taken++
			}
		}
		if taken != 1 || len(q.open) != 1 {
			t.Errorf("done = %v, open = %v", q.done, q.open)
		}
	})
}

func TestSomebodyWhoMayNotAnswer(t *testing.T) {
	q := &questions{open: []string{"q1"}}
	j := enginetest.NewJournal()
	e, _ := enginetest.Start(t, engine.Options{Journal: j, Settle: q.settle})
	r, err := e.Submit(ctx, proven(web, "m1", "sure"))
	if err != nil || r.Outcome != transport.Commanded || r.Reply.Text != "not you" || r.Turn != "" {
		t.Errorf("addressed: %+v, %v", r, err)
	}
	if all := records(t, j, web); len(all) != 1 || all[0].Heard == nil {
		t.Errorf("records %+v, want the message logged", all)
	}
	aside := proven(chat.Address{Space: chat.Slack, ID: "C1"}, "m2", "sure")
	aside.Direct = false
	if r, err := e.Submit(ctx, aside); err != nil || r.Outcome != transport.Logged || r.Reply.Text != "" {
		t.Errorf("said to others: %+v, %v", r, err)
	}
}

// TestAFullLaneLeavesTheQuestionOpen, and so does everything else that keeps an
// answer off the disk.
func TestAFullLaneLeavesTheQuestionOpen(t *testing.T) {
	q := &questions{open: []string{"q1"}}
	g := newGate()
	e, stop := enginetest.Start(t, engine.Options{Settle: q.settle, MaxWaiting: 1, Runners: runners(g.run)})
	say(t, e, web, "a", "one")
	<-g.began
	say(t, e, web, "b", "two")
	if _, err := e.Submit(ctx, proven(web, "m1", "yes")); !errors.Is(err, transport.ErrBusy) {
		t.Errorf("Submit: %v", err)
	}
	s := &engine.Settlement{Question: "q2", Prompt: "p", Done: func(taken bool) { q.over("q2", taken) }}
	if _, err := e.Settled(ctx, web, chat.Message{ID: "x", Text: "Approved"}, s); !errors.Is(err, transport.ErrBusy) {
		t.Errorf("Settled: %v", err)
	}
	if _, err := e.Settled(ctx, chat.Address{Space: chat.Web, ID: "../x"}, chat.Message{ID: "x", Text: "Approved"}, s); !errors.Is(err, chat.ErrBadID) {
		t.Errorf("Settled nowhere: %v", err)
	}
	close(g.let)
	stop()
	if _, err := e.Settled(ctx, web, chat.Message{ID: "x", Text: "Approved"}, s); !errors.Is(err, transport.ErrClosing) {
		t.Errorf("Settled after the end: %v", err)
	}
	if !slices.Equal(q.done, []string{"q1 not taken", "q2 not taken", "q2 not taken", "q2 not taken"}) {
		t.Errorf("done = %v", q.done)
	}
}

func TestSettledByAButton(t *testing.T) {
	q := &questions{}
	e, _ := enginetest.Start(t, engine.Options{})
	s := &engine.Settlement{Question: "q1", Prompt: "p", Done: func(taken bool) { q.over("q1", taken) }}
	r, err := e.Settled(ctx, sess, chat.Message{ID: "answer-q1", Text: "Approved"}, s)
	if err != nil || r.Turn == "" {
		t.Fatalf("Settled: %+v, %v", r, err)
	}
	end(t, e, r.Turn)
	again, err := e.Settled(ctx, sess, chat.Message{ID: "answer-q1", Text: "Approved"}, s)
	if err != nil || !again.Duplicate || again.Turn != r.Turn {
		t.Errorf("again: %+v, %v", again, err)
	}
	if !slices.Equal(q.done, []string{"q1 taken", "q1 not taken"}) {
		t.Errorf("done = %v", q.done)
	}
	nobody, _ := enginetest.Start(t, engine.Options{Runners: map[string]runner.Runner{}})
	if _, err := nobody.Settled(ctx, sess, chat.Message{ID: "x", Text: "Approved"}, s); !errors.Is(err, transport.ErrUnknownRunner) {
		t.Errorf("without a runner: %v", err)
	}
}

// TestALiveAnswerStartsNoTurn: it is logged, before whoever waits is told, and its
// repeat is known as one.
func TestALiveAnswerStartsNoTurn(t *testing.T) {
	q := &questions{}
	j := enginetest.NewJournal()
	loose := false
	settle := func(chat.Address, transport.Submission) *engine.Settlement {
		return &engine.Settlement{Question: "q1", Live: true, Loose: loose, Done: func(taken bool) { q.over("q1", taken) }}
	}
	e, _ := enginetest.Start(t, engine.Options{Journal: j, Settle: settle, Runners: runners(func(_ context.Context, _ turn.Request, s turn.Sink) error {
		return s.Emit(turn.Event{Kind: turn.Final, Text: "ran"})
	})})
	for range 2 {
		r, err := e.Submit(ctx, proven(web, "m1", "yes"))
		if err != nil || r.Outcome != transport.Logged || r.Turn != "" {
			t.Errorf("Submit: %+v, %v", r, err)
		}
	}
	r, err := e.Settled(ctx, web, chat.Message{ID: "answer-q1", Text: "Approved"}, settle(web, transport.Submission{}))
	if err != nil || r.Outcome != transport.Logged {
		t.Errorf("Settled: %+v, %v", r, err)
	}
	if !slices.Equal(q.done, []string{"q1 taken", "q1 taken"}) {
		t.Errorf("done = %v", q.done)
	}
	// Words that were said to others are no answer in somebody's own words.
	loose = true
	s := proven(chat.Address{Space: chat.Slack, ID: "C1"}, "m2", "green, I think")
	s.Direct = false
	if _, err := e.Submit(ctx, s); err != nil || q.done[len(q.done)-1] != "q1 not taken" {
		t.Errorf("said to others: %v, done = %v", err, q.done)
	}
}

func TestNoticeOnce(t *testing.T) {
	j := enginetest.NewJournal()
	e, _ := enginetest.Start(t, engine.Options{Journal: j})
	for range 3 {
		if err := e.NoticeOnce(ctx, web, "expired:q1", "nobody answered"); err != nil {
			t.Fatal(err)
		}
	}
	if all := records(t, j, web); len(all) != 1 || all[0].Notice == nil {
		t.Errorf("records %+v", all)
	}
}

func TestResetTellsThatTheContextIsCleared(t *testing.T) {
	var cleared []chat.Address
	e, _ := enginetest.Start(t, engine.Options{Hooks: engine.Hooks{Cleared: func(a chat.Address) { cleared = append(cleared, a) }}})
	if _, err := e.Command(ctx, transport.Command{Conversation: web, Verb: transport.Reset}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cleared, []chat.Address{web}) {
		t.Errorf("cleared = %v", cleared)
	}
}
