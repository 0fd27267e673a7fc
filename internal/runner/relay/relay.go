// Package relay answers turns by forwarding them to a web address: the channels
// in passthrough mode. It owns what is posted, how the answer is read and what
// people see when there is none. It keeps no context and cannot resume: a request
// that was under way when the process ended is not made twice.
package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

// A Target is where a conversation is forwarded to.
type Target struct {
	URL string
	// Key is shown in X-API-Key; zero: no header.
	Key secret.Value
	// Payload is JSON whose strings may hold places such as {{text}}; empty: the
	// text, the user's name and the sender's id.
	Payload json.RawMessage
	// ReplyPrefix stands before every reply.
	ReplyPrefix string
}

// Options of a Relay. Target is required.
type Options struct {
	// Target finds where a conversation is forwarded to. It must be quick.
	Target func(ctx context.Context, conv chat.Address) (Target, error)
	// Quiet has failures told to nobody but the log: the messages were not meant
	// for Iris in particular.
	Quiet bool
	// Timeout bounds one request: 60 s.
	Timeout time.Duration
	Client  *http.Client // nil: one of its own
	Logger  *slog.Logger // nil: slog.DiscardHandler
}

// A Relay is a runner. It is safe for concurrent use.
type Relay struct{ opts Options }

// unavailable is what people read when there is no answer.
const unavailable = "_Bot unavailable, please try again._"

// maxReply bounds what is read of an answer.
const maxReply = 1 << 20

// New checks opts.
func New(opts Options) (*Relay, error) {
	if opts.Target == nil {
		return nil, errors.New("relay: a target is required")
	}
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	if opts.Client == nil {
		opts.Client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Relay{opts}, nil
}

// Run implements runner.Runner.
func (r *Relay) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if req.Attempt > 1 {
		return runner.ErrInterrupted
	}
	reply, err := r.ask(ctx, req)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return sink.Emit(turn.Event{Kind: turn.Final, Text: reply})
	case errors.Is(cause, runner.ErrLeaving):
		return cause // interrupted at the next start
	case cause != nil:
		return cause
	}
	r.opts.Logger.Warn("not forwarded", "conversation", req.Conversation, "turn", req.ID, "err", err)
	if r.opts.Quiet {
		return sink.Emit(turn.Event{Kind: turn.Final, Silent: true})
	}
	return sink.Emit(turn.Event{Kind: turn.Final, Text: unavailable})
}

// ask makes the request and reads the answer.
func (r *Relay) ask(ctx context.Context, req turn.Request) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	t, err := r.opts.Target(ctx, req.Conversation)
	if err != nil {
		return "", err
	}
	body, err := payload(t.Payload, values(req))
	if err != nil {
		return "", err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	post.Header.Set("Content-Type", "application/json")
	if !t.Key.IsZero() {
		post.Header.Set("X-API-Key", t.Key.Reveal())
	}
	resp, err := r.opts.Client.Do(post)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return "", err
	}
	return t.ReplyPrefix + reply(data), nil
}

// reply finds the text of an answer.
func reply(data []byte) string {
	var fields map[string]any
	if json.Unmarshal(data, &fields) == nil {
		for _, name := range []string{"response", "text", "error"} {
			if s, ok := fields[name].(string); ok && strings.TrimSpace(s) != "" {
				return s
			}
		}
	}
	return "(no response)"
}

// values are what places may be filled with.
func values(req turn.Request) map[string]string {
	m := req.Message
	name := firstOf(m.From.Display, m.From.Name, m.From.ID)
	return map[string]string{
		"text": firstOf(m.Prompt, m.Text), "user_id": m.From.ID, "user_name": name,
		"user_handle": strings.ReplaceAll(strings.ToLower(name), " ", "."),
		"sender_id":   "slack_" + strings.ReplaceAll(firstOf(m.Thread, m.ID), ".", ""),
		"channel":     req.Conversation.ID, "ts": m.ID,
	}
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// payload fills a template; without one it is the usual three fields.
func payload(template json.RawMessage, v map[string]string) ([]byte, error) {
	if len(bytes.TrimSpace(template)) == 0 {
		return json.Marshal(map[string]string{"text": v["text"], "user": v["user_name"], "sender_id": v["sender_id"]})
	}
	d := json.NewDecoder(bytes.NewReader(template))
	d.UseNumber()
	var any any
	if err := d.Decode(&any); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return json.Marshal(fill(any, v))
}

var place = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{\s*([A-Za-z_]+)\s*\}\}`) })

// fill puts values into all strings below x; what is filled in is not looked at
// again.
func fill(x any, v map[string]string) any {
	switch x := x.(type) {
	case string:
		return place().ReplaceAllStringFunc(x, func(p string) string { return v[place().FindStringSubmatch(p)[1]] })
	case []any:
		for i := range x {
			x[i] = fill(x[i], v)
		}
	case map[string]any:
		for k := range x {
			x[k] = fill(x[k], v)
		}
	}
	return x
}

var _ runner.Runner = (*Relay)(nil)
