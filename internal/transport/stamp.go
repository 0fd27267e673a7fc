package transport

import (
	"fmt"
	"sync"
	"time"
)

// Stamps makes ids for messages whose sender gave none: seconds and
// microseconds, as people find them in the log. No two of one Stamps are the
// same. The zero value is ready for use.
type Stamps struct {
	// mu guards last.
	mu   sync.Mutex
	last int64
}

// Next returns the id of a message that came at the given time.
func (s *Stamps) Next(at time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, at.UnixMicro())
	return fmt.Sprintf("%d.%06d", s.last/1e6, s.last%1e6)
}
