package facilitator

import (
	"context"
	"fmt"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
)

// Steps is a stepper as the operator sees it.
type Steps struct {
	History  []StepLine `json:"history"`
	Cursor   int        `json:"cursor"`
	Branch   string     `json:"branch"`
	Branches []string   `json:"branches"`
	Next     string     `json:"next"`
	CanPrev  bool       `json:"canPrev"`
	CanRedo  bool       `json:"canRedo"`
	// Room and Inner are what the room and Iris would read at this step.
	Room  string `json:"room"`
	Inner string `json:"inner"`
}

// A StepLine is one step.
type StepLine struct {
	Label   string   `json:"label"`
	Phase   string   `json:"phase"`
	Changed []string `json:"changed,omitempty"`
	Said    string   `json:"said,omitempty"` // to the room
	Target  string   `json:"target,omitempty"`
}

// An Order moves a stepper: start, next, prev, goto (N), switch (Branch), commit
// or stop. Event, with next, is taken at that step.
type Order struct {
	Op     string
	N      int
	Branch string
	Event  *facilitate.Event
}

// Step moves the stepper of a room. Nothing reaches the room before commit.
func (r *Rooms) Step(ctx context.Context, id string, o Order) (*Steps, error) {
	x, a, err := r.open(ctx, id)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	if o.Op == "start" || x.steps == nil && o.Op != "stop" {
		x.steps = a.Stepper()
	}
	s := x.steps
	x.mu.Unlock()
	if err := r.step(ctx, x, s, o); err != nil {
		return nil, err
	}
	return x.stepState(), nil
}

func (r *Rooms) step(ctx context.Context, x *room, s *facilitate.Stepper, o Order) error {
	x.stepping.Lock()
	defer x.stepping.Unlock()
	switch o.Op {
	case "start":
	case "next":
		var inject []facilitate.Event
		if o.Event != nil {
			inject = append(inject, *o.Event)
		}
		_, _, err := s.Next(ctx, inject...)
		return err
	case "prev":
		s.Prev()
	case "goto":
		return s.Goto(o.N)
	case "switch":
		return s.Switch(o.Branch)
	case "commit":
		if err := s.Commit(ctx); err != nil {
			return err
		}
		x.mu.Lock()
		x.steps = nil
		x.mu.Unlock()
		// What was done in the steps goes out with a turn.
		_, err := r.Do(ctx, x.spec.ID, facilitate.Tick("steps"))
		return err
	case "stop":
		x.mu.Lock()
		x.steps = nil
		x.mu.Unlock()
	default:
		return fmt.Errorf("%w: no order %.40q", facilitate.ErrStepper, o.Op)
	}
	return nil
}

// stepState draws the stepper, nil if there is none.
func (x *room) stepState() *Steps {
	x.mu.Lock()
	s, key := x.steps, x.key
	x.mu.Unlock()
	if s == nil {
		return nil
	}
	x.stepping.Lock()
	defer x.stepping.Unlock()
	out := &Steps{Cursor: s.Cursor(), Branch: s.Branch(), Branches: s.Branches(), Next: s.NextLabel(), CanPrev: s.CanPrev(), CanRedo: s.CanRedo()}
	for _, h := range s.History() {
		l := StepLine{Label: h.Label, Phase: string(h.Phase), Changed: h.Changed}
		if h.Act != nil {
			if l.Target = string(h.Act.Target); l.Target == "" {
				l.Said = flow.Reveal(h.Act.Public)
			}
		}
		out.History = append(out.History, l)
	}
	out.Room, _ = s.Context(facilitate.ForRoom())
	out.Inner, _ = s.Context(facilitate.ForSelf(key))
	return out
}
