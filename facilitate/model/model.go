// Package model holds adapters that turn HTTP APIs into a [flow.Model]. They
// are stateless: every request stands alone, so no provider session can join
// two levels. An adapter sees raw text by nature.
package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/facilitate/flow"
)

// A Key is a secret that does not print.
type Key string

// Format prints a mark.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, "[secret]") }

// MarshalText writes a mark.
func (Key) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Options configures an adapter.
type Options struct {
	Key     Key
	Model   string
	URL     string        // of the API; each adapter has its default
	Client  *http.Client  // http.DefaultClient
	Retries int           // tries after the first on 429, 5xx and broken connections; 0 is 2, negative none
	Wait    time.Duration // before the first retry, doubled and jittered; 0.5 s. A Retry-After wins
}

// ErrProvider is an answer that is no success; its text holds the status and
// nothing of the prompt.
var ErrProvider = errors.New("model provider")

// maxBody bounds an answer.
const maxBody = 4 << 20

// Anthropic asks the Messages API. The schema becomes a forced tool call.
func Anthropic(o Options) flow.Model {
	if o.URL == "" {
		o.URL = "https://api.anthropic.com/v1/messages"
	}
	return func(ctx context.Context, r flow.Request) (flow.Response, error) {
		return messages(ctx, o, r, http.Header{"X-Api-Key": {string(o.Key)}, "Anthropic-Version": {"2023-06-01"}})
	}
}

// Proxy asks a server of one's own that speaks the Messages API and holds the
// key itself. URL is required.
func Proxy(o Options) flow.Model {
	return func(ctx context.Context, r flow.Request) (flow.Response, error) {
		h := http.Header{}
		if o.Key != "" {
			h.Set("Authorization", "Bearer "+string(o.Key))
		}
		return messages(ctx, o, r, h)
	}
}

type dict = map[string]any

func messages(ctx context.Context, o Options, r flow.Request, h http.Header) (flow.Response, error) {
	body := dict{"model": o.Model, "max_tokens": limit(r), "system": r.System, "messages": []dict{{"role": "user", "content": r.Prompt}}}
	if r.Temperature > 0 {
		body["temperature"] = r.Temperature
	}
	if len(r.Schema) > 0 {
		body["tools"] = []dict{{"name": "answer", "description": "Give the answer.", "input_schema": r.Schema}}
		body["tool_choice"] = dict{"type": "tool", "name": "answer"}
	}
	var out struct {
		Content []struct {
			Type, Text string
			Input      json.RawMessage
		}
		Usage struct {
			In  int `json:"input_tokens"`
			Out int `json:"output_tokens"`
		}
	}
	if err := post(ctx, o, h, body, &out); err != nil {
		return flow.Response{}, err
	}
	res := flow.Response{Usage: flow.Usage{In: out.Usage.In, Out: out.Usage.Out}}
	for _, c := range out.Content {
		if c.Type == "tool_use" {
			res.Text = string(c.Input)
			return res, nil
		}
		res.Text += c.Text
	}
	return res, nil
}

// OpenRouter asks an API in the form of OpenAI's chat completions, by default
// OpenRouter's. The schema becomes a strict response format.
func OpenRouter(o Options) flow.Model {
	if o.URL == "" {
		o.URL = "https://openrouter.ai/api/v1/chat/completions"
	}
	return func(ctx context.Context, r flow.Request) (flow.Response, error) {
		body := dict{"model": o.Model, "max_tokens": limit(r), "messages": []dict{{"role": "system", "content": r.System}, {"role": "user", "content": r.Prompt}}}
		if r.Temperature > 0 {
			body["temperature"] = r.Temperature
		}
		if len(r.Schema) > 0 {
			body["response_format"] = dict{"type": "json_schema", "json_schema": dict{"name": "answer", "strict": true, "schema": r.Schema}}
		}
		var out struct {
			Choices []struct{ Message struct{ Content string } }
			Usage   struct {
				In  int `json:"prompt_tokens"`
				Out int `json:"completion_tokens"`
			}
		}
		h := http.Header{"Authorization": {"Bearer " + string(o.Key)}}
		if err := post(ctx, o, h, body, &out); err != nil {
			return flow.Response{}, err
		}
		res := flow.Response{Usage: flow.Usage{In: out.Usage.In, Out: out.Usage.Out}}
		if len(out.Choices) > 0 {
			res.Text = out.Choices[0].Message.Content
		}
		return res, nil
	}
}

func limit(r flow.Request) int {
	if r.MaxTokens > 0 {
		return r.MaxTokens
	}
	return 1024
}

func post(ctx context.Context, o Options, h http.Header, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if o.Retries == 0 {
		o.Retries = 2
	}
	if o.Wait == 0 {
		o.Wait = 500 * time.Millisecond
	}
	for try := 0; ; try++ {
		wait, err := once(ctx, o, h, data, out)
		if err == nil || wait < 0 || try >= o.Retries || ctx.Err() != nil {
			return err
		}
		if wait == 0 {
			wait = time.Duration(float64(o.Wait<<try) * (0.5 + rand.Float64()))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// once returns how long to wait before another try: 0 for the usual time,
// negative for none.
func once(ctx context.Context, o Options, h http.Header, data []byte, out any) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(data))
	if err != nil {
		return -1, fmt.Errorf("%w: bad URL", ErrProvider)
	}
	req.Header = h.Clone()
	req.Header.Set("Content-Type", "application/json")
	client := o.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return -1, ctx.Err()
		}
		return 0, fmt.Errorf("%w: no connection", ErrProvider)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	switch {
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500:
		s, _ := strconv.Atoi(strings.TrimSpace(res.Header.Get("Retry-After")))
		return min(time.Duration(s)*time.Second, time.Minute), fmt.Errorf("%w: status %d", ErrProvider, res.StatusCode)
	case res.StatusCode != http.StatusOK:
		return -1, fmt.Errorf("%w: status %d", ErrProvider, res.StatusCode)
	case err != nil:
		return 0, fmt.Errorf("%w: the answer broke off", ErrProvider)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return -1, fmt.Errorf("%w: no JSON", ErrProvider)
	}
	return 0, nil
}
