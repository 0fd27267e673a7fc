package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A Status says how far a turn is.
type Status string

// The statuses.
const (
	Waiting Status = "waiting"
	Running Status = "running"
	Ended   Status = "ended"
)

// A State is what is known of a turn.
type State struct {
	Status       Status
	Conversation chat.Address
	// Seq is the record that accepted the turn, or ended it.
	Seq int64
	// Waiting is the number of turns before this one.
	Waiting int
	// End is the terminal event of an ended turn, else nil.
	End *turn.Event
}

// A Conversation is one in which something happens.
type Conversation struct {
	Address chat.Address
	Running bool
	Waiting int
}

// Wait returns the terminal event of a turn, when it has one. It fails with
// transport.ErrUnknownTurn, with transport.ErrClosing when the process ends
// before the turn, and with ctx.
func (e *Engine) Wait(ctx context.Context, id turn.ID) (turn.Event, error) {
	if err := e.await(ctx); err != nil {
		return turn.Event{}, err
	}
	if t := e.open(id); t != nil {
		select {
		case <-t.done:
			return t.end, t.err
		case <-e.over:
			return turn.Event{}, transport.ErrClosing
		case <-ctx.Done():
			return turn.Event{}, ctx.Err()
		}
	}
	ev, _, _, err := e.ended(ctx, id)
	return ev, err
}

// Turn tells how far a turn is, or transport.ErrUnknownTurn.
func (e *Engine) Turn(ctx context.Context, id turn.ID) (State, error) {
	if err := e.await(ctx); err != nil {
		return State{}, err
	}
	e.mu.Lock()
	if t := e.turns[id]; t != nil {
		defer e.mu.Unlock()
		s := State{Status: Waiting, Conversation: t.lane.conv, Seq: t.seq, Waiting: t.waiting()}
		if t.lane.running == t {
			s.Status = Running
		}
		return s, nil
	}
	e.mu.Unlock()
	ev, conv, seq, err := e.ended(ctx, id)
	if err != nil {
		return State{}, err
	}
	return State{Status: Ended, Conversation: conv, Seq: seq, End: &ev}, nil
}

// Running reports whether a turn or a command runs or waits in the conversation.
// It is false as soon as the last turn has ended, also when its runner still
// tidies up.
func (e *Engine) Running(conv chat.Address) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[conv]
	return l != nil && e.busy(l)
}

// Conversations returns the conversations in which something runs or waits, by
// channel id.
func (e *Engine) Conversations() []Conversation {
	e.mu.Lock()
	var all []Conversation
	for conv, l := range e.lanes {
		if e.busy(l) {
			c := Conversation{Address: conv, Running: e.live(l.running), Waiting: l.occupancy()}
			if l.running != nil {
				c.Waiting--
			}
			all = append(all, c)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(all, func(a, b Conversation) int { return cmp.Compare(a.Address.Channel(), b.Address.Channel()) })
	return all
}

// busy reports that something runs or waits. mu must be held.
func (e *Engine) busy(l *lane) bool { return e.live(l.running) || len(l.queue) > 0 }

// live reports that t is a job, or a turn without its end. mu must be held.
func (e *Engine) live(t *task) bool { return t != nil && (t.job != nil || e.turns[t.id] == t) }

// waiting is the number of turns before t. Engine.mu must be held.
func (t *task) waiting() int {
	l := t.lane
	if l.running == t {
		return 0
	}
	n := 0
	if l.running != nil {
		n++
	}
	for _, q := range l.queue {
		if q == t {
			break
		}
		if q.job == nil {
			n++
		}
	}
	return n
}

func (e *Engine) open(id turn.ID) *task {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turns[id]
}

// ended reads the terminal event of a turn.
func (e *Engine) ended(ctx context.Context, id turn.ID) (ev turn.Event, conv chat.Address, seq int64, err error) {
	stream, seq, ok := e.journal.Lookup(endKey(id))
	if !ok {
		return ev, conv, 0, transport.ErrUnknownTurn
	}
	rec, err := e.readOne(ctx, stream, seq)
	if err != nil {
		return ev, conv, 0, err
	}
	if rec.Event == nil || !rec.Event.Terminal() {
		return ev, conv, 0, errors.New("the record that ended the turn is something else")
	}
	conv, err = chat.Parse(stream)
	return *rec.Event, conv, seq, err
}
