package bridge

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/turn"
)

// saidInterrupted ends a job whose turn the journal knows nothing about.
const saidInterrupted = "interrupted by a restart"

// openTurns finds the turns of requests that the last process left open: the
// newest of each id. The older ones were superseded.
func (s *Server) openTurns() map[string]*job {
	open := map[string]*job{}
	for _, p := range s.journal.Pins() { // by rising number
		a, err := chat.Parse(p.Stream)
		if err != nil || a.Space != chat.Bridge {
			continue
		}
		if id, err := turn.ParseID(p.Name); err == nil {
			open[a.ID] = s.newJob(a.ID, id, p.Seq, s.opts.Limits)
		}
	}
	return open
}

// recover brings every log up to what the journal knows: those of the turns
// that were open, and those that have no end although their turn may have one.
func (s *Server) recover(open map[string]*job) {
	for _, j := range open {
		if found, _, at := s.replay(j); found {
			s.adopt(j, at)
		} else if s.over.Err() == nil {
			s.log.Error("an open job has no record", "job", j.id, "turn", j.turn)
		}
	}
	for _, id := range s.logs() {
		if s.over.Err() != nil {
			return
		}
		if open[id] != nil || ended(s.path(id)) {
			continue
		}
		if err := s.mend(id); err != nil {
			s.log.Error("bring a job log to its end", "job", id, "err", err)
		}
	}
}

// replay draws what the journal holds of a turn, short of its end, and returns
// when the turn was accepted. found is false when the journal does not know its
// beginning, ended true when it knows its end.
func (s *Server) replay(j *job) (found, ended bool, at time.Time) {
	for r, err := range s.journal.Read(s.over, j.conversation().Channel(), j.since) {
		if errors.Is(err, journal.ErrTruncated) {
			continue
		}
		if err != nil {
			if s.over.Err() == nil {
				s.log.Error("read the records of a job", "job", j.id, "turn", j.turn, "err", err)
			}
			return false, false, at
		}
		if r.Seq == j.from {
			found, at = true, r.Time
		}
		if !found {
			return false, false, at
		}
		before := j.drawing
		l, _, err := j.drawing.draw(r)
		if err != nil {
			s.log.Error("a record of a job cannot be read", "job", j.id, "turn", j.turn, "err", err)
		}
		if l.Terminal() {
			j.drawing = before
			return true, true, at
		}
		if l.Type != "" {
			j.lines = append(j.lines, l.Encode())
		}
		j.since = r.Seq
	}
	return found, false, at
}

// adopt goes on with a job of the last process, unless its id was posted again.
func (s *Server) adopt(j *job, at time.Time) {
	lock := s.lock(j.id)
	lock.Lock()
	defer lock.Unlock()
	if s.live(j.id) == nil {
		j.begin()
		s.open(j, s.opts.Now().Sub(at))
	}
}

// mend gives a log its end, whose turn is not open any more.
func (s *Server) mend(id string) error {
	l, err := s.read(id)
	if err != nil {
		return err
	}
	if t, err := turn.ParseID(l.Turn); err == nil && l.From > 0 {
		j := s.newJob(id, t, l.From, wire.Limits{})
		if found, ended, at := s.replay(j); found && ended {
			s.adopt(j, at)
			return nil
		}
	}
	lock := s.lock(id)
	lock.Lock()
	defer lock.Unlock()
	if s.live(id) != nil || s.over.Err() != nil {
		return nil
	}
	line := wire.Failure(wire.Interrupted, saidInterrupted, id, l.Last()+1).Encode()
	if l.Torn {
		line = append([]byte("\n"), line...)
	}
	f, err := os.OpenFile(s.path(id), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}

// tailBytes is more than a status line can have: 200 characters, escaped.
const tailBytes = 4 << 10

// ended reports whether a log has its end, without reading all of it.
func ended(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false
	}
	tail := make([]byte, min(size, tailBytes))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return false
	}
	tail, whole := bytes.CutSuffix(tail, []byte("\n"))
	if !whole {
		return false
	}
	i := bytes.LastIndexByte(tail, '\n')
	if i < 0 && size > tailBytes {
		return true // a line as long as this is no status
	}
	l, err := wire.ParseLine(tail[i+1:])
	return err == nil && l.Terminal()
}
