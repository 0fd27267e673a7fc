package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/iris-operator/iris/facilitate/journal"
)

const checkpointName = "checkpoint.json"

// window is how much of the end of a file is read at first to find the records
// behind a checkpoint. It grows until it reaches back far enough.
const window = 64 << 10

// SaveCheckpoint implements [journal.Store].
func (s *Store) SaveCheckpoint(_ context.Context, room string, c journal.Checkpoint) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, dir, err := s.room(room)
	if err != nil {
		return err
	}
	if err := s.replace(filepath.Join(dir, checkpointName), data); err != nil {
		return fmt.Errorf("checkpoint of %s: %w", room, err)
	}
	return nil
}

// Checkpoint implements [journal.Store]. A file that does not parse is none.
func (s *Store) Checkpoint(_ context.Context, room string) (journal.Checkpoint, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, dir, err := s.room(room)
	if err != nil {
		return journal.Checkpoint{}, false, err
	}
	return checkpoint(dir)
}

func checkpoint(dir string) (c journal.Checkpoint, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, checkpointName))
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, fmt.Errorf("read the checkpoint: %w", err)
	}
	if json.Unmarshal(data, &c) != nil || c.Seq == 0 {
		return journal.Checkpoint{}, false, nil
	}
	return c, true, nil
}

// end returns the last record of a room without reading what lies before its
// checkpoint. False: the whole journal has to be read, because there is no
// checkpoint, it does not fit, or a crash left something behind.
func (s *Store) end(dir string) (uint64, bool) {
	c, ok, err := checkpoint(dir)
	if err != nil || !ok {
		return 0, false
	}
	recs, whole, err := since(dir, c.Seq-1)
	if err != nil || !whole || len(recs) == 0 || recs[0].Hash != c.Hash {
		return 0, false
	}
	return recs[len(recs)-1].Seq, true
}

// since is read for the records after from. What lies before is not looked at.
func since(dir string, from uint64) (recs []journal.Record, whole bool, err error) {
	if from == 0 {
		return read(dir)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, false, err
	}
	whole = true
	for _, name := range names {
		got, complete, err := tail(name, from)
		if err != nil {
			return nil, false, err
		}
		recs, whole = append(recs, got...), whole && complete
	}
	slices.SortFunc(recs, func(a, b journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, r := range recs {
		if r.Seq != from+uint64(i)+1 {
			return recs[:i], false, nil
		}
	}
	return recs, whole, nil
}

// tail returns the records of one file after from, which are at its end, and
// whether its last line is complete.
func tail(name string, from uint64) (recs []journal.Record, complete bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, false, fmt.Errorf("read journal: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("read journal: %w", err)
	}
	for n := int64(window); ; n *= 4 {
		start := max(0, info.Size()-n)
		data := make([]byte, info.Size()-start)
		if _, err := f.ReadAt(data, start); err != nil && !errors.Is(err, io.EOF) {
			return nil, false, fmt.Errorf("read journal: %w", err)
		}
		if start > 0 {
			_, rest, ok := bytes.Cut(data, []byte("\n"))
			if !ok {
				continue
			}
			data = rest
		}
		line, _, ok := bytes.Cut(data, []byte("\n"))
		var first struct{ Seq uint64 }
		if start > 0 && (!ok || json.Unmarshal(line, &first) != nil || first.Seq > from) {
			continue
		}
		return lines(name, data, from)
	}
}

// lines parses the lines of data after from. One that does not parse is an error
// unless it is the last.
func lines(name string, data []byte, from uint64) (recs []journal.Record, complete bool, err error) {
	for len(data) > 0 {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		var r journal.Record
		if !ok || json.Unmarshal(line, &r) != nil {
			if len(rest) > 0 {
				return nil, false, fmt.Errorf("%s is corrupt in the middle: %w", filepath.Base(name), journal.ErrChain)
			}
			return recs, false, nil
		}
		if r.Seq > from {
			recs = append(recs, r)
		}
		data = rest
	}
	return recs, true, nil
}
