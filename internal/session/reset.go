package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// Reset makes the history of a conversation empty and writes the watermark
// behind which the log is not replayed into it. The log stays. The journal
// should hold a reset notice as well: without it a history lost later is
// restored from before the reset.
func (s *Store) Reset(ctx context.Context, addr chat.Address) error {
	c, err := s.acquire(addr)
	if err != nil {
		return err
	}
	defer s.release(c)
	if err := s.catchUp(ctx, c); err != nil {
		return err
	}
	if err := s.loadTails(c); err != nil {
		return err
	}
	seq := max(c.ctx.seq, c.log.last)
	if s.opts.Journal != nil {
		seq = max(seq, s.opts.Journal.Last(addr.Channel()))
	}
	return s.reset(c, seq, s.opts.Now())
}

// reset does the work for the record seq. The watermark goes first: a crash in
// between leaves a history that is too long, which the record then mends.
func (s *Store) reset(c *conv, seq int64, at time.Time) error {
	if _, err := s.root.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	log := int64(0)
	if seq >= c.log.last {
		log = c.log.end
	}
	head := newHeader(at, seq, log)
	var buf bytes.Buffer
	if err := encode(&buf, head); err != nil {
		return err
	}
	if err := s.replace(c.file(watermarkFile), []byte(stamp(at)+"\n")); err != nil {
		return fmt.Errorf("reset %s: %w", c.addr, err)
	}
	if err := s.replace(c.file(contextFile), buf.Bytes()); err != nil {
		return fmt.Errorf("reset %s: %w", c.addr, err)
	}
	s.letGo(c.holds(contextFile))
	s.files.drop(c.file(contextFile))
	c.ctx, c.sync, c.last = contextTail{}, syncCursor{}, entryMark{}
	return s.loadContext(c)
}

// Watermark returns the time of the last reset; false when there was none.
func (s *Store) Watermark(addr chat.Address) (time.Time, bool, error) {
	c, err := s.acquire(addr)
	if err != nil {
		return time.Time{}, false, err
	}
	defer s.release(c)
	return s.watermark(c)
}

func (s *Store) watermark(c *conv) (time.Time, bool, error) {
	data, err := s.root.ReadFile(c.file(watermarkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, err
	}
	t, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(data)))
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%s holds no time: %w", c.file(watermarkFile), ErrCorrupt)
	}
	return t, true, nil
}

// Settings returns the settings of a conversation, zero ones if it has none.
func (s *Store) Settings(_ context.Context, addr chat.Address) (Settings, error) {
	c, err := s.acquire(addr)
	if err != nil {
		return Settings{}, err
	}
	defer s.release(c)
	out, _, err := s.settings(c)
	return out, err
}

// SetSettings replaces the settings of a conversation. Keys of the file that
// this version does not know stay.
func (s *Store) SetSettings(_ context.Context, addr chat.Address, set Settings) error {
	c, err := s.acquire(addr)
	if err != nil {
		return err
	}
	defer s.release(c)
	_, all, err := s.settings(c)
	if err != nil {
		return err
	}
	delete(all, "verboseTools")
	if set.VerboseTools != nil {
		all["verboseTools"] = json.RawMessage(fmt.Sprint(*set.VerboseTools))
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.replace(c.file(settingsFile), append(data, '\n'))
}

func (s *Store) settings(c *conv) (out Settings, all map[string]json.RawMessage, err error) {
	all = map[string]json.RawMessage{}
	data, err := s.root.ReadFile(c.file(settingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return out, all, nil
	}
	if err != nil {
		return out, nil, err
	}
	if err := errors.Join(json.Unmarshal(data, &out), json.Unmarshal(data, &all)); err != nil || all == nil {
		return out, nil, fmt.Errorf("%s: %w: %v", c.file(settingsFile), ErrCorrupt, err)
	}
	return out, all, nil
}
