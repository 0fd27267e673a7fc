package bwrap

import (
	"sync"
	"time"
)

// A stock keeps cells ready, so that a command does not wait for namespaces and
// mounts. It holds no cell before the first command and none long after the
// last.
type stock struct {
	// mu guards the fields below. It is not held while a cell is built or ended.
	mu sync.Mutex
	// work counts the cells that are being ended and the makers of new ones; quiet
	// is told when there is none.
	work   int
	quiet  *sync.Cond
	cells  []*cell
	home   string // what the last command that had a HOME had
	making bool
	closed bool
	idle   *time.Timer
}

func newStock() *stock {
	s := &stock{}
	s.quiet = sync.NewCond(&s.mu)
	return s
}

// start counts one more that is at work, and done one less.
func (s *stock) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work++
}

func (s *stock) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work--; s.work == 0 {
		s.quiet.Broadcast()
	}
}

// wait waits until nobody is at work.
func (s *stock) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.work > 0 {
		s.quiet.Wait()
	}
}

// take returns a cell for a command with that HOME: a ready one, or a new one. For
// a command without HOME, such as those of the file tools, the empty directory at
// the HOME of others makes no difference.
func (s *stock) take(b *Bwrap, home string) (*cell, error) {
	s.mu.Lock()
	if home == "" {
		home = s.home
	}
	s.home = home
	s.mu.Unlock()
	args, key := b.plan(home)
	for {
		s.mu.Lock()
		if len(s.cells) == 0 {
			s.mu.Unlock()
			return b.build(args, key)
		}
		c := s.cells[0]
		s.cells = s.cells[1:]
		s.mu.Unlock()
		if c.key == key && !c.ended() {
			return c, nil
		}
		s.bury(c)
	}
}

// refill makes what is missing, in the background, and puts off the end of what
// there is.
func (s *stock) refill(b *Bwrap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || b.opts.Ready < 0 {
		return
	}
	if s.idle == nil {
		s.idle = time.AfterFunc(b.opts.Idle, s.clear)
	} else {
		s.idle.Reset(b.opts.Idle)
	}
	if s.making {
		return
	}
	s.making = true
	s.work++
	go func() {
		defer s.done()
		for s.wanted(b.opts.Ready) {
			args, key := b.plan(s.lastHome())
			c, err := b.build(args, key)
			if err != nil { // the next command will meet it, and tell
				s.mu.Lock()
				s.making = false
				s.mu.Unlock()
				return
			}
			s.put(c)
		}
	}()
}

// wanted reports whether another cell is, and ends the making if not.
func (s *stock) wanted(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = !s.closed && len(s.cells) < n
	return s.making
}

func (s *stock) lastHome() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.home
}

func (s *stock) put(c *cell) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.cells = append(s.cells, c)
	}
	s.mu.Unlock()
	if closed {
		s.bury(c)
	}
}

// bury ends a cell in the background.
func (s *stock) bury(c *cell) {
	s.start()
	go func() {
		defer s.done()
		c.end()
	}()
}

// clear ends all cells that wait.
func (s *stock) clear() {
	s.mu.Lock()
	cells := s.cells
	s.cells = nil
	s.mu.Unlock()
	for _, c := range cells {
		s.bury(c)
	}
}

// close ends all cells that wait and waits for every end.
func (s *stock) close() {
	s.mu.Lock()
	s.closed = true
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.clear()
	s.wait()
}
