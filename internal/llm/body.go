package llm

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// Post returns a request to a provider with what encode makes as its body. The
// bytes are let go as soon as they are sent: a turn waits for its answer far
// longer than it takes to send a request, which may be large. encode is called
// again when the connection turns out to be dead and net/http tries another; it
// must return the same bytes every time, until the answer has been read.
func Post(ctx context.Context, url string, encode func() []byte) (*http.Request, error) {
	first := newBody(encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, first)
	if err != nil {
		return nil, err
	}
	r.ContentLength = first.size
	r.GetBody = func() (io.ReadCloser, error) { return newBody(encode()), nil }
	return r, nil
}

// A body is bytes that are forgotten when it is closed, which may happen while
// it is read.
type body struct {
	size int64
	rest atomic.Pointer[bytes.Reader]
}

func newBody(data []byte) *body {
	b := &body{size: int64(len(data))}
	b.rest.Store(bytes.NewReader(data))
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	r := b.rest.Load()
	if r == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	return r.Read(p)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.rest.Store(nil)
	return nil
}
