package facilitate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// A draft is an entry that has no place yet.
type draft struct {
	kind    room.Kind
	level   flow.Rank
	owner   principal.ID
	parents []uint64
	body    room.Body
}

// prior as a parent means the entry just before.
const prior = ^uint64(0)

// A track is where the entries of a turn go: the agent's journal, or a branch
// of a stepper.
type track interface {
	now() room.State
	// add applies the drafts and keeps them, all or none.
	add(ctx context.Context, ds ...draft) ([]room.Entry, error)
	// deliver hands over what add has made durable.
	deliver(ctx context.Context, e effect)
}

// settle places drafts behind s. It is pure.
func settle(s room.State, at int64, ds []draft) ([]room.Entry, []room.State, []room.Diag, error) {
	var entries []room.Entry
	var states []room.State
	var diags []room.Diag
	for _, d := range ds {
		e := room.Entry{Seq: s.Seq + 1, Kind: d.kind, Level: d.level, Owner: d.owner, At: at, Parents: d.parents, Body: open.Seal(d.body)}
		if i := slices.Index(e.Parents, prior); i >= 0 {
			e.Parents = slices.Clone(e.Parents)
			e.Parents[i] = s.Seq
		}
		next, ds, err := s.Apply(e)
		if err != nil {
			return nil, nil, nil, err
		}
		s, entries, states, diags = next, append(entries, e), append(states, next), append(diags, ds...)
	}
	return entries, states, diags, nil
}

func (a *Agent) now() room.State { return a.snapshot() }

func (a *Agent) add(ctx context.Context, ds ...draft) ([]room.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addLocked(ctx, ds...)
}

// addLocked applies, appends and publishes, with mu held. When the store fails
// nothing is applied; when it has moved on the agent is broken, because
// somebody else writes this room.
func (a *Agent) addLocked(ctx context.Context, ds ...draft) ([]room.Entry, error) {
	switch {
	case a.closed:
		return nil, ErrClosed
	case a.broken != nil:
		return nil, a.broken
	case len(ds) == 0:
		return nil, nil
	}
	entries, states, diags, err := settle(a.state, a.cfg.Clock().UnixMilli(), ds)
	if err != nil {
		return nil, err
	}
	tail := a.tail
	recs := make([]journal.Record, 0, len(entries))
	for _, e := range entries {
		var r journal.Record
		if r, tail, err = a.codec.Encode(ctx, tail, e); err != nil {
			return nil, err
		}
		recs = append(recs, r)
	}
	if err := a.cfg.Store.Append(ctx, a.cfg.ID, a.tail.Seq, recs); err != nil {
		if errors.Is(err, journal.ErrConflict) {
			a.broken = err
		}
		return nil, err
	}
	for i, e := range entries {
		a.hub.publish(a.state, states[i], e)
		a.state = states[i]
	}
	a.tail = tail
	for _, d := range diags {
		a.cfg.Logger.DebugContext(ctx, "dropped", "where", d.Where, "why", d.Note)
		a.hub.diag(d)
	}
	return entries, nil
}

// replay builds the state from the store: from its checkpoint and what came
// after, or where that does not fit, from the whole journal.
func (a *Agent) replay(ctx context.Context) error {
	if a.restore(ctx) {
		err := a.follow(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		a.cfg.Logger.WarnContext(ctx, "the checkpoint of the room does not fit its journal, which is replayed", "room", a.cfg.ID)
	}
	if err := a.blank(); err != nil {
		return err
	}
	return a.follow(ctx)
}

// blank forgets all that came from the store.
func (a *Agent) blank() (err error) {
	a.codec, a.tail, a.outbox, a.undone = journal.NewCodec(a.cfg.Store, a.cfg.ID), journal.Tail{}, nil, nil
	a.events, a.turned, a.kept, a.erased = 0, 0, 0, false
	a.state, err = a.cfg.start()
	a.hub.restore(a.state, nil)
	return err
}

// follow applies the records behind the tail. The record at the tail itself is
// looked at first: it must be the one that a checkpoint was made behind.
func (a *Agent) follow(ctx context.Context) error {
	behind := a.tail
	check := behind.Seq > 0
	for r, err := range a.cfg.Store.Load(ctx, a.cfg.ID, behind.Seq-min(behind.Seq, 1)) {
		if err != nil {
			return fmt.Errorf("load room %s: %w", a.cfg.ID, err)
		}
		if check {
			if r.Seq != behind.Seq || r.Hash != behind.Hash {
				return fmt.Errorf("load room %s: record %d: %w", a.cfg.ID, r.Seq, journal.ErrCheckpoint)
			}
			check = false
			continue
		}
		e, ok, tail, err := a.codec.Decode(ctx, a.tail, r)
		if err != nil {
			return fmt.Errorf("load room %s: %w", a.cfg.ID, err)
		}
		a.tail = tail
		if !ok {
			a.state, a.erased = a.state.Skip(r.Seq, r.Kind), true
			continue
		}
		next, _, err := a.state.Apply(e)
		if err != nil {
			if !a.erased {
				return fmt.Errorf("load room %s: entry %d: %w", a.cfg.ID, r.Seq, err)
			}
			// An entry that leaned on an erased one has nothing to apply to.
			a.state = a.state.Skip(r.Seq, r.Kind)
			continue
		}
		a.hub.publish(a.state, next, e)
		a.state = next
		a.remember(e)
		if isEvent(e) {
			a.events = e.Seq
		}
		switch b := open.Open(e.Body); {
		case e.Kind == room.KTurn:
			a.turned, a.undone = b.To, nil
		case e.Kind == room.KChoice:
			if a.undone = nil; b.Self.Choice.Tool != room.None {
				a.undone = &b.Self.Choice
			}
		case b.Tool != "" || e.Kind == room.KFailed: // the act, or that it failed
			a.undone = nil
		}
	}
	if check {
		return fmt.Errorf("load room %s: no record %d: %w", a.cfg.ID, behind.Seq, journal.ErrCheckpoint)
	}
	return nil
}

// isEvent reports whether an entry came from outside.
func isEvent(e room.Entry) bool {
	b := open.Open(e.Body)
	switch e.Kind {
	case room.KMessage:
		return b.Message.Author != principal.Iris
	case room.KCaucus:
		return b.Line.From != principal.Iris
	case room.KCast, room.KAnswer, room.KOpen, room.KSet, room.KJoin, room.KLeave, room.KEdit, room.KDelete, room.KTick, room.KOptOut:
		return true
	}
	return false
}

// entries decodes the whole journal, erased entries left out.
func (a *Agent) entries(ctx context.Context) (out []room.Entry, err error) {
	codec, tail := journal.NewCodec(a.cfg.Store, a.cfg.ID), journal.Tail{}
	for r, err := range a.cfg.Store.Load(ctx, a.cfg.ID, 0) {
		if err != nil {
			return nil, err
		}
		e, ok, next, err := codec.Decode(ctx, tail, r)
		if err != nil {
			return nil, err
		}
		if tail = next; ok {
			out = append(out, e)
		}
	}
	return out, nil
}

// lineOf is the number of the public line that an entry made, or 0.
func (a *Agent) lineOf(entry uint64) uint64 {
	s := a.snapshot()
	return s.LineOf(entry)
}

func failed(what, why string) draft {
	return draft{kind: room.KFailed, level: flow.RankSelf, body: room.Body{Field: what, Text: why}}
}
