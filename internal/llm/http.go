package llm

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// idlePerHost is how many connections to a provider are kept for the next
	// request: as many as turns run at once on a busy machine. The standard 2
	// make all others dial (and greet, under TLS) for every request.
	idlePerHost = 64
	// idleTime is less than the time after which the load balancers in front
	// of providers drop an idle connection without a word.
	idleTime = 50 * time.Second
	// writeBuffer and readBuffer are what every turn that waits for its model
	// holds in memory: small, for there may be a thousand. What does not fit is
	// written from where it lies; a fast model is read in a few reads more.
	writeBuffer = 1 << 10
	readBuffer  = 2 << 10
)

// NewHTTPClient returns a client for one provider, with connections of its own
// and no timeout of the whole: answers are streams. It follows no redirects,
// since the key would go with them.
func NewHTTPClient() *http.Client {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dialer.DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return bodyConn{c}, nil
			},
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   idlePerHost,
			IdleConnTimeout:       idleTime,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			WriteBufferSize:       writeBuffer,
			ReadBufferSize:        readBuffer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A bodyConn writes the body of a request from where it lies. The way through
// net copies it to a buffer of its size first and writes that 32 KiB at a time.
type bodyConn struct{ net.Conn }

// ReadFrom writes what r has.
func (c bodyConn) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if rest := inMemory(l.R); rest != nil && int64(rest.Len()) <= l.N {
			n, err := rest.WriteTo(c.Conn)
			l.N -= n
			return n, err
		}
	}
	return io.Copy(c.Conn, r)
}

// inMemory returns what r reads from if that lies in memory.
func inMemory(r io.Reader) *bytes.Reader {
	switch r := r.(type) {
	case *bytes.Reader:
		return r
	case *body:
		return r.rest.Load()
	}
	return nil
}

// lingering is how long a finished stream may take to close, so that its
// connection can carry the next request. The end usually is there already.
const lingering = 20 * time.Millisecond

// Linger reads what is left of a finished stream. cut ends the stream and is
// called if that takes too long.
func Linger(body io.Reader, cut func()) {
	t := time.AfterFunc(lingering, cut)
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}
