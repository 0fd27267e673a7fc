// Package broker is the source of secrets that asks another process over HTTP:
// the daemon `iris broker` (package gateway), a parent Iris, or any server that
// answers GET /secret/<name> in their way. It owns the wire on this side and
// keeps nothing between calls.
package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// Options say whom to ask.
type Options struct {
	// URL is the address of the broker, without a path of its own or with one
	// that everything lies below. Required.
	URL string
	// Token is its bearer token.
	Token secret.Value
	// HTTP asks. nil means a client of this package that follows no redirect,
	// which could carry the token elsewhere, and goes through no proxy.
	HTTP *http.Client
	// Timeout bounds one call. 0 means 10 s.
	Timeout time.Duration
}

// A Client is a secret.Source. Flags of a broker that has no /meta are those of
// a readable secret: it has answered.
type Client struct {
	opts Options
	base *url.URL
}

var _ secret.Source = (*Client)(nil)

// maxAnswer bounds what is read of an answer: the largest value with every byte
// escaped, and a list of thousands.
const maxAnswer = 4 << 20

// New checks the options. It does not ask yet.
func New(opts Options) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(opts.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("a broker needs an address such as http://127.0.0.1:9099")
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 10 * time.Second
	}
	if opts.HTTP == nil {
		opts.HTTP = &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Client{opts, base}, nil
}

// Close ends the connections that wait for the next call.
func (c *Client) Close() { c.opts.HTTP.CloseIdleConnections() }

// Get asks for a value and for what is known of it.
func (c *Client) Get(ctx context.Context, name string) (secret.Value, secret.Meta, error) {
	if err := secret.CheckName(name); err != nil {
		return secret.Value{}, secret.Meta{}, err
	}
	var answer struct {
		Value string `json:"value"`
		secret.Meta
	}
	answer.AgentReadable = true
	if err := c.call(ctx, http.MethodGet, "/secret/"+name, nil, &answer); err != nil {
		return secret.Value{}, secret.Meta{}, err
	}
	if answer.Value == "" {
		return secret.Value{}, secret.Meta{}, fmt.Errorf("%w: its answer has no value", secret.ErrUnreachable)
	}
	v := secret.New(answer.Value)
	m, err := c.Meta(ctx, name)
	if errors.Is(err, secret.ErrNotFound) { // a server without /meta
		m, err = answer.Meta, nil
		if m.Name == "" {
			m.Name = name
		}
	}
	return v, m, err
}

// Meta asks what is known of a secret.
func (c *Client) Meta(ctx context.Context, name string) (m secret.Meta, err error) {
	if err := secret.CheckName(name); err != nil {
		return m, err
	}
	m.AgentReadable = true
	if err := c.call(ctx, http.MethodGet, "/meta/"+name, nil, &m); err != nil {
		return secret.Meta{}, err
	}
	if m.Name == "" {
		m.Name = name
	}
	return m, nil
}

// List asks for all.
func (c *Client) List(ctx context.Context) ([]secret.Meta, error) {
	var answer struct {
		Secrets []secret.Meta `json:"secrets"`
	}
	err := c.call(ctx, http.MethodGet, "/secrets", nil, &answer)
	return answer.Secrets, err
}

// Put stores a value at the broker.
func (c *Client) Put(ctx context.Context, name string, v secret.Value, p secret.Put) (secret.Meta, error) {
	if err := errors.Join(secret.CheckName(name), secret.CheckValue(v)); err != nil {
		return secret.Meta{}, err
	}
	body, err := json.Marshal(map[string]any{"value": v.Reveal(), "source": p.Origin, "proxyOnly": p.ProxyOnly, "agentReadable": p.AgentReadable})
	if err != nil {
		return secret.Meta{}, err
	}
	if err := c.call(ctx, http.MethodPut, "/secret/"+name, body, nil); err != nil {
		return secret.Meta{}, err
	}
	m, err := c.Meta(ctx, name)
	if errors.Is(err, secret.ErrNotFound) {
		return secret.Meta{Name: name, UpdatedAt: time.Now().UTC(), AgentReadable: true}, nil
	}
	return m, err
}

// Delete removes a secret at the broker.
func (c *Client) Delete(ctx context.Context, name string) error {
	if err := secret.CheckName(name); err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, "/secret/"+name, nil, nil)
}

func (c *Client) call(ctx context.Context, method, path string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	if !c.opts.Token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token.Reveal())
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", secret.ErrUnreachable, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("%w: %w", secret.ErrUnreachable, err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusNoContent {
		return refusal(resp.StatusCode, data)
	}
	if answer == nil {
		return nil
	}
	if len(data) > maxAnswer || json.Unmarshal(data, answer) != nil {
		// What came may hold the value: it is not shown.
		return fmt.Errorf("%w: its answer to %s is not what a broker says", secret.ErrUnreachable, path)
	}
	return nil
}

// refusal turns a status into an error. The broker's words are for people; they
// are cut, and never hold a value.
func refusal(status int, data []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(data, &said) // any other body says nothing
	if said.Error == "" {
		said.Error = http.StatusText(status)
	}
	base := secret.ErrUnreachable
	switch status {
	case http.StatusNotFound:
		base = secret.ErrNotFound
	case http.StatusForbidden:
		base = secret.ErrForbidden
	case http.StatusServiceUnavailable:
		base = secret.ErrReadOnly
	case http.StatusBadRequest:
		base = secret.ErrValue
		if strings.Contains(said.Error, "name") {
			base = secret.ErrName
		}
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: it does not know this token (IRIS_SECRET_BROKER_TOKEN)", secret.ErrUnreachable)
	}
	if said.Error == base.Error() {
		return base
	}
	return fmt.Errorf("%w: %.200s", base, said.Error)
}
