package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/llm"
)

// Run is the suite that every wire passes. open returns a model that speaks to
// url with the key Key: its Info names a provider and a model, has Images and
// Thinking set and a MaxOutput of at least 4096. The model may not retry.
func Run(t *testing.T, w Wire, open func(t *testing.T, url string) llm.Model) {
	s := suite{wire: w, open: open}
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"text", s.text},
		{"tools", s.tools},
		{"images", s.images},
		{"stop reasons", s.stops},
		{"request fields", s.fields},
		{"foreign history", s.foreign},
		{"repaired history", s.repaired},
		{"stream split at every byte", s.split},
		{"pings and unknown events", s.noise},
		{"statuses", s.statuses},
		{"html error", s.html},
		{"nobody listens", s.unreachable},
		{"cut stream", s.cut},
		{"error event", s.errorEvent},
		{"error kinds", s.errorKinds},
		{"silent stream", s.silent},
		{"broken calls", s.brokenCalls},
		{"cancel", s.cancel},
		{"consumer stops", s.stop},
		{"retry", s.retry},
		{"concurrent", s.concurrent},
	} {
		t.Run(c.name, c.test)
	}
}

type suite struct {
	wire Wire
	open func(t *testing.T, url string) llm.Model
}

// start returns a server and a model that speaks to it. Unless told otherwise,
// no request may be refused.
func (s suite) start(t *testing.T) (*Server, llm.Model) {
	t.Helper()
	server := NewServer(t)
	t.Cleanup(func() {
		for _, why := range server.Refused() {
			t.Errorf("the service refuses a request: %s", why)
		}
	})
	return server, s.open(t, s.url(server))
}

func (s suite) url(server *Server) string {
	if s.wire == Anthropic {
		return server.URL()
	}
	return server.URL() + "/v1"
}

func ask(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{Text(text)}}}}
}

// heard is what a consumer saw of a stream.
type heard struct {
	text, thinking string
	events         int
	message        llm.Message
	err            error
}

// listen reads a stream to its end and checks the rules of the contract.
func listen(t *testing.T, stream iter.Seq2[llm.Event, error]) (h heard) {
	t.Helper()
	ended := false
	for ev, err := range stream {
		if ended {
			t.Errorf("the stream goes on after its end: %+v, %v", ev, err)
		}
		h.events++
		switch {
		case err != nil:
			h.err, ended = err, true
			var e *llm.Error
			if errors.As(err, &e) {
				checkError(t, e)
			}
		case ev.Done != nil:
			h.message, ended = ev.Done.Message, true
		case ev.Text == "" && ev.Thinking == "":
			t.Errorf("an event without content: %+v", ev)
		}
		h.text += ev.Text
		h.thinking += ev.Thinking
	}
	if !ended {
		t.Error("the stream ended without Done and without an error")
	}
	return h
}

// checkError checks that an error is fit to be shown.
func checkError(t *testing.T, e *llm.Error) {
	t.Helper()
	shown := fmt.Sprintf("%v %+v %s", e, e, slog.AnyValue(e).String())
	for err := error(e); err != nil; err = errors.Unwrap(err) {
		shown += err.Error()
	}
	if strings.Contains(shown, Key) {
		t.Errorf("the error shows the key: %s", shown)
	}
	if e.Class == "" || e.Provider == "" || e.Text == "" || len(e.Text) > 500 || strings.ContainsAny(e.Text, "\n\r\x00") {
		t.Errorf("an error that is not fit to be shown: %#v", e)
	}
}

// full is an answer with everything, in the order that wires use.
func (s suite) full() Answer {
	return Answer{
		Parts: []llm.Part{
			Thinking("first I look around, then I run things", "c2lnbmF0dXJl"),
			Text("Let me look: 報告 😀 \"quoted\"\nsecond line"),
			Call("call_1", "bash", `{"command":"ls -l","label":"look \u00e9"}`),
			Call("call_2", "read", `{"path":"notes.md"}`),
			Call("call_3", "bash", `{}`),
		},
		Usage: &llm.Usage{Input: 100, Output: 20, CacheRead: 50},
	}
}

// calls returns the names and arguments of the calls in a message.
func calls(m llm.Message) (out []llm.Call) {
	for _, p := range m.Parts {
		if p.Kind == llm.CallPart {
			out = append(out, *p.Call)
		}
	}
	return out
}

// checkFull checks that an answer is all of full.
func (s suite) checkFull(t *testing.T, h heard) {
	t.Helper()
	if h.err != nil {
		t.Fatalf("Stream: %v", h.err)
	}
	want := s.full()
	if text := want.Parts[1].Text; h.text != text || textOf(h.message.Parts) != text {
		t.Errorf("text = %q in pieces, %q in the message, want %q", h.text, textOf(h.message.Parts), text)
	}
	if thinking := want.Parts[0].Text; h.thinking != thinking {
		t.Errorf("thinking = %q, want %q", h.thinking, thinking)
	}
	got, all := calls(h.message), calls(llm.Message{Parts: want.Parts})
	for i := range all {
		if i >= len(got) || got[i].Name != all[i].Name || got[i].ID == "" || !sameJSON(got[i].Args, all[i].Args) {
			t.Fatalf("calls = %+v, want %+v", got, all)
		}
	}
	if h.message.Stop != llm.StopTools || h.message.Usage == nil || *h.message.Usage != *want.Usage {
		t.Errorf("stop = %s, usage = %+v, want %s, %+v", h.message.Stop, h.message.Usage, llm.StopTools, want.Usage)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
}

func (s suite) text(t *testing.T) {
	server, m := s.start(t)
	// Adapters join what arrives together, so it must not.
	server.Answers(Answer{Parts: []llm.Part{Text("Hello, this comes in several pieces.")}, Pause: 20 * time.Millisecond})
	h := listen(t, m.Stream(t.Context(), ask("hi")))
	want := llm.Message{Role: llm.Assistant, Parts: []llm.Part{Text("Hello, this comes in several pieces.")}, Provider: m.Info().Provider,
		Model: m.Info().Model, Stop: llm.StopEnd, Usage: &llm.Usage{Input: 10, Output: 5}}
	if diff := cmp.Diff(want, h.message); diff != "" || h.err != nil {
		t.Errorf("Stream: %v\n%s", h.err, diff)
	}
	if h.text != "Hello, this comes in several pieces." || h.events < 4 {
		t.Errorf("%d events with %q: the text has to come in pieces", h.events, h.text)
	}
}

// tools asks, gets calls, and sends their results back.
func (s suite) tools(t *testing.T) {
	server, m := s.start(t)
	server.Script(func(r Request) Answer {
		if len(r.Results()) > 0 {
			return Answer{Parts: []llm.Part{Text("all done")}}
		}
		return s.full()
	})
	req := ask("do things")
	req.Thinking = 2048
	req.Tools = []llm.ToolSpec{{Name: "bash", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "read", Description: "reads", Schema: json.RawMessage(`{"type":"object"}`)}}
	h := listen(t, m.Stream(t.Context(), req))
	s.checkFull(t, h)
	var results []llm.Part
	for _, c := range calls(h.message) {
		results = append(results, llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: c.ID, Name: c.Name, Text: "out of " + c.Name, IsError: c.Name == "read"}})
	}
	results[2].Result.Text = ""
	req.Messages = append(req.Messages, h.message, llm.Message{Role: llm.User, Parts: results})
	if err := llm.Valid(req.Messages); err != nil {
		t.Fatalf("the answer is not valid as history: %v", err)
	}
	h = listen(t, m.Stream(t.Context(), req))
	if h.err != nil || h.text != "all done" {
		t.Fatalf("after the tools: %q, %v", h.text, h.err)
	}
	seen := server.Requests()[1]
	if got := seen.Results(); len(got) != 3 || !strings.Contains(got[0].Text, "out of bash") {
		t.Errorf("the results arrived as %+v", got)
	}
	if s.wire != Chat && (len(seen.Messages) < 2 || seen.Messages[1].Parts[0].Opaque != "c2lnbmF0dXJl") {
		t.Errorf("the thinking did not come back with its signature: %+v", seen.Messages)
	}
	if !server.Requests()[0].Thinking {
		t.Error("the request does not ask for thinking")
	}
}

func (s suite) images(t *testing.T) {
	server, m := s.start(t)
	image := llm.Part{Kind: llm.ImagePart, Mime: "image/png", Data: []byte("\x89PNG....")}
	req := llm.Request{Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{image, Text("what is this?")}},
		{Role: llm.Assistant, Parts: []llm.Part{Call("c1", "read", `{}`)}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.ResultPart, Result: &llm.Result{ID: "c1", Name: "read", Text: "a picture", Images: []llm.Part{image}}}}},
	}}
	if h := listen(t, m.Stream(t.Context(), req)); h.err != nil {
		t.Fatal(h.err)
	}
	found := 0
	for _, msg := range server.Requests()[0].Messages {
		for _, p := range msg.Parts {
			if p.Result != nil {
				msg.Parts = append(msg.Parts, p.Result.Images...)
			}
		}
		for _, p := range msg.Parts {
			if p.Kind == llm.ImagePart && cmp.Equal(p.Data, image.Data) {
				found++
			}
		}
	}
	if found != 2 {
		t.Errorf("%d images arrived, want 2", found)
	}
}

func (s suite) stops(t *testing.T) {
	server, m := s.start(t)
	for _, stop := range []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopRefused} {
		server.Answers(Answer{Parts: []llm.Part{Text("words")}, Stop: stop})
		if h := listen(t, m.Stream(t.Context(), ask("x"))); h.err != nil || h.message.Stop != stop {
			t.Errorf("stop = %q, %v, want %q", h.message.Stop, h.err, stop)
		}
	}
}

func (s suite) fields(t *testing.T) {
	server, m := s.start(t)
	req := ask("x")
	req.System, req.MaxTokens, req.CacheKey = "be \"brief\"\n", 321, "C123"
	req.Tools = []llm.ToolSpec{{Name: "bash", Description: "runs", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)}}
	if h := listen(t, m.Stream(t.Context(), req)); h.err != nil {
		t.Fatal(h.err)
	}
	r := server.Requests()[0]
	if r.System != req.System || r.MaxTokens != 321 || r.Model != m.Info().Model || r.Thinking {
		t.Errorf("system %q, max tokens %d, model %q, thinking %v", r.System, r.MaxTokens, r.Model, r.Thinking)
	}
	if len(r.Tools) != 1 || r.Tools[0].Description != "runs" || !sameJSON(r.Tools[0].Schema, req.Tools[0].Schema) {
		t.Errorf("tools = %+v", r.Tools)
	}
	switch {
	case s.wire == Anthropic && r.Markers != 3:
		t.Errorf("%d cache markers, want 3: system, last tool, last user block", r.Markers)
	case s.wire == Responses && r.CacheKey != "C123":
		t.Errorf("prompt_cache_key = %q", r.CacheKey)
	}
}

func (s suite) retry(t *testing.T) {
	server, m := s.start(t)
	server.Answers(
		Answer{Status: 429, RetryAfter: "7"},
		Answer{Parts: []llm.Part{Text("this text will be cut off here")}, Fault: Fault{CutAfter: 4}},
		Answer{Parts: []llm.Part{Text("third time")}},
	)
	var waits []time.Duration
	patient := llm.WithRetry(m, llm.RetryOptions{Rand: func() float64 { return 0.5 }, Sleep: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}})
	text := ""
	for ev, err := range patient.Stream(t.Context(), ask("x")) {
		if err != nil {
			t.Fatal(err)
		}
		if text += ev.Text; ev.Retry != nil {
			text = ""
		}
	}
	if diff := cmp.Diff([]time.Duration{7 * time.Second, time.Second}, waits); diff != "" || text != "third time" {
		t.Errorf("text = %q, waits:\n%s", text, diff)
	}
}

func (s suite) concurrent(t *testing.T) {
	_, m := s.start(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			want := fmt.Sprintf("ok: number %d", i)
			if h := listen(t, m.Stream(t.Context(), ask(fmt.Sprintf("number %d", i)))); h.text != want || h.err != nil {
				t.Errorf("answer %d = %q, %v", i, h.text, h.err)
			}
		})
	}
	all.Wait()
}

// unreachable asks a server that is gone.
func (s suite) unreachable(t *testing.T) {
	server := NewServer(t)
	m := s.open(t, s.url(server))
	server.Close()
	h := listen(t, m.Stream(t.Context(), ask("x")))
	if class := llm.ClassOf(h.err); class != llm.ClassNetwork && !errors.Is(h.err, io.EOF) {
		t.Errorf("class = %q of %v, want %s", class, h.err, llm.ClassNetwork)
	}
}
