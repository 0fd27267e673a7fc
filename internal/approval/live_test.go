package approval

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// put asks a live question, a moment later than the last thing that happened.
func (d *desk) put(change func(*LiveRequest)) *Live {
	d.t.Helper()
	d.now = d.now.Add(time.Second)
	r := LiveRequest{Conversation: page, Text: "claude wants to run this command.", Command: "ls", Tool: "Bash", Requester: anna, Turn: "turn-1"}
	if change != nil {
		change(&r)
	}
	l, err := d.Ask(r)
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

// outcome is what the asker has been told; it does not wait.
func outcome(l *Live) *Outcome {
	select {
	case o := <-l.over:
		return &o
	default:
		return nil
	}
}

var colours = []turn.Option{{Label: "Red", About: "warm"}, {Label: "Blue"}, {Label: "No colour"}}

// TestLiveWords: what a word means depends on what was asked.
func TestLiveWords(t *testing.T) {
	options := func(r *LiveRequest) { r.Options, r.Command = colours, "" }
	many := func(r *LiveRequest) { r.Options, r.Command, r.Many = colours, "", true }
	always := func(r *LiveRequest) { r.Always = true }
	for name, c := range map[string]struct {
		change func(*LiveRequest)
		said   string
		want   *Outcome
	}{
		"yes":                  {nil, "yes", &Outcome{State: Approved}},
		"ok, go ahead":         {nil, "ok, go ahead", &Outcome{State: Approved}},
		"no with words":        {nil, "no, use git instead", &Outcome{State: Declined}},
		"a question":           {nil, "what does it do?", nil},
		"always, not offered":  {nil, "always", nil},
		"always":               {always, "Always", &Outcome{State: Approved, Always: true}},
		"yes, always":          {always, "yes, always", &Outcome{State: Approved, Always: true}},
		"yes where always is":  {always, "yes", &Outcome{State: Approved}},
		"a label":              {options, "blue", &Outcome{State: Answered, Picked: "Blue"}},
		"a number":             {options, "1", &Outcome{State: Answered, Picked: "Red"}},
		"a marked number":      {options, "#3.", &Outcome{State: Answered, Picked: "No colour"}},
		"a number too high":    {options, "4", &Outcome{State: Answered, Picked: "4"}},
		"own words":            {options, "something greenish", &Outcome{State: Answered, Picked: "something greenish"}},
		"two of one":           {options, "1, 2", &Outcome{State: Answered, Picked: "1, 2"}},
		"two of many":          {many, "red, 2", &Outcome{State: Answered, Picked: "Red, Blue"}},
		"many, own words":      {many, "red, green", &Outcome{State: Answered, Picked: "red, green"}},
		"nothing":              {options, " ", nil},
		"far too much":         {options, fmt.Sprintf("%05000d", 1), nil},
		"the mark of another":  {nil, "yes 00000000", nil},
		"the command repeated": {nil, "yes: ls", &Outcome{State: Approved}},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			l := d.put(c.change)
			d.say(anna, c.said)
			if c.want != nil {
				c.want.By, c.want.Words = "anna (U1)", c.said
			}
			if diff := cmp.Diff(c.want, outcome(l)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.said, diff)
			}
			if n := len(d.List(page)); (n == 0) != (c.want != nil) {
				t.Errorf("%d questions are open", n)
			}
			if names := d.files(); len(names) != 0 {
				t.Errorf("on disk: %v", names)
			}
			if h := d.run("ls"); h.Granted {
				t.Error("an answer for an agent granted a command of Iris's own")
			}
		})
	}
}

// TestLiveClicks: a button and the API, once, by who may.
func TestLiveClicks(t *testing.T) {
	d := open(t, func(o *Options) { o.Allowed = func(_ chat.Address, p chat.Person) bool { return p.ID == anna.ID } })
	l := d.put(func(r *LiveRequest) { r.Options = colours })
	id := l.Question.ID
	if len(id) < 32+1+64 {
		t.Errorf("the id %s can be guessed", id)
	}
	if _, err := d.Choose(id, page, bob, Choice{Yes: true, Words: "red"}); !errors.Is(err, transport.ErrNotAllowed) {
		t.Errorf("bob: %v", err)
	}
	if _, err := d.Choose(id, other, anna, Choice{Yes: true, Words: "red"}); !errors.Is(err, transport.ErrUnknownAsk) {
		t.Errorf("from another conversation: %v", err)
	}
	if _, err := d.Choose(id[:len(id)-1]+"x", page, anna, Choice{Yes: true, Words: "red"}); !errors.Is(err, transport.ErrUnknownAsk) {
		t.Errorf("a forged id: %v", err)
	}
	if _, err := d.Choose(id, page, anna, Choice{Yes: true}); !errors.Is(err, ErrNoChoice) {
		t.Errorf("a yes that picks nothing: %v", err)
	}
	if s, err := d.try(page, bob, "something else altogether"); s != nil || err != nil {
		t.Errorf("bob talks: %+v, %v", s, err)
	}
	if s, err := d.try(page, bob, "red"); s != nil || !errors.Is(err, transport.ErrNotAllowed) {
		t.Errorf("bob picks: %+v, %v", s, err)
	}
	if outcome(l) != nil {
		t.Fatal("somebody's answer counted")
	}
	s, err := d.Choose(id, page, anna, Choice{Yes: true, Words: "2"})
	if err != nil || s.Prompt != "" || s.Loose {
		t.Fatalf("anna: %+v, %v", s, err)
	}
	if outcome(l) != nil {
		t.Error("it counts before it is on disk")
	}
	s.Done(true)
	if o := outcome(l); o == nil || o.State != Answered || o.Picked != "Blue" || o.By != "anna (U1)" {
		t.Errorf("outcome: %+v", o)
	}
	var over *OverError
	if _, err := d.Choose(id, page, anna, Choice{Yes: true, Words: "red"}); !errors.As(err, &over) || over.State != Answered {
		t.Errorf("a second click: %v", err)
	}
	l = d.put(func(r *LiveRequest) { r.Always = true })
	if s, err := d.Choose(l.Question.ID, page, anna, Choice{Yes: true, Words: "always"}); err != nil {
		t.Error(err)
	} else if s.Done(true); !outcome(l).Always {
		t.Error("always was not taken")
	}
	l = d.put(nil)
	if s, err := d.Choose(l.Question.ID, page, anna, Choice{Yes: true, Words: "always"}); err != nil {
		t.Error(err)
	} else if s.Done(true); outcome(l).Always {
		t.Error("always was taken although it was not offered")
	}
}

// TestLiveExpires after the time of questions where somebody is there, and nobody
// but the asker is told.
func TestLiveExpires(t *testing.T) {
	told := 0
	d := open(t, func(o *Options) { o.Expired = func(context.Context, Question) error { told++; return nil } })
	l := d.put(func(r *LiveRequest) { r.Origin = turn.FromSchedule })
	d.now = d.now.Add(30*time.Minute - time.Second)
	d.sweep(t.Context())
	if outcome(l) != nil {
		t.Error("expired too early")
	}
	d.now = d.now.Add(time.Second)
	d.sweep(t.Context())
	if o := outcome(l); o == nil || o.State != Expired || told != 0 {
		t.Errorf("outcome %+v, %d people told", o, told)
	}
}

// TestLiveWithdrawn: when the asker leaves, and when the context is cleared.
func TestLiveWithdrawn(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	d := open(t, nil)
	l := d.put(nil)
	if o := l.Wait(gone); o.State != Withdrawn || len(d.List(page)) != 0 {
		t.Errorf("outcome %+v; open: %v", o, d.List(page))
	}
	if _, err := d.Pick(l.Question.ID, page, anna, true); err == nil || err.Error() != "this question was withdrawn" {
		t.Errorf("a click afterwards: %v", err)
	}
	l = d.put(nil)
	d.Withdraw(page)
	if o := l.Wait(t.Context()); o.State != Withdrawn {
		t.Errorf("after a reset: %+v", o)
	}

	// An answer that is on its way to disk when the asker leaves.
	for taken, want := range map[bool]State{true: Approved, false: Withdrawn} {
		l = d.put(nil)
		s, err := d.Pick(l.Question.ID, page, anna, true)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan Outcome, 1)
		go func() { waited <- l.Wait(gone) }()
		for {
			d.mu.Lock()
			left := l.gone
			d.mu.Unlock()
			if left {
				break
			}
		}
		s.Done(taken)
		if o := <-waited; o.State != want {
			t.Errorf("taken %v: %+v, want %s", taken, o, want)
		}
	}
}

// TestLiveBesideHeld: a held command of the same text is a question of its own, and
// a bare yes means the newest.
func TestLiveBesideHeld(t *testing.T) {
	d := open(t, nil)
	l := d.put(func(r *LiveRequest) { r.Command = "rm -rf /srv/x" })
	h := d.run("rm -rf /srv/x")
	if !h.Fresh || len(d.List(page)) != 2 {
		t.Fatalf("held: %+v, open: %v", h, d.List(page))
	}
	if s := d.say(anna, "yes"); s.Question.ID != h.Question.ID || s.Prompt == "" {
		t.Errorf("a bare yes means %+v", s)
	}
	if s := d.say(anna, "yes"); s.Question.ID != l.Question.ID {
		t.Errorf("the next one means %+v", s)
	}
	if o := outcome(l); o == nil || o.State != Approved {
		t.Errorf("outcome %+v", o)
	}
	for range maxOpen {
		d.put(nil)
	}
	if _, err := d.Ask(LiveRequest{Conversation: page}); err == nil {
		t.Error("there is no end of questions")
	}
}
