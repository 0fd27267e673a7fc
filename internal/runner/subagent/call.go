package subagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// errDeadline is the cause of a context whose request took too long in all.
var errDeadline = errors.New("the request took too long")

// failure is an end without a reply.
func failure(code turn.Code, format string, args ...any) *runner.Error {
	return &runner.Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// A broken connection says nothing about the run; why is what people are told
// if the job log has no reply either.
type broken struct{ why *runner.Error }

func (b *broken) Error() string { return b.why.Text }

// run asks, and asks again as long as that can bring the reply.
func (c *call) run(ctx context.Context, resumed bool) (reply string, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if limit := c.a.opts.Timeout; limit > 0 {
		timer := time.AfterFunc(limit, func() { end(errDeadline) })
		defer timer.Stop()
	}
	c.shower = newShower(c.a.opts.Gap, c.show, end)
	defer c.shower.close()
	if resumed {
		err = &broken{failure(turn.CodeInterrupted, "interrupted by a restart of Iris, and @%s has no answer to it", c.name)}
	} else {
		reply, err = c.ask(ctx)
	}
	for {
		var b *broken
		if !errors.As(err, &b) || context.Cause(ctx) != nil {
			break
		}
		c.a.log.Debug("a bridge connection was lost; asking for the job", "agent", c.name, "request", c.req.RequestID, "why", b.why)
		again := false
		if reply, again, err = c.recover(ctx, b.why); again {
			reply, err = c.ask(ctx)
			if c.posts >= maxPosts && errors.As(err, &b) {
				err = b.why
			}
		}
	}
	return reply, c.verdict(ctx, err)
}

// verdict is what the caller of run is told.
func (c *call) verdict(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errDeadline):
		return failure(turn.CodeMaxDuration, "Agent bridge timed out after %s", seconds(c.a.opts.Timeout))
	case errors.Is(cause, runner.ErrLeaving):
		return cause
	case cause != nil:
		c.stop(ctx)
		return cause
	}
	return err
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%ds", int64(d.Round(time.Second)/time.Second))
}

// request makes a request of the wire.
func (c *call) request(ctx context.Context, method, url string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, failure(turn.CodeFailed, "Agent @%s has an address that cannot be used", c.name)
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if !c.token.IsZero() {
		r.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	return r, nil
}

// ask posts the request and reads its answer. A *broken error may be recovered
// from.
func (c *call) ask(ctx context.Context) (string, error) {
	c.posts++
	r, err := c.request(ctx, http.MethodPost, c.post, c.req.Encode())
	if err != nil {
		return "", err
	}
	if !c.a.opts.Plain {
		r.Header.Set("Accept", bridge.StreamType)
	}
	resp, err := c.a.http.Do(r)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" && c.posts == 1 {
			return "", &runner.Error{Code: turn.CodeFailed, Text: fmt.Sprintf("Agent @%s cannot be reached: %v", c.name, op.Err), Err: err}
		}
		return "", &broken{failure(turn.CodeFailed, "Agent @%s broke off: %v", c.name, short(err))}
	}
	defer resp.Body.Close()
	c.learn(resp)
	switch {
	case resp.StatusCode/100 != 2:
		why := said(resp)
		refusal := failure(turn.CodeFailed, "Bridge returned %d: %s", resp.StatusCode, why)
		if c.turns && resp.StatusCode == http.StatusBadRequest && maimed(why) {
			return "", &broken{refusal}
		}
		return "", refusal
	case bridge.IsStream(resp.Header.Get("Content-Type")):
		return c.follow(ctx, resp.Body)
	}
	return whole(resp.Body)
}

// maimed reports whether a refusal says that the request came otherwise than it
// was sent: something on the way has cut it off. What this client sends is
// always JSON.
func maimed(why string) bool { return why == bridge.SaidNotWhole || why == bridge.SaidInvalidJSON }

// learn takes from an answer what the server can do.
func (c *call) learn(resp *http.Response) {
	if resp.Header.Get(bridge.Header) == bridge.KnowsTurns {
		c.turns = true
	}
}

// short is an error of the HTTP client without the address, which people know.
func short(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	for e := errors.Unwrap(err); e != nil; e = errors.Unwrap(e) {
		err = e
	}
	return err
}

// said is the error that a body names.
func said(resp *http.Response) string {
	data, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	var body struct {
		Error string `json:"error"`
	}
	if err == nil && json.Unmarshal(data, &body) == nil && body.Error != "" {
		return body.Error
	}
	return http.StatusText(resp.StatusCode)
}

// whole reads an answer that is no stream.
func whole(body io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(body, bridge.MaxAnswer+1))
	switch {
	case err != nil:
		return "", &broken{failure(turn.CodeFailed, "The answer of the bridge broke off: %v", short(err))}
	case len(data) > bridge.MaxAnswer:
		return "", failure(turn.CodeFailed, "The answer of the bridge is larger than %d bytes", bridge.MaxAnswer)
	}
	var answer struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return "", failure(turn.CodeFailed, "The answer of the bridge cannot be read")
	}
	if answer.Text == nil || strings.TrimSpace(*answer.Text) == "" {
		return bridge.NoResponse, nil
	}
	return *answer.Text, nil
}

// follow reads a stream to its terminal line.
func (c *call) follow(ctx context.Context, body io.ReadCloser) (string, error) {
	type read struct {
		line []byte
		err  error
	}
	lines := make(chan read)
	gone := make(chan struct{})
	defer close(gone)
	defer body.Close() // so that the reader below returns
	go func() {
		in := bufio.NewReader(body)
		for {
			line, err := readLine(in)
			select {
			case lines <- read{line, err}:
			case <-gone:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	silence := newTimer(c.a.opts.Silence)
	defer silence.Stop()
	for {
		select {
		case r := <-lines:
			if len(bytes.TrimSpace(r.line)) > 0 {
				silence.restart(c.a.opts.Silence)
				if reply, done, err := c.take(r.line); done {
					return reply, err
				}
			}
			switch {
			case errors.Is(r.err, errLongLine):
				return "", failure(turn.CodeFailed, "A line of the bridge is longer than %d bytes", bridge.MaxLine)
			case errors.Is(r.err, io.EOF):
				return "", &broken{failure(turn.CodeFailed, "Bridge stream ended without a final reply")}
			case r.err != nil:
				return "", &broken{failure(turn.CodeFailed, "Bridge connection was lost: %v", short(r.err))}
			}
		case <-silence.C:
			return "", &broken{failure(turn.CodeIdle, "Agent bridge went silent for %s", seconds(c.a.opts.Silence))}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

var errLongLine = errors.New("a line is too long")

// readLine returns a line with its newline, or what there is of it and an error.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > bridge.MaxLine {
			return nil, errLongLine
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// take acts on a line; done says that it ends the call. What is no line is
// ignored.
func (c *call) take(data []byte) (reply string, done bool, err error) {
	l, err := bridge.ParseLine(data)
	if err != nil {
		return "", false, nil
	}
	if l.Type == bridge.TypeAccepted && l.Turn == c.req.Turn {
		c.turns = true
	}
	return c.line(l)
}

func (c *call) line(l bridge.Line) (reply string, done bool, err error) {
	switch l.Type {
	case bridge.TypeStatus:
		if l.Seq > 0 && l.Seq <= c.seq.Load() {
			return "", false, nil // seen before the connection was lost
		}
		if l.Seq > 0 {
			c.seq.Store(l.Seq)
		}
		c.shower.say(l.Text, l.Seq)
	case bridge.TypeFinal:
		c.shower.close()
		if strings.TrimSpace(l.Text) == "" {
			l.Text = bridge.NoResponse
		}
		return l.Text, true, nil
	case bridge.TypeError:
		c.shower.close()
		code := turn.CodeFailed
		switch l.Code {
		case bridge.IdleTimeout, bridge.MaxDuration, bridge.Superseded, bridge.Interrupted:
			code = turn.Code(l.Code)
		}
		return "", true, failure(code, "Bridge failed (%s): %s", l.Code, l.Error)
	}
	return "", false, nil
}

// stop tells the agent that nobody wants its reply any more. A server that does
// not know how refuses, and its run goes on to its own limit.
func (c *call) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	r, err := c.request(ctx, http.MethodPost, c.post, bridge.Request{RequestID: c.req.RequestID, User: c.req.User, Turn: c.req.Turn, Stop: true}.Encode())
	if err != nil {
		return
	}
	resp, err := c.a.http.Do(r)
	if err != nil {
		c.a.log.Warn("an agent was not told to stop", "agent", c.name, "err", err)
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be used again
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		c.a.log.Info("an agent does not stop when told to; its run ends by its own limit", "agent", c.name, "status", resp.StatusCode)
	}
}
