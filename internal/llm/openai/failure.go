package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/llm"
)

// failure turns whatever ended a stream into an *llm.Error, or into the cause
// of ctx if that is what ended it.
func (m *Model) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var event eventError
	var bad brokenError
	switch {
	case errors.As(err, &event):
		w := wordsOf(event.body)
		return m.fail(w.class(llm.ClassServer), w.text, nil)
	case errors.As(err, &bad):
		return m.fail(llm.ClassBroken, string(bad), nil)
	case errors.Is(err, llm.ErrFrame):
		return m.fail(llm.ClassBroken, err.Error(), err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// A connection that closes before the answer begins reads the same.
		return m.fail(llm.ClassCut, "the stream ended before the answer did", err)
	}
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err
	}
	return m.fail(llm.ClassNetwork, err.Error(), err)
}

func (m *Model) fail(class llm.Class, text string, err error) *llm.Error {
	if text == "" {
		text = "failed without saying why"
	}
	return &llm.Error{Class: class, Provider: m.opts.Info.Provider, Text: llm.OneLine(text, m.secrets...), Err: err}
}

// maxErrorBody bounds what is read of an answer that is an error.
const maxErrorBody = 64 << 10

// checkAnswer refuses what is no event stream: an error, a redirect, the login
// page of a proxy.
func (m *Model) checkAnswer(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && (kind == "text/event-stream" || kind == "") {
		return nil
	}
	var e *llm.Error
	switch {
	case res.StatusCode == http.StatusOK:
		e = m.fail(llm.ClassBroken, "answered with "+kind+" instead of an event stream", nil)
	case res.StatusCode < http.StatusBadRequest:
		e = m.fail(llm.ClassInvalid, "unexpected answer: "+http.StatusText(res.StatusCode), nil)
	default:
		// What can be read of the body is enough; a cut one has fewer words.
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		w := wordsOf(body)
		if w.text == "" {
			w.text = http.StatusText(res.StatusCode)
		}
		if res.StatusCode == http.StatusNotFound && !strings.Contains(w.text, "model") && !strings.Contains(m.opts.BaseURL, "/v1") && !strings.Contains(m.opts.BaseURL, "?") {
			w.text += " (the base URL does not end in /v1, as most servers want it)"
		}
		e = m.fail(w.refine(llm.StatusClass(res.StatusCode)), w.text, nil)
		e.RetryAfter = llm.RetryAfter(res.Header, time.Now())
	}
	e.Status = res.StatusCode
	return e
}

// words is what a server says about a failure.
type words struct {
	code string // the code, else the type of the error
	kind string
	text string
}

// wordsOf finds the message in an error body, however deep a server puts it:
// {"error":{…}}, {"error":"…"}, {"message":…}, {"detail":…},
// {"response":{"error":…}}. Pages of HTML have no words for us.
func wordsOf(body []byte) words {
	var o struct {
		Error    json.RawMessage `json:"error"`
		Response json.RawMessage `json:"response"`
		Code     json.RawMessage `json:"code"`
		Type     string          `json:"type"`
		Message  json.RawMessage `json:"message"`
		Detail   json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &o) != nil {
		text := plainText(body)
		if text == "" {
			text = strings.TrimSpace(string(body))
		}
		if strings.HasPrefix(text, "<") {
			text = ""
		}
		return words{text: text}
	}
	switch {
	case given(o.Error):
		return wordsOf(o.Error)
	case given(o.Response):
		return wordsOf(o.Response)
	}
	w := words{code: plainText(o.Code), kind: o.Type, text: plainText(o.Message)}
	if n, err := strconv.Atoi(string(o.Code)); err == nil {
		w.code = strconv.Itoa(n)
	}
	for _, raw := range []json.RawMessage{o.Message, o.Detail} {
		if w.text != "" || !given(raw) {
			continue
		}
		if w.text = plainText(raw); w.text == "" {
			w.text = string(raw) // a list of complaints is readable enough
		}
	}
	return w
}

// class sorts an error that has no status of HTTP.
func (w words) class(otherwise llm.Class) llm.Class {
	for _, word := range []string{w.code, w.kind} {
		switch word {
		case "invalid_request_error", "invalid_prompt", "model_not_found", "not_found_error", "invalid_image":
			return w.refine(llm.ClassInvalid)
		case "invalid_api_key", "authentication_error", "permission_error":
			return llm.ClassAuth
		case "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "tokens", "requests":
			return w.refine(llm.ClassRateLimit)
		case "overloaded", "overloaded_error", "server_is_overloaded", "engine_overloaded", "slow_down", "service_unavailable":
			return llm.ClassOverloaded
		}
		if n, err := strconv.Atoi(word); err == nil && n >= 400 && n < 600 {
			return w.refine(llm.StatusClass(n))
		}
	}
	return w.refine(otherwise)
}

// tooLong and quota are the words by which servers tell two reasons that a
// status does not.
var (
	tooLong = []string{"context length", "context_length", "context window", "context size", "prompt is too long", "input is too long", "too many tokens", "maximum number of tokens"}
	quota   = []string{"insufficient_quota", "exceeded your current quota", "billing_hard_limit", "billing_not_active", "insufficient balance", "insufficient credits", "requires more credits"}
)

// refine looks for the reasons that only the words tell.
func (w words) refine(class llm.Class) llm.Class {
	all := strings.ToLower(w.code + " " + w.kind + " " + w.text)
	has := func(list []string) bool {
		for _, s := range list {
			if strings.Contains(all, s) {
				return true
			}
		}
		return false
	}
	switch {
	case class == llm.ClassAuth || class == llm.ClassQuota || class == llm.ClassOverloaded:
	case has(quota):
		return llm.ClassQuota
	case has(tooLong), class == llm.ClassRateLimit && strings.Contains(all, "request too large"):
		// A request above the whole limit per minute never fits either.
		return llm.ClassTooLong
	case class == llm.ClassInvalid && strings.Contains(all, "overloaded"):
		return llm.ClassOverloaded
	}
	return class
}
