package facilitate

import (
	"context"
	"errors"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/tool"
)

// An Act is something Iris did. Text carries the level of its audience.
type Act struct {
	Tool   string
	Target principal.ID // of a private act
	Intent string
	Item   string                 // it was about, if any
	Public flow.Text[flow.Room]   // of an act on the room
	Sealed flow.Text[flow.Person] // of a private one
	Host   flow.Text[flow.Host]   // of one on whoever runs the room
	Effect string                 // id of the delivery
}

// Run takes an event and reacts to it. It returns the acts of the turn; what
// was done before an error is in them.
func (a *Agent) Run(ctx context.Context, ev Event) ([]Act, error) {
	if ev.Type == TErase {
		return nil, a.erase(ctx, ev.Author)
	}
	if _, err := a.take(ctx, ev); err != nil {
		return nil, err
	}
	return a.React(ctx)
}

// React is one turn: reflect, then up to MaxSteps times decide and act, until
// the choice is to hold. Events that came since the last turn are taken
// together; with none it does nothing. It waits for a running turn.
//
// A model that fails costs the beat and not the room: the turn goes on or ends,
// and says so at the level of self ("beat.failed"). An error is the store's, or
// that of ctx.
func (a *Agent) React(ctx context.Context) ([]Act, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	a.mu.Lock()
	seen, idle := a.events, a.events <= a.turned
	a.mu.Unlock()
	if a.cfg.Port != nil {
		if err := a.flush(ctx); err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if idle {
		return nil, nil
	}
	acts, err := a.finish(ctx)
	if err != nil {
		return acts, err
	}
	more, err := a.session(a).run(ctx)
	if acts = append(acts, more...); err != nil {
		return acts, err
	}
	if _, err := a.add(ctx, draft{kind: room.KTurn, level: flow.RankSelf, body: room.Body{To: seen}}); err != nil {
		return acts, err
	}
	a.mu.Lock()
	a.turned = max(a.turned, seen)
	a.mu.Unlock()
	a.checkpoint(ctx, a.cfg.Checkpoint)
	return acts, nil
}

// finish does what was chosen before a crash, if it still makes sense.
func (a *Agent) finish(ctx context.Context) ([]Act, error) {
	a.mu.Lock()
	c := a.undone
	a.undone = nil
	a.mu.Unlock()
	if c == nil {
		return nil, nil
	}
	s := a.session(a)
	st := a.snapshot()
	if s.incoherent(&st, s.vocabulary(&st), c) != "" || s.guard(&st, *c) != "" {
		return nil, nil
	}
	act, err := s.act(ctx, *c)
	if act == nil {
		return nil, err
	}
	return []Act{*act}, err
}

// Reflect is the first beat of a turn by itself: it brings board and records
// up to date and returns the rooms' part of what was written.
func (a *Agent) Reflect(ctx context.Context) (room.RoomDelta, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	return a.session(a).reflect(ctx)
}

// Decide is the second beat by itself: it chooses and journals the choice.
func (a *Agent) Decide(ctx context.Context) (room.Choice, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	c, err := a.session(a).decide(ctx)
	if err == nil {
		a.mu.Lock()
		a.choice = &c
		a.mu.Unlock()
	}
	return c, err
}

// Act does what the last Decide chose, once. Nothing chosen, or to hold, is no
// act.
func (a *Agent) Act(ctx context.Context) (*Act, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	a.mu.Lock()
	c := a.choice
	a.choice = nil
	a.mu.Unlock()
	if c == nil {
		return nil, nil
	}
	return a.session(a).act(ctx, *c)
}

// A session is a turn on a track with the mind and policy of its beginning.
type session struct {
	*Agent
	track  track
	policy func() policy.Policy
	public bool // something public was new when the turn began
}

func (a *Agent) session(t track) *session {
	return &session{Agent: a, track: t, policy: func() policy.Policy {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.policy
	}}
}

func (s *session) run(ctx context.Context) (acts []Act, err error) {
	if _, err := s.reflect(ctx); err != nil {
		return nil, err
	}
	before := s.track.now()
	s.public = news(&before)
	done := map[[3]string]bool{}
	for range s.cfg.MaxSteps {
		st := s.track.now()
		if resting(&st) {
			break
		}
		c, err := s.decide(ctx)
		if err != nil {
			return acts, err
		}
		key := [3]string{c.Tool, string(c.Target), c.Intent + c.Release}
		if c.Tool == room.None || done[key] {
			break
		}
		done[key] = true
		act, err := s.act(ctx, c)
		if act != nil {
			acts = append(acts, *act)
		}
		if err != nil {
			return acts, err
		}
		if act == nil {
			break
		}
	}
	more, err := s.owed(ctx)
	return append(acts, more...), err
}

// news reports whether anything public, or a timer, came since the last choice.
func news(st *room.State) bool {
	in := open.Open(st.Inner())
	return st.Turn > in.PublicTo || in.Ticks > in.TickTo
}

// owed carries what was consented to and may be said now, whether or not the
// mind thought of it.
func (s *session) owed(ctx context.Context) (acts []Act, err error) {
	for {
		st := s.track.now()
		ref := ""
		for _, x := range st.Statements {
			if !x.Posted {
				ref = "/" + x.ID
			}
		}
		if g := st.Granted(); ref == "" && len(g) > 0 {
			ref = g[0]
		}
		if ref == "" || len(acts) >= s.cfg.MaxSteps {
			return acts, nil
		}
		act, err := s.carry(ctx, room.Choice{Tool: "post", Intent: tool.CarryRelease, Release: ref})
		if act != nil {
			acts = append(acts, *act)
		}
		if err != nil || act == nil {
			return acts, err
		}
	}
}

// resting reports whether all that is new only thanks or agrees, so that no
// choice is due.
func resting(s *room.State) bool {
	in := open.Open(s.Inner())
	lines := s.Log.Since(in.ReadTo)
	words := 0
	for _, l := range lines {
		if l.Author == principal.Iris {
			continue
		}
		if words++; !tool.Acknowledges(l.Text) {
			return false
		}
	}
	for _, p := range s.People.All() {
		box, _ := s.File(p.ID)
		f := open.Open(box)
		if len(f.Thread) > 0 && f.Seq > in.Choice {
			if l := f.Thread[len(f.Thread)-1]; l.Seq > in.Choice && !tool.Acknowledges(l.Text) {
				return false
			}
			for _, r := range f.Releases {
				if r.State == release.Proposed {
					return false
				}
			}
		}
	}
	return words > 0
}

// beatFailed records that a beat did not work. What it should have changed
// stays as it is.
func (s *session) beatFailed(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	why := "the model failed"
	if errors.Is(err, errShape) {
		why = "no answer of the wanted shape"
	}
	s.cfg.Logger.WarnContext(ctx, "beat failed", "beat", name, "why", why)
	_, err = s.track.add(ctx, failed(name, why))
	return err
}
