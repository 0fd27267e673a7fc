package app_test

import (
	"context"
	"os"
	"sync"
	"time"
)

// A moment is something after which a kill is interesting.
type moment string

const (
	modelAsked   moment = "model asked"
	toolRan      moment = "tool ran"
	answered     moment = "answered 2xx"
	eventSeen    moment = "event seen"
	turnSeenOver moment = "end seen"
)

var allMoments = []moment{modelAsked, toolRan, answered, eventSeen, turnSeenOver}

// moments tells those who wait that one has come.
type moments struct {
	mu    sync.Mutex
	waits map[chan struct{}]*wait
}

type wait struct {
	what moment
	left int
}

// come notes a moment.
func (m *moments) come(now moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c, w := range m.waits {
		if w.what != now {
			continue
		}
		if w.left--; w.left <= 0 {
			close(c)
			delete(m.waits, c)
		}
	}
}

// after returns a channel that is closed with the nth moment from now.
func (m *moments) after(what moment, n int) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits == nil {
		m.waits = map[chan struct{}]*wait{}
	}
	c := make(chan struct{})
	m.waits[c] = &wait{what, n}
	return c
}

// watchFile reports growth of a file until ctx ends.
func (m *moments) watchFile(ctx context.Context, path string) {
	var size int64
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if info, err := os.Stat(path); err == nil && info.Size() > size {
			size = info.Size()
			m.come(toolRan)
		}
	}
}
