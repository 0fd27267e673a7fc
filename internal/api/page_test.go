package api

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// web submits a message of the page and waits for its end.
func (h *house) web(thread, text string) turn.ID {
	h.t.Helper()
	r, err := h.engine.Submit(h.t.Context(), transport.Submission{
		Address: chat.Address{Space: chat.Web, ID: thread}, Message: chat.Message{ID: "m-" + text, Text: text, From: chat.Person{ID: "web"}},
		Origin: turn.FromChat, Direct: true,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if !strings.HasPrefix(text, "hold") {
		if _, err := h.engine.Wait(h.t.Context(), r.Turn); err != nil {
			h.t.Fatal(err)
		}
	}
	return r.Turn
}

// types lists the types of a history's items.
func types(r result) string {
	var all []string
	for _, it := range r.json["items"].([]any) {
		all = append(all, it.(map[string]any)["type"].(string))
	}
	return strings.Join(all, " ")
}

func items(r result, kind string) (found []map[string]any) {
	for _, it := range r.json["items"].([]any) {
		if m := it.(map[string]any); m["type"] == kind {
			found = append(found, m)
		}
	}
	return found
}

func TestPageRoutesOnlyBehindTheCookie(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	srv := httptest.NewServer(h.api.Page())
	t.Cleanup(srv.Close)
	h.url = srv.URL
	for _, r := range h.api.Routes() {
		path := strings.NewReplacer("{id}", id, "{turn}", string(turn.NewID()), "{thread}", "t", "{channel}", "WEBUI-t", "{file}", "f").Replace(r.Pattern)
		got := h.request(r.Method, path, "", "Authorization", "")
		if (got.status == 403) == (r.Page || r.Open) {
			t.Errorf("%s %s behind the cookie = %d", r.Method, path, got.status)
		}
	}
	h.want(404, "GET", "/nope", "", "Authorization", "")
}

func TestPageThreads(t *testing.T) {
	h := openHouse(t, nil)
	h.web("one", "first words")
	h.web("two", "hold a")
	h.begun("a")
	r := h.want(200, "GET", "/page/threads", "")
	all := r.json["threads"].([]any)
	if len(all) != 2 {
		t.Fatalf("threads %s", r.raw)
	}
	two, one := all[0].(map[string]any), all[1].(map[string]any)
	if two["id"] != "two" || two["running"] != true || one["id"] != "one" || one["channel"] != "WEBUI-one" || one["title"] != "first words" || one["running"] != false {
		t.Errorf("threads %s", r.raw)
	}
	h.script.release("a")
}

func TestPageHistorySurvivesReload(t *testing.T) {
	h := openHouse(t, nil)
	id := h.web("t", "work")
	h.want(200, "POST", "/sessions/"+h.session("")+"/message", `{"text":"elsewhere"}`)
	r := h.want(200, "GET", "/page/threads/t/history", "")
	if got := types(r); got != "message text tool file final" {
		t.Errorf("items %s", got)
	}
	if m := items(r, "message")[0]; m["text"] != "work" || m["turn"] != string(id) || m["from"] != "web" {
		t.Errorf("message %v", m)
	}
	if txt := items(r, "text")[0]; txt["text"] != "let me look" || txt["partial"] != nil {
		t.Errorf("text %v", txt)
	}
	tool := items(r, "tool")[0]["event"].(map[string]any)
	if tool["phase"] != "end" || tool["label"] != "list" || tool["result"] != "a\nb" || tool["args"].(map[string]any)["command"] != "ls" {
		t.Errorf("tool card %v", tool)
	}
	if f := items(r, "final")[0]; f["text"] != "the answer" || f["usage"].(map[string]any)["cost"] != 0.5 {
		t.Errorf("final %v", f)
	}
	if r.json["seq"].(float64) != items(r, "final")[0]["seq"] {
		t.Errorf("seq %v", r.json["seq"])
	}
	if r := h.want(200, "GET", "/page/threads/empty/history", ""); r.json["seq"] != 0.0 || len(r.json["items"].([]any)) != 0 {
		t.Errorf("an empty thread: %s", r.raw)
	}
	h.want(400, "GET", "/page/threads/a%20b/history", "")
}

func TestPageHistoryOfARunningTurnContinues(t *testing.T) {
	h := openHouse(t, nil)
	id := h.web("t", "hold a")
	h.begun("a")
	r := h.want(200, "GET", "/page/threads/t/history", "")
	txt := items(r, "text")
	if len(txt) != 1 || txt[0]["partial"] != true || txt[0]["text"] != "so far" || r.json["running"] != string(id) {
		t.Fatalf("history of a running turn: %s", r.raw)
	}
	seen := h.engine.Watch(t.Context(), chat.Address{Space: chat.Web, ID: "t"}, int64(r.json["seq"].(float64)))
	h.script.release("a")
	for s, err := range seen {
		if err != nil || s.Record.Event == nil || s.Record.Event.Kind != turn.Final {
			t.Errorf("after the history comes %+v, %v", s, err)
		}
		break
	}
	r = h.want(200, "GET", "/page/threads/t/history", "")
	if types(r) != "message final" || r.json["running"] != nil {
		t.Errorf("history after the end: %s", r.raw)
	}
}

func TestHistoryBuild(t *testing.T) {
	piece := func(text string) turn.Event { return turn.Event{Kind: turn.Text, Text: text, Partial: true} }
	start := turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "c", Name: "bash", Phase: turn.Start}}
	end := turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "c", Name: "bash", Phase: turn.End, Result: "r"}}
	for name, c := range map[string]struct {
		events []turn.Event
		want   string
	}{
		"pieces are one text":            {[]turn.Event{piece("a"), piece("b")}, "text:ab+"},
		"whole takes their place":        {[]turn.Event{piece("a"), piece("b"), {Kind: turn.Text, Text: "ab"}}, "text:ab"},
		"void takes them back":           {[]turn.Event{piece("a"), {Kind: turn.Text, Void: true}, piece("c")}, "text:c+"},
		"final ends them":                {[]turn.Event{piece("a"), {Kind: turn.Final, Text: "a"}}, "final:a"},
		"a call keeps its place":         {[]turn.Event{piece("a"), start, {Kind: turn.Text, Text: "a"}, end}, "tool:r text:a"},
		"an end without a start":         {[]turn.Event{end}, "tool:r"},
		"no tool":                        {[]turn.Event{{Kind: turn.ToolUse}}, ""},
		"thinking, ask and failure stay": {[]turn.Event{{Kind: turn.Thinking, Text: "t"}, {Kind: turn.AskFor, Ask: &turn.Ask{}}, {Kind: turn.Failed, Error: "e"}}, "thinking:t ask: error:"},
	} {
		b := build{tools: map[string]int{}}
		for i, e := range c.events {
			b.add(transport.Seen{Seq: int64(i + 1), Record: turn.Record{Turn: "t", Event: &e}})
		}
		var got []string
		for _, it := range b.out.Items {
			s := it.Type + ":" + it.Text
			if it.Tool != nil {
				s += it.Tool.Result
			}
			if it.Partial {
				s += "+"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestPageHistoryShowsNoticesAndHeard(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	h.want(200, "POST", "/sessions/"+id+"/inject-turn", `{"text":"psst"}`)
	h.want(200, "POST", "/sessions/"+id+"/reset", "")
	r := h.want(200, "GET", "/page/threads/SESSION-"+id+"/history", "")
	if m := items(r, "message"); len(m) != 1 || m[0]["text"] != "[team]: psst" || len(items(r, "notice")) == 0 {
		t.Errorf("history %s", r.raw)
	}
}

func TestPageHistoryOlderThanTheJournal(t *testing.T) {
	h := openHouse(t, nil)
	dir := filepath.Join(h.dir, "WEBUI-old")
	os.MkdirAll(dir, 0o700)
	log := `{"date":"2020-01-01T00:00:00Z","ts":"1","user":"web","text":"hello","attachments":[],"isBot":false}
{"date":"2020-01-01T00:00:01Z","ts":"2","user":"bot","text":"hi","attachments":[],"isBot":true}
{"date":"2020-01-01T00:00:02Z","ts":"3","user":"bot","text":"it broke","attachments":[],"isBot":true,"failed":"model"}
`
	if err := os.WriteFile(filepath.Join(dir, "log.jsonl"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	h.web("old", "new words")
	r := h.want(200, "GET", "/page/threads/old/history", "")
	if got := types(r); got != "message final error message final" {
		t.Errorf("items %s: %s", got, r.raw)
	}
}

func TestPageStatus(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.About = func() About { return About{Version: "v1", Model: "m", Provider: "p"} } })
	h.web("t", "work")
	h.web("t", "work again")
	r := h.want(200, "GET", "/page/status?thread=t", "")
	u := r.json["usage"].(map[string]any)
	if r.str("version") != "v1" || r.json["running"] != false || u["input"] != 20.0 || u["cost"] != 1.0 || u["calls"] != 2.0 || u["context"] != 12.0 {
		t.Errorf("status %s", r.raw)
	}
	if r := h.want(200, "GET", "/page/status", ""); r.json["usage"] != nil || len(r.json["runners"].([]any)) != 2 {
		t.Errorf("status without a thread: %s", r.raw)
	}
	h.want(400, "GET", "/page/status?thread=..", "")
}

func TestUploadAndDownload(t *testing.T) {
	h := openHouse(t, nil)
	content := "<script>alert(1)</script>"
	local := h.want(200, "POST", "/upload?channel=WEBUI-t", content, "X-Filename", "%E5%A0%B1%20%22x%22.html").str("local")
	name := filepath.Base(local)
	r := h.want(200, "GET", "/files/WEBUI-t/"+name, "")
	for header, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": `attachment; filename="_ _x_.html"; filename*=UTF-8''%E5%A0%B1%20%22x%22.html`,
	} {
		if got := r.header.Get(header); got != want {
			t.Errorf("%s = %q, want %q", header, got, want)
		}
	}
	if r.raw != content {
		t.Errorf("content %q", r.raw)
	}
	os.WriteFile(filepath.Join(h.dir, "WEBUI-t", "notes.txt"), []byte("in the directory"), 0o600)
	if r := h.want(200, "GET", "/files/WEBUI-t/notes.txt", ""); r.raw != "in the directory" {
		t.Errorf("content %q", r.raw)
	}
	id := h.session("")
	h.want(200, "POST", "/upload?channel=SESSION-"+id, "x", "X-Filename", "a.txt")
	h.want(404, "POST", "/upload?channel=SESSION-nobody", "x", "X-Filename", "a.txt")
	h.want(400, "POST", "/upload?channel=WEBUI-t", "", "X-Filename", "a.txt")
	h.want(400, "POST", "/upload?channel=WEBUI-t", "x")
	h.want(404, "GET", "/files/WEBUI-other/"+name, "")
	os.Symlink("/etc/passwd", filepath.Join(h.dir, "WEBUI-t", "link"))
	h.want(404, "GET", "/files/WEBUI-t/link", "")
	h.want(404, "GET", "/files/WEBUI-t/attachments", "")
}

func TestUploadAndFilesRefuseForeignNamespaces(t *testing.T) {
	h := openHouse(t, nil)
	before := h.written()
	for _, channel := range []string{"BRIDGE-x", "ESCALATE-x", "SELFHEAL-x", "C024BE91L", "tg-1", "WEBUI-", "WEBUI-..", "", "x%2Fy"} {
		h.want(400, "POST", "/upload?channel="+channel, "x", "X-Filename", "a.txt")
		if channel != "" {
			h.want(400, "GET", "/files/"+channel+"/a.txt", "")
		}
	}
	for _, file := range []string{"..%2Fa", "a%2Fb", "..%5Ca", "%2e%2e%2f%2e%2e%2fetc%2fpasswd"} {
		h.want(400, "GET", "/files/WEBUI-t/"+file, "")
	}
	if after := h.written(); len(after) != len(before) {
		t.Errorf("refused uploads wrote %v", after)
	}
}

// §16 #28: a file attached from outside of the conversation's directory is
// served through the record of its event, and no other file is.
func TestFileAttachedFromElsewhere(t *testing.T) {
	h := openHouse(t, nil)
	os.MkdirAll(filepath.Join(h.dir, "out", "deep"), 0o700)
	os.WriteFile(filepath.Join(h.dir, "out", "deep", "plot.png"), []byte("pixels"), 0o600)
	h.web("t", "work")
	f := items(h.want(200, "GET", "/page/threads/t/history", ""), "file")[0]
	url := f["url"].(string)
	r := h.want(200, "GET", url, "")
	if r.raw != "pixels" || !strings.Contains(r.header.Get("Content-Disposition"), `filename="plot.png"`) {
		t.Errorf("%s = %q, %s", url, r.raw, r.header.Get("Content-Disposition"))
	}
	base, seq, _ := strings.Cut(url, "?")
	h.want(404, "GET", base, "")
	h.want(404, "GET", strings.Replace(url, "plot.png", "other.png", 1), "")
	h.want(404, "GET", strings.Replace(url, "WEBUI-t", "WEBUI-u", 1), "")
	h.want(404, "GET", base+"?seq=1", "")
	h.want(400, "GET", base+"?seq=x", "")
	h.want(404, "GET", "/files/WEBUI-t/journal?"+seq, "")
	if r := h.request("GET", url, "", "Range", "bytes=0-1"); r.status != http.StatusPartialContent || r.raw != "pi" {
		t.Errorf("range = %d %q", r.status, r.raw)
	}
}

func TestCorruptSessionFileRefusedNeverOverwritten(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	path := filepath.Join(h.dir, "meta", "sessions", id+".json")
	if err := os.WriteFile(path, []byte(`{"sessionId":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"GET", ""}, {"PATCH", `{"metadata":{"a":1}}`}} {
		if r := h.want(500, c[0], "/sessions/"+id, c[1]); strings.Contains(r.raw, path) || r.str("error") != "internal server error" {
			t.Errorf("%s of a corrupt session: %s", c[0], r.raw)
		}
	}
	h.want(500, "POST", "/sessions/"+id+"/message", `{"text":"x"}`)
	if data, _ := os.ReadFile(path); string(data) != `{"sessionId":` {
		t.Errorf("the file was changed to %s", data)
	}
	if !strings.Contains(h.logs.String(), id+".json") {
		t.Errorf("the log does not name the file: %s", h.logs)
	}
}
