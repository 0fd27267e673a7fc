package guest

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// bounded reads up to left bytes and then fails, unlike io.LimitReader, which
// would make a cut request look whole.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("it has more than %d bytes", maxRequest)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	return n, err
}

// watched is the input of a command. A connection that breaks while it is read
// ends the command.
type watched struct {
	io.Reader
	broken func()
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && err != io.EOF {
		w.broken()
	}
	return n, err
}

// A framer sends frames; the first that cannot be sent ends the command.
type framer struct {
	flush  func() error
	cancel func()

	mu  sync.Mutex // guards the fields below
	w   io.Writer
	buf []byte
}

func (f *framer) send(kind byte, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = appendFrame(f.buf[:0], kind, payload)
	_, err := f.w.Write(f.buf)
	if err == nil {
		err = f.flush()
	}
	if err != nil {
		f.cancel()
	}
	return err
}

// A frameWriter sends what a command writes.
type frameWriter struct {
	f    *framer
	kind byte
}

func (w frameWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxFrame)
		if err := w.f.send(w.kind, rest[:n]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// latest keeps the last maxPlain bytes. It is not safe for concurrent use.
type latest struct {
	data []byte
	cut  int64
}

func (l *latest) Write(p []byte) (int, error) {
	l.data = append(l.data, p...)
	// In one go when it has doubled, so that much output is moved once.
	if len(l.data) > 2*maxPlain {
		l.trim()
	}
	return len(p), nil
}

func (l *latest) trim() {
	if over := len(l.data) - maxPlain; over > 0 {
		l.cut += int64(over)
		l.data = append(l.data[:0], l.data[over:]...)
	}
}

// String returns what was kept, and says so if something was not.
func (l *latest) String() string {
	l.trim()
	text := strings.ToValidUTF8(string(l.data), "�")
	if l.cut > 0 {
		return fmt.Sprintf("[%d bytes before this were cut]\n", l.cut) + text
	}
	return text
}
