package api

import (
	"fmt"
	"sync"
	"time"
)

// stamps makes ids for messages that came without one: seconds and
// microseconds, as people find them in the log. No two are the same.
type stamps struct {
	now func() time.Time

	// mu guards last.
	mu   sync.Mutex
	last int64
}

func (s *stamps) next() (id string, at time.Time) {
	at = s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, at.UnixMicro())
	return fmt.Sprintf("%d.%06d", s.last/1e6, s.last%1e6), at
}
