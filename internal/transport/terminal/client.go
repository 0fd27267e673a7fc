package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

// A Client speaks the internal HTTP API of one server. It is safe for
// concurrent use once its fields are set.
type Client struct {
	// URL is the server's base URL without a slash at the end.
	URL   string
	Token secret.Value
	HTTP  *http.Client

	// pause, tries and silence are changed by tests; 0 is the constant of the
	// same purpose.
	pause   time.Duration
	tries   int
	silence time.Duration
}

// A StatusError is an answer that is not a success.
type StatusError struct {
	Status int
	Text   string // the server's own words
}

// Error returns the server's words, with the status where they explain little.
func (e *StatusError) Error() string {
	if e.Status < http.StatusInternalServerError {
		return e.Text
	}
	return fmt.Sprintf("%s (HTTP %d)", e.Text, e.Status)
}

// What Probe finds where no Iris is.
var (
	// ErrNobody: nothing answers.
	ErrNobody = errors.New("nobody answers there")
	// ErrNotIris: something answers, and it is no Iris.
	ErrNotIris = errors.New("what answers there is not Iris")
)

var errUnreadable = errors.New("the answer cannot be read")

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
		return short(err)
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
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: %w: %w", method, path, errUnreadable, err)
	}
	return nil
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

// short drops the method and the URL that net/http puts before its errors:
// people have seen the address, and a URL holds ids.
func short(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func statusError(status int, body []byte) error {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || e.Error == "" {
		e.Error = http.StatusText(status)
	}
	if e.Error == "" {
		e.Error = "an answer without words"
	}
	return &StatusError{status, e.Error}
}

// passing reports an error that another try may not meet again: the server is
// starting, busy or out of reach.
func passing(err error) bool {
	var status *StatusError
	if !errors.As(err, &status) {
		return err != nil && !errors.Is(err, errUnreadable) && !errors.Is(err, errLongLine)
	}
	switch status.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// How long a server on this machine, or near it, may take to show itself, and
// then to answer: one that is starting lets requests wait for ten seconds.
const (
	probeAlive = 2 * time.Second
	probeReady = 15 * time.Second
)

// Probe reports whether Iris answers and knows the token. The token is sent
// only to what has said first that it is Iris. The error is ErrNobody or
// ErrNotIris where there is no Iris, else hers.
func (c *Client) Probe(ctx context.Context) error {
	if err := c.health(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeReady)
	defer cancel()
	_, err := c.about(ctx)
	return err
}

// health asks without a token.
func (c *Client) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeAlive)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			return fmt.Errorf("%w: %w", ErrNobody, short(err))
		}
		return ErrNotIris // it took the connection and says nothing
	}
	defer resp.Body.Close()
	var health struct {
		OK       bool `json:"ok"`
		Channels *int `json:"channels"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, 4<<10)).Decode(&health) != nil || !health.OK || health.Channels == nil {
		return ErrNotIris
	}
	return nil
}

// about is what the server says about itself.
type about struct {
	Version  string `json:"version"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

func (c *Client) about(ctx context.Context) (a about, err error) {
	err = c.do(ctx, "GET", "/page/status", nil, &a)
	return a, err
}

// Running returns the turn that runs in the session, "" if there is none.
func (c *Client) Running(ctx context.Context, session string) (turn.ID, error) {
	var out struct {
		Running turn.ID `json:"running"`
	}
	err := c.do(ctx, "GET", "/page/threads/SESSION-"+url.PathEscape(session)+"/history", nil, &out)
	return out.Running, err
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

func sessionPath(session, rest string) string { return "/sessions/" + url.PathEscape(session) + rest }

// History returns the session's log. It is also how a session is looked up.
func (c *Client) History(ctx context.Context, session string) ([]Line, error) {
	var out struct {
		History []Line `json:"history"`
	}
	err := c.do(ctx, "GET", sessionPath(session, "/history"), nil, &out)
	return out.History, err
}

// Sent is what became of a message: a turn, or, when it was a command in words,
// an answer at once.
type Sent struct {
	Turn turn.ID `json:"turn"`
	Text string  `json:"text"`
}

// Send submits a message and returns as soon as it is accepted. It is tried
// again while the server is out of reach, under one key, so that it is accepted
// once.
func (c *Client) Send(ctx context.Context, session, user, text string) (Sent, error) {
	key := string(turn.NewID())
	body := map[string]string{"text": text, "user": user}
	for failures := 0; ; {
		var out Sent
		err := c.do(ctx, "POST", sessionPath(session, "/message"), body, &out, "Prefer", "respond-async", "Idempotency-Key", key)
		var refused *StatusError
		busy := errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests
		if err == nil || busy || !passing(err) || ctx.Err() != nil {
			return out, err
		}
		if failures++; failures >= c.limit() {
			return out, err
		}
		if !c.rest(ctx) {
			return out, context.Cause(ctx)
		}
	}
}

// Stop ends the turn id of the session, or what runs there if id is empty.
func (c *Client) Stop(ctx context.Context, session string, id turn.ID) (running bool, err error) {
	var out struct {
		WasRunning bool `json:"wasRunning"`
	}
	path := sessionPath(session, "/stop")
	if id != "" {
		path += "?turn=" + url.QueryEscape(string(id))
	}
	err = c.do(ctx, "POST", path, struct{}{}, &out)
	return out.WasRunning, err
}

// Line has a text acted on as a command of the agent program that answers in the
// session, and returns what it says; ok is false if it is none.
func (c *Client) Line(ctx context.Context, session, text string) (message string, ok bool, err error) {
	var out struct {
		Command bool   `json:"command"`
		Message string `json:"message"`
	}
	err = c.do(ctx, "POST", sessionPath(session, "/command"), map[string]string{"text": text}, &out)
	return out.Message, out.Command, err
}

// Act posts to one of the session's routes that take no body, reset or compact,
// and returns what it says.
func (c *Client) Act(ctx context.Context, session, what string) (message string, err error) {
	var out struct {
		Message string `json:"message"`
	}
	err = c.do(ctx, "POST", sessionPath(session, "/"+what), struct{}{}, &out)
	return out.Message, err
}
