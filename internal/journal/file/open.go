package file

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/lockfile"
)

// start takes the lock and finds out what the directory holds.
func (j *Journal) start() error {
	if err := os.MkdirAll(j.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("make the journal's directory: %w", err)
	}
	if err := j.takeLock(); err != nil {
		return err
	}
	if err := j.list(); err != nil {
		return err
	}
	for i, s := range j.segs {
		active := i == len(j.segs)-1
		if i > 0 && s.x.first != j.last+1 {
			return corrupt(s.path, 0, fmt.Sprintf("the segment before it ends with record %d", j.last))
		}
		if i == 0 {
			j.last = s.x.first - 1
		}
		if err := j.load(s, active); err != nil {
			return err
		}
	}
	if a := j.active(); a != nil {
		j.synced.Store(a.x.first - 1)
	}
	return nil
}

// takeLock locks the directory for as long as the journal, or its process,
// lives.
func (j *Journal) takeLock() error {
	path := filepath.Join(j.opts.Dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock the journal: %w", err)
	}
	if err := lockfile.Try(f); err != nil {
		defer f.Close()
		if !errors.Is(err, lockfile.ErrHeld) {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		pid, _ := io.ReadAll(io.LimitReader(f, 20))
		return fmt.Errorf("%w: %s (pid %s)", ErrLocked, j.opts.Dir, bytes.TrimSpace(pid))
	}
	j.lock = f
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return err
}

// list finds the segments and removes what a crash left over.
func (j *Journal) list() error {
	entries, err := os.ReadDir(j.opts.Dir)
	if err != nil {
		return fmt.Errorf("list the journal: %w", err)
	}
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), segmentExt)
		if !ok {
			continue
		}
		first, err := strconv.ParseInt(digits, 10, 64)
		path := filepath.Join(j.opts.Dir, e.Name())
		if err != nil || first < 1 || segmentPath(j.opts.Dir, first) != path {
			return corrupt(path, 0, "not the name of a segment")
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("list the journal: %w", err)
		}
		s := &segment{path: path, open: j.opts.OpenFile}
		s.x.first, s.x.last, s.x.size = first, first-1, info.Size()
		j.segs = append(j.segs, s)
	}
	slices.SortFunc(j.segs, func(a, b *segment) int { return cmp.Compare(a.x.first, b.x.first) })
	for _, e := range entries {
		path := filepath.Join(j.opts.Dir, e.Name())
		stray := strings.HasSuffix(path, tempExt)
		if strings.HasSuffix(path, indexExt) {
			stray = !slices.ContainsFunc(j.segs, func(s *segment) bool { return indexPath(s.path) == path })
		}
		if stray {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove a leftover: %w", err)
			}
		}
	}
	return nil
}

// load takes in a segment: by its index as far as that goes, and by reading
// the rest.
func (j *Journal) load(s *segment, active bool) error {
	size := s.x.size
	x, err := readIndex(s.path, s.x.first, size)
	switch {
	case err != nil:
		if !active {
			j.opts.Log.Warn("journal: index not usable, reading the segment", "segment", s.path, "err", err)
		}
		x = &index{first: s.x.first, last: s.x.first - 1}
	case !active && x.size < size:
		x = &index{first: s.x.first, last: s.x.first - 1}
	}
	flag := os.O_RDONLY
	if active {
		flag = os.O_RDWR | os.O_APPEND
	}
	s.indexed = err == nil && x.size == size
	if active || !s.indexed {
		if s.f, err = s.open(s.path, flag, 0); err != nil {
			return fmt.Errorf("open a segment: %w", err)
		}
	}
	if x.size < size {
		torn, err := scan(s.path, s.f, x, size, j.pinnedBefore(s.x.first))
		if err != nil {
			return err
		}
		if torn != "" {
			if !active {
				return corrupt(s.path, x.size, torn)
			}
			if err := j.cut(s, x.size, size, torn); err != nil {
				return err
			}
			s.indexed = false
		}
	}
	s.x = *x
	j.fold(x)
	if !active {
		if !s.indexed {
			if err := x.write(s.path); err == nil {
				s.indexed = true
			}
		}
		if s.indexed {
			s.x.thin()
		}
	}
	return nil
}

const tornExt = ".torn"

// cut drops the torn end of the active segment. What is more than the rest of
// a last line is kept in a file beside it, for people.
func (j *Journal) cut(s *segment, from, size int64, why string) error {
	tail := make([]byte, size-from)
	if _, err := s.f.ReadAt(tail, from); err != nil {
		return fmt.Errorf("read the torn end of %s: %w", s.path, err)
	}
	if bytes.IndexByte(tail, '\n') >= 0 {
		if err := os.WriteFile(fmt.Sprintf("%s.%d%s", s.path, from, tornExt), tail, 0o600); err != nil {
			return fmt.Errorf("keep the torn end of %s: %w", s.path, err)
		}
	}
	j.opts.Log.Warn("journal: torn end dropped", "segment", s.path, "offset", from, "bytes", size-from, "why", why)
	if err := s.f.Truncate(from); err != nil {
		return fmt.Errorf("drop the torn end of %s: %w", s.path, err)
	}
	if err := s.f.Sync(); err != nil {
		return fmt.Errorf("drop the torn end of %s: %w", s.path, err)
	}
	return nil
}

// fold adds what a segment holds to what is known of the ones before.
func (j *Journal) fold(x *index) {
	for i := range x.spans {
		sp := &x.spans[i]
		s := j.streams[sp.name]
		if s == nil {
			s = &stream{name: strings.Clone(sp.name), first: sp.first, gone: sp.prev}
			j.streams[s.name] = s
		}
		s.last, s.memFrom = sp.last, sp.last
	}
	oldest := j.oldest()
	for _, k := range x.keys {
		if k.sec >= oldest {
			j.keys[k.h] = hold(k.seq, k.sec*1e6)
		}
	}
	for _, name := range x.closed {
		delete(j.pins, name)
	}
	for _, p := range x.opened {
		name := strings.Clone(p.name)
		j.pins[name] = journal.Pin{Name: name, Stream: strings.Clone(p.stream), Seq: p.seq}
	}
	j.last = x.last
}

// scan reads a segment of the given size from where x ends and adds to x what
// it finds. It stops at a torn end, which it describes; x then ends before it.
func scan(path string, f io.ReaderAt, x *index, size int64, pinned func(string) bool) (torn string, err error) {
	r := lines{f: f, off: x.size, end: size}
	var group []line // the records of an append that is not complete yet
	var offs []int64
	for {
		b, at, err := r.next()
		if err == io.EOF {
			if len(b) > 0 {
				return "a record without an end", nil
			}
			if len(group) > 0 {
				return "an append without its last records", nil
			}
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("read %s: %w", path, err)
		}
		l, what := examine(b, x.last+1+int64(len(group)), group)
		if what != "" {
			hole := bytes.IndexByte(b, 0) >= 0
			if i := bytes.LastIndex(b, []byte(lineHead)); i > 0 && !hole {
				if _, ok := parseLine(b[i:]); ok && sound(b[i:]) {
					return "", corrupt(path, at, what) // only the newline before it is missing
				}
			}
			return what, after(path, &r, at, x.last+1, hole, what)
		}
		if l.more == 0 && len(group) == 0 {
			x.add(&l, "", at, int64(len(b))+1, keyOf(&l), pinned)
			continue
		}
		group, offs = append(group, l.clone()), append(offs, at)
		if l.more == 0 {
			offs = append(offs, at+int64(len(b))+1)
			for i := range group {
				x.add(&group[i], "", offs[i], offs[i+1]-offs[i], keyOf(&group[i]), pinned)
			}
			group, offs = group[:0], offs[:0]
		}
	}
}

// examine parses a line that must have number seq and go on with group.
func examine(b []byte, seq int64, group []line) (l line, wrong string) {
	l, ok := parseLine(b)
	switch {
	case !ok:
		return l, "not a record"
	case !sound(b):
		return l, "the sum of a record is wrong"
	case l.seq != seq:
		return l, fmt.Sprintf("record %d where %d belongs", l.seq, seq)
	case len(group) > 0 && l.more != group[len(group)-1].more-1:
		return l, "an append without its last records"
	}
	return l, ""
}

// after decides what an unreadable record at a place means. With no sound
// record behind it, it is a torn end. Otherwise the journal is corrupt, with
// one exception: a hole of zeros, as a power failure leaves it, when none of
// the records behind it says that record seq was on disk by then.
func after(path string, r *lines, at, seq int64, hole bool, what string) error {
	for {
		b, _, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if l, ok := parseLine(b); ok && sound(b) && (!hole || l.synced >= seq) {
			return corrupt(path, at, what)
		}
	}
}

func keyOf(l *line) (h hash) {
	if len(l.key) > 0 {
		h = hashKey(l.key)
	}
	return h
}

// clone makes l independent of the bytes it was read from. The data is left
// behind.
func (l line) clone() line {
	l.stream, l.key, l.pin, l.unpin = bytes.Clone(l.stream), bytes.Clone(l.key), bytes.Clone(l.pin), bytes.Clone(l.unpin)
	l.data = nil
	return l
}
