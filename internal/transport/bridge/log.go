package bridge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"

	"github.com/iris-operator/iris/internal/durable"
)

const suffix = ".jsonl"

// errNoLog reports that there is no job of an id.
var errNoLog = fs.ErrNotExist

func (s *Server) path(id string) string { return filepath.Join(s.opts.Dir, id+suffix) }

// begin makes the log of j anew, with what is drawn of it so far. A poll that
// comes meanwhile sees the old log or the new one, never none. What cannot be
// written is a warning: the stream does not depend on it.
func (j *job) begin() {
	text := wire.Head(j.id, string(j.turn), j.from)
	for _, l := range j.lines {
		text = append(text, l...)
	}
	f, err := create(j.s.path(j.id), text)
	if err != nil {
		j.s.log.Warn("begin a job log", "job", j.id, "err", err)
		return
	}
	j.log = f
}

// create puts a file with text at path and leaves it open for more. The file
// that was there stays whole for whoever has it open.
func create(path string, text []byte) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return durable.Swap(path, text)
	}
	if err != nil {
		return nil, err
	}
	return written(f, text)
}

func written(f *os.File, text []byte) (*os.File, error) {
	if _, err := f.Write(text); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// write appends a line. A log that cannot take it is given up, so that it has
// no gap: its beginning is true, and the next start makes it whole.
func (j *job) write(line []byte) {
	if j.log == nil {
		return
	}
	if _, err := j.log.Write(line); err != nil {
		j.s.log.Warn("write a job log", "job", j.id, "err", err)
		_ = j.log.Close() // it is of no use any more
		j.log = nil
	}
}

// read returns the log of a job that does not run, errNoLog if there is none.
func (s *Server) read(id string) (wire.Log, error) {
	data, err := os.ReadFile(s.path(id))
	if err != nil {
		return wire.Log{}, err
	}
	return wire.ParseLog(data), nil
}

// logs lists the ids of the logs there are.
func (s *Server) logs() []string {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		s.log.Error("list job logs", "err", err)
		return nil
	}
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), suffix); ok && e.Type().IsRegular() && wire.CleanID(id) == id && id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// sweep removes what is older than the retention.
func (s *Server) sweep(ctx context.Context) {
	s.sweepLogs()
	if s.opts.Sweep == nil {
		return
	}
	n, err := s.opts.Sweep(ctx)
	if err != nil && ctx.Err() == nil {
		s.log.Error("sweep conversations", "err", err)
	}
	if n > 0 {
		s.log.Info("old conversations of the bridge removed", "count", n)
	}
}

// sweepLogs removes the logs that nothing was added to for the retention, and what
// a crash left of logs that were begun. It is idempotent.
func (s *Server) sweepLogs() {
	if s.opts.Retention <= 0 {
		return
	}
	oldest := s.opts.Now().Add(-s.opts.Retention)
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		s.log.Error("sweep job logs", "err", err)
		return
	}
	n := 0
	for _, e := range entries {
		if _, log := strings.CutSuffix(e.Name(), suffix); log || strings.HasPrefix(e.Name(), ".job-") {
			n += s.remove(e.Name(), oldest)
		}
	}
	if n > 0 {
		s.log.Info("old job logs removed", "count", n)
	}
}

// remove removes one file if it is old, and returns how many it removed.
func (s *Server) remove(name string, oldest time.Time) int {
	id := strings.TrimSuffix(name, suffix)
	lock := s.lock(id)
	lock.Lock()
	defer lock.Unlock()
	path := filepath.Join(s.opts.Dir, name)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(oldest) || s.live(id) != nil {
		return 0
	}
	if err := os.Remove(path); err != nil {
		s.log.Warn("sweep a job log", "file", name, "err", err)
		return 0
	}
	return 1
}
