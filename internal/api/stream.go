package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// stream is the live stream of a session as server-sent events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	since, err := position(r)
	if err != nil {
		return err
	}
	conv := found.Address()
	if !s.takeSlot(conv) {
		return &problem{Status: http.StatusTooManyRequests, Text: fmt.Sprintf("this session has %d open streams already", maxStreams), retry: true}
	}
	defer s.freeSlot(conv)

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	events := s.opts.Engine.Watch(ctx, conv, since)

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	out := &sse{w: bufio.NewWriter(w), rc: http.NewResponseController(w), timeout: s.opts.WriteTimeout}
	if err := out.comment("ok"); err != nil || r.Method == http.MethodHead {
		return nil //nolint:nilerr // the client has gone
	}
	s.pump(ctx, cancel, events, out)
	return nil
}

// position is where a stream begins: after what the client saw last, or now.
func position(r *http.Request) (int64, error) {
	if q := r.URL.Query().Get("since"); q != "" {
		n, err := strconv.ParseInt(q, 10, 64)
		if err != nil || n < 0 {
			return 0, bad("since must be a whole number from 0")
		}
		return n, nil
	}
	// What a client remembers from somebody else's stream is no reason to refuse it.
	n, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil || n < 0 {
		return transport.Now, nil
	}
	return n, nil
}

func (s *Server) takeSlot(conv chat.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[conv] >= maxStreams {
		return false
	}
	s.streams[conv]++
	return true
}

func (s *Server) freeSlot(conv chat.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[conv]--; s.streams[conv] == 0 {
		delete(s.streams, conv)
	}
}

// pump writes events and heartbeats until the client or the conversation ends.
// What comes in a row costs one write.
func (s *Server) pump(ctx context.Context, cancel context.CancelFunc, events iter.Seq2[transport.Seen, error], out *sse) {
	defer out.beat(s.opts.Heartbeat, cancel)()
	for seen, err := range events {
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			err = out.show(seen)
		case errors.Is(err, transport.ErrTruncated):
			err = out.truncated()
		default:
			s.log.Warn("event stream", "error", err)
			return
		}
		if err != nil {
			return
		}
	}
}

// sse draws the frames of an event stream.
type sse struct {
	timeout time.Duration

	// mu guards the fields below: heartbeats come from a timer.
	mu sync.Mutex
	w  *bufio.Writer
	rc *http.ResponseController
}

// comment sends a line that is no event.
func (o *sse) comment(text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.w, ":%s\n\n", text)
	return o.flush()
}

// beat sends a comment now and then, so that proxies keep the connection, until
// the function it returns is called. If that fails it calls gone.
func (o *sse) beat(every time.Duration, gone func()) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	over := false // guarded by mu, as is timer
	var timer *time.Timer
	timer = time.AfterFunc(every, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if over {
			return
		}
		o.w.WriteString(":hb\n\n")
		if o.flush() != nil {
			gone()
			return
		}
		timer.Reset(every)
	})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		over = true
		timer.Stop()
	}
}

func (o *sse) truncated() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w.WriteString("event: truncated\ndata: {\"kind\":\"truncated\"}\n\n")
	return o.flush()
}

// show draws what is seen and sends it, unless more follows at once.
func (o *sse) show(seen transport.Seen) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.draw(seen)
	if seen.More || o.w.Buffered() == 0 {
		return nil
	}
	return o.flush()
}

// draw writes the frame of a record that is an event. The start of a turn looks
// like thinking without a text.
func (o *sse) draw(seen transport.Seen) {
	if seen.Record.Event == nil {
		return
	}
	e := *seen.Record.Event
	if e.Kind == turn.Started {
		e.Kind = turn.Thinking
	}
	if e.Turn == "" {
		e.Turn = seen.Record.Turn
	}
	data, err := plain(e)
	if err != nil {
		return // an event that was read from JSON can be written as JSON
	}
	fmt.Fprintf(o.w, "id: %d\nevent: %s\ndata: %s\n\n", seen.Seq, e.Kind, data)
}

// flush sends what was drawn; a client that does not take it in time is gone.
func (o *sse) flush() error {
	_ = o.rc.SetWriteDeadline(time.Now().Add(o.timeout))
	if err := o.w.Flush(); err != nil {
		return err
	}
	return o.rc.Flush()
}
