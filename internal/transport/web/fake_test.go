package web

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox keeps records in memory and answers nothing by itself.
type inbox struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced with every record
	seq      int64
	kept     map[chat.Address][]transport.Seen
	ids      map[string]transport.Receipt
	fail     error // of Submit
	floor    int64 // records up to here are no longer kept
	commands []transport.Command
	answers  []transport.Answer
	got      []transport.Submission
	watching int
	hold     chan struct{} // Command waits for it if not nil
}

func newInbox() *inbox {
	return &inbox{changed: make(chan struct{}), kept: map[chat.Address][]transport.Seen{}, ids: map[string]transport.Receipt{}}
}

// add appends a record and returns its number.
func (b *inbox) add(conv chat.Address, r turn.Record) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addLocked(conv, r)
}

func (b *inbox) addLocked(conv chat.Address, r turn.Record) int64 {
	b.seq++
	b.kept[conv] = append(b.kept[conv], transport.Seen{Seq: b.seq, At: time.Unix(b.seq, 0), Record: r})
	close(b.changed)
	b.changed = make(chan struct{})
	return b.seq
}

// event appends an event of a turn.
func (b *inbox) event(conv chat.Address, id turn.ID, e turn.Event) int64 {
	e.Turn = id
	return b.add(conv, turn.Record{Turn: id, Event: &e})
}

func (b *inbox) Submit(_ context.Context, s transport.Submission) (transport.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return transport.Receipt{}, b.fail
	}
	b.got = append(b.got, s)
	key := s.Address.Channel() + " " + s.Message.ID
	if r, ok := b.ids[key]; ok {
		r.Duplicate = true
		return r, nil
	}
	if s.Message.Text == "help" {
		return transport.Receipt{Outcome: transport.Commanded, Reply: transport.Reply{Text: "ask me anything"}}, nil
	}
	r := transport.Receipt{Outcome: transport.Accepted, Turn: turn.NewID()}
	r.Seq = b.addLocked(s.Address, turn.Record{Turn: r.Turn, Accepted: &turn.Accepted{Message: s.Message, Origin: s.Origin}})
	b.ids[key] = r
	return r, nil
}

func (b *inbox) Command(ctx context.Context, c transport.Command) (transport.Reply, error) {
	b.mu.Lock()
	b.commands = append(b.commands, c)
	close(b.changed)
	b.changed = make(chan struct{})
	hold := b.hold
	b.mu.Unlock()
	if hold != nil && c.Verb != transport.Stop {
		select {
		case <-hold:
		case <-ctx.Done():
			return transport.Reply{}, ctx.Err()
		}
	}
	return transport.Reply{Text: fmt.Sprintf("_%s_", c.Verb)}, nil
}

func (b *inbox) Answer(_ context.Context, a transport.Answer) (transport.Reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, a)
	switch a.Ask {
	case "q1":
	case "forbidden":
		return transport.Reply{}, transport.ErrNotAllowed
	case "busy":
		return transport.Reply{}, transport.ErrBusy
	default:
		return transport.Reply{}, transport.ErrUnknownAsk
	}
	return transport.Reply{Text: "approved"}, nil
}

func (b *inbox) Watch(ctx context.Context, conv chat.Address, since int64) iter.Seq2[transport.Seen, error] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since == transport.Now {
		since = b.seq
	}
	return func(yield func(transport.Seen, error) bool) {
		b.count(1)
		defer b.count(-1)
		if since < b.floor && !yield(transport.Seen{}, transport.ErrTruncated) {
			return
		}
		for {
			b.mu.Lock()
			all, changed := b.kept[conv], b.changed
			b.mu.Unlock()
			for _, seen := range all {
				if seen.Seq <= since || seen.Seq <= b.floor {
					continue
				}
				if since = seen.Seq; !yield(seen, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (b *inbox) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watching += n
	close(b.changed)
	b.changed = make(chan struct{})
}

// until waits for a condition that the inbox's users bring about.
func (b *inbox) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		b.mu.Lock()
		done, changed := ok(), b.changed
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%s: did not happen", what)
		}
	}
}
