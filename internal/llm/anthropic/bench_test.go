package anthropic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm"
)

// turns is a history of n short turns, every fourth with a tool call, about
// 260 bytes each: 260 KiB at 1,000.
func turns(n int) llm.Request {
	req := llm.Request{System: strings.Repeat("You are Iris. ", 400), Thinking: 0, CacheKey: "C1"}
	for i := range 8 {
		req.Tools = append(req.Tools, llm.ToolSpec{Name: fmt.Sprintf("tool_%d", i), Description: strings.Repeat("does things ", 20), Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)})
	}
	add := func(role llm.Role, parts ...llm.Part) {
		m := llm.Message{Role: role, Parts: parts}
		if role == llm.Assistant {
			m.Provider, m.Model = "anthropic", "claude-test"
		}
		req.Messages = append(req.Messages, m)
	}
	text := func(s string) llm.Part { return llm.Part{Kind: llm.TextPart, Text: s} }
	for i := range n {
		add(llm.User, text(fmt.Sprintf("turn %d: what does \"df -h\" say?\nPlease look at it again.", i)))
		if i%4 == 0 {
			id := fmt.Sprintf("toolu_%d", i)
			add(llm.Assistant, llm.Part{Kind: llm.CallPart, Call: &llm.Call{ID: id, Name: "tool_1", Args: json.RawMessage(`{"command":"df -h","label":"disks"}`)}})
			add(llm.User, llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: id, Name: "tool_1", Text: "/dev/sda1  20G  9.1G  9.9G  48% /\n"}})
		}
		add(llm.Assistant, text("The disk is half full, nothing to do about it today."))
	}
	add(llm.User, text("and now?"))
	return req
}

// reportCPU adds the processor time of the whole process per operation, which
// means something on a busy machine too. Call what it returns at the end.
func reportCPU(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{20, 1000} {
		req := turns(n)
		m := open(b, "http://127.0.0.1:1")
		b.Run(fmt.Sprintf("turns=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			defer reportCPU(b)()
			for b.Loop() {
				size = len(m.encode(req))
			}
			b.SetBytes(int64(size))
			b.ReportMetric(float64(size), "request-bytes")
		})
	}
}

// answerOf is a finished stream of n tiny pieces.
func answerOf(n int) string {
	var s strings.Builder
	frame := func(kind, data string) { fmt.Fprintf(&s, "event: %s\ndata: {\"type\":\"%s\"%s}\n\n", kind, kind, data) }
	frame("message_start", `,"message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1}}`)
	frame("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for range n {
		frame("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"piece of it "}`)
	}
	frame("content_block_stop", `,"index":0`)
	frame("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}`)
	frame("message_stop", "")
	return s.String()
}

func BenchmarkDecode(b *testing.B) {
	m := open(b, "http://127.0.0.1:1")
	body := answerOf(20)
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		if _, err := m.read(strings.NewReader(body), func(llm.Event, error) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTurn is a whole request over loopback, both ends of the connection
// included.
func BenchmarkTurn(b *testing.B) {
	body := answerOf(20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	for _, n := range []int{20, 1000} {
		req := turns(n)
		m := open(b, server.URL)
		b.Run(fmt.Sprintf("turns=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer reportCPU(b)()
			for b.Loop() {
				if _, err := llm.Collect(m.Stream(b.Context(), req)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
