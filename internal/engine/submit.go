package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// maxMessageID bounds what a platform may call a message; the ids of all known
// platforms are far shorter.
const maxMessageID = 256

// Submit routes a message and returns when what became of it is on disk. It
// waits for the end of recovery, and not for a turn. A message (or a turn id
// chosen by the submitter) that was taken before yields the first receipt again
// with Duplicate set, also when the lane is full.
//
// When the message is a command it is acted on; compaction and reset go on after
// Submit has returned and tell their result in a Notice.
//
// Errors: transport.ErrBusy, transport.ErrClosing, transport.ErrUnknownRunner;
// chat.ErrBadID for an address that names no conversation. Any other error says
// that the message may or may not have been taken: submit it again.
func (e *Engine) Submit(ctx context.Context, s transport.Submission) (transport.Receipt, error) {
	if err := e.await(ctx); err != nil {
		return transport.Receipt{}, err
	}
	if err := checkAddress(s.Address); err != nil {
		return transport.Receipt{}, err
	}
	if s.Origin == "" {
		s.Origin = turn.FromChat
	}
	if s.Message.At.IsZero() {
		s.Message.At = e.opts.Now()
	}
	if e.opts.Seal != nil {
		if err := e.opts.Seal(ctx, &s); err != nil {
			return transport.Receipt{}, err
		}
	}
	d := route.Decide(s, e.opts.Snapshot(s.Address))
	if settled, r, err := e.answered(ctx, s, d); settled {
		return r, err
	}
	switch d.Kind {
	case route.Ignore:
		return transport.Receipt{Outcome: transport.Ignored}, nil
	case route.Log:
		return e.hear(ctx, s.Address, d.Conversation, s.Message)
	case route.Command:
		return e.commanded(ctx, s, d)
	}
	if e.runner(d.Runner) == nil {
		return transport.Receipt{}, fmt.Errorf("%q: %w", d.Runner, transport.ErrUnknownRunner)
	}
	if d.Prompt != "" {
		s.Message.Prompt = d.Prompt
	}
	return e.accept(ctx, s, d, nil)
}

// commanded logs a command, so that its repeat is known as one, and acts on it.
func (e *Engine) commanded(ctx context.Context, s transport.Submission, d route.Decision) (transport.Receipt, error) {
	r, err := e.hear(ctx, s.Address, d.Conversation, s.Message)
	r.Outcome = transport.Commanded
	if err != nil || r.Duplicate {
		return r, err
	}
	r.Reply, _, err = e.command(ctx, transport.Command{
		Conversation: d.Conversation, Verb: d.Verb, Argument: d.Argument, From: s.Message.From,
	})
	if err != nil && r.Reply.Text == "" {
		r.Reply.Text = "_" + err.Error() + "_"
	}
	return r, nil
}

// identify gives m an id if it has none and returns the key under which it is
// known; empty if nobody could submit the same message again.
func (e *Engine) identify(addr chat.Address, m *chat.Message, id turn.ID) (key string, err error) {
	switch {
	case len(m.ID) > maxMessageID:
		return "", fmt.Errorf("message id of %d bytes: at most %d", len(m.ID), maxMessageID)
	case m.ID != "":
	case id != "":
		m.ID = string(id)
	default:
		m.ID = string(turn.NewID())
		return "", nil
	}
	return "msg:" + addr.Channel() + ":" + m.ID, nil
}

// accept opens a turn. a, when not nil, is told whether a new one was: when its
// message is on disk, and before it can run. An early turn begins meanwhile; what
// it writes comes after its message in the journal, so that nothing of it can be
// on disk, and no tool can run, before that is.
func (e *Engine) accept(ctx context.Context, s transport.Submission, d route.Decision, a *Settlement) (r transport.Receipt, err error) {
	taken := false
	defer func() {
		if !taken {
			a.done(false)
		}
	}()
	if err := checkAddress(d.Conversation); err != nil {
		return transport.Receipt{}, err
	}
	if s.Turn != "" {
		if _, err := turn.ParseID(string(s.Turn)); err != nil {
			return transport.Receipt{}, err
		}
	}
	key, err := e.identify(s.Address, &s.Message, s.Turn)
	if err != nil {
		return transport.Receipt{}, err
	}
	if r, known, err := e.known(ctx, key, s.Turn, d.Conversation); known || err != nil {
		return r, err
	}

	l := e.acquire(d.Conversation)
	defer e.release(l)
	t := newTask(l)
	t.id, t.at = s.Turn, e.opts.Now()
	if t.id == "" {
		t.id = turn.NewID()
	}
	t.accepted = turn.Accepted{Message: s.Message, Origin: s.Origin, Runner: d.Runner, Answers: a.question(), Supersedes: s.Supersedes}
	if err := e.reserve(l, t); errors.Is(err, errTaken) {
		r, _, err := e.known(ctx, "", t.id, d.Conversation)
		return r, err
	} else if err != nil {
		return transport.Receipt{}, err
	}

	// Whoever must be told before the turn runs is told when it is on disk.
	t.early = a == nil && s.Accepted == nil && e.opts.Early != nil && e.opts.Early(d.Runner)
	receipt := transport.Receipt{Outcome: transport.Accepted, Turn: t.id}
	rec := turn.Record{Turn: t.id, Accepted: &t.accepted}
	seq, err := e.write(l, journal.Entry{Key: key, Pin: string(t.id)}, rec, true, func(seq int64) {
		e.mu.Lock()
		defer e.mu.Unlock()
		t.seq = seq
		l.reserved--
		receipt.Waiting = l.occupancy() - l.reserved
		l.queue = append(l.queue, t)
		if t.early {
			e.start(l)
		} // else it is driven when it may run
	})
	var dup *journal.DuplicateError
	switch {
	case errors.As(err, &dup):
		e.unreserve(l, t, err)
		return e.duplicate(ctx, dup.Stream, dup.Seq)
	case err != nil:
		e.unreserve(l, t, err)
		return transport.Receipt{}, err
	}
	receipt.Seq = seq
	if err = e.settle(l, seq); err != nil {
		e.lose(t, err)
	} else {
		taken = true
		a.done(true)
		if s.Accepted != nil {
			s.Accepted(receipt)
		}
		close(t.ready)
	}
	e.mu.Lock()
	e.start(l)
	e.mu.Unlock()
	if err != nil {
		return transport.Receipt{}, err
	}
	if s.Supersedes {
		e.supersede(t)
	}
	return receipt, nil
}

// errTaken reports that the turn's id is in use.
var errTaken = errors.New("the turn exists")

// reserve takes a place in the lane before anything is written, so that a full
// lane refuses without a trace.
func (e *Engine) reserve(l *lane, t *task) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closing:
		return transport.ErrClosing
	case l.occupancy() > e.opts.MaxWaiting && !t.accepted.Supersedes:
		return transport.ErrBusy
	case e.turns[t.id] != nil:
		return errTaken
	}
	l.reserved++
	e.turns[t.id] = t
	return nil
}

// unreserve gives the place back when t was not written.
func (e *Engine) unreserve(l *lane, t *task, err error) {
	e.mu.Lock()
	l.reserved--
	e.mu.Unlock()
	e.lose(t, err)
}

// lose marks a turn of which it is not known whether it was accepted. One that
// has begun can write nothing any more, since the journal is broken; if it has
// ended already, it was on disk.
func (e *Engine) lose(t *task, err error) {
	if !e.retire(t) {
		close(t.ready)
		return
	}
	t.lost, t.err = true, err
	close(t.ready)
	close(t.done)
}

// retire takes t from the open turns and reports whether it was one of them:
// whoever does so closes t.done.
func (e *Engine) retire(t *task) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := e.turns[t.id] == t
	if open {
		delete(e.turns, t.id)
	}
	return open
}

// known looks for an earlier submission of the same message or turn.
func (e *Engine) known(ctx context.Context, key string, id turn.ID, conv chat.Address) (r transport.Receipt, known bool, err error) {
	if key != "" {
		if stream, seq, ok := e.journal.Lookup(key); ok {
			r, err = e.duplicate(ctx, stream, seq)
			return r, true, err
		}
	}
	if id == "" {
		return r, false, nil
	}
	if t := e.open(id); t != nil {
		select {
		case <-t.ready:
		case <-ctx.Done():
			return r, true, ctx.Err()
		}
		if t.lost {
			return r, true, t.err
		}
	}
	s, err := e.Turn(ctx, id)
	switch {
	case errors.Is(err, transport.ErrUnknownTurn):
		return r, false, nil
	case err != nil:
		return r, false, err
	case s.Conversation != conv:
		return r, false, fmt.Errorf("turn %s belongs to another conversation", id)
	}
	return transport.Receipt{Outcome: transport.Accepted, Turn: id, Seq: s.Seq, Duplicate: true, Waiting: s.Waiting}, true, e.sync()
}

// duplicate is the receipt of a message that was taken before: it, too, is
// given only when the first record is on disk.
func (e *Engine) duplicate(ctx context.Context, stream string, seq int64) (transport.Receipt, error) {
	if err := e.sync(); err != nil {
		return transport.Receipt{}, err
	}
	r := transport.Receipt{Outcome: transport.Accepted, Seq: seq, Duplicate: true}
	rec, err := e.readOne(ctx, stream, seq)
	switch {
	case errors.Is(err, journal.ErrTruncated):
		return r, nil // it was answered so long ago that only its key is kept
	case err != nil:
		return r, err
	}
	r.Turn = rec.Turn
	if rec.Heard != nil {
		r.Outcome = transport.Logged
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.turns[r.Turn]; t != nil {
		r.Waiting = t.waiting()
	}
	return r, nil
}

// readOne reads one record of a stream.
func (e *Engine) readOne(ctx context.Context, stream string, seq int64) (turn.Record, error) {
	for r, err := range e.journal.Read(ctx, stream, seq-1) {
		if err != nil {
			return turn.Record{}, fmt.Errorf("read record %d of %s: %w", seq, stream, err)
		}
		if r.Seq != seq {
			break
		}
		var rec turn.Record
		if err := json.Unmarshal(r.Data, &rec); err != nil {
			return rec, fmt.Errorf("record %d of %s: %w", seq, stream, err)
		}
		return rec, nil
	}
	return turn.Record{}, journal.ErrTruncated
}
