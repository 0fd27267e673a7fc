package subagent

import (
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/bridge"
)

// A shower shows lines of progress, thinned out, one at a time and in order. It
// is the only one that calls show.
type shower struct {
	show func(text string, seq int64) error
	fail func(error)
	said chan progress
	done chan struct{} // closed when nothing is shown any more
	once sync.Once
}

type progress struct {
	text string
	seq  int64
}

// newShower starts a shower; close ends it. An error of show ends it too and is
// given to fail.
func newShower(gap time.Duration, show func(text string, seq int64) error, fail func(error)) *shower {
	s := &shower{show: show, fail: fail, said: make(chan progress), done: make(chan struct{})}
	go s.serve(bridge.Throttle{Gap: gap})
	return s
}

// say takes a line. It waits while another one is being shown.
func (s *shower) say(text string, seq int64) {
	select {
	case s.said <- progress{text, seq}:
	case <-s.done:
	}
}

// close forgets what has not been shown; nothing is shown after it has returned.
// It may be called again; say must not be called any more.
func (s *shower) close() {
	s.once.Do(func() { close(s.said) })
	<-s.done
}

func (s *shower) serve(t bridge.Throttle) {
	defer close(s.done)
	var last int64 // number of the newest line
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var text string
		var show bool
		select {
		case p, open := <-s.said:
			if !open {
				return
			}
			last = max(last, p.seq)
			text, show = p.text, t.Add(time.Now(), p.text)
		case <-timer.C:
			text, show = t.Take(time.Now())
		}
		if show {
			if err := s.show(text, last); err != nil {
				s.fail(err)
				return
			}
		}
		if at, ok := t.Due(); ok {
			timer.Reset(time.Until(at))
		}
	}
}
