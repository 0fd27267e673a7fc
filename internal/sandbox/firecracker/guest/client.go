package guest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/secret"
)

// ErrUnreachable says that nothing was sent: there is no connection to the
// guest.
var ErrUnreachable = errors.New("the guest cannot be reached")

// ErrBroken says that the connection broke: what was asked for may have been
// done, in part or in whole.
var ErrBroken = errors.New("the connection to the guest broke")

const (
	// connectTime is how long a connection may take: the guest is on this
	// machine.
	connectTime = 5 * time.Second
	// fileTime bounds a file's way, however large.
	fileTime = 2 * time.Minute
)

// ClientOptions are the parts of a Client.
type ClientOptions struct {
	// Addr is host and port of the exec-server. Required.
	Addr  string
	Token secret.Value
	// Grace is how long after the timeout of a command its end may come.
	// 0 means 5 s.
	Grace time.Duration
}

// A Client speaks with one exec-server. It is safe for concurrent use. Close it
// when the guest is gone.
type Client struct {
	opts ClientOptions
	http *http.Transport
}

// NewClient makes no connection yet.
func NewClient(opts ClientOptions) *Client {
	if opts.Grace <= 0 {
		opts.Grace = 5 * time.Second
	}
	d := &net.Dialer{Timeout: connectTime}
	return &Client{opts: opts, http: &http.Transport{
		// No proxy: the guest is a neighbour.
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
			}
			return c, nil
		},
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health asks the guest once whether it is up.
func (c *Client) Health(ctx context.Context) error {
	resp, err := c.do(ctx, http.MethodGet, "/health", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var h struct {
		Status string `json:"status"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<10)).Decode(&h); err != nil || resp.StatusCode != http.StatusOK || h.Status != "ok" {
		return fmt.Errorf("GET /health of %s answered %s, status %q", c.opts.Addr, resp.Status, h.Status)
	}
	return nil
}

// do sends one request.
func (c *Client) do(ctx context.Context, method, target string, body io.Reader, head http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.opts.Addr+target, body)
	if err != nil {
		return nil, err
	}
	for k, v := range head {
		req.Header[k] = v
	}
	if !c.opts.Token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token.Reveal())
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil && !errors.Is(err, ErrUnreachable) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the exec-server at %s: %w", c.opts.Addr, err)
	}
	return resp, nil
}

// Run runs a command as sandbox.Sandbox asks. cmd.Conversation is not looked at.
func (c *Client) Run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{Code: 128 + int(syscall.SIGTERM), Aborted: true}, nil
	}
	req := Request{Command: cmd.Script, ID: strings.ToLower(rand.Text()), Dir: cmd.Dir, Env: cmd.Env, Stdin: cmd.Stdin != nil}
	if req.Env == nil {
		req.Env = []string{}
	}
	seconds := maxTimeout
	if cmd.Timeout > 0 {
		seconds = cmd.Timeout.Seconds()
	}
	req.Timeout = &seconds
	text, err := json.Marshal(req)
	if err != nil {
		return sandbox.Exit{}, err
	}
	var body io.Reader = bytes.NewReader(text)
	if cmd.Stdin != nil {
		body = io.MultiReader(bytes.NewReader(append(text, '\n')), input{cmd.Stdin})
	}
	r := &run{client: c, id: req.ID, cmd: cmd, began: time.Now()}
	return r.do(ctx, body)
}

// input ends where its reader does, whatever the reason: a command whose input
// breaks off goes on.
type input struct{ io.Reader }

func (i input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// ReadFile reads as sandbox.Sandbox asks.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64) ([]byte, int64, error) {
	offset, limit = max(offset, 0), max(limit, 0)
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	q := url.Values{"path": {path}, "offset": {strconv.FormatInt(offset, 10)}, "limit": {strconv.FormatInt(limit, 10)}}
	resp, err := c.do(ctx, http.MethodGet, "/file?"+q.Encode(), nil, nil)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, 0, refusalOf("read", path, resp)
	}
	size, err := strconv.ParseInt(resp.Header.Get(sizeHeader), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: the exec-server does not tell its size", path)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", path, err)
	}
	return data, size, nil
}

// WriteFile writes as sandbox.Sandbox asks, up to MaxFile bytes.
func (c *Client) WriteFile(ctx context.Context, path string, data []byte) error {
	if len(data) > MaxFile {
		return fmt.Errorf("write %s: %d bytes are more than the %d that go into a guest at once", path, len(data), MaxFile)
	}
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	resp, err := c.do(ctx, http.MethodPut, "/file?"+url.Values{"path": {path}}.Encode(), bytes.NewReader(data), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return refusalOf("write", path, resp)
	}
	return nil
}

// Resolve follows links as sandbox.Resolver asks.
func (c *Client) Resolve(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	resp, err := c.do(ctx, http.MethodGet, "/resolve?"+url.Values{"path": {path}}.Encode(), nil, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", refusalOf("resolve", path, resp)
	}
	var answer struct {
		Path string `json:"path"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer); err != nil || answer.Path == "" {
		return "", fmt.Errorf("resolve %s: the exec-server names no path", path)
	}
	return answer.Path, nil
}

// refusalOf is the error of an answer that is no success.
func refusalOf(what, path string, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what there is of a reason
	var r refusal
	switch err := json.Unmarshal(text, &r); {
	case err == nil && r.Code == codeNotExist:
		return &fs.PathError{Op: what, Path: path, Err: fs.ErrNotExist}
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: the exec-server in the guest moves no files: run iris exec-server there", what, path)
	case err == nil && r.Error != "":
		return fmt.Errorf("%s %s: %s", what, path, r.Error)
	}
	return fmt.Errorf("%s %s: the exec-server answers %s: %.200q", what, path, resp.Status, text)
}

// isStream reports whether an answer has frames.
func isStream(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == streamType
}
