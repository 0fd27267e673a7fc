package api

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func TestStreamFrames(t *testing.T) {
	h := openHouse(t, nil)
	id, other := h.session(""), h.session("")
	s := h.stream("/sessions/" + id + "/stream")
	if ct := s.res.Header.Get("Content-Type"); ct != "text/event-stream" || s.res.StatusCode != 200 {
		t.Errorf("stream = %d %q", s.res.StatusCode, ct)
	}
	if f := s.frame(); f != ":ok\n" {
		t.Fatalf("first frame %q, want :ok", f)
	}
	h.want(200, "POST", "/sessions/"+other+"/message", `{"text":"work"}`)
	turnID := h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"work"}`).str("turn")

	first := s.frame()
	var seq int64
	if _, err := fmt.Sscanf(first, "id: %d\n", &seq); err != nil || first != fmt.Sprintf("id: %d\nevent: thinking\ndata: {\"kind\":\"thinking\",\"turn\":\"%s\"}\n", seq, turnID) {
		t.Errorf("first event %q", first)
	}
	var kinds []string
	for {
		sid, kind, data := s.event()
		kinds = append(kinds, kind)
		if data["kind"] != kind || data["turn"] != turnID || sid == "" {
			t.Errorf("frame %s %s %v: another turn's, or without its kind", sid, kind, data)
		}
		switch kind {
		case "status":
			if data["label"] != "looking" {
				t.Errorf("status %v", data)
			}
		case "tool":
			if e := data["event"].(map[string]any); e["toolName"] != "bash" || e["id"] != "c1" {
				t.Errorf("tool %v", data)
			}
		case "file":
			if data["filename"] != "plot.png" || data["title"] != "Plot" {
				t.Errorf("file %v", data)
			}
		}
		if kind == "final" {
			if data["text"] != "the answer" {
				t.Errorf("final %v", data)
			}
			break
		}
	}
	if got := strings.Join(kinds, " "); got != "status text text text tool tool file final" {
		t.Errorf("kinds %s", got)
	}
}

func TestStreamFailedTurnIsErrorEvent(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	s := h.stream("/sessions/" + id + "/stream")
	h.want(502, "POST", "/sessions/"+id+"/message", `{"text":"model"}`)
	s.event()
	if _, kind, data := s.event(); kind != "error" || data["code"] != "model" || data["error"] != "the model is overloaded" {
		t.Errorf("event %s %v", kind, data)
	}
	h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"next"}`)
	if _, kind, _ := s.event(); kind != "thinking" {
		t.Errorf("the next turn begins with %s", kind)
	}
}

func TestStreamReplay(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"work"}`)
	all := h.stream("/sessions/" + id + "/stream?since=0")
	var ids, frames []string
	for range 9 {
		f := all.frame()
		if strings.HasPrefix(f, ":") {
			f = all.frame()
		}
		frames = append(frames, f)
		ids = append(ids, strings.TrimPrefix(strings.SplitN(f, "\n", 2)[0], "id: "))
	}
	for i := range len(frames) - 1 {
		s := h.stream("/sessions/"+id+"/stream", "Last-Event-ID", ids[i])
		s.frame() // :ok
		for k := i + 1; k < len(frames); k++ {
			if got := s.frame(); got != frames[k] {
				t.Fatalf("after %s frame %q, want %q", ids[i], got, frames[k])
			}
		}
		s.close()
		h.until("slot free", func() bool {
			h.api.mu.Lock()
			defer h.api.mu.Unlock()
			return h.api.streams[chat.Address{Space: chat.Session, ID: id}] == 1
		})
	}
	h.want(400, "GET", "/sessions/"+id+"/stream?since=x", "")
	h.want(400, "GET", "/sessions/"+id+"/stream?since=-1", "")
	ahead := h.stream("/sessions/"+id+"/stream", "Last-Event-ID", "99999")
	ahead.frame()
	if f := ahead.frame(); f != "event: truncated\ndata: {\"kind\":\"truncated\"}\n" {
		t.Errorf("a position that is not kept: %q", f)
	}
	h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"more"}`)
	if _, kind, _ := ahead.event(); kind != "thinking" {
		t.Errorf("after truncated comes %s", kind)
	}
	odd := h.stream("/sessions/"+id+"/stream", "Last-Event-ID", "abc")
	if odd.res.StatusCode != 200 {
		t.Errorf("a Last-Event-ID of somebody else = %d", odd.res.StatusCode)
	}
}

func TestStreamLateJoinerSeesRunningTurn(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"old"}`)
	pending := h.say(id, "hold a")
	h.begun("a")
	s := h.stream("/sessions/" + id + "/stream")
	if _, kind, _ := s.event(); kind != "thinking" {
		t.Errorf("a late joiner sees first %s", kind)
	}
	if _, kind, data := s.event(); kind != "text" || data["text"] != "so far" {
		t.Errorf("then %s %v", kind, data)
	}
	h.script.release("a")
	if _, kind, data := s.event(); kind != "final" || data["text"] != "hold a" {
		t.Errorf("then %s %v", kind, data)
	}
	<-pending
}

func TestStreamSlots(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	var open []*sseStream
	for range maxStreams {
		s := h.stream("/sessions/" + id + "/stream")
		s.frame()
		open = append(open, s)
	}
	if r := h.want(429, "GET", "/sessions/"+id+"/stream", ""); r.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	elsewhere := h.stream("/sessions/" + h.session("") + "/stream")
	if f := elsewhere.frame(); f != ":ok\n" {
		t.Errorf("another session: %q", f)
	}
	open[3].close()
	h.until("slot freed", func() bool {
		h.api.mu.Lock()
		defer h.api.mu.Unlock()
		return h.api.streams[chat.Address{Space: chat.Session, ID: id}] < maxStreams
	})
	if s := h.stream("/sessions/" + id + "/stream"); s.frame() != ":ok\n" {
		t.Error("the freed slot cannot be taken")
	}
	h.want(404, "GET", "/sessions/nobody/stream", "")
	h.want(200, "HEAD", "/sessions/"+h.session("")+"/stream", "")
}

func TestStreamHeartbeat(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.Heartbeat = 10 * time.Millisecond })
	s := h.stream("/sessions/" + h.session("") + "/stream")
	if a, b := s.frame(), s.frame(); a != ":ok\n" || b != ":hb\n" {
		t.Errorf("frames %q %q", a, b)
	}
}

func TestStreamSlowReaderFreesItsSlot(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.WriteTimeout = 100 * time.Millisecond })
	id := h.session("")
	conv := chat.Address{Space: chat.Session, ID: id}
	h.stream("/sessions/" + id + "/stream") // and never reads
	big := strings.Repeat("x", 1<<20)
	for i := range 16 {
		h.engine.Notice(t.Context(), conv, "between")
		h.want(200, "POST", "/sessions/"+id+"/message", fmt.Sprintf(`{"text":"%d %s"}`, i, big))
	}
	h.until("slot freed", func() bool {
		h.api.mu.Lock()
		defer h.api.mu.Unlock()
		return h.api.streams[conv] == 0
	})
}

func TestCloseEndsStreams(t *testing.T) {
	h := openHouse(t, nil)
	s := h.stream("/sessions/" + h.session("") + "/stream")
	s.frame()
	h.api.Close()
	if _, err := s.rd.ReadByte(); err == nil {
		t.Error("the stream goes on after Close")
	}
}

func TestStreamOfStoppedTurn(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	s := h.stream("/sessions/" + id + "/stream")
	pending := h.say(id, "hold a")
	h.begun("a")
	h.want(200, "POST", "/sessions/"+id+"/stop", "")
	<-pending
	s.event()
	s.event()
	if _, kind, data := s.event(); kind != string(turn.Final) || data["stopped"] != true || data["text"] != "so far" {
		t.Errorf("%s %v", kind, data)
	}
}

// What comes in a row is sent in one write, and nothing is kept back at its end.
func TestStreamSendsARowAtOnce(t *testing.T) {
	w := &countedWriter{ResponseRecorder: httptest.NewRecorder()}
	out := &sse{w: bufio.NewWriter(w), rc: http.NewResponseController(w), timeout: time.Second}
	text := func(seq int64, more bool) transport.Seen {
		return transport.Seen{Seq: seq, More: more, Record: turn.Record{Turn: "t", Event: &turn.Event{Kind: turn.Text, Text: "x"}}}
	}
	for i, c := range []struct {
		seen transport.Seen
		want int
	}{
		{text(1, true), 0}, {text(2, true), 0}, {transport.Seen{Seq: 3}, 1}, // the row ends with what is not shown
		{text(4, true), 1}, {text(5, false), 2},
		{transport.Seen{Seq: 6}, 2}, // nothing to send
	} {
		if err := out.show(c.seen); err != nil || w.writes != c.want {
			t.Errorf("step %d: %d writes, want %d, error %v", i, w.writes, c.want, err)
		}
	}
	if n := strings.Count(w.Body.String(), "id: "); n != 4 {
		t.Errorf("%d frames were sent, want 4", n)
	}
}

type countedWriter struct {
	*httptest.ResponseRecorder
	writes int
}

func (w *countedWriter) Write(p []byte) (int, error) {
	w.writes++
	return w.ResponseRecorder.Write(p)
}
