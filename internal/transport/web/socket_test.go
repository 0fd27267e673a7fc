package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

var room = chat.Address{Space: chat.Web, ID: "t1"}

func TestUpgradeNeedsCookieThreadAndOrigin(t *testing.T) {
	s := start(t, nil)
	up := map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
	if res, body := s.do(t, "GET", "/?thread=t1", "", up); res.StatusCode != 401 || !strings.Contains(body, "unauthorized") {
		t.Errorf("no cookie = %d %s, want 401", res.StatusCode, body)
	}
	s.login(t)
	for name, query := range map[string]string{
		"none": "", "dots": "thread=..", "slash": "thread=a%2Fb", "NUL": "thread=a%00", "script": "thread=%E5%A0%B1", "long": "thread=" + strings.Repeat("a", 300),
		"session escape": "thread=SESSION-..", "empty session": "thread=SESSION-%2E", "agent": "thread=t1&agent=..%2Fx", "since": "thread=t1&since=-4",
	} {
		if res, body := s.do(t, "GET", "/?"+query, "", up); res.StatusCode != 400 {
			t.Errorf("%s: %d %s, want 400", name, res.StatusCode, body)
		}
	}
	up["Origin"] = "http://evil.example"
	if res, _ := s.do(t, "GET", "/?thread=t1", "", up); res.StatusCode != 403 {
		t.Errorf("foreign origin = %d, want 403", res.StatusCode)
	}
	if res, _ := s.do(t, "GET", "/ws?thread=t1", "", nil); res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("no upgrade = %d, want 426", res.StatusCode)
	}
}

func TestSocketThinkingToolFinal(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	ws.send(`{"type":"message","text":"hello","id":"m-1"}`)
	m := ws.want(map[string]any{"type": "message", "id": "m-1", "text": "hello", "from": "web"})
	id := turn.ID(m["turn"].(string))

	var last int64
	for _, step := range []struct {
		event turn.Event
		want  map[string]any
	}{
		{turn.Event{Kind: turn.Started}, map[string]any{"type": "thinking", "id": string(id)}},
		{turn.Event{Kind: turn.Thinking, Text: "hm"}, map[string]any{"type": "thinking", "id": string(id), "text": "hm"}},
		{turn.Event{Kind: turn.Status, Label: "reading"}, map[string]any{"type": "status", "id": string(id), "text": "reading"}},
		{turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "c1", Name: "bash", Label: "ls", Args: json.RawMessage(`{"command":"ls"}`), Phase: turn.Start}},
			map[string]any{"type": "tool", "id": "c1", "toolName": "bash", "label": "ls", "phase": "start", "turn": string(id)}},
		{turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "c1", Name: "bash", Result: "a", IsError: true, DurationMS: 3, Phase: turn.End}},
			map[string]any{"type": "tool", "id": "c1", "result": "a", "isError": true, "durationMs": 3.0, "phase": "end"}},
		{turn.Event{Kind: turn.Text, Text: "par", Partial: true}, map[string]any{"type": "text", "text": "par", "partial": true}},
		{turn.Event{Kind: turn.Text, Void: true}, map[string]any{"type": "update", "id": string(id), "text": ""}},
		{turn.Event{Kind: turn.Text, Text: "whole"}, map[string]any{"type": "text", "text": "whole", "partial": nil}},
		{turn.Event{Kind: turn.FileOut, Filename: "計画 a.png", Title: "Plan", Local: "WEBUI-t1/x.png"}, map[string]any{"type": "file", "title": "Plan", "filename": "計画 a.png"}},
		{turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "q1", Text: "may I?"}}, map[string]any{"type": "ask"}},
		{turn.Event{Kind: turn.Final, Text: "done", Stopped: true, Usage: &turn.Usage{Input: 1}}, map[string]any{"type": "final", "id": string(id), "text": "done", "stopped": true}},
	} {
		seq := s.inbox.event(room, id, step.event)
		f := ws.want(step.want)
		if f["seq"] != float64(seq) || seq <= last {
			t.Errorf("frame %v: seq, want %d", f, seq)
		}
		if f["type"] == "file" && f["url"] != fmt.Sprintf("/files/WEBUI-t1/%%E8%%A8%%88%%E7%%94%%BB%%20a.png?seq=%d", seq) {
			t.Errorf("file url = %v", f["url"])
		}
		last = seq
	}
	if got := s.inbox.got[0]; got.Address != room || got.Origin != turn.FromChat || !got.Direct {
		t.Errorf("submission = %+v", got)
	}
}

func TestSocketFailedSilentNotice(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	s.inbox.event(room, "a", turn.Event{Kind: turn.Failed, Error: "the model is overloaded", Code: turn.CodeModel, Text: "so far"})
	ws.want(map[string]any{"type": "error", "message": "the model is overloaded", "code": "model", "turn": "a", "text": "so far"})
	s.inbox.event(room, "b", turn.Event{Kind: turn.Final, Text: "[SILENT] x", Silent: true})
	if f := ws.want(map[string]any{"type": "delete", "id": "b"}); f["text"] != nil {
		t.Errorf("a silent reply is shown: %v", f)
	}
	s.inbox.add(room, turn.Record{Notice: &turn.Notice{Text: "Context cleared"}})
	ws.want(map[string]any{"type": "thread", "text": "Context cleared"})
	s.inbox.add(room, turn.Record{Checkpoint: json.RawMessage(`{}`)})
	s.inbox.event(room, "c", turn.Event{Kind: "novel"})
	s.inbox.event(room, "c", turn.Event{Kind: turn.ToolUse})
	s.inbox.add(room, turn.Record{Heard: &chat.Message{ID: "h", Text: "by the way"}})
	ws.want(map[string]any{"type": "message", "id": "h", "text": "by the way"})
}

func TestSocketBroadcastsToAllOfAThreadAndNoOther(t *testing.T) {
	s := start(t, nil).login(t)
	a, b, other := s.dial(t, "thread=t1"), s.dial(t, "thread=t1"), s.dial(t, "thread=t2")
	a.send(`{"type":"message","text":"for both"}`)
	a.want(map[string]any{"type": "message", "text": "for both"})
	b.want(map[string]any{"type": "message", "text": "for both"})
	other.send(`{"type":"message","text":"mine"}`)
	other.want(map[string]any{"type": "message", "text": "mine"})
}

func TestSocketThreadNamesStayInTheirSpace(t *testing.T) {
	s := start(t, nil).login(t)
	for _, thread := range []string{"WEBUI-x", "BRIDGE-x", "ESCALATE-x", "tg-1", "C024BE91L"} {
		ws := s.dial(t, "thread="+thread)
		ws.send(`{"type":"message","text":"x"}`)
		ws.want(map[string]any{"type": "message"})
		if got := s.inbox.got[len(s.inbox.got)-1].Address; got != (chat.Address{Space: chat.Web, ID: thread}) {
			t.Errorf("thread %s is conversation %v, want WEBUI-%s", thread, got, thread)
		}
	}
}

func TestSocketSessionIsReadOnly(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=SESSION-abc")
	conv := chat.Address{Space: chat.Session, ID: "abc"}
	for _, frame := range []string{`{"type":"message","text":"x"}`, `{"type":"command","action":"stop"}`, `garbage`} {
		ws.send(frame)
		ws.want(map[string]any{"type": "error", "message": "Channel 'SESSION-abc' is read-only over this socket — send messages via the session API"})
	}
	s.inbox.event(conv, "t", turn.Event{Kind: turn.Started})
	ws.want(map[string]any{"type": "thinking", "id": "t"})
	s.inbox.event(conv, "t", turn.Event{Kind: turn.Final, Text: "r"})
	ws.want(map[string]any{"type": "final", "id": "t", "text": "r"})
	if len(s.inbox.got)+len(s.inbox.commands) > 0 {
		t.Errorf("submitted %v, commanded %v", s.inbox.got, s.inbox.commands)
	}
	// A question may be answered by whoever sees it.
	ws.send(`{"type":"answer","ask":"q1","yes":true}`)
	ws.want(map[string]any{"type": "thread", "text": "approved"})
}

func TestSocketCommands(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	for _, verb := range []string{"stop", "compact", "reset"} {
		ws.send(`{"type":"command","action":"` + verb + `"}`)
		ws.want(map[string]any{"type": "thread", "text": "_" + verb + "_"})
	}
	ws.send(`{"type":"command","action":"explode"}`)
	ws.want(map[string]any{"type": "error", "message": "Unknown command 'explode'"})
	ws.send(`{"type":"message","text":"help"}`)
	ws.want(map[string]any{"type": "thread", "text": "ask me anything"})
	if len(s.inbox.commands) != 3 || s.inbox.commands[0].Conversation != room {
		t.Errorf("commands = %v", s.inbox.commands)
	}
}

func TestSocketStopGetsPastACompaction(t *testing.T) {
	s := start(t, nil).login(t)
	s.inbox.hold = make(chan struct{})
	ws := s.dial(t, "thread=t1")
	for range maxCommands - 1 {
		ws.send(`{"type":"command","action":"compact"}`)
	}
	ws.send(`{"type":"command","action":"stop"}`)
	ws.want(map[string]any{"type": "thread", "text": "_stop_"})
	s.inbox.until(t, "compactions", func() bool { return len(s.inbox.commands) == maxCommands })
	close(s.inbox.hold)
	for range maxCommands - 1 {
		ws.want(map[string]any{"type": "thread", "text": "_compact_"})
	}
}

func TestSocketIgnoresWhatItCannotRead(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	for _, frame := range []string{"", "{", "[]", "7", `{"type":"dance"}`, `{"type":"message","text":7}`} {
		ws.send(frame)
	}
	ws.send(`{"type":"message","text":"after"}`)
	ws.want(map[string]any{"type": "message", "text": "after"})
	ws.send(`{"type":"message","text":"  "}`)
	ws.want(map[string]any{"type": "error", "message": "the message is empty"})
	ws.send(`{"type":"message","text":"x","id":"../x"}`)
	ws.want(map[string]any{"type": "error"})
}

func TestSocketDuplicateMessageIsOne(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	ws.send(`{"type":"message","text":"once","id":"k"}`)
	ws.send(`{"type":"message","text":"once","id":"k"}`)
	ws.send(`{"type":"message","text":"twice"}`)
	// The acknowledgement of the repeat comes beside what is watched.
	got := map[any]int{}
	for range 3 {
		f := ws.next()
		if f["type"] == "ack" && f["id"] != "k" {
			t.Errorf("ack = %v, want that of k", f)
		}
		got[f["type"]]++
	}
	if got["message"] != 2 || got["ack"] != 1 {
		t.Errorf("frames = %v, want two messages and one ack", got)
	}
}

// TestSocketAnswersNameTheirMessage: a page with several messages under way
// must know which was refused.
func TestSocketAnswersNameTheirMessage(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	ws.send(`{"type":"message","text":" ","id":"blank"}`)
	ws.want(map[string]any{"type": "error", "id": "blank"})
	ws.send(`{"type":"message","text":"help","id":"h"}`)
	ws.want(map[string]any{"type": "thread", "id": "h"})
	s.inbox.fail = transport.ErrBusy
	ws.send(`{"type":"message","text":"x","id":"late"}`)
	ws.want(map[string]any{"type": "error", "id": "late"})
	s.inbox.fail = nil
	ws.send(`{"type":"message","text":"x","id":"in"}`)
	ws.want(map[string]any{"type": "message", "id": "in", "origin": "chat"})
}

func TestSocketTooLargeMessage(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	ws.send(`{"type":"message","text":"` + strings.Repeat("x", 2*maxFrame) + `"}`)
	ws.want(map[string]any{"type": "error", "message": "This message is larger than 1 MiB. Upload it as a file."})
	ws.send(`{"type":"message","text":"small"}`)
	ws.want(map[string]any{"type": "message", "text": "small"})
}

func TestSocketAgent(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1&agent=billing")
	ws.send(`{"type":"message","text":"x"}`)
	ws.want(map[string]any{"type": "message"})
	if got := s.inbox.got[0].Runner; got != "billing" {
		t.Errorf("runner = %q, want billing", got)
	}
}

func TestSocketRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"unknown agent": {fmt.Errorf("x: %w", transport.ErrUnknownRunner), "Unknown agent 'billing'"},
		"full queue":    {transport.ErrBusy, "Too many messages are waiting. Please wait, or stop the running one."},
		"closing":       {transport.ErrClosing, transport.ErrClosing.Error()},
		"defect":        {errors.New("disk on fire"), "Something went wrong. The log has the details."},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil).login(t)
			s.inbox.fail = c.err
			ws := s.dial(t, "thread=t1&agent=billing")
			ws.send(`{"type":"message","text":"x"}`)
			ws.want(map[string]any{"type": "error", "message": c.want})
		})
	}
}

func TestSocketAttachments(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	ws.send(`{"type":"message","text":"","attachments":[{"local":"WEBUI-t1/attachments/1_a.png"}]}`)
	f := ws.want(map[string]any{"type": "message"})
	if files, _ := json.Marshal(f["files"]); string(files) != `[{"local":"WEBUI-t1/attachments/1_a.png","original":"1_a.png"}]` {
		t.Errorf("files = %s", files)
	}
	ws.send(`{"type":"message","text":"x","attachments":[{"local":"WEBUI-t2/attachments/1_a.png"}]}`)
	ws.want(map[string]any{"type": "error"})
	if len(s.inbox.got) != 1 {
		t.Errorf("a message with a foreign file was submitted: %v", s.inbox.got)
	}
}

func TestSocketAnswer(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	ws.send(`{"type":"answer","ask":"q1","yes":true}`)
	ws.want(map[string]any{"type": "thread", "text": "approved"})
	ws.send(`{"type":"answer","ask":"q9","yes":true}`)
	ws.want(map[string]any{"type": "error", "message": "This question is settled or has expired."})
	for ask, text := range map[string]string{
		"forbidden": "You may not answer this question; it still waits for somebody who may.",
		"busy":      "Too many messages are waiting. Please answer again in a moment.",
	} {
		ws.send(`{"type":"answer","ask":"` + ask + `","yes":true}`)
		ws.want(map[string]any{"type": "error", "id": ask, "message": text})
	}
	if a := s.inbox.answers[0]; !a.Yes || a.Ask != "q1" || a.Conversation != room {
		t.Errorf("answer = %+v", a)
	}
}

// F22: whatever the moment a socket is cut, the transcript is the same.
func TestSocketCutAtEveryFrame(t *testing.T) {
	s := start(t, nil).login(t)
	const n = 500
	for i := range n {
		s.inbox.event(room, "t", turn.Event{Kind: turn.Text, Text: fmt.Sprint(i), Partial: true})
	}
	since := int64(0)
	for i := range n {
		ws := s.dial(t, fmt.Sprintf("thread=t1&since=%d", since))
		f := ws.want(map[string]any{"type": "text", "text": fmt.Sprint(i)})
		since = int64(f["seq"].(float64))
		ws.conn.CloseNow()
	}
	s.inbox.until(t, "watchers gone", func() bool { return s.inbox.watching == 0 })
}

func TestSocketTruncated(t *testing.T) {
	s := start(t, nil).login(t)
	for i := range 3 {
		s.inbox.event(room, "t", turn.Event{Kind: turn.Text, Text: fmt.Sprint(i)})
	}
	s.inbox.floor = 2
	ws := s.dial(t, "thread=t1&since=1")
	ws.want(map[string]any{"type": "truncated"})
	ws.want(map[string]any{"type": "text", "text": "2", "seq": 3.0})
}

func TestSocketCutsWhoDoesNotRead(t *testing.T) {
	s := start(t, func(o *Options) { o.SendLimit = 100 * time.Millisecond; o.PingEvery = time.Hour }).login(t)
	s.dial(t, "thread=t1") // and never reads
	for range 64 {
		s.inbox.event(room, "t", turn.Event{Kind: turn.Text, Text: strings.Repeat("x", 1<<20)})
	}
	s.inbox.until(t, "slow socket cut", func() bool { return s.inbox.watching == 0 })
}

func TestSocketPingFreesDeadPeers(t *testing.T) {
	s := start(t, func(o *Options) { o.SendLimit = 50 * time.Millisecond; o.PingEvery = 20 * time.Millisecond }).login(t)
	s.dial(t, "thread=t1") // never reads, so never answers a ping
	s.inbox.until(t, "watcher came", func() bool { return s.inbox.watching == 1 })
	s.inbox.until(t, "dead peer cut", func() bool { return s.inbox.watching == 0 })
}

func TestCloseEndsSockets(t *testing.T) {
	s := start(t, nil).login(t)
	ws := s.dial(t, "thread=t1")
	s.inbox.until(t, "watcher came", func() bool { return s.inbox.watching == 1 })
	ended := make(chan error, 1)
	go func() {
		_, _, err := ws.conn.Read(context.Background())
		ended <- err
	}()
	s.Close()
	if err := <-ended; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("after Close the page sees %v, want going away", err)
	}
	up := map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
	if res, _ := s.do(t, "GET", "/?thread=t1", "", up); res.StatusCode != 503 {
		t.Errorf("upgrade after Close = %d, want 503", res.StatusCode)
	}
}

func FuzzClientFrame(f *testing.F) {
	for _, s := range []string{`{"type":"message","text":"x"}`, `{"type":"command"}`, `{"attachments":[{}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		var cf clientFrame
		if json.Unmarshal([]byte(data), &cf) != nil {
			return
		}
		c := &client{site: &Site{opts: Options{Now: time.Now}}, conv: room}
		m, err := c.compose(context.Background(), cf)
		if err == nil && (m.ID == "" || cf.ID != "" && chat.CheckID(m.ID) != nil) {
			t.Errorf("compose(%q) = id %q", data, m.ID)
		}
	})
}

func FuzzHost(f *testing.F) {
	s := &Site{opts: Options{Hosts: []string{"iris.example"}}}
	for _, h := range []string{"localhost", "127.0.0.1:1", "[::1]", "iris.example:443", "evil.example", "localhost.evil.example"} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if s.ours(hostname(host)) && strings.HasSuffix(strings.ToLower(strings.SplitN(host, ":", 2)[0]), "evil.example") {
			t.Errorf("%q is ours", host)
		}
	})
}
