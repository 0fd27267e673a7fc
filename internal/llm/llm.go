// Package llm is the contract of a language model: a request in, one stream of
// events out. The packages below it are the wires (anthropic, openai) and two
// models without a provider (rehearsal, scripted); llmtest holds the suite and
// the strict loopback fakes of the wires.
//
// The contract knows nothing about turns, tools or conversations. Retries and
// the watch over silence are the same for every wire and are decorators here;
// adapters switch off those of their SDK.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// A Model answers requests.
//
// Implementations must
//   - yield text and thinking as they arrive, then exactly one Done event, or an
//     error that wraps *Error, and nothing after either;
//   - release everything when the consumer stops or ctx ends; the error is then
//     the cause of ctx;
//   - not retry, not log request bodies, not read the environment;
//   - refuse a tool call whose arguments are not one JSON object with an *Error
//     of class ClassBroken, and ignore event types they do not know;
//   - accept every history that Valid accepts, whichever provider made it;
//   - be safe for concurrent use.
type Model interface {
	Info() Info
	Stream(ctx context.Context, req Request) iter.Seq2[Event, error]
}

// Info describes a model. Zero means not known.
type Info struct {
	Provider  string // "anthropic", or the name of the entry in models.json
	Model     string
	Window    int64 // tokens
	MaxOutput int64 // tokens
	Images    bool  // accepts image parts
	Thinking  bool  // can be asked to reason
	Price     Price
}

// Price is in US dollars per million tokens.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
}

// Of returns the cost of a usage in US dollars.
func (p Price) Of(u Usage) float64 {
	return (p.Input*float64(u.Input) + p.Output*float64(u.Output) +
		p.CacheRead*float64(u.CacheRead) + p.CacheWrite*float64(u.CacheWrite)) / 1e6
}

// A Request asks for the next message.
type Request struct {
	System   string
	Messages []Message
	Tools    []ToolSpec
	// MaxTokens bounds the answer; 0 means the model's own maximum.
	MaxTokens int64
	// Thinking asks for reasoning where the model has it; the value is the
	// budget in tokens, 0 is off.
	Thinking int64
	// CacheKey groups requests that share a prefix (the conversation).
	// Adapters set cache markers on system, last tool and last user part, or
	// pass the key on, whichever their wire has.
	CacheKey string
}

// ToolSpec describes a tool to the model. Schema is a JSON Schema object.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// A Role is who speaks. Tool results are parts of a user message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Message is one side's contribution. Its JSON form is what context files
// hold, so names here are a file format.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
	// The rest belongs to Assistant messages.
	Provider string     `json:"provider,omitempty"`
	Model    string     `json:"model,omitempty"`
	Stop     StopReason `json:"stop,omitempty"`
	Usage    *Usage     `json:"usage,omitempty"`
}

// A PartKind says which fields of a Part count.
type PartKind string

// The kinds of parts.
const (
	TextPart     PartKind = "text"     // Text
	ThinkingPart PartKind = "thinking" // Text, Opaque; only in Assistant messages
	ImagePart    PartKind = "image"    // Mime, Data; only in User messages
	CallPart     PartKind = "call"     // Call; only in Assistant messages
	ResultPart   PartKind = "result"   // Result; only in User messages
)

// A Part is a piece of a message.
type Part struct {
	Kind PartKind `json:"kind"`
	Text string   `json:"text,omitempty"`
	// Opaque is what the provider wants back with its thinking (a signature,
	// redacted or encrypted reasoning). Another provider drops the part.
	Opaque string  `json:"opaque,omitempty"`
	Mime   string  `json:"mime,omitempty"`
	Data   []byte  `json:"data,omitempty"`
	Call   *Call   `json:"call,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// A Call is a tool call the model asked for.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // one JSON object
}

// A Result answers the Call with the same ID.
type Result struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Text    string `json:"text"`
	Images  []Part `json:"images,omitempty"`
	IsError bool   `json:"isError,omitempty"`
}

// A StopReason says why an answer ended.
type StopReason string

// The stop reasons.
const (
	StopEnd     StopReason = "stop"
	StopLength  StopReason = "length"
	StopTools   StopReason = "toolUse"
	StopRefused StopReason = "refused"
	StopAborted StopReason = "aborted"
)

// Usage counts tokens of one answer. Input leaves out what was read from or
// written to a cache.
type Usage struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
}

// Total is every token the answer touched: the fill of the context after it.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

// An Event is a piece of an answer: exactly one field is set.
type Event struct {
	Text     string // more text
	Thinking string // more reasoning
	Retry    *Retry // the request is sent again; forget the pieces so far
	Done     *Done  // the whole answer
}

// Done ends an answer. Message holds all its parts in order.
type Done struct {
	Message Message
}

// Retry tells that an attempt failed and another follows after Wait.
type Retry struct {
	Attempt int // the one that failed, from 1
	Max     int
	Wait    time.Duration
	Err     error
}

// A Class sorts failures by what to do about them.
type Class string

// The classes. The first six are worth another attempt at the same provider.
const (
	ClassRateLimit  Class = "rate_limit" // 429
	ClassOverloaded Class = "overloaded" // 529, 503
	ClassServer     Class = "server"     // other 5xx, error events of that kind
	ClassNetwork    Class = "network"    // could not connect, reset
	ClassCut        Class = "cut"        // the stream ended before its end
	ClassSilence    Class = "silence"    // no content event for too long
	ClassBroken     Class = "broken"     // an answer that breaks its own format
	ClassInvalid    Class = "invalid"    // 400, 404, 413, 422: this request is wrong
	ClassTooLong    Class = "too_long"   // the context does not fit
	ClassAuth       Class = "auth"       // 401, 403
	ClassQuota      Class = "quota"      // 402, credit used up
)

// Temporary reports whether the same request may succeed a little later.
func (c Class) Temporary() bool {
	switch c {
	case ClassRateLimit, ClassOverloaded, ClassServer, ClassNetwork, ClassCut, ClassSilence:
		return true
	}
	return false
}

// An Error is a failed answer.
type Error struct {
	Class    Class
	Provider string
	Status   int // HTTP status, 0 if there was none
	// RetryAfter is what the provider asked for, 0 if it did not.
	RetryAfter time.Duration
	// Text is the provider's own message, one line, without secrets.
	Text string
	Err  error
}

// Error says who failed, how, and what the provider said.
func (e *Error) Error() string {
	s := e.Provider + ": " + e.Text
	if e.Status != 0 {
		s = fmt.Sprintf("%s: HTTP %d: %s", e.Provider, e.Status, e.Text)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of an error, "" if it has none.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}
