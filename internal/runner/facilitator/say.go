package facilitator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// sealed is all that the journal of turns gets of a private event: the author
// and the text of its message.
const sealed = "sealed"

// sealedMark begins the id of a message whose words the room's store has.
const sealedMark = "sealed-"

// plainMark begins the id of a message that stands for a public event which the
// room's store has, such as a form that was filled in.
const plainMark = "event-"

// Seal takes what is said on a private line into the room's store, and leaves a
// submission of which nothing is secret. Any other submission stays as it is. It
// is called before anything is kept, and again for a repeat, which changes
// nothing.
//
// Only a person's own message is one: what a schedule or another program sends
// to a private line is refused, since it would count as the person's words.
func (r *Rooms) Seal(ctx context.Context, s *transport.Submission) error {
	spec, person, ok := r.Find(s.Address)
	if !ok || person == "" || s.Message.From.Bot {
		return nil
	}
	if s.Origin != "" && s.Origin != turn.FromChat && s.Origin != turn.FromAPI {
		return fmt.Errorf("%s is the private line of a room: %w", s.Address, transport.ErrNotAllowed)
	}
	if s.Message.ID == "" {
		s.Message.ID = string(turn.NewID())
	}
	_, a, err := r.open(ctx, spec.ID)
	if err != nil {
		return err
	}
	id := digest(s.Address.Channel(), s.Message.ID)
	ev := words(a, person, s.Message.Text, true)
	ev.Key = "p:" + id
	if err := a.Take(ctx, ev); err != nil {
		return err
	}
	r.wake(spec.ID, true)
	*s = quiet(spec, sealedMark+id, s.Message.At)
	return nil
}

// quiet is the submission of a private event: that something happened.
func quiet(spec Spec, id string, at time.Time) transport.Submission {
	return transport.Submission{
		Address: spec.Address(), Origin: turn.FromAPI, Runner: spec.ID, Direct: true,
		Message: chat.Message{ID: id, From: chat.Person{ID: sealed}, Text: sealed, At: at},
	}
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// public are the events that everybody may know of.
func public(t facilitate.Type) bool {
	switch t {
	case facilitate.TMessage, facilitate.TOpen, facilitate.TSet, facilitate.TJoin, facilitate.TLeave, facilitate.TEdit, facilitate.TDelete, facilitate.THook:
		return true
	}
	return false
}

// Do takes an event, whose author the caller vouches for, and lets the room
// react to it. When it returns nil the event is on disk; the turn is that of the
// reaction, empty when one that waits already will see to it. An event with the
// Key of an earlier one changes nothing.
func (r *Rooms) Do(ctx context.Context, id string, ev facilitate.Event) (turn.ID, error) {
	x, a, err := r.open(ctx, id)
	if err != nil {
		return "", err
	}
	if ev.Key == "" {
		ev.Key = string(turn.NewID())
	}
	key := digest(ev.Key)
	s := quiet(x.spec, sealedMark+key, time.Time{})
	switch {
	case ev.Type == facilitate.TMessage:
		s.Message.ID, s.Message.From.ID, s.Message.Text = "m-"+key, string(ev.Author), ev.Text
		for _, p := range x.spec.Participants {
			if p.ID == string(ev.Author) {
				s.Message.From.Name = p.Name
				if p.User != "" {
					s.Message.From.ID = p.User
				}
			}
		}
	case public(ev.Type):
		s.Message.ID, s.Message.From.ID, s.Message.Text = plainMark+key, string(ev.Author), "("+string(ev.Type)+")"
	}
	ev.Key = messageKey(s.Message.ID)
	if ev.Type == facilitate.TMessage {
		ev.External = s.Message.ID
	}
	if err := a.Take(ctx, ev); err != nil {
		return "", err
	}
	if !public(ev.Type) {
		r.wake(id, true)
	}
	receipt, err := r.opts.Submit(ctx, s)
	if errors.Is(err, transport.ErrBusy) {
		return "", nil // the turns that wait react to all there is
	}
	return receipt.Turn, err
}

// messageKey is the key of the event that a message is.
func messageKey(id string) string { return "m:" + id }

// wake sets the timer after which consented words may be said although nobody
// else spoke. The time is jittered, so that it does not point at the moment of
// consent.
func (r *Rooms) wake(id string, again bool) {
	x := r.room(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if x == nil || r.closed {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timer != nil {
		if !again || !x.timer.Stop() {
			return
		}
		r.timers.Done()
	}
	after := r.opts.TickAfter/2 + rand.N(r.opts.TickAfter+1)
	r.timers.Add(1)
	x.timer = time.AfterFunc(after, func() {
		defer r.timers.Done()
		x.mu.Lock()
		x.timer = nil
		x.mu.Unlock()
		if _, a, err := r.open(context.Background(), id); err == nil {
			r.arm(x, a)
		}
		if due, err := r.due(context.Background(), id); err != nil || !due {
			return // whoever opens the room next is told what is wrong with it
		}
		if _, err := r.Do(context.Background(), id, facilitate.Tick("quiet")); err != nil && !errors.Is(err, transport.ErrClosing) && !errors.Is(err, facilitate.ErrClosed) {
			r.log.Warn("timer of a room", "room", id, "err", err)
		}
	})
}

// arm sets the timer of the next tick that Iris asked for.
func (r *Rooms) arm(x *room, a *facilitate.Agent) {
	plans := a.Plans()
	if len(plans) == 0 {
		return
	}
	next := slices.MinFunc(plans, func(p, q facilitate.Plan) int { return cmp.Compare(p.At, q.At) })
	r.mu.Lock()
	defer r.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.closed {
		return
	}
	if x.plan != nil {
		if !x.plan.Stop() {
			return // it fires, and arms the next
		}
		r.timers.Done()
	}
	r.timers.Add(1)
	x.plan = time.AfterFunc(time.Until(time.UnixMilli(next.At)), func() {
		defer r.timers.Done()
		x.mu.Lock()
		x.plan = nil
		x.mu.Unlock()
		if _, err := r.Do(r.life, x.spec.ID, facilitate.Tick(next.Name)); err != nil && r.life.Err() == nil {
			r.log.Warn("a tick that Iris asked for", "room", x.spec.ID, "err", err)
		}
	})
}

// due reports whether somebody said yes to words that were not said yet.
func (r *Rooms) due(ctx context.Context, id string) (bool, error) {
	x, a, err := r.open(ctx, id)
	if err != nil {
		return false, err
	}
	x.mu.Lock()
	w := facilitate.ForSelf(x.key)
	x.mu.Unlock()
	for _, p := range a.Participants() {
		own, err := a.Own(w, p.ID)
		if err != nil {
			return false, err
		}
		for _, c := range own.Releases {
			if c.State == "granted" {
				return true, nil
			}
		}
	}
	return false, nil
}

// Wake sets the timers of all rooms once, after a start: words that were
// consented to before may be due.
func (r *Rooms) Wake() {
	for _, s := range r.List() {
		r.wake(s.ID, false)
		r.refresh(r.room(s.ID), 0)
	}
}
