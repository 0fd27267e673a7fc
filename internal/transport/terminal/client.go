package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

// A Client speaks the internal HTTP API of one server.
type Client struct {
	// URL is the server's base URL without a slash at the end.
	URL   string
	Token secret.Value
	HTTP  *http.Client
}

// A StatusError is an answer that is not a success.
type StatusError struct {
	Status int
	Text   string // the server's own words
}

// Error returns the server's words.
func (e *StatusError) Error() string { return fmt.Sprintf("%s (HTTP %d)", e.Text, e.Status) }

// maxAnswer bounds what is read of an answer; histories are the longest.
const maxAnswer = 64 << 20

func (c *Client) do(ctx context.Context, method, path string, body, out any, header ...string) error {
	var rd io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		rd = bytes.NewReader(data)
	}
	req, err := c.request(ctx, method, path, rd, header...)
	if err != nil {
		return err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return statusError(resp.StatusCode, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token.Reveal())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req, nil
}

func statusError(status int, body []byte) error {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || e.Error == "" {
		e.Error = http.StatusText(status)
	}
	return &StatusError{status, e.Error}
}

// Alive reports whether the server answers and knows the token.
func (c *Client) Alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return c.do(ctx, "GET", "/channels", nil, nil)
}

// Open makes a session that runner answers; empty is the default runner.
func (c *Client) Open(ctx context.Context, runner string) (id string, err error) {
	var out struct {
		ID string `json:"sessionId"`
	}
	body := map[string]string{"originChannel": "terminal", "originThreadTs": strconv.FormatInt(time.Now().UnixMicro(), 10)}
	if runner != "" {
		body["runner"] = runner
	}
	err = c.do(ctx, "POST", "/sessions", body, &out)
	return out.ID, err
}

// A Line is one line of a session's log, as far as the terminal shows it.
type Line struct {
	User  string `json:"user"`
	Text  string `json:"text"`
	IsBot bool   `json:"isBot"`
}

// History returns the session's log. It is also how a session is looked up.
func (c *Client) History(ctx context.Context, session string) ([]Line, error) {
	var out struct {
		History []Line `json:"history"`
	}
	err := c.do(ctx, "GET", "/sessions/"+session+"/history", nil, &out)
	return out.History, err
}

// Send submits a message and returns its turn as soon as it is accepted.
func (c *Client) Send(ctx context.Context, session, user, text string) (turn.ID, error) {
	var out struct {
		Turn turn.ID `json:"turn"`
	}
	err := c.do(ctx, "POST", "/sessions/"+session+"/message", map[string]string{"text": text, "user": user}, &out, "Prefer", "respond-async")
	return out.Turn, err
}

// Act posts to one of the session's routes without a body: stop, reset, compact.
func (c *Client) Act(ctx context.Context, session, what string) (message string, err error) {
	var out struct {
		Message    string `json:"message"`
		WasRunning *bool  `json:"wasRunning"`
	}
	if err := c.do(ctx, "POST", "/sessions/"+session+"/"+what, struct{}{}, &out); err != nil {
		return "", err
	}
	if out.WasRunning != nil && !*out.WasRunning {
		return "Nothing running", nil
	}
	return out.Message, nil
}

// retryStream is the pause before a broken event stream is opened again, and
// streamTries how often in a row: together they outlast a restart.
const (
	retryStream = 500 * time.Millisecond
	streamTries = 40
)

// Follow calls see for every event after since and reconnects where it left off,
// until ctx ends, see returns false, or the server stays away.
func (c *Client) Follow(ctx context.Context, session string, since int64, opened func(), see func(turn.Event) bool) error {
	failures := 0
	for {
		more, err := c.stream(ctx, session, &since, func() {
			failures = 0
			if opened != nil {
				opened()
				opened = nil
			}
		}, see)
		var status *StatusError
		if !more || ctx.Err() != nil || errors.As(err, &status) && status.Status != http.StatusTooManyRequests {
			return err
		}
		if failures++; failures > streamTries {
			return fmt.Errorf("the server is gone: %w", err)
		}
		select {
		case <-time.After(retryStream):
		case <-ctx.Done():
			return nil
		}
	}
}

// stream reads one event stream to its end. more is false when see has enough.
func (c *Client) stream(ctx context.Context, session string, since *int64, opened func(), see func(turn.Event) bool) (more bool, err error) {
	var header []string
	if *since >= 0 {
		header = []string{"Last-Event-ID", strconv.FormatInt(*since, 10)}
	}
	req, err := c.request(ctx, "GET", "/sessions/"+session+"/stream", nil, header...)
	if err != nil {
		return false, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		return true, statusError(resp.StatusCode, body)
	}
	opened()
	r := newEventReader(resp.Body)
	for {
		f, err := r.next()
		if err != nil {
			return true, err
		}
		var e turn.Event
		if f.event == "truncated" || json.Unmarshal(f.data, &e) != nil {
			continue
		}
		if f.id > 0 {
			*since = f.id
		}
		if !see(e) {
			return false, nil
		}
	}
}
