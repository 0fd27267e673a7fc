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
	Poll    string // the item whose vote the message opens: offer its ballots
}

// A PersonEffect is something to show to one person. Release is set when it
// asks for consent: offer yes and no, and answer with [Consent].
type PersonEffect struct {
	ID      string
	To      principal.ID
	Text    string
	Release string
}

// A HostEffect is something to show to whoever runs the room, who may be one of
// the people in it. It was written from what the room sees.
type HostEffect struct {
	ID     string
	Intent string // one of tool's: stuck, conflict, safety, needs_host
	Item   string // what it is about, if anything
	Text   string
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

// A HostPort is a [Port] that reaches whoever runs the room too. A room with a
// tool on the host and a port needs one.
type HostPort interface {
	Port
	// Host is under the rules of Port.
	Host(ctx context.Context, e HostEffect) error
}

// An effect is a durable act on its way out.
type effect struct {
	id     string
	seq    uint64 // of its entry
	level  flow.Rank
	room   *RoomEffect
	person *PersonEffect
	host   *HostEffect
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
	out := effect{id: b.Effect, seq: e.Seq, level: e.Level}
	switch {
	case e.Kind == room.KMessage:
		out.room = &RoomEffect{ID: b.Effect, Text: b.Message.Text, Poll: b.Poll}
	case e.Kind == room.KReact:
		out.room = &RoomEffect{ID: b.Effect, Emoji: b.Text, ReactTo: b.To}
	case e.Kind == room.KCaucus && e.Level == flow.RankPerson:
		out.person = &PersonEffect{ID: b.Effect, To: e.Owner, Text: b.Line.Text, Release: b.Release}
	case e.Kind == room.KTell:
		out.host = &HostEffect{ID: b.Effect, Intent: b.Intent, Item: b.Item, Text: b.Text}
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
		switch {
		case e.room != nil:
			err = a.cfg.Port.Room(ctx, *e.room)
		case e.person != nil:
			err = a.cfg.Port.Person(ctx, *e.person)
		default:
			if p, ok := a.cfg.Port.(HostPort); ok {
				err = p.Host(ctx, *e.host)
			}
		}
		if err != nil {
			a.cfg.Logger.WarnContext(ctx, "effect not delivered", "effect", e.id, "level", e.level, "error", err)
			return err
		}
		if _, err := a.add(ctx, draft{kind: room.KReceipt, level: flow.RankSelf, parents: []uint64{e.seq}, body: room.Body{Effect: e.id}}); err != nil {
			return err
		}
		a.mu.Lock()
		a.outbox = a.outbox[1:]
		a.mu.Unlock()
	}
}
