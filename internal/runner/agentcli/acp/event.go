package acp

import (
	"sync"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// eventRoom is how many events may wait for a consumer that takes its time
// before the agent's output is left unread.
const eventRoom = 1024

// An events is the queue between those who have something to tell and Read, which
// tells it, one at a time and in order. Only the reader of the agent's output
// ever waits for room: what a person does (a stop, an answer) never does, so that
// it may be done from inside of an event.
type events struct {
	// mu guards the fields below.
	mu    sync.Mutex
	queue []agentcli.Event
	shut  bool
	more  *sync.Cond
	room  *sync.Cond
}

func newEvents() *events {
	e := &events{}
	e.more, e.room = sync.NewCond(&e.mu), sync.NewCond(&e.mu)
	return e
}

func (e *events) put(ev ...agentcli.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.shut {
		e.queue = append(e.queue, ev...)
		e.more.Signal()
	}
}

// wait blocks while there is no room.
func (e *events) wait() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) >= eventRoom && !e.shut {
		e.room.Wait()
	}
}

// close lets drain end after what is queued.
func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shut = true
	e.more.Broadcast()
	e.room.Broadcast()
}

// drain hands events to each until close.
func (e *events) drain(each func(agentcli.Event)) {
	for {
		e.mu.Lock()
		for len(e.queue) == 0 && !e.shut {
			e.more.Wait()
		}
		batch := e.queue
		e.queue = nil
		e.room.Signal()
		e.mu.Unlock()
		if batch == nil {
			return
		}
		for _, ev := range batch {
			each(ev)
		}
	}
}
