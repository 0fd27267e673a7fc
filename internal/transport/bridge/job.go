package bridge

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"

	wire "github.com/iris-operator/iris/internal/bridge"
)

// A job is one turn under a request id, from its acceptance to its end. Its
// lines stay in memory while it lives, for callers that follow it; its log is
// on disk.
type job struct {
	s      *Server
	id     string
	turn   turn.ID
	from   int64 // the record that accepted the turn
	limits wire.Limits

	// Used by the follower alone.
	drawing drawing
	log     *os.File // nil when the log cannot be written
	since   int64    // the last record that was drawn

	// mu guards the fields below.
	mu      sync.Mutex
	lines   [][]byte // encoded; line n is at n-1
	done    bool     // the last line is terminal
	lost    bool     // there is nothing more to come in this process
	changed chan struct{}
	callers int // that hold a connection
	idle    *time.Timer
	hard    *time.Timer
}

func (s *Server) newJob(id string, t turn.ID, from int64, l wire.Limits) *job {
	return &job{
		s: s, id: id, turn: t, from: from, limits: l, since: from - 1,
		drawing: drawing{id: id, turn: t}, changed: make(chan struct{}),
	}
}

func (j *job) conversation() chat.Address { return chat.Address{Space: chat.Bridge, ID: j.id} }

// start begins the log of a new job and opens it.
func (s *Server) start(j *job) {
	lock := s.lock(j.id)
	lock.Lock()
	defer lock.Unlock()
	j.begin()
	s.open(j, 0)
}

// open makes j the job of its id and follows its turn. An older job of the same
// id goes on for whoever holds it, with a log that nobody can find any more.
func (s *Server) open(j *job, age time.Duration) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		j.give()
		return
	}
	s.jobs[j.id] = j
	s.following.Add(1)
	s.mu.Unlock()
	j.mu.Lock()
	if j.limits.Max > 0 {
		j.hard = time.AfterFunc(max(j.limits.Max-age, 0), func() {
			j.fail(turn.CodeMaxDuration, wire.MaxText(j.limits.Max))
		})
	}
	j.mu.Unlock()
	go func() {
		defer s.following.Done()
		j.follow(s.over)
		j.leave()
	}()
}

// follow draws records until the turn has ended.
func (j *job) follow(ctx context.Context) {
	for r, err := range j.s.journal.Follow(ctx, j.conversation().Channel(), j.since) {
		if errors.Is(err, journal.ErrTruncated) {
			continue
		}
		if err != nil {
			j.s.log.Error("follow a job", "job", j.id, "turn", j.turn, "err", err)
			return
		}
		if j.take(ctx, r) {
			return
		}
	}
}

// take draws one record and reports whether there is no more to do.
func (j *job) take(ctx context.Context, r journal.Record) (over bool) {
	j.since = r.Seq
	l, mine, err := j.drawing.draw(r)
	if err != nil {
		j.s.log.Error("a record of a job cannot be read", "job", j.id, "turn", j.turn, "err", err)
		return false
	}
	if mine {
		j.progress()
	}
	switch {
	case l.Type == "":
		return false
	case l.Terminal():
		// An end is told when it is on disk.
		if _, err := j.s.opts.Inbox.Wait(ctx, j.turn); err != nil {
			if ctx.Err() == nil && !errors.Is(err, transport.ErrClosing) {
				j.s.log.Error("wait for the end of a job", "job", j.id, "turn", j.turn, "err", err)
			}
			return true
		}
	}
	j.add(l)
	return l.Terminal()
}

// add writes a line to the log and shows it.
func (j *job) add(l wire.Line) {
	data := l.Encode()
	j.write(data)
	j.show(data, l.Terminal())
}

func (j *job) show(data []byte, terminal bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, data)
	j.done = terminal
	j.wake()
}

// wake tells those who look. mu must be held.
func (j *job) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// leave ends what belongs to j. Its callers still have its lines.
func (j *job) leave() {
	j.s.mu.Lock()
	if j.s.jobs[j.id] == j {
		delete(j.s.jobs, j.id)
	}
	j.s.mu.Unlock()
	if j.log != nil {
		if err := j.log.Close(); err != nil {
			j.s.log.Warn("close a job log", "job", j.id, "err", err)
		}
	}
	j.give()
}

// give stops the limits and tells that nothing more will come.
func (j *job) give() {
	j.mu.Lock()
	defer j.mu.Unlock()
	stop(j.idle)
	stop(j.hard)
	j.lost = true
	j.wake()
}

func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// fail ends the turn. Its end comes through the journal, as every end does.
func (j *job) fail(c turn.Code, why string) {
	_, err := j.s.opts.Inbox.Command(j.s.over, transport.Command{
		Conversation: j.conversation(), Verb: transport.Fail, Turn: j.turn, Code: c, Argument: why,
	})
	if err != nil && j.s.over.Err() == nil && !errors.Is(err, transport.ErrClosing) {
		j.s.log.Error("end a job that reached a limit", "job", j.id, "turn", j.turn, "code", c, "err", err)
	}
}

// attach counts a caller. While there is one, the idle limit holds.
func (j *job) attach() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.callers++; j.callers > 1 || j.limits.Idle <= 0 || j.done || j.lost {
		return
	}
	if j.idle == nil {
		j.idle = time.AfterFunc(j.limits.Idle, func() { j.fail(turn.CodeIdle, wire.IdleText(j.limits.Idle)) })
	} else {
		j.idle.Reset(j.limits.Idle)
	}
}

// detach uncounts a caller. The run goes on; only the hard limit is left.
func (j *job) detach() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.callers--; j.callers == 0 {
		stop(j.idle)
	}
}

// progress re-arms the idle limit.
func (j *job) progress() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.idle != nil && j.callers > 0 && !j.lost {
		j.idle.Reset(j.limits.Idle)
	}
}

// after returns the lines behind the first n, whether the last of all is
// terminal, whether more can come, and a channel that is closed when something
// has changed.
func (j *job) after(n int) (lines [][]byte, done, lost bool, changed <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines[min(n, len(j.lines)):], j.done, j.lost, j.changed
}

// answer is the job as the log tells it.
func (j *job) answer(since int64) (a wire.Job, changed <-chan struct{}) {
	lines, done, _, changed := j.after(int(min(since, 1<<31-1)))
	a = wire.Job{RequestID: j.id, Turn: string(j.turn), Done: done}
	for _, data := range lines {
		if l, err := wire.ParseLine(data); err == nil {
			a.Events = append(a.Events, l)
		}
	}
	return a, changed
}
