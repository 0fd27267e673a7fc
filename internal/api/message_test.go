package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

func TestSessionLife(t *testing.T) {
	h := openHouse(t, nil)
	made := h.want(201, "POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1.2","workingChannel":"C2","clientEmail":"a@b.c","metadata":{"k":1},"runner":"billing","role":"ignored"}`)
	id := made.str("sessionId")
	if made.header.Get("Location") != "/sessions/"+id {
		t.Errorf("Location = %q", made.header.Get("Location"))
	}
	got := h.want(200, "GET", "/sessions/"+id, "")
	for _, want := range []string{`"originChannel":"C1"`, `"workingChannel":"C2"`, `"clientEmail":"a@b.c"`, `"k":1`, `"runner":"billing"`} {
		if !strings.Contains(got.raw, want) {
			t.Errorf("session %s lacks %s", got.raw, want)
		}
	}
	got = h.want(200, "PATCH", "/sessions/"+id, `{"sessionId":"other","metadata":{"l":"x"},"integrations":{"slack":{"workingChannel":"C3"}},"runner":""}`)
	for _, want := range []string{`"sessionId":"` + id, `"k":1`, `"l":"x"`, `"originChannel":"C1"`, `"workingChannel":"C3"`, `"clientEmail":"a@b.c"`} {
		if !strings.Contains(got.raw, want) {
			t.Errorf("patched session %s lacks %s", got.raw, want)
		}
	}
	if all := h.want(200, "GET", "/sessions?x=1", ""); !strings.Contains(all.raw, id) {
		t.Errorf("list %s lacks %s", all.raw, id)
	}
}

func TestSessionBodiesChecked(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	for name, c := range map[string]struct{ method, path, body, want string }{
		"no origin":           {"POST", "/sessions", `{}`, "originChannel is required"},
		"no thread":           {"POST", "/sessions", `{"originChannel":"C1"}`, "originThreadTs is required"},
		"unknown runner":      {"POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1","runner":"biling"}`, "known are native, billing"},
		"metadata":            {"POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1","metadata":[]}`, "metadata must be an object"},
		"patch runner":        {"PATCH", "/sessions/" + id, `{"runner":"nobody"}`, "known are native, billing"},
		"patch integrations":  {"PATCH", "/sessions/" + id, `{"integrations":{"slack":{"workingChannel":7}}}`, "integrations.slack.workingChannel must be a string"},
		"patch integrations2": {"PATCH", "/sessions/" + id, `{"integrations":7}`, "integrations must be an object"},
		"text type":           {"POST", "/sessions/" + id + "/message", `{"text":7}`, "text must be a string"},
		"no text":             {"POST", "/sessions/" + id + "/message", `{}`, "text is required"},
		"malformed":           {"POST", "/sessions/" + id + "/message", `{"text":`, "invalid JSON body"},
		"trailing":            {"POST", "/sessions/" + id + "/message", `{"text":"a"} x`, "invalid JSON body"},
		"empty":               {"POST", "/sessions/" + id + "/message", ``, "invalid JSON body"},
		"null":                {"POST", "/sessions/" + id + "/message", `null`, "it must be an object"},
		"list":                {"POST", "/sessions/" + id + "/message", `["text"]`, "it must be an object"},
		"attachments type":    {"POST", "/sessions/" + id + "/message", `{"text":"a","attachments":"x"}`, "attachments must be a list"},
		"attachment type":     {"POST", "/sessions/" + id + "/message", `{"text":"a","attachments":["x"]}`, "attachments must be an object"},
		"local type":          {"POST", "/sessions/" + id + "/message", `{"text":"a","attachments":[{"local":7}]}`, "attachments.local must be a string"},
		"no local":            {"POST", "/sessions/" + id + "/message", `{"text":"a","attachments":[{}]}`, "objects with a local"},
		"inject":              {"POST", "/sessions/" + id + "/inject-turn", `{"text":""}`, "text is required"},
		"open":                {"POST", "/sessions/open", `{"channel":"C1"}`, "text is required"},
		"open channel":        {"POST", "/sessions/open", `{"channel":"../x","text":"a"}`, "channel"},
		"email":               {"POST", "/sessions/email-inbound", `{"text":"x"}`, "from is required"},
		"event":               {"POST", "/event", `{"channelId":"C1"}`, "text is required"},
		"event channel":       {"POST", "/event", `{"channelId":"SESSION-../../x","text":"a"}`, "channelId"},
		"escalate":            {"POST", "/escalate", `{"agent":"billing"}`, "issue is required"},
		"escalate agent":      {"POST", "/escalate", `{"agent":"../x","issue":"a"}`, "agent"},
		"severity":            {"POST", "/escalate", `{"agent":"billing","issue":"a","severity":"doom"}`, "severity must be"},
		"environment":         {"POST", "/escalate", `{"agent":"billing","issue":"a","environment":"a]\nb"}`, "environment must be"},
	} {
		if r := h.want(400, c.method, c.path, c.body); !strings.Contains(r.str("error"), c.want) {
			t.Errorf("%s: error %q, want %q in it", name, r.str("error"), c.want)
		}
	}
	if r := h.want(200, "GET", "/sessions/"+id+"/history", ""); r.raw != "{\"history\":[]}\n" {
		t.Errorf("refused bodies left a history: %s", r.raw)
	}
}

func TestMessageReplyIsFinalTextHereAndInTheLog(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	r := h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"work on it","user":"ann"}`)
	if r.str("text") != "the answer" || r.str("sessionId") != id {
		t.Errorf("reply %s", r.raw)
	}
	if _, err := turn.ParseID(r.str("turn")); err != nil {
		t.Errorf("turn %q: %v", r.str("turn"), err)
	}
	hist := h.want(200, "GET", "/sessions/"+id+"/history", "").json["history"].([]any)
	if len(hist) != 2 {
		t.Fatalf("history %v, want the message and one reply", hist)
	}
	user, bot := hist[0].(map[string]any), hist[1].(map[string]any)
	if user["text"] != "work on it" || user["user"] != "ann" || !regexp.MustCompile(`^\d+\.\d{6}$`).MatchString(user["ts"].(string)) {
		t.Errorf("user line %v", user)
	}
	if bot["text"] != "the answer" || bot["isBot"] != true || bot["user"] != "bot" {
		t.Errorf("bot line %v", bot)
	}
}

func TestMessageOutcomes(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	for name, c := range map[string]struct {
		text       string
		status     int
		code, want string
	}{
		"model error":     {"model", 502, "model", "the model is overloaded"},
		"throwing runner": {"broken", 500, "failed", ""},
		"panic":           {"throw", 500, "panic", ""},
		"interrupted":     {"interrupted", 503, "interrupted", ""},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			r := h.want(c.status, "POST", "/sessions/"+id+"/message", `{"text":"`+c.text+`"}`)
			if r.str("code") != c.code || r.str("turn") == "" || !strings.Contains(r.str("error"), c.want) {
				t.Errorf("%s, want code %s and %q", r.raw, c.code, c.want)
			}
			if time.Since(begun) > 10*time.Second {
				t.Error("a failed turn did not answer at once")
			}
		})
	}
	if r := h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"silent"}`); r.json["text"] != "" || r.json["silent"] != true {
		t.Errorf("silent turn: %s", r.raw)
	}
}

func TestMessageTimeoutLeavesTheTurnRunning(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.Timeout = 50 * time.Millisecond })
	id := h.session(`,"clientEmail":"a@b.c"`)
	r := <-h.say(id, "hold a")
	h.begun("a")
	if r.status != 504 || r.str("error") != "session message failed" || r.str("code") != "timeout" {
		t.Fatalf("timeout = %d %s", r.status, r.raw)
	}
	path := "/sessions/" + id + "/turns/" + r.str("turn")
	if s := h.want(200, "GET", path, ""); s.str("state") != "running" {
		t.Errorf("after the timeout the turn is %s", s.raw)
	}
	h.want(504, "POST", "/sessions/email-inbound", `{"from":"a@b.c","text":"x"}`)
	h.script.release("a")
	h.until("end", func() bool { return h.request("GET", path, "").str("state") == "ended" })
	if s := h.want(200, "GET", path, ""); s.str("text") != "hold a" {
		t.Errorf("ended turn %s", s.raw)
	}
}

func TestEachRequestBoundToItsOwnTurn(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	first := h.say(id, "hold a")
	h.begun("a")
	var rest []<-chan result
	for i := range 5 {
		rest = append(rest, h.say(id, fmt.Sprintf("number %d", i)))
	}
	conv := chat.Address{Space: chat.Session, ID: id}
	h.until("queue", func() bool {
		for _, c := range h.engine.Conversations() {
			if c.Address == conv {
				return c.Waiting == 5
			}
		}
		return false
	})
	full := h.want(429, "POST", "/sessions/"+id+"/message", `{"text":"one too many"}`)
	if full.header.Get("Retry-After") != "5" {
		t.Errorf("Retry-After = %q", full.header.Get("Retry-After"))
	}
	h.script.release("a")
	if r := <-first; r.str("text") != "hold a" {
		t.Errorf("first = %s", r.raw)
	}
	for i, c := range rest {
		if r := <-c; r.str("text") != fmt.Sprintf("number %d", i) {
			t.Errorf("message %d answered %s", i, r.raw)
		}
	}
}

func TestRespondAsync(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	r := h.want(202, "POST", "/sessions/"+id+"/message", `{"text":"hold a"}`, "Prefer", "wait=5, Respond-Async")
	h.begun("a")
	path := r.header.Get("Location")
	if path != "/sessions/"+id+"/turns/"+r.str("turn") || r.header.Get("Preference-Applied") != "respond-async" || r.str("sessionId") != id {
		t.Errorf("202 %s, Location %q", r.raw, path)
	}
	queued := h.want(202, "POST", "/sessions/"+id+"/message", `{"text":"model"}`, "Prefer", "respond-async")
	if s := h.want(200, "GET", queued.header.Get("Location"), ""); s.str("state") != "waiting" {
		t.Errorf("queued turn %s", s.raw)
	}
	h.script.release("a")
	h.until("failure", func() bool { return h.request("GET", queued.header.Get("Location"), "").str("state") == "ended" })
	if s := h.want(200, "GET", queued.header.Get("Location"), ""); s.str("code") != "model" || s.str("error") == "" {
		t.Errorf("failed turn %s", s.raw)
	}
	other := h.session("")
	h.want(404, "GET", "/sessions/"+other+"/turns/"+r.str("turn"), "")
	h.want(404, "GET", "/sessions/"+id+"/turns/"+string(turn.NewID()), "")
	h.want(404, "GET", "/sessions/"+id+"/turns/x", "")
}

func TestIdempotencyKey(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	a := h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"once"}`, "Idempotency-Key", "k 1")
	b := h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"once"}`, "Idempotency-Key", "k 1")
	if a.str("turn") != b.str("turn") || b.str("text") != "once" {
		t.Errorf("the same key gave turns %s and %s", a.raw, b.raw)
	}
	c := h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"once"}`)
	if c.str("turn") == a.str("turn") {
		t.Error("a message without a key repeats an earlier turn")
	}
	h.want(400, "POST", "/sessions/"+id+"/message", `{"text":"x"}`, "Idempotency-Key", strings.Repeat("k", 256))
	h.want(400, "POST", "/sessions/"+id+"/message", `{"text":"x"}`, "Idempotency-Key", "ключ")
	if got := len(h.want(200, "GET", "/sessions/"+id+"/history", "").json["history"].([]any)); got != 4 {
		t.Errorf("history has %d lines, want 4", got)
	}
}

func TestDisconnectDoesNotStopTheTurn(t *testing.T) {
	left := make(chan int, 1)
	h := openHouse(t, func(o *Options) {
		o.Observe = func(route string, status int, _ time.Duration) {
			if route == "/sessions/{id}/message" {
				left <- status
			}
		}
	})
	id := h.session("")
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() {
		_, err := h.http.Do(h.build(ctx, "POST", "/sessions/"+id+"/message", `{"text":"hold a"}`))
		gone <- err
	}()
	h.begun("a")
	cancel()
	if err := <-gone; err == nil {
		t.Fatal("the client did not leave")
	}
	select {
	case status := <-left:
		if status != statusLeft || strings.Contains(h.logs.String(), "ERROR") {
			t.Errorf("the request ended with %d; log %s", status, h.logs)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the request of a client that left does not end")
	}
	h.script.release("a")
	h.until("reply in the log", func() bool {
		return len(h.request("GET", "/sessions/"+id+"/history", "").json["history"].([]any)) == 2
	})
}

func TestStop(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	if r := h.want(200, "POST", "/sessions/"+id+"/stop", `{}`); r.json["wasRunning"] != false || r.str("status") != "ok" {
		t.Errorf("stop while idle: %s", r.raw)
	}
	pending := h.say(id, "hold a")
	h.begun("a")
	if r := h.want(200, "POST", "/sessions/"+id+"/stop", ""); r.json["wasRunning"] != true {
		t.Errorf("stop while running: %s", r.raw)
	}
	if r := <-pending; r.status != 200 || r.str("text") != "so far" || r.json["stopped"] != true {
		t.Errorf("the stopped message = %d %s", r.status, r.raw)
	}
	h.want(404, "POST", "/sessions/nobody/stop", "")
}

func TestStopOfOneTurn(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	first := h.say(id, "hold a")
	h.begun("a")
	second := h.want(202, "POST", "/sessions/"+id+"/message", `{"text":"second"}`, "Prefer", "respond-async").str("turn")
	h.want(400, "POST", "/sessions/"+id+"/stop?turn=x", "")
	h.want(200, "POST", "/sessions/"+id+"/stop?turn="+second, "")
	h.until("the waiting turn is stopped", func() bool {
		return h.request("GET", "/sessions/"+id+"/turns/"+second, "").json["stopped"] == true
	})
	h.script.release("a")
	if r := <-first; r.status != 200 || r.json["stopped"] == true {
		t.Errorf("the other turn = %d %s, want it untouched", r.status, r.raw)
	}
}

func TestCompactAnswersWhenItIsDone(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	if r := h.want(200, "POST", "/sessions/"+id+"/compact", ""); r.raw != "{\"message\":\"Compaction complete\",\"status\":\"ok\"}\n" {
		t.Errorf("compact: %s", r.raw)
	}
	pending := h.say(id, "hold a")
	h.begun("a")
	if r := h.want(409, "POST", "/sessions/"+id+"/compact", ""); !strings.HasPrefix(r.str("error"), "Can't compact while running") {
		t.Errorf("compact while running: %s", r.raw)
	}
	h.script.release("a")
	<-pending
	h.script.mu.Lock()
	h.script.compact = errors.New("no model")
	h.script.mu.Unlock()
	if r := h.want(502, "POST", "/sessions/"+id+"/compact", ""); r.str("error") != "Compaction failed: no model" {
		t.Errorf("failed compaction: %s", r.raw)
	}
	h.want(404, "POST", "/sessions/nobody/compact", "")
	h.want(403, "POST", "/sessions/"+id+"/compact", "", "Authorization", "Bearer agent-token")
}

func TestResetClearsKeepsLogWritesWatermark(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"remember me"}`)
	if r := h.want(200, "POST", "/sessions/"+id+"/reset", ""); r.raw != "{\"message\":\"Context cleared\",\"status\":\"ok\"}\n" {
		t.Errorf("reset: %s", r.raw)
	}
	if len(h.script.resets) != 1 || h.script.resets[0].ID != id {
		t.Errorf("the live history of %v was cleared, want that of %s", h.script.resets, id)
	}
	if r := h.want(200, "GET", "/sessions/"+id+"/history", ""); !strings.Contains(r.raw, "remember me") {
		t.Errorf("the log was not kept: %s", r.raw)
	}
	if _, ok, err := h.store.Watermark(chat.Address{Space: chat.Session, ID: id}); !ok || err != nil {
		t.Errorf("watermark: %v, %v", ok, err)
	}
}

func TestInjectTurn(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	if r := h.want(200, "POST", "/sessions/"+id+"/inject-turn", `{"text":"use the blue one","role":"assistant"}`); r.raw != "{\"status\":\"ok\"}\n" {
		t.Errorf("inject: %s", r.raw)
	}
	line := h.want(200, "GET", "/sessions/"+id+"/history", "").json["history"].([]any)[0].(map[string]any)
	if line["user"] != "human-agent" || line["userName"] != "team" || line["text"] != "[team]: use the blue one" || line["isBot"] != false {
		t.Errorf("line %v", line)
	}
	if n := len(h.engine.Conversations()); n != 0 {
		t.Errorf("%d conversations run, want none", n)
	}
}

func TestSessionOpen(t *testing.T) {
	h := openHouse(t, nil)
	if r := h.want(503, "POST", "/sessions/open", `{"channel":"C1","text":"hi"}`); r.str("error") != "bot not started" {
		t.Errorf("without a transport: %s", r.raw)
	}
	h = openHouse(t, func(o *Options) {
		o.Post = func(_ context.Context, channel, text string) (string, error) {
			if channel == "C2" {
				return "", os.ErrPermission
			}
			return "17.5", nil
		}
	})
	r := h.want(201, "POST", "/sessions/open", `{"channel":"C1","text":"hi","workingChannel":"C9"}`)
	got := h.want(200, "GET", "/sessions/"+r.str("sessionId"), "")
	if r.str("threadTs") != "17.5" || r.str("message") != "hi" || !strings.Contains(got.raw, `"originChannel":"C1","originThreadTs":"17.5","workingChannel":"C9"`) {
		t.Errorf("open: %s, session %s", r.raw, got.raw)
	}
	h.want(502, "POST", "/sessions/open", `{"channel":"C2","text":"hi"}`)
}

func TestEmailInbound(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session(`,"clientEmail":"a@b.c"`)
	r := h.want(200, "POST", "/sessions/email-inbound", `{"from":"a@b.c","text":"hello","subject":"Re: invoice"}`)
	if r.str("sessionId") != id || r.str("response") != "[Subject: Re: invoice] hello" {
		t.Errorf("email: %s", r.raw)
	}
	if r := h.want(404, "POST", "/sessions/email-inbound", `{"from":"A@b.c","text":"x"}`); r.str("error") != "no session found for this email" {
		t.Errorf("unknown sender: %s", r.raw)
	}
	h.want(502, "POST", "/sessions/email-inbound", `{"from":"a@b.c","text":"model"}`)
}

func TestAttachments(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	path := "/sessions/" + id + "/attachments"
	content := "%PDF-1.4\x00\xff bytes"
	up := h.want(200, "POST", path, content, "X-Filename", "report.pdf")
	local := up.str("local")
	if !regexp.MustCompile(`^SESSION-` + id + `/attachments/\d+_report\.pdf$`).MatchString(local) {
		t.Fatalf("local %q", local)
	}
	if data, err := os.ReadFile(filepath.Join(h.dir, local)); err != nil || string(data) != content {
		t.Errorf("on disk %q, %v", data, err)
	}
	r := h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"see","attachments":[{"local":"`+local+`"}]}`)
	if r.str("text") != "see ["+local+"]" {
		t.Errorf("the runner saw %s", r.raw)
	}
	for name, header := range map[string]string{"missing": "", "slash": "a/b.pdf", "dots": "..", "dots inside": "a..b", "encoded slash": "a%2Fb", "backslash": `..\x`} {
		if r := h.want(400, "POST", path, content, "X-Filename", header); !strings.Contains(r.str("error"), "X-Filename") {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
	if r := h.want(400, "POST", path, "", "X-Filename", "a"); !strings.Contains(r.str("error"), "empty") {
		t.Errorf("empty: %s", r.raw)
	}
	before := h.written()
	h.want(404, "POST", "/sessions/nobody/attachments", content, "X-Filename", "report.pdf")
	if after := h.written(); len(after) != len(before) {
		t.Errorf("an unknown session wrote %v", after)
	}
	if testing.Short() {
		return
	}
	// Without a length, so that the limit is met while reading.
	res, err := h.http.Do(h.build(context.Background(), "POST", path, strings.Repeat("x", MaxUpload+1), "X-Filename", "big", "Content-Length", ""))
	if err == nil {
		res.Body.Close()
	}
	if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("upload of more than the limit = %v, %v, want 413", res, err)
	}
	if after := h.written(); len(after) != len(before) {
		t.Errorf("a refused upload left %v", after)
	}
}

// F51: names are data.
func TestAttachmentNames(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	seen := map[string]bool{}
	for _, name := range []string{"%E5%A0%B1%E5%91%8A.pdf", "%E6%A6%82%E8%A6%81.pdf", "a%5D%0A.png", "%E2%80%AEfdp.exe", "CON", "image.png", "image.png", strings.Repeat("n", 300) + ".txt", "50%.txt"} {
		r := h.want(200, "POST", "/sessions/"+id+"/attachments", "x", "X-Filename", name)
		local := r.str("local")
		if seen[local] || strings.ContainsAny(local, "\n\r\x00") || len(filepath.Base(local)) > 255 {
			t.Errorf("name %q is stored as %q", name, local)
		}
		seen[local] = true
		if _, err := os.Stat(filepath.Join(h.dir, local)); err != nil {
			t.Error(err)
		}
	}
	r := h.want(200, "POST", "/sessions/"+id+"/attachments", "x", "X-Filename", "%E5%A0%B1%E5%91%8A.pdf")
	if r.str("original") != "報告.pdf" {
		t.Errorf("original %q", r.str("original"))
	}
	h.want(400, "POST", "/sessions/"+id+"/attachments", "x", "X-Filename", "a%00b")
}

func TestMessageAttachmentsChecked(t *testing.T) {
	h := openHouse(t, nil)
	id, other := h.session(""), h.session("")
	foreign := h.want(200, "POST", "/sessions/"+other+"/attachments", "x", "X-Filename", "a.txt").str("local")
	for local, want := range map[string]string{
		foreign:                                     "is not inside SESSION-" + id,
		"slack/C1/attachments/a.txt":                "is not inside SESSION-" + id,
		"SESSION-" + id + "/../" + foreign:          "escapes the session directory",
		"SESSION-" + id + "/attachments/1_gone.txt": "does not exist",
		"https://example.org/a.png":                 "is not inside",
	} {
		r := h.want(400, "POST", "/sessions/"+id+"/message", `{"text":"x","attachments":[{"local":"`+local+`"}]}`)
		if !strings.Contains(r.str("error"), want) || !strings.Contains(r.str("error"), local) {
			t.Errorf("%s: error %q, want %q and the path in it", local, r.str("error"), want)
		}
	}
	if r := h.want(200, "GET", "/sessions/"+id+"/history", ""); r.raw != "{\"history\":[]}\n" {
		t.Errorf("something was injected: %s", r.raw)
	}
	for _, body := range []string{`{"text":"plain"}`, `{"text":"plain","attachments":null}`, `{"text":"plain","attachments":[]}`} {
		if r := h.want(200, "POST", "/sessions/"+id+"/message", body); r.str("text") != "plain" {
			t.Errorf("%s answered %s", body, r.raw)
		}
	}
}

func TestRunnerOfSession(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.Runners = nil })
	id := h.session(`,"runner":"nobody"`)
	if r := h.want(400, "POST", "/sessions/"+id+"/message", `{"text":"x"}`); !strings.Contains(r.str("error"), "no such runner") {
		t.Errorf("unknown runner: %s", r.raw)
	}
}

func TestClosingAnswers503(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	pending := h.say(id, "hold a")
	h.begun("a")
	h.api.Close()
	if r := <-pending; r.status != 503 || r.header.Get("Retry-After") == "" || r.str("turn") == "" {
		t.Errorf("a waiting message at the end of the process = %d %s", r.status, r.raw)
	}
	h.script.release("a")
}

func TestDiskProblemsAreNamed(t *testing.T) {
	h := openHouse(t, nil)
	for _, c := range []struct {
		err   syscall.Errno
		says  string
		retry bool
	}{
		{syscall.ENOSPC, "no space left", true},
		{syscall.EDQUOT, "no space left", true},
		{syscall.EROFS, "read-only file system", false},
	} {
		p := h.api.problemOf(fmt.Errorf("append: %w", c.err))
		if p.Status != http.StatusInsufficientStorage || !strings.Contains(p.Text, c.says) || p.retry != c.retry {
			t.Errorf("%v = %d %q, retry %v", c.err, p.Status, p.Text, p.retry)
		}
	}
}
