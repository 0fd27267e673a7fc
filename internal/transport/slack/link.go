package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/iris-operator/iris/internal/transport"
)

// maxFrame bounds one frame; an event with many blocks and files is far smaller.
const maxFrame = 16 << 20

// A link is one connection of Socket Mode.
type link struct {
	s   *Slack
	ws  *websocket.Conn
	ctx context.Context
}

// A frame is what comes through a link.
type frame struct {
	Type     string          `json:"type"`
	Reason   string          `json:"reason"`
	Envelope string          `json:"envelope_id"`
	Payload  json.RawMessage `json:"payload"`
	Attempt  int             `json:"retry_attempt"`
	Accepts  bool            `json:"accepts_response_payload"`
}

// parseFrame reads a frame.
func parseFrame(data []byte) (f frame, err error) {
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("a frame that is no JSON: %w", err)
	}
	return f, nil
}

// connect holds one connection until it ends, and says why. up is called when it
// works. The connection before it is closed by then: connect returns only after
// its own is.
func (s *Slack) connect(ctx context.Context, in *intake, up func()) error {
	if _, err := s.who(ctx); err != nil {
		return err
	}
	open, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, url, err := s.api.StartSocketModeContext(open)
	if err != nil {
		if sendError(err).Fault == transport.Unauthorized {
			err = &tokenError{fmt.Errorf("IRIS_SLACK_APP_TOKEN: %w", err)}
		}
		return err
	}
	ws, _, err := websocket.Dial(open, url, &websocket.DialOptions{HTTPClient: s.http})
	if err != nil {
		return err
	}
	ws.SetReadLimit(maxFrame)
	life, end := context.WithCancelCause(ctx)
	l := &link{s: s, ws: ws, ctx: life}
	var tasks sync.WaitGroup
	// A polite close waits for an answer that a dead peer never gives.
	defer tasks.Wait()
	defer ws.CloseNow()
	defer end(nil)
	hello := time.AfterFunc(helloLimit, func() { end(errors.New("Slack did not say hello")) })
	defer hello.Stop()
	tasks.Go(func() { l.ping(end) })
	err = l.read(in, func() {
		if hello.Stop() {
			up()
		}
	})
	if cause := context.Cause(life); cause != nil && ctx.Err() == nil {
		err = cause
	}
	return err
}

// ping tests the connection, which may be half open.
func (l *link) ping(end func(error)) {
	tick := time.NewTicker(l.s.opts.PingEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(l.ctx, l.s.opts.PingLimit)
		err := l.ws.Ping(ctx)
		cancel()
		if err != nil {
			end(fmt.Errorf("the connection does not answer: %w", err))
			return
		}
		l.s.alive()
	}
}

// read takes frames until the connection ends.
func (l *link) read(in *intake, hello func()) error {
	for {
		_, data, err := l.ws.Read(l.ctx)
		if err != nil {
			return err
		}
		f, err := parseFrame(data)
		switch {
		case err != nil:
			l.s.log.Warn("not understood", "err", err)
		case f.Type == "hello":
			hello()
		case f.Type == "disconnect":
			return fmt.Errorf("Slack asks to connect again (%s)", f.Reason)
		case f.Envelope != "":
			hello() // what comes before it must not overtake the backlog
			in.take(l, f)
		}
	}
}

// ack tells Slack that an envelope is dealt with. When that fails it comes again.
func (l *link) ack(f frame, payload any) {
	ack := map[string]any{"envelope_id": f.Envelope}
	if payload != nil && f.Accepts {
		ack["payload"] = payload
	}
	data, err := json.Marshal(ack)
	if err == nil {
		ctx, cancel := context.WithTimeout(l.ctx, l.s.opts.PingLimit)
		err = l.ws.Write(ctx, websocket.MessageText, data)
		cancel()
	}
	if err != nil {
		l.s.log.Warn("not acknowledged", "envelope", f.Envelope, "err", err)
		return
	}
	l.s.alive()
}
