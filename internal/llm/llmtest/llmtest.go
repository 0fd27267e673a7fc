// Package llmtest holds what tests need of a language model: the suite that
// every wire passes (Run), and a strict loopback fake of the three wires.
//
// A [Server] speaks Anthropic Messages, OpenAI Chat Completions and OpenAI
// Responses, streaming only. It refuses with 400 what the real services refuse,
// so that a history that would brick a conversation fails a test instead. What
// it answers is scripted with a function, faults included:
//
//	s := llmtest.NewServer(t)
//	s.Script(func(r llmtest.Request) llmtest.Answer {
//		if len(r.Results()) > 0 {
//			return llmtest.Answer{Parts: []llm.Part{llmtest.Text("done")}}
//		}
//		return llmtest.Answer{Parts: []llm.Part{llmtest.Call("call_1", "bash", `{"command":"date"}`)}}
//	})
//
// A model finds it at s.URL() (Anthropic) or s.URL()+"/v1" (OpenAI). Each wire
// has a file, named after it: what it accepts, and how it draws an answer.
// Outside a test, Start does what NewServer does.
package llmtest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm"
)

// A Wire is a protocol that the server speaks.
type Wire string

// The wires.
const (
	Anthropic Wire = "anthropic" // POST /v1/messages
	Chat      Wire = "chat"      // POST /v1/chat/completions
	Responses Wire = "responses" // POST /v1/responses
)

// Key is the API key that tests use. The server accepts any but "".
const Key = "sk-test-0123456789"

// A Request is what arrived and passed the validator, in our own words.
type Request struct {
	Wire      Wire
	Number    int // from 1, over all wires, refused ones included
	Header    http.Header
	Body      []byte
	Model     string
	System    string
	MaxTokens int64
	Thinking  bool
	CacheKey  string
	// Markers counts cache markers (Anthropic).
	Markers  int
	Tools    []llm.ToolSpec
	Messages []llm.Message
	// Refused is why the validator answered 400, "" if it did not.
	Refused string
}

// Text returns the newest text of the user, "" if the newest user message has
// none.
func (r Request) Text() string {
	var texts []string
	for _, p := range r.lastUser() {
		if p.Kind == llm.TextPart {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Results returns the results in the newest user message.
func (r Request) Results() (out []llm.Result) {
	for _, p := range r.lastUser() {
		if p.Kind == llm.ResultPart {
			out = append(out, *p.Result)
		}
	}
	return out
}

func (r Request) lastUser() []llm.Part {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == llm.User {
			return r.Messages[i].Parts
		}
	}
	return nil
}

// An Answer is what the server says. The zero value is an empty answer.
type Answer struct {
	// Parts are streamed in order: Text, Thinking, Call.
	Parts []llm.Part
	// Stop is why the answer ends; "" means StopTools with calls, else StopEnd.
	Stop llm.StopReason
	// Usage is reported as it is; nil means 10 tokens in, 5 out.
	Usage *llm.Usage

	// Status other than 0 and 200 makes the answer an error with Message as the
	// provider's words, Kind as its type (there is a fitting default) and
	// RetryAfter as the header. Body replaces the JSON, as text/html.
	Status     int
	Message    string
	Kind       string
	RetryAfter string
	Body       string

	// Hold delays the answer, headers included, until it is closed or the
	// client is gone.
	Hold <-chan struct{}
	// Pause is the time between two events.
	Pause time.Duration
	// Fault spoils the stream.
	Fault Fault
}

// A Fault is what goes wrong with a stream. Events are counted from the first
// of the wire; a value of 0 means never, so the first place is after one event.
type Fault struct {
	// Chunk splits the stream into writes of so many bytes.
	Chunk int
	// Pings puts keep-alives between all events.
	Pings bool
	// Unknown puts events of unknown types between all events.
	Unknown bool
	// CutAfter closes the connection after so many events.
	CutAfter int
	// EndAfter ends the answer properly, but too early, after so many events.
	EndAfter int
	// SilentAfter sends nothing more after so many events until the client
	// leaves. With Pings, keep-alives go on.
	SilentAfter int
	// ErrorAfter sends an error event of type ErrorKind after so many events.
	ErrorAfter int
	ErrorKind  string // "" means overloaded
	// CutArgs leaves out the end of the arguments of every call.
	CutArgs bool
	// WrongID addresses the pieces of calls to a call that was never begun.
	WrongID bool
	// SameID gives all calls one id.
	SameID bool
}

// Text returns a part with text.
func Text(s string) llm.Part { return llm.Part{Kind: llm.TextPart, Text: s} }

// Thinking returns a part with reasoning; opaque is its signature or what the
// wire has instead.
func Thinking(s, opaque string) llm.Part {
	return llm.Part{Kind: llm.ThinkingPart, Text: s, Opaque: opaque}
}

// Call returns a part with a tool call.
func Call(id, name, args string) llm.Part {
	return llm.Part{Kind: llm.CallPart, Call: &llm.Call{ID: id, Name: name, Args: json.RawMessage(args)}}
}

// A Server is the fake. Use NewServer or Start.
type Server struct {
	url  string
	http *http.Server
	done chan struct{} // closed by the goroutine that serves

	// mu guards the fields below.
	mu       sync.Mutex
	script   func(Request) Answer
	requests []Request
	number   int
	active   int
	idle     chan struct{} // closed when active falls to 0
}

// NewServer starts a server that lives as long as the test. Without a script it
// answers "ok: " and the newest text of the user.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a server at a loopback address. The caller closes it.
func Start(addr string) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for models: %w", err)
	}
	s := &Server{url: "http://" + listener.Addr().String(), done: make(chan struct{})}
	mux := http.NewServeMux()
	for path, w := range map[string]wire{"messages": anthropicWire{}, "chat/completions": chatWire{}, "responses": responsesWire{}} {
		mux.HandleFunc("POST /v1/"+path, s.handler(w))
	}
	s.http = &http.Server{Handler: mux}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener)
	}()
	return s, nil
}

// Close ends the server and every connection at once.
func (s *Server) Close() {
	_ = s.http.Close()
	<-s.done
}

// URL is the base: what an Anthropic client calls its base URL. OpenAI clients
// want "/v1" after it.
func (s *Server) URL() string { return s.url }

// Script sets what answers from now on. f may be called concurrently; it runs
// before the answer begins and may block. It is not asked about requests that
// the validator refuses.
func (s *Server) Script(f func(Request) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// Active is how many requests are being answered.
func (s *Server) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// Answers scripts one answer per request; the last one repeats.
func (s *Server) Answers(answers ...Answer) {
	var mu sync.Mutex
	s.Script(func(Request) Answer {
		mu.Lock()
		defer mu.Unlock()
		a := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return a
	})
}

// Requests returns what has arrived, refused requests included, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Refused returns why requests were refused, if any were. A test of a client
// that should never be refused checks that it is empty.
func (s *Server) Refused() (out []string) {
	for _, r := range s.Requests() {
		if r.Refused != "" {
			out = append(out, r.Refused)
		}
	}
	return out
}

// Idle returns a channel that is closed once no request is being answered: all
// clients have their answers or have let go.
func (s *Server) Idle() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == 0 {
		c := make(chan struct{})
		close(c)
		return c
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle
}

// enter books an arrival. leave books its end.
func (s *Server) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if s.active == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// book numbers and keeps a request and returns the script.
func (s *Server) book(r *Request) func(Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	r.Number = s.number
	s.requests = append(s.requests, *r)
	if s.script != nil {
		return s.script
	}
	return func(r Request) Answer { return Answer{Parts: []llm.Part{Text("ok: " + r.Text())}} }
}
