// Package openai speaks the two OpenAI wires, Responses and Chat Completions,
// to OpenAI and to every server that understands one of them: Azure, Ollama,
// vLLM, DeepSeek, Mistral, OpenRouter and the like. It owns the encoding of
// requests, the decoding of streams and the classing of failures; it does not
// retry, watch the clock, resolve keys or read the environment.
//
// chat.go and responses.go turn a history into bytes, chat_answer.go and
// responses_answer.go a stream into events; answer.go is what the two streams
// share, encode.go what the two encodings share, and failure.go turns whatever
// goes wrong into an *llm.Error. Why there is no SDK below:
// docs/decisions/model-wires.md.
package openai

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/secret"
)

// DefaultURL is OpenAI's own endpoint.
const DefaultURL = "https://api.openai.com/v1"

// Options configures a model.
type Options struct {
	// Info describes the model. Info.Model is required; Info.Provider defaults
	// to "openai" and is the name that errors and messages carry. Reasoning is
	// only asked for, and images only sent, where Info says so.
	Info llm.Info
	// API is llm.OpenAIResponses or llm.OpenAICompletions; "" means the former
	// at DefaultURL and the latter elsewhere.
	API llm.API
	// BaseURL is the endpoint without "/responses" or "/chat/completions"; ""
	// means DefaultURL. A query is kept, so an Azure deployment is
	// "https://acme.openai.azure.com/openai/deployments/d?api-version=v".
	BaseURL string
	// Key is sent as "Authorization: Bearer", and to Azure hosts as "api-key"
	// unless AuthHeader is set. It may be empty for servers that need none.
	Key        secret.Value
	AuthHeader bool
	// Headers are added to every request. Their values are kept out of errors.
	Headers map[string]secret.Value
	// Compat says what the server understands beyond the common ground. A
	// server with DeveloperRole is also taken to know max_completion_tokens.
	Compat llm.Compat
	// HTTPClient sends the requests; nil means llm.NewHTTPClient. It must
	// not have a timeout, which would cut streams. Redirects are never
	// followed, since the key would go with them.
	HTTPClient *http.Client
}

// A Model answers through one of the wires. It is an llm.Model.
type Model struct {
	opts    Options
	wire    wire
	url     string
	azure   bool
	client  http.Client
	secrets []string // what must not appear in errors
}

var _ llm.Model = (*Model)(nil)

// A wire is one of the two protocols.
type wire interface {
	path() string
	// encode returns the body of a request.
	encode(req llm.Request) []byte
	// read turns a stream into the whole answer. The events that it passes to
	// yield are never empty; it returns errStopped when yield wants no more.
	read(frames *llm.Frames, names names, yield func(llm.Event) bool) (llm.Message, error)
}

// New returns a model. It connects to nothing.
func New(opts Options) (*Model, error) {
	if opts.Info.Model == "" {
		return nil, fmt.Errorf("openai: no model named")
	}
	if opts.Info.Provider == "" {
		opts.Info.Provider = "openai"
	}
	if opts.API == "" {
		opts.API = llm.OpenAICompletions
		if opts.BaseURL == "" || opts.BaseURL == DefaultURL {
			opts.API = llm.OpenAIResponses
		}
	}
	if opts.BaseURL == "" {
		opts.BaseURL = DefaultURL
	}
	base, err := url.Parse(opts.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("openai: the base URL of %s is not an http(s) URL", opts.Info.Provider)
	}
	host := base.Hostname()
	m := &Model{opts: opts, azure: strings.HasSuffix(host, ".azure.com")}
	switch opts.API {
	case llm.OpenAIResponses:
		m.wire = responsesWire{opts}
	case llm.OpenAICompletions:
		m.wire = chatWire{Options: opts, mistral: host == "mistral.ai" || strings.HasSuffix(host, ".mistral.ai")}
	default:
		return nil, fmt.Errorf("openai: unknown api %q: want %q or %q", opts.API, llm.OpenAIResponses, llm.OpenAICompletions)
	}
	base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/"+m.wire.path())
	m.url = base.JoinPath(m.wire.path()).String()
	if opts.HTTPClient == nil {
		opts.HTTPClient = llm.NewHTTPClient()
	}
	m.client = *opts.HTTPClient
	m.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, v := range opts.Headers {
		m.conceal(v)
	}
	m.conceal(opts.Key)
	return m, nil
}

// minSecret keeps short header values such as "1" from being blotted out of
// every error text.
const minSecret = 6

func (m *Model) conceal(v secret.Value) {
	if s := v.Reveal(); len(s) >= minSecret {
		m.secrets = append(m.secrets, s)
	}
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
		frames := llm.NewFrames(res.Body)
		pieces := llm.Join(frames, func(e llm.Event) bool { return yield(e, nil) })
		message, err := m.wire.read(frames, namesOf(req.Tools), pieces.Add)
		if !pieces.Flush() {
			err = errStopped
		}
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

func (m *Model) send(ctx context.Context, req llm.Request) (*http.Response, error) {
	r, err := llm.Post(ctx, m.url, func() []byte { return m.wire.encode(req) })
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("User-Agent", "iris")
	switch key := m.opts.Key.Reveal(); {
	case key == "":
	case m.azure && !m.opts.AuthHeader:
		r.Header.Set("Api-Key", key)
	default:
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range m.opts.Headers {
		r.Header.Set(name, value.Reveal())
	}
	return m.client.Do(r)
}
