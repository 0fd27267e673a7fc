package microvm

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// tailSize is how much of the console is kept: the last screen of a panic.
const tailSize = 4 << 10

// A tail keeps the end of what a process writes. A guest may write without end;
// nothing of it goes to disk.
type tail struct {
	done chan struct{}
	file *os.File

	mu   sync.Mutex // guards the field below
	data []byte
}

// follow reads until the end of r, which it closes.
func (t *tail) follow(r *os.File) {
	t.file, t.done = r, make(chan struct{})
	go func() {
		defer close(t.done)
		_, _ = io.Copy(t, r)
		_ = r.Close()
	}()
}

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - tailSize; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// wait returns when everything was read. The writers are gone, unless one was
// handed on to a process from elsewhere: half a second then.
func (t *tail) wait() {
	if t.done == nil {
		return
	}
	_ = t.file.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	<-t.done
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.data))
}
