package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Serve applies retention at once and then every Options.TrimEvery until ctx
// ends; it then returns nil. A failure is logged and tried again next time.
func (j *Journal) Serve(ctx context.Context) error {
	tick := time.NewTicker(j.opts.TrimEvery)
	defer tick.Stop()
	for {
		if n, err := j.Trim(); err != nil {
			j.opts.Log.Error("journal: retention", "err", err)
		} else if n > 0 {
			j.opts.Log.Info("journal: old segments dropped", "segments", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Trim applies retention and returns how many segments it dropped. Segments
// go whole and oldest first. It never drops the active segment, nor one that
// holds a pinned record or anything after one. Keys whose records go are free
// again.
func (j *Journal) Trim() (dropped int, err error) {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	if err := j.usable(); err != nil {
		return 0, err
	}
	due := j.due()
	if len(due) == 0 {
		j.wmu.Lock()
		j.mu.Lock()
		j.keys = j.keys.sweep(j.oldest(), 0)
		j.mu.Unlock()
		j.wmu.Unlock()
		return 0, nil
	}
	if j.opts.BeforeDrop != nil {
		if err := j.opts.BeforeDrop(); err != nil {
			return 0, fmt.Errorf("before dropping: %w", err)
		}
	}
	for _, s := range due {
		if err := j.drop(s); err != nil {
			return dropped, err
		}
		dropped++
	}
	return dropped, nil
}

// due lists the segments that retention no longer keeps.
func (j *Journal) due() []*segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segs) == 0 {
		return nil
	}
	pinned := j.last + 1
	for _, p := range j.pins {
		pinned = min(pinned, p.Seq)
	}
	var total int64
	for _, s := range j.segs {
		total += s.x.size
	}
	oldest := j.opts.Clock().Add(-j.opts.MaxAge).UnixMicro()
	var due []*segment
	for _, s := range j.segs[:len(j.segs)-1] {
		old := j.opts.MaxAge >= 0 && s.x.newest < oldest
		big := j.opts.MaxBytes >= 0 && total > j.opts.MaxBytes
		if !old && !big {
			break
		}
		if s.x.last >= pinned {
			j.opts.Log.Warn("journal: a pin keeps old records", "pinned", pinned, "segment", s.path)
			break
		}
		due = append(due, s)
		total -= s.x.size
	}
	return due
}

// drop removes the oldest segment. The files go first, one by one and made
// sure of, so that what remains is always whole from some record on.
func (j *Journal) drop(s *segment) error {
	spans, err := s.spans()
	if err != nil {
		return err
	}
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("drop a segment: %w", err)
	}
	if err := os.Remove(indexPath(s.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("drop a segment: %w", err)
	}
	if err := j.syncDir(); err != nil {
		return fmt.Errorf("drop a segment: %w", err)
	}
	j.wmu.Lock()
	defer j.wmu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segs = j.segs[1:]
	floor := s.x.last + 1
	for i := range spans {
		st := j.streams[spans[i].name]
		switch {
		case st == nil:
		case st.last < floor:
			delete(j.streams, st.name)
		default:
			st.gone, st.first = spans[i].last, max(st.first, floor)
		}
	}
	j.keys = j.keys.sweep(j.oldest(), floor)
	return s.close()
}

// spans lists the streams of a sealed segment.
func (s *segment) spans() ([]span, error) {
	if s.x.spans != nil {
		return s.x.spans, nil
	}
	if x, err := readIndex(s.path, s.x.first, s.x.size); err == nil {
		return x.spans, nil
	}
	f, err := s.file()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path, err)
	}
	x := &index{first: s.x.first, last: s.x.first - 1}
	if _, err := scan(s.path, f, x, s.x.size, func(string) bool { return false }); err != nil {
		return nil, err
	}
	return x.spans, nil
}
