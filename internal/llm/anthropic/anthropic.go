// Package anthropic speaks the Anthropic Messages API, to Anthropic and to
// gateways that understand it, on net/http. It owns the encoding of requests, the decoding
// of streams and the classing of failures; it does not retry, watch the clock,
// resolve keys or read the environment.
//
// request.go turns a history into bytes, answer.go a stream into events,
// failure.go whatever goes wrong into an *llm.Error.
package anthropic

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/secret"
)

// DefaultURL is Anthropic's own endpoint.
const DefaultURL = "https://api.anthropic.com"

// apiVersion is the one that every gateway knows.
const apiVersion = "2023-06-01"

// fallbackMaxTokens bounds answers of models whose maximum is not known. The
// wire demands a number, and every current model allows this one.
const fallbackMaxTokens = 8192

// Options configures a model.
type Options struct {
	// Info describes the model. Info.Model is required; Info.Provider defaults
	// to "anthropic" and is the name that errors and messages carry. Thinking
	// is only asked for, and images only sent, where Info says so.
	Info llm.Info
	// BaseURL is the endpoint without "/v1/messages"; "" means DefaultURL. A
	// "/v1" at its end is ignored.
	BaseURL string
	// Key is sent as X-Api-Key. It may be empty for gateways that need none.
	Key secret.Value
	// AuthBearer sends the key as "Authorization: Bearer" instead.
	AuthBearer bool
	// Adaptive lets the model choose how long to think, for models that refuse
	// a budget. A request's budget is then only a switch.
	Adaptive bool
	// Headers are added to every request. Their values are kept out of errors.
	Headers map[string]string
	// HTTPClient sends the requests; nil means llm.NewHTTPClient. It must
	// not have a timeout, which would cut streams. Redirects are never
	// followed, since the key would go with them.
	HTTPClient *http.Client
}

// A Model answers through the Messages API. It is an llm.Model.
type Model struct {
	opts    Options
	url     string
	client  http.Client
	secrets []string // what must not appear in errors
}

var _ llm.Model = (*Model)(nil)

// New returns a model. It connects to nothing.
func New(opts Options) (*Model, error) {
	if opts.Info.Model == "" {
		return nil, fmt.Errorf("anthropic: no model named")
	}
	if opts.Info.Provider == "" {
		opts.Info.Provider = "anthropic"
	}
	if opts.BaseURL == "" {
		opts.BaseURL = DefaultURL
	}
	base := strings.TrimSuffix(strings.TrimSuffix(opts.BaseURL, "/"), "/v1")
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("anthropic: %q is not an http(s) URL", opts.BaseURL)
	}
	if opts.HTTPClient == nil {
		opts.HTTPClient = llm.NewHTTPClient()
	}
	m := &Model{opts: opts, url: base + "/v1/messages", client: *opts.HTTPClient}
	m.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	m.secrets = append(slices.Collect(maps.Values(opts.Headers)), opts.Key.Reveal())
	m.secrets = slices.DeleteFunc(m.secrets, func(s string) bool { return len(s) < minSecret })
	return m, nil
}

// minSecret keeps short header values such as "1" from being blotted out of
// every error text.
const minSecret = 6

// maxErrorBody bounds what is read of an answer that is an error.
const maxErrorBody = 64 << 10

// send asks. An answer whose status says that it failed is an error.
func (m *Model) send(ctx context.Context, req llm.Request) (*http.Response, error) {
	r, err := llm.Post(ctx, m.url, func() []byte { return m.encode(req) })
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Anthropic-Version", apiVersion)
	r.Header.Set("User-Agent", "iris")
	switch key := m.opts.Key.Reveal(); {
	case key == "":
	case m.opts.AuthBearer:
		r.Header.Set("Authorization", "Bearer "+key)
	default:
		r.Header.Set("X-Api-Key", key)
	}
	for name, value := range m.opts.Headers {
		r.Header.Set(name, value)
	}
	res, err := m.client.Do(r)
	if err != nil || res.StatusCode < 400 {
		return res, err
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what came of it may say why
	return nil, &statusError{code: res.StatusCode, header: res.Header, body: body}
}

// Info describes the model.
func (m *Model) Info() llm.Info { return m.opts.Info }

// Stream asks for the next message; see llm.Model.
func (m *Model) Stream(parent context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		ctx, cancel := context.WithCancel(parent)
		defer cancel()
		res, err := m.send(ctx, req)
		if err != nil {
			yield(llm.Event{}, m.failure(parent, err))
			return
		}
		defer res.Body.Close()
		if err := m.checkAnswer(res); err != nil {
			yield(llm.Event{}, err)
			return
		}
		message, err := m.read(res.Body, yield)
		switch {
		case err == errStopped:
		case err != nil:
			yield(llm.Event{}, m.failure(parent, err))
		default:
			llm.Linger(res.Body, cancel)
			yield(llm.Event{Done: &llm.Done{Message: message}}, nil)
		}
	}
}
