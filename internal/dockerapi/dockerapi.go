// Package dockerapi speaks to a Docker engine over its unix socket: JSON
// requests, their errors, and the framing of attached output. It is a leaf that
// knows nothing of agents or sandboxes; what is asked of the engine is the
// business of who asks. Paths are given without a version, which every engine
// takes as its newest.
package dockerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// DefaultSocket is where an engine listens unless it is told otherwise.
const DefaultSocket = "/var/run/docker.sock"

// maxAnswer bounds an answer that is decoded.
const maxAnswer = 16 << 20

// Options are what New needs.
type Options struct {
	// Host is the engine: a unix socket, with or without "unix://" before it.
	// Empty: DefaultSocket.
	Host string
}

// A Client talks to one engine. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	socket string
}

// New returns a client. It does not connect.
func New(opts Options) (*Client, error) {
	socket := strings.TrimPrefix(opts.Host, "unix://")
	if socket == "" {
		socket = DefaultSocket
	}
	if !strings.HasPrefix(socket, "/") {
		return nil, fmt.Errorf("docker: the engine %q is not a unix socket", opts.Host)
	}
	c := &Client{socket: socket}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) }
	c.http = &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}
	return c, nil
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", c.socket)
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// An Error is an answer of the engine that is not a success.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("docker: %s (%d)", e.Message, e.Status) }

// Is reports whether an error is an answer with this status.
func Is(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// Do sends in as JSON and decodes the answer into out; nil: nothing is sent, or
// the answer is dropped. An answer of 304 (already so) is a success.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	kind := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(b), "application/json"
	}
	res, err := c.Stream(ctx, method, path, kind, body)
	if err != nil {
		return err
	}
	defer res.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(res, maxAnswer))
		return err
	}
	if err := json.NewDecoder(io.LimitReader(res, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("docker: %s %s: %w", method, path, err)
	}
	return nil
}

// Stream sends body as it is and returns the body of a successful answer. The
// caller closes it; it ends with ctx.
func (c *Client) Stream(ctx context.Context, method, path, contentType string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("docker: the engine at %s: %w", c.socket, err)
	}
	if res.StatusCode < 400 {
		return res.Body, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}

// refusal is what an answer that is no success says.
func refusal(res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return err
	}
	var told struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &told) != nil || told.Message == "" {
		told.Message = strings.TrimSpace(string(text))
	}
	return &Error{res.StatusCode, told.Message}
}
