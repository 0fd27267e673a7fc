package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
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
	out.comment("ok")
	if r.Method == http.MethodHead || out.flush() != nil {
		return nil
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

// item is one step of a watched conversation.
type item struct {
	seen transport.Seen
	err  error
}

// pump writes events and heartbeats until the client or the conversation ends.
// It returns after the goroutine that reads the events has.
func (s *Server) pump(ctx context.Context, cancel context.CancelFunc, events iter.Seq2[transport.Seen, error], out *sse) {
	items := make(chan item, 64) // closed by the reader below
	go func() {
		defer close(items)
		for seen, err := range events {
			select {
			case items <- item{seen, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range items {
		}
	}()
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			out.comment("hb")
		case it, ok := <-items:
			if !ok || !s.drawBatch(it, items, out) {
				return
			}
		}
		if out.flush() != nil {
			return
		}
	}
}

// drawBatch draws an item and what else is there already, so that a burst costs
// one write. It reports whether the stream goes on.
func (s *Server) drawBatch(it item, items <-chan item, out *sse) bool {
	for {
		switch {
		case it.err == nil:
			out.draw(it.seen)
		case errors.Is(it.err, transport.ErrTruncated):
			out.truncated()
		default:
			s.log.Warn("event stream", "error", it.err)
			out.flush() //nolint:errcheck // the stream ends here either way
			return false
		}
		select {
		case next, ok := <-items:
			if !ok {
				out.flush() //nolint:errcheck // the stream ends here either way
				return false
			}
			it = next
		default:
			return true
		}
	}
}

// sse draws the frames of an event stream.
type sse struct {
	w       *bufio.Writer
	rc      *http.ResponseController
	timeout time.Duration
}

func (o *sse) comment(text string) { fmt.Fprintf(o.w, ":%s\n\n", text) }

func (o *sse) truncated() { o.w.WriteString("event: truncated\ndata: {\"kind\":\"truncated\"}\n\n") }

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
