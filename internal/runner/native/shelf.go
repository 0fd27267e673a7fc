package native

import (
	"container/list"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// maxShelved is how many histories are kept at most, however small they are:
// conversations that end with their first turn, as those of the bridge mostly
// do, would otherwise push nothing out for hours.
const maxShelved = 1024

// A shelf keeps decoded histories between turns, the least recently used ones
// only as long as they fit. A history is taken off while it is used, so that
// one whose turn went wrong is simply not put back and read anew.
type shelf struct {
	max  int64 // bytes
	idle time.Duration
	now  func() time.Time

	// mu guards the fields below.
	mu    sync.Mutex
	byKey map[chat.Address]*list.Element
	order *list.List // of *shelved, most recently used first
	bytes int64
}

type shelved struct {
	key   chat.Address
	h     *history
	bytes int64
	at    time.Time
}

func newShelf(limit int64, idle time.Duration, now func() time.Time) *shelf {
	return &shelf{max: limit, idle: idle, now: now, byKey: map[chat.Address]*list.Element{}, order: list.New()}
}

// take returns and removes the history of a conversation, nil if there is none.
func (s *shelf) take(key chat.Address) *history {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	e := s.byKey[key]
	if e == nil {
		return nil
	}
	return s.remove(e).h
}

// put keeps a history for the next turn, if it fits.
func (s *shelf) put(key chat.Address, h *history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[key]; e != nil {
		s.remove(e)
	}
	v := &shelved{key: key, h: h, bytes: h.memory(), at: s.now()}
	s.byKey[key] = s.order.PushFront(v)
	s.bytes += v.bytes
	s.sweep()
}

func (s *shelf) sweep() {
	old := s.now().Add(-s.idle)
	for e := s.order.Back(); e != nil; e = s.order.Back() {
		if s.bytes <= s.max && s.order.Len() <= maxShelved && !e.Value.(*shelved).at.Before(old) {
			return
		}
		s.remove(e)
	}
}

func (s *shelf) remove(e *list.Element) *shelved {
	v := s.order.Remove(e).(*shelved)
	delete(s.byKey, v.key)
	s.bytes -= v.bytes
	return v
}
