package facilitate

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// A RoomEffect is something to show to everybody. ID stays the same when a
// delivery is tried again, so that the platform can drop a repeat.
type RoomEffect struct {
	ID      string
	Text    string // a message, or
	Emoji   string // a reaction
	ReactTo uint64 // to this public line
}

// A PersonEffect is something to show to one person. Release is set when it
// asks for consent: offer yes and no, and answer with [Consent].
type PersonEffect struct {
	ID      string
	To      principal.ID
	Text    string
	Release string
}

// A Port delivers what Iris does.
//
// Implementations must
//   - treat a repeated ID as done;
//   - show a PersonEffect to that person and nobody else;
//   - return an error when it is not known to be delivered: it comes again.
type Port interface {
	Room(ctx context.Context, e RoomEffect) error
	Person(ctx context.Context, e PersonEffect) error
}

// An effect is a durable act on its way out.
type effect struct {
	id     string
	entry  room.Entry
	room   *RoomEffect
	person *PersonEffect
}

// effectID names the effect of the n-th entry. It shows nothing of n, which
// counts private entries too.
func (a *Agent) effectID(n uint64) string {
	mac := hmac.New(sha256.New, a.cfg.Secret)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	mac.Write(b[:])
	return hex.EncodeToString(mac.Sum(nil))[:16]
}

// effectOf is what an entry asks to deliver, if anything.
func effectOf(e room.Entry) (effect, bool) {
	b := open.Open(e.Body)
	if b.Effect == "" {
		return effect{}, false
	}
	out := effect{id: b.Effect, entry: e}
	switch {
	case e.Kind == room.KMessage:
		out.room = &RoomEffect{ID: b.Effect, Text: b.Message.Text}
	case e.Kind == room.KReact:
		out.room = &RoomEffect{ID: b.Effect, Emoji: b.Text, ReactTo: b.To}
	case e.Kind == room.KCaucus && e.Level == flow.RankPerson:
		out.person = &PersonEffect{ID: b.Effect, To: e.Owner, Text: b.Line.Text, Release: b.Release}
	default:
		return effect{}, false
	}
	return out, true
}

// remember keeps the outbox in step with a replayed entry.
func (a *Agent) remember(e room.Entry) {
	if e.Kind == room.KReceipt {
		for i, o := range a.outbox {
			if o.id == open.Open(e.Body).Effect {
				a.outbox = append(a.outbox[:i:i], a.outbox[i+1:]...)
				break
			}
		}
		return
	}
	if o, ok := effectOf(e); ok && a.cfg.Port != nil {
		a.outbox = append(a.outbox, o)
	}
}

func (a *Agent) deliver(ctx context.Context, e effect) {
	if a.cfg.Port == nil {
		return
	}
	a.mu.Lock()
	a.outbox = append(a.outbox, e)
	a.mu.Unlock()
	_ = a.flush(ctx) // what stays in the outbox comes with the next turn
}

// Flush delivers what an earlier turn could not. A turn does it by itself.
func (a *Agent) Flush(ctx context.Context) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	return a.flush(ctx)
}

// flush delivers the outbox in order and stops at the first failure. The turn
// is held.
func (a *Agent) flush(ctx context.Context) error {
	for {
		a.mu.Lock()
		if len(a.outbox) == 0 {
			a.mu.Unlock()
			return nil
		}
		e := a.outbox[0]
		a.mu.Unlock()
		var err error
		if e.room != nil {
			err = a.cfg.Port.Room(ctx, *e.room)
		} else {
			err = a.cfg.Port.Person(ctx, *e.person)
		}
		if err != nil {
			a.cfg.Logger.WarnContext(ctx, "effect not delivered", "effect", e.id, "level", e.entry.Level, "error", err)
			return err
		}
		if _, err := a.add(ctx, draft{kind: room.KReceipt, level: flow.RankSelf, parents: []uint64{e.entry.Seq}, body: room.Body{Effect: e.id}}); err != nil {
			return err
		}
		a.mu.Lock()
		a.outbox = a.outbox[1:]
		a.mu.Unlock()
	}
}
