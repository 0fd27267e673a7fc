package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// write appends one record to the lane's stream. entry brings the key and the
// pins. If project is set the record waits for settle to show it to the
// archive. then, if not nil, is called before anybody else can write to the
// conversation. When write returns nil the record is in the kernel. A full disk
// is no broken journal: nothing was written, and the caller may try again.
func (e *Engine) write(l *lane, entry journal.Entry, rec turn.Record, project bool, then func(seq int64)) (int64, error) {
	if e.opts.Redact != nil {
		rec = e.opts.Redact(rec)
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return 0, fmt.Errorf("encode a record of %s: %w", l.conv, err)
	}
	entry.Data = data
	l.order.Lock()
	defer l.order.Unlock()
	seq, err := e.append(l, entry)
	if err != nil {
		return 0, err
	}
	if project {
		l.pending = append(l.pending, projection{seq, e.opts.Now(), rec})
	}
	if then != nil {
		then(seq)
	}
	return seq, nil
}

// append puts entries into the lane's stream, all or none. l.order must be held.
func (e *Engine) append(l *lane, entries ...journal.Entry) (int64, error) {
	// Nobody's patience decides whether a record is whole: no ctx of a caller.
	seq, err := e.journal.Append(context.Background(), l.stream, journal.Any, entries...)
	if err != nil {
		var dup *journal.DuplicateError
		if !errors.As(err, &dup) && !errors.Is(err, syscall.ENOSPC) {
			e.fail(err)
		}
		return 0, err
	}
	return seq, nil
}

// settle returns when everything up to seq is on disk and in the archive. An
// archive that fails is logged and catches up later; the journal has it all.
func (e *Engine) settle(l *lane, seq int64) error {
	if err := e.sync(); err != nil {
		return err
	}
	if e.opts.Archive == nil {
		l.order.Lock()
		l.pending = nil
		l.order.Unlock()
		return nil
	}
	l.archiving.Lock()
	defer l.archiving.Unlock()
	l.order.Lock()
	n := 0
	for n < len(l.pending) && l.pending[n].seq <= seq {
		n++
	}
	take := l.pending[:n]
	if l.pending = l.pending[n:]; len(l.pending) == 0 {
		l.pending = nil
	}
	l.order.Unlock()
	if len(take) == 0 {
		return nil // another writer has brought it over
	}
	if err := e.archive(l.conv, take); err != nil {
		e.mu.Lock()
		e.behind[l.conv] = struct{}{}
		e.mu.Unlock()
		e.log.Error("archive a conversation", "conversation", l.conv, "seq", seq, "err", err)
	}
	return nil
}

func (e *Engine) sync() error {
	err := e.journal.Sync(context.Background())
	if err != nil {
		e.fail(err)
	}
	return err
}

// archive brings records over, after whatever a failure left out. The lane's
// archiving must be held.
func (e *Engine) archive(conv chat.Address, take []projection) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	ctx := context.Background()
	e.mu.Lock()
	_, behind := e.behind[conv]
	e.mu.Unlock()
	if behind {
		if err := e.opts.Archive.CatchUp(ctx, conv); err != nil {
			return err
		}
		e.mu.Lock()
		delete(e.behind, conv)
		e.mu.Unlock()
	}
	for _, p := range take {
		if err := e.opts.Archive.Project(ctx, conv, p.seq, p.at, p.rec); err != nil {
			return err
		}
	}
	return nil
}

// record writes something that belongs to no lane task and settles it.
func (e *Engine) record(ctx context.Context, conv chat.Address, key string, rec turn.Record) (int64, error) {
	if err := e.await(ctx); err != nil {
		return 0, err
	}
	if err := checkAddress(conv); err != nil {
		return 0, err
	}
	l := e.acquire(conv)
	defer e.release(l)
	seq, err := e.write(l, journal.Entry{Key: key}, rec, true, nil)
	if err != nil {
		return 0, err
	}
	return seq, e.settle(l, seq)
}

// Hear logs a message that starts no turn and returns its place in the journal.
// A message with an id that was heard or accepted before is not logged again.
func (e *Engine) Hear(ctx context.Context, conv chat.Address, m chat.Message) (int64, error) {
	receipt, err := e.hear(ctx, conv, conv, m)
	return receipt.Seq, err
}

// Notice puts a line of Iris's own into a conversation, outside of any turn.
func (e *Engine) Notice(ctx context.Context, conv chat.Address, text string) error {
	_, err := e.record(ctx, conv, "", turn.Record{Notice: &turn.Notice{Text: text, At: e.opts.Now()}})
	return err
}

// NoticeOnce is Notice for a line that must not be said twice: key names it, for
// ever as far as the journal remembers.
func (e *Engine) NoticeOnce(ctx context.Context, conv chat.Address, key, text string) error {
	_, err := e.record(ctx, conv, "notice:"+key, turn.Record{Notice: &turn.Notice{Text: text, At: e.opts.Now()}})
	var dup *journal.DuplicateError
	if errors.As(err, &dup) {
		return e.sync()
	}
	return err
}

// Save keeps a runner's state outside of a turn, as Sink.Checkpoint does inside
// one. A manual compaction uses it.
func (e *Engine) Save(ctx context.Context, conv chat.Address, state any) error {
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode a state of %s: %w", conv, err)
	}
	_, err = e.record(ctx, conv, "", turn.Record{Checkpoint: data})
	return err
}

// checkAddress makes sure that the stream of a conversation leads back to it,
// which recovery relies on.
func checkAddress(a chat.Address) error {
	back, err := chat.Parse(a.Channel())
	if err != nil {
		return err
	}
	if back != a {
		return fmt.Errorf("address %+v is not what channel %q names", a, a.Channel())
	}
	return nil
}

// hear logs m, which was said at addr, in conv.
func (e *Engine) hear(ctx context.Context, addr, conv chat.Address, m chat.Message) (transport.Receipt, error) {
	key, err := e.identify(addr, &m, "")
	if err != nil {
		return transport.Receipt{}, err
	}
	seq, err := e.record(ctx, conv, key, turn.Record{Heard: &m})
	var dup *journal.DuplicateError
	if errors.As(err, &dup) {
		return e.duplicate(ctx, dup.Stream, dup.Seq)
	}
	return transport.Receipt{Outcome: transport.Logged, Seq: seq}, err
}
