package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/turn"
)

// Project brings one journal record of a conversation over to its files: what
// people said and how turns ended to log.jsonl, entries of a Saved checkpoint
// to context.jsonl; a reset notice does what Reset does, any other notice is a
// line of the log. Records that leave nothing behind are ignored, so callers
// may hand over all of them. It is idempotent by seq and tolerates that
// neighbouring records arrive out of order. It writes to the kernel; SyncAll
// puts it on disk.
//
// The first call for an address compares its files with the journal.
func (s *Store) Project(ctx context.Context, addr chat.Address, seq int64, at time.Time, rec turn.Record) error {
	c, err := s.acquire(addr)
	if err != nil {
		return err
	}
	defer s.release(c)
	if err := s.catchUp(ctx, c); err != nil {
		return err
	}
	return s.project(c, seq, at, rec)
}

// CatchUp projects what the files lack of the journal. It works once per
// process and address; later calls return at once.
func (s *Store) CatchUp(ctx context.Context, addr chat.Address) error {
	c, err := s.acquire(addr)
	if err != nil {
		return err
	}
	defer s.release(c)
	return s.catchUp(ctx, c)
}

// CatchUpAll does CatchUp for every conversation the journal holds. Together
// with SyncAll it is what must have happened before the journal drops records.
// Streams that are no conversation are left alone; one conversation that
// cannot be caught up does not keep the others from it.
func (s *Store) CatchUpAll(ctx context.Context) error {
	if s.opts.Journal == nil {
		return nil
	}
	var errs []error
	for stream := range s.opts.Journal.Streams() {
		if err := ctx.Err(); err != nil {
			return err
		}
		addr, err := chat.Parse(stream)
		if err != nil || s.caughtUp(addr) {
			continue
		}
		if err := s.CatchUp(ctx, addr); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Store) catchUp(ctx context.Context, c *conv) error {
	j := s.opts.Journal
	if j == nil || s.caughtUp(c.addr) {
		return nil
	}
	stream := c.addr.Channel()
	if err := s.loadTails(c); err != nil {
		return err
	}
	since := min(c.log.low, c.ctx.complete())
	if c.addr.Space == chat.Bridge && c.ctx.size == 0 && s.opts.BridgeRetention > 0 {
		forgotten, err := s.forgotten(ctx, stream)
		if err != nil {
			return err
		}
		since = max(since, forgotten)
	}
	if j.Last(stream) > since {
		for r, err := range j.Read(ctx, stream, since) {
			if errors.Is(err, journal.ErrTruncated) {
				continue
			}
			if err != nil {
				return fmt.Errorf("catch up %s: %w", stream, err)
			}
			if passing(r.Data) {
				continue
			}
			var rec turn.Record
			if err := json.Unmarshal(r.Data, &rec); err != nil {
				s.opts.Logger.Warn("journal record skipped", "stream", stream, "seq", r.Seq, "err", err)
				continue
			}
			if err := s.project(c, r.Seq, r.Time, rec); err != nil {
				return err
			}
		}
	}
	s.setCaughtUp(c.addr, true)
	return nil
}

// passing recognises, without decoding it, an event that ends no turn: most of
// a journal is pieces of text.
func passing(data []byte) bool {
	if rest, ok := bytes.CutPrefix(data, []byte(`{"turn":"`)); ok {
		if _, rest, ok = bytes.Cut(rest, []byte(`",`)); ok {
			data = rest
		}
	} else {
		data = bytes.TrimPrefix(data, []byte("{"))
	}
	kind, ok := bytes.CutPrefix(data, []byte(`"event":{"kind":"`))
	return ok && !bytes.HasPrefix(kind, []byte(turn.Final+`"`)) && !bytes.HasPrefix(kind, []byte(turn.Failed+`"`))
}

// project writes what rec leaves behind.
func (s *Store) project(c *conv, seq int64, at time.Time, rec turn.Record) error {
	switch {
	case rec.Accepted != nil:
		return s.line(c, seq, said(rec.Accepted.Message, rec.Turn, at))
	case rec.Heard != nil:
		return s.line(c, seq, said(*rec.Heard, "", at))
	case rec.Event != nil && rec.Event.Terminal():
		if l, ok := answered(*rec.Event, rec.Turn, at); ok {
			return s.line(c, seq, l)
		}
	case rec.Notice != nil && rec.Notice.Reset:
		if err := s.loadTails(c); err != nil {
			return err
		}
		if !c.ctx.has(seq) {
			when := rec.Notice.At
			if when.IsZero() {
				when = at
			}
			return s.reset(c, seq, when)
		}
	case rec.Notice != nil && rec.Notice.Text != "":
		return s.line(c, seq, botLine(rec.Notice.Text, "", at))
	case rec.Checkpoint != nil:
		return s.checkpoint(c, seq, at, rec)
	}
	return nil
}

// said is the line of a message from outside.
func said(m chat.Message, id turn.ID, at time.Time) Line {
	l := Line{
		Date: m.At, TS: m.ID, User: m.From.ID, UserName: m.From.Name, DisplayName: m.From.Display,
		Text: m.Text, Attachments: m.Files, Turn: string(id),
	}
	if l.Date.IsZero() {
		l.Date = at
	}
	if l.Attachments == nil {
		l.Attachments = []chat.File{}
	}
	return l
}

// answered is the line of how a turn ended; there is none when nothing was
// posted.
func answered(e turn.Event, id turn.ID, at time.Time) (Line, bool) {
	text := e.Text
	if e.Kind == turn.Failed {
		if text == "" {
			text = e.Error
		}
		l := botLine(text, id, at)
		l.Failed = string(e.Code)
		if l.Failed == "" {
			l.Failed = string(turn.CodeFailed)
		}
		return l, true
	}
	return botLine(text, id, at), !e.Silent && text != ""
}

// botLine is a line of Iris. Its ts has the form of the API's ids; the id of
// the platform is known to delivery only, and later.
func botLine(text string, id turn.ID, at time.Time) Line {
	ts := strconv.FormatInt(at.Unix(), 10) + fmt.Sprintf(".%06d", at.Nanosecond()/1000)
	return Line{Date: at, TS: ts, User: "bot", Text: text, Attachments: []chat.File{}, IsBot: true, Turn: string(id)}
}

// line appends one line to the log unless its record is there.
func (s *Store) line(c *conv, seq int64, l Line) error {
	if c.addr.Space == chat.Bridge {
		return nil // its job log has the replies; the questions are in the asker's log
	}
	if err := s.loadLog(c); err != nil {
		return err
	}
	if c.log.has(seq) {
		return nil
	}
	l.Seq, l.Date = seq, l.Date.UTC()
	var buf bytes.Buffer
	if err := encode(&buf, l); err != nil {
		return fmt.Errorf("log line %d of %s: %w", seq, c.addr, err)
	}
	start, torn := c.log.end, c.log.open || c.log.end < c.log.size
	if err := s.write(c, logFile, &c.log.extent, buf.Bytes()); err != nil {
		return err
	}
	c.log.add(seq)
	if torn {
		start = c.log.end - int64(buf.Len())
	}
	c.marks.add(start, markOf(l, c.log.end))
	return nil
}

// checkpoint appends the entries of a Saved in one write.
func (s *Store) checkpoint(c *conv, seq int64, at time.Time, rec turn.Record) error {
	if err := s.loadContext(c); err != nil {
		return err
	}
	if c.ctx.has(seq) {
		return nil
	}
	var saved Saved
	if json.Unmarshal(rec.Checkpoint, &saved) != nil || len(saved.Entries) == 0 {
		return nil // the state of a runner that keeps no history here
	}
	var buf bytes.Buffer
	var last string
	if c.ctx.end == 0 {
		if err := encode(&buf, newHeader(s.opts.Now(), 0, 0)); err != nil {
			return err
		}
	}
	for i, e := range saved.Entries {
		if e.ID == "" {
			e.ID = fmt.Sprintf("%d-%d", seq, i)
		}
		if e.At.IsZero() {
			e.At = at
		}
		if e.Turn == "" {
			e.Turn = string(rec.Turn)
		}
		if e.Type == "" {
			e.Type = Said
		}
		e.Seq, e.Log, e.At = seq, c.position(), e.At.UTC()
		if seq == c.ctx.seq && c.ctx.partial[e.ID] {
			continue
		}
		if err := encode(&buf, e); err != nil {
			return fmt.Errorf("entry %s of %s: %w", e.ID, c.addr, err)
		}
		c.sync.save(e.Messages)
		last = e.ID
	}
	if buf.Len() > 0 {
		fresh := c.ctx.end == 0
		if err := s.write(c, contextFile, &c.ctx.extent, buf.Bytes()); err != nil {
			return err
		}
		if fresh {
			c.ctx.head = headerOf(buf.Bytes())
		}
		// Whoever had this saved asks on from here.
		c.last = entryMark{head: c.ctx.head.ID, id: last, off: c.ctx.end}
	}
	c.ctx.seq, c.ctx.partial, c.ctx.log = seq, nil, c.position()
	return nil
}
