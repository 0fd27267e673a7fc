package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/turn"
)

// The pause before a request is tried again, and how often in a row: a minute,
// which outlasts a restart with running turns.
const (
	retryPause = 500 * time.Millisecond
	retryTries = 120
)

// streamSilence is when a stream counts as dead: three of the server's
// heartbeats.
const streamSilence = 45 * time.Second

func (c *Client) limit() int { return orElse(c.tries, retryTries) }

// rest waits before the next try; false means that ctx has ended.
func (c *Client) rest(ctx context.Context) bool {
	t := time.NewTimer(orElse(c.pause, retryPause))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// A Watch says what to do with the events of a session. The functions are
// called one at a time, from the goroutine of Follow; only See is required.
type Watch struct {
	Session string
	// Opened is called once, when the stream stands: what is submitted from
	// then on is seen.
	Opened func()
	// Broken is called when the stream broke and is tried again.
	Broken func(error)
	// See gets every event once and in order. It returns false when it has
	// seen enough.
	See func(turn.Event) bool
}

// Follow watches a session from now on, the running turn included, and goes on
// where it left off when the stream breaks. A stream that breaks before its
// first event goes on from the beginning of what the server keeps: See must tell
// its turns apart. Follow returns nil when See or ctx ends it, else why the
// server cannot be watched any longer.
func (c *Client) Follow(ctx context.Context, w Watch) error {
	p := position{since: -1}
	failures := 0
	for {
		more, err := c.stream(ctx, &p, &failures, w)
		if !more || ctx.Err() != nil {
			return nil
		}
		if !passing(err) {
			return err
		}
		if failures++; failures > c.limit() {
			return fmt.Errorf("the server stays away: %w", err)
		}
		if w.Broken != nil {
			w.Broken(err)
		}
		if !c.rest(ctx) {
			return nil
		}
	}
}

// A position is how far a stream was read.
type position struct {
	since int64 // the last event seen; -1: none
	stood bool  // the stream was open once
}

func (p position) header() []string {
	since := p.since
	if since < 0 && p.stood {
		since = 0
	}
	if since < 0 {
		return nil
	}
	return []string{"Last-Event-ID", strconv.FormatInt(since, 10)}
}

var errSilent = errors.New("the event stream went silent")

// stream reads one event stream to its end. more is false when See has enough.
func (c *Client) stream(ctx context.Context, p *position, failures *int, w Watch) (more bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, "GET", sessionPath(w.Session, "/stream"), nil, p.header()...)
	if err != nil {
		return true, err
	}
	patience := orElse(c.silence, streamSilence)
	watchdog := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer watchdog.Stop()
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return true, because(ctx, short(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // the status alone is enough
		return true, statusError(resp.StatusCode, body)
	}
	if !p.stood && w.Opened != nil {
		w.Opened()
	}
	p.stood, *failures = true, 0
	r := newEventReader(alive{resp.Body, watchdog, patience})
	for {
		f, err := r.next()
		if err != nil {
			return true, because(ctx, err)
		}
		if f.event == "truncated" || f.id > 0 && f.id <= p.since {
			continue
		}
		var e turn.Event
		if json.Unmarshal(f.data, &e) != nil {
			continue
		}
		if f.id > 0 {
			p.since = f.id
		}
		if !w.See(e) {
			return false, nil
		}
	}
}

// because prefers the reason a request was given up over its symptom.
func because(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the server closed the event stream")
	}
	return err
}

// alive feeds the watchdog with everything that arrives, heartbeats included.
type alive struct {
	r        io.Reader
	watchdog *time.Timer
	patience time.Duration
}

// Read reads on.
func (a alive) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.watchdog.Reset(a.patience)
	}
	return n, err
}
