package facilitate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate"
)

func steps(t *testing.T, s *facilitate.Stepper, n int) {
	t.Helper()
	for range n {
		if _, ok, err := s.Next(t.Context()); err != nil || !ok {
			t.Fatalf("step: %v %v", ok, err)
		}
	}
}

func at(t *testing.T, s *facilitate.Stepper, key *facilitate.OperatorKey) string {
	t.Helper()
	c, err := s.Context(facilitate.ForSelf(key))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStepper(t *testing.T) {
	b, key := newBridge(), facilitate.NewOperatorKey()
	a := sit(t, facilitate.Config{Port: b, Operator: key, Secret: []byte("k")})
	queue := []facilitate.Event{
		facilitate.Message("ana", "Where do we eat on Friday?"), facilitate.Message("ben", "hi all of you"), facilitate.Message("ben", "I propose the steak house"),
	}
	s := a.Stepper(queue...)
	if s.CanPrev() || s.CanRedo() || s.NextLabel() != "msg" || s.History()[0].Label != "start" || s.Prev() {
		t.Error("the start is not a start")
	}
	var seen []string
	for range 9 {
		seen = append(seen, at(t, s, key))
		steps(t, s, 1)
	}
	var labels []string
	for _, h := range s.History() {
		labels = append(labels, h.Label)
	}
	if got := strings.Join(labels, ","); got != "start,message by ana,reflect,hold,message by ben,reflect,hold,message by ben,reflect,caucus" {
		t.Errorf("history %s", got)
	}
	last := s.History()[9]
	if !slices.Contains(last.Changed, "caucus/cy") || !slices.Contains(last.Changed, "introspection") || last.Act == nil || last.Act.Target != "cy" || last.Phase != facilitate.PhaseAct {
		t.Errorf("last %+v", last)
	}
	if h := s.History(); !slices.Contains(h[1].Changed, "log") || !slices.Contains(h[2].Changed, "canvas") || !slices.Contains(h[2].Changed, "item/where-do-we-eat-on-friday") || !slices.Contains(h[2].Changed, "user/ana") {
		t.Errorf("changed %v %v", h[1].Changed, h[2].Changed)
	}
	end := at(t, s, key)
	for i := 8; i >= 0; i-- {
		if !s.Prev() || at(t, s, key) != seen[i] || s.Cursor() != i {
			t.Fatalf("step %d back is another state", i)
		}
	}
	if s.NextLabel() != "message by ana" {
		t.Errorf("redo %q", s.NextLabel())
	}
	steps(t, s, 9)
	if at(t, s, key) != end {
		t.Error("redo ends elsewhere")
	}
	if len(b.person)+len(b.room) != 0 || a.Room().Log.Len() != 0 {
		t.Error("something got out before Commit")
	}

	// An injected line where redo exists branches; the old branch stays.
	if err := s.Goto(6); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Next(t.Context(), facilitate.Message("cy", "I cannot come at all")); err != nil {
		t.Fatal(err)
	}
	steps(t, s, 2)
	other := at(t, s, key)
	if s.Branch() != "branch-1" || len(s.Branches()) != 2 || other == end {
		t.Errorf("branch %s of %v", s.Branch(), s.Branches())
	}
	if err := s.Switch("main"); err != nil || at(t, s, key) != end {
		t.Errorf("main is gone: %v", err)
	}
	for _, err := range []error{s.Switch("nope"), s.Goto(99), s.Goto(-1)} {
		if !errors.Is(err, facilitate.ErrStepper) {
			t.Errorf("%v", err)
		}
	}

	// Saved and loaded it is the same, and goes on alike.
	data, err := s.Serialize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "steak") && strings.Contains(string(data), "stays between us") {
		t.Error("sealed text is saved in clear")
	}
	l, err := a.LoadStepper(t.Context(), data, queue...)
	if err != nil {
		t.Fatal(err)
	}
	if at(t, l, key) != end || l.Branch() != "main" || len(l.History()) != len(s.History()) {
		t.Error("loaded elsewhere")
	}
	l.Switch("branch-1")
	if at(t, l, key) != other {
		t.Error("the branch is not the same")
	}
	for name, bad := range map[string]string{
		"version": strings.Replace(string(data), `"version":1`, `"version":9`, 1), "surface": strings.Replace(string(data), `"decisions"`, `"poll"`, 1),
		"cursor": strings.Replace(string(data), `"cursor":`, `"cursor":9`, 1), "no json": "x", "payload": strings.Replace(string(data), `"payload":"`, `"payload":"AAAA`, 1),
	} {
		if _, err := a.LoadStepper(t.Context(), []byte(bad), queue...); !errors.Is(err, facilitate.ErrStepper) {
			t.Errorf("loaded with another %s: %v", name, err)
		}
	}

	// A turn out of band is one step; Commit appends and delivers.
	if _, err := l.Record(t.Context(), "aside", facilitate.Message("di", "good morning to everybody")); err != nil {
		t.Fatal(err)
	}
	l.Switch("main")
	if err := l.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.person) != 1 || a.Room().Log.Len() != 3 || l.CanPrev() {
		t.Errorf("after commit: %v, %d lines", b.person, a.Room().Log.Len())
	}
	if got := context_(t, a, facilitate.ForSelf(key)); got != end {
		t.Error("the agent is elsewhere")
	}
	if err := s.Commit(t.Context()); !errors.Is(err, facilitate.ErrStepper) {
		t.Errorf("the room moved on: %v", err)
	}
	if _, err := a.LoadStepper(t.Context(), data); !errors.Is(err, facilitate.ErrStepper) {
		t.Errorf("loaded on another base: %v", err)
	}
	if _, ok, err := a.Stepper().Next(t.Context()); ok || err != nil {
		t.Errorf("an empty queue: %v %v", ok, err)
	}
	if _, _, err := a.Stepper().Next(t.Context(), facilitate.Message("zoe", "x")); !errors.Is(err, facilitate.ErrEvent) {
		t.Errorf("a stranger: %v", err)
	}
}
