package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
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
	var status *statusError
	var event eventError
	var bad brokenError
	switch {
	case errors.As(err, &status):
		return m.refused(status)
	case errors.As(err, &event):
		kind, text := words(event.body)
		return m.fail(classify(kindClass(kind), text), text, nil)
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
	return &llm.Error{Class: class, Provider: m.opts.Info.Provider, Text: llm.OneLine(text, m.secrets...), Err: err}
}

// A statusError is an answer with a status that says it failed.
type statusError struct {
	code   int
	header http.Header
	body   []byte
}

func (e *statusError) Error() string { return http.StatusText(e.code) }

// refused says what such an answer means.
func (m *Model) refused(answer *statusError) error {
	_, text := words(answer.body)
	if text == "" {
		text = http.StatusText(answer.code)
	}
	e := m.fail(classify(llm.StatusClass(answer.code), text), text, nil)
	e.Status = answer.code
	if spendLimit(answer.body) {
		e.Class = llm.ClassQuota
	}
	e.RetryAfter = llm.RetryAfter(answer.header, time.Now())
	return e
}

// spendLimit recognises a limit that people have set: waiting does not help.
func spendLimit(body []byte) bool {
	var b struct {
		Error struct {
			Details struct {
				Code string `json:"error_code"`
			} `json:"details"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &b) == nil && strings.Contains(b.Error.Details.Code, "spend_limit")
}

// checkAnswer refuses what is no event stream, such as the login page of a
// proxy or a redirect.
func (m *Model) checkAnswer(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && (kind == "text/event-stream" || kind == "") {
		return nil
	}
	class := llm.ClassBroken
	text := "answered with " + kind + " instead of an event stream"
	if res.StatusCode != http.StatusOK {
		class, text = llm.ClassInvalid, "unexpected answer: "+http.StatusText(res.StatusCode)
	}
	e := m.fail(class, text, nil)
	e.Status = res.StatusCode
	return e
}

// words finds the provider's message and the error's type in an error body,
// whole or already inside "error". Pages of HTML have no words for us.
func words(body []byte) (kind, text string) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Detail  string          `json:"detail"`
	}
	if json.Unmarshal(body, &outer) != nil {
		text = strings.TrimSpace(string(body))
		if strings.HasPrefix(text, "<") {
			return "", ""
		}
		return "", strings.Trim(text, `"`)
	}
	if len(outer.Error) > 0 && string(outer.Error) != "null" {
		return words(outer.Error)
	}
	if outer.Message == "" {
		outer.Message = outer.Detail
	}
	return outer.Type, outer.Message
}

// kindClass sorts the error types of the API.
func kindClass(kind string) llm.Class {
	switch kind {
	case "invalid_request_error", "not_found_error", "request_too_large":
		return llm.ClassInvalid
	case "authentication_error", "permission_error":
		return llm.ClassAuth
	case "billing_error":
		return llm.ClassQuota
	case "rate_limit_error":
		return llm.ClassRateLimit
	case "overloaded_error":
		return llm.ClassOverloaded
	}
	return llm.ClassServer
}

// classify looks for the two reasons of a refusal that only the words tell.
func classify(class llm.Class, text string) llm.Class {
	if class != llm.ClassInvalid {
		return class
	}
	text = strings.ToLower(text)
	for _, s := range []string{"prompt is too long", "exceed context limit", "exceeds the context", "context window"} {
		if strings.Contains(text, s) {
			return llm.ClassTooLong
		}
	}
	if strings.Contains(text, "credit balance is too low") {
		return llm.ClassQuota
	}
	return class
}
