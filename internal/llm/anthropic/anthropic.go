// Package anthropic speaks the Anthropic Messages API, to Anthropic and to
// gateways that understand it. It owns the encoding of requests, the decoding
// of streams and the classing of failures; it does not retry, watch the clock,
// resolve keys or read the environment.
//
// request.go turns a history into bytes, answer.go a stream into events,
// failure.go whatever goes wrong into an *llm.Error.
package anthropic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/secret"
)

// DefaultURL is Anthropic's own endpoint.
const DefaultURL = "https://api.anthropic.com"

// apiVersion is the one that gateways know; the SDK would send a newer one.
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
	client  sdk.Client
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
	client := *opts.HTTPClient
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	m := &Model{opts: opts, secrets: append(slices.Collect(maps.Values(opts.Headers)), opts.Key.Reveal())}
	m.secrets = slices.DeleteFunc(m.secrets, func(s string) bool { return len(s) < minSecret })
	m.client = sdk.NewClient(
		option.WithoutEnvironmentDefaults(),
		option.WithBaseURL(base+"/"),
		option.WithHTTPClient(&client),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
		option.WithOpenTelemetryPropagation(false),
		option.WithMiddleware(m.prepare),
	)
	return m, nil
}

// minSecret keeps short header values such as "1" from being blotted out of
// every error text.
const minSecret = 6

// maxErrorBody bounds what is read of an answer that is an error.
const maxErrorBody = 64 << 10

// prepare gives the request the headers that gateways expect, none of the SDK's
// own that tell about this machine, and bounds the body of an error.
func (m *Model) prepare(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	for name := range req.Header {
		if strings.HasPrefix(name, "X-Stainless-") {
			delete(req.Header, name)
		}
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Traceparent", "Tracestate", "Baggage"} {
		req.Header.Del(name)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Anthropic-Version", apiVersion)
	req.Header.Set("User-Agent", "iris")
	switch key := m.opts.Key.Reveal(); {
	case key == "":
	case m.opts.AuthBearer:
		req.Header.Set("Authorization", "Bearer "+key)
	default:
		req.Header.Set("X-Api-Key", key)
	}
	for name, value := range m.opts.Headers {
		req.Header.Set(name, value)
	}
	res, err := next(req)
	if err == nil && res.StatusCode >= 400 {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxErrorBody), res.Body}
	}
	return res, err
}

// Info describes the model.
func (m *Model) Info() llm.Info { return m.opts.Info }

// Stream asks for the next message; see llm.Model.
func (m *Model) Stream(parent context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		ctx, cancel := context.WithCancel(parent)
		defer cancel()
		var res *http.Response
		body := bytes.NewReader(m.encode(req))
		err := m.client.Execute(ctx, http.MethodPost, "v1/messages", body, &res)
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
			linger(res.Body, cancel)
			yield(llm.Event{Done: &llm.Done{Message: message}}, nil)
		}
	}
}

// lingering is how long a finished stream may take to close, so that its
// connection can carry the next request. The end usually is there already.
const lingering = 20 * time.Millisecond

// linger reads what is left of a finished stream.
func linger(body io.Reader, cut func()) {
	t := time.AfterFunc(lingering, cut)
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}
