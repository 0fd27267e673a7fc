package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type object = map[string]any

// reply plays the answer to a request.
func (s *Server) reply(w http.ResponseWriter, in *http.Request, r *Request, stream bool) {
	sc := s.script(r)
	if sc.status != 0 {
		refuse(w, sc.status, sc.kind, sc.describe())
		return
	}
	usage := object{"input_tokens": 100 + r.Number, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 42}
	stop := "end_turn"
	for _, b := range sc.blocks {
		if b.kind == "tool_use" {
			stop = "tool_use"
		}
	}
	head := object{"id": fmt.Sprintf("msg_fake_%d", r.Number), "type": "message", "role": "assistant", "model": r.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	if !stream {
		var content []any
		for i, b := range sc.blocks {
			content = append(content, b.whole(r.Number, i))
		}
		head["content"], head["stop_reason"] = content, stop
		answer(w, http.StatusOK, head)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	// The connection is not used again: whoever hangs up is seen at once.
	w.Header().Set("Connection", "close")
	p := player{ctx: in.Context(), w: w, s: s, script: sc}
	p.send("message_start", object{"message": head})
	for i, b := range sc.blocks {
		p.block(i, r.Number, b)
	}
	if sc.cut && !p.gone {
		panic(http.ErrAbortHandler)
	}
	p.send("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 42}})
	p.send("message_stop", object{})
	if p.gone {
		s.change(func() { r.Aborted = true })
	}
}

// player sends events until the client is gone.
type player struct {
	ctx    context.Context
	w      http.ResponseWriter
	s      *Server
	script script
	gone   bool
}

func (p *player) send(kind string, fields object) {
	if p.gone || p.ctx.Err() != nil {
		p.gone = true
		return
	}
	fields["type"] = kind
	data, _ := json.Marshal(fields)
	_, err := fmt.Fprintf(p.w, "event: %s\ndata: %s\n\n", kind, data)
	if err != nil || http.NewResponseController(p.w).Flush() != nil {
		p.gone = true
	}
}

// block plays one part of the answer.
func (p *player) block(index, number int, b block) {
	start := b.whole(number, index)
	switch b.kind {
	case "text":
		start["text"] = ""
	case "thinking":
		start["thinking"], start["signature"] = "", ""
	case "tool_use":
		start["input"] = object{}
	}
	p.send("content_block_start", object{"index": index, "content_block": start})
	for i, piece := range b.pieces {
		if p.script.cut && i == 1 {
			return
		}
		if i > 0 {
			p.wait()
		}
		delta := map[string]object{
			"text":     {"type": "text_delta", "text": piece},
			"thinking": {"type": "thinking_delta", "thinking": piece},
			"tool_use": {"type": "input_json_delta", "partial_json": piece},
		}[b.kind]
		p.send("content_block_delta", object{"index": index, "delta": delta})
	}
	if b.kind == "thinking" {
		p.send("content_block_delta", object{"index": index, "delta": object{"type": "signature_delta", "signature": signature}})
	}
	p.send("content_block_stop", object{"index": index})
}

// wait is what lies between two pieces.
func (p *player) wait() {
	var pause <-chan time.Time
	var release <-chan struct{}
	switch {
	case p.gone:
		return
	case p.script.slow:
		timer := time.NewTimer(p.s.opts.Piece)
		defer timer.Stop()
		pause = timer.C
	case p.script.hold:
		release = p.s.release
	default:
		return
	}
	select {
	case <-pause:
	case <-release:
	case <-p.ctx.Done():
		p.gone = true
	}
}

const signature = "c2lnbmF0dXJlIG9mIHRoZSBmYWtl"

// whole is the finished part.
func (b block) whole(number, index int) object {
	all := strings.Join(b.pieces, "")
	switch b.kind {
	case "thinking":
		return object{"type": "thinking", "thinking": all, "signature": signature}
	case "tool_use":
		return object{"type": "tool_use", "id": fmt.Sprintf("toolu_fake_%d_%d", number, index), "name": b.tool, "input": json.RawMessage(all)}
	}
	return object{"type": "text", "text": all}
}
