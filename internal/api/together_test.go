package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coder/websocket"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport/web"
)

// tab is a browser's tab, as far as the wire knows.
type tab struct {
	t    *testing.T
	url  string
	http *http.Client
}

// openPage puts the page and the API on one listener, as the program does, and
// logs in.
func openPage(t *testing.T, h *house) *tab {
	t.Helper()
	site, err := web.New(web.Options{
		Inbox: h.engine, Data: h.api.Page(), Page: fstest.MapFS{"index.html": {Data: []byte("<p>hi")}},
		Logins: filepath.Join(h.dir, "state", "web-logins.json"),
		CheckFiles: func(_ context.Context, conv chat.Address, locals []string) ([]chat.File, error) {
			return h.store.CheckFiles(conv, locals)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h.api.Handler(site))
	jar, _ := cookiejar.New(nil)
	b := &tab{t, srv.URL, &http.Client{Jar: jar, Transport: &http.Transport{}}}
	t.Cleanup(func() {
		site.Close()
		b.http.CloseIdleConnections()
		srv.Close()
	})
	if status, body := b.do("GET", site.LoginLink(), ""); status != 200 || body != "<p>hi" {
		t.Fatalf("login link leads to %d %s", status, body)
	}
	return b
}

func (b *tab) do(method, path, body string, header ...string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(data)
}

func (b *tab) socket(query string) *websocket.Conn {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(b.url, "http")+"/ws?"+query, &websocket.DialOptions{HTTPClient: b.http})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.CloseNow() })
	return conn
}

// frames reads up to and with the first frame of a type.
func (b *tab) frames(conn *websocket.Conn, last string) (all []map[string]any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			b.t.Fatalf("after %v: %v", all, err)
		}
		var f map[string]any
		if err := json.Unmarshal(data, &f); err != nil {
			b.t.Fatal(err)
		}
		if all = append(all, f); f["type"] == last {
			return all
		}
	}
}

// The page, its socket, its uploads and downloads and the API on one listener.
func TestPageTogether(t *testing.T) {
	h := openHouse(t, nil)
	os.MkdirAll(filepath.Join(h.dir, "out", "deep"), 0o700)
	os.WriteFile(filepath.Join(h.dir, "out", "deep", "plot.png"), []byte("pixels"), 0o600)
	b := openPage(t, h)
	h.url = b.url
	h.want(200, "GET", "/sessions", "")
	h.want(401, "GET", "/agents", "", "Authorization", "")

	status, body := b.do("POST", "/upload?channel=WEBUI-t", "bytes", "X-Filename", "a.txt")
	var up struct{ Local string }
	if err := json.Unmarshal([]byte(body), &up); err != nil || status != 200 {
		t.Fatalf("upload = %d %s", status, body)
	}
	ws := b.socket("thread=t")
	send := func(text string) {
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	send(fmt.Sprintf(`{"type":"message","id":"k","text":"work","attachments":[{"local":%q}]}`, up.Local))
	all := b.frames(ws, "final")
	var kinds []string
	var file string
	var last float64
	for _, f := range all {
		kinds = append(kinds, f["type"].(string))
		if f["type"] == "file" {
			file = f["url"].(string)
		}
		if seq := f["seq"].(float64); seq <= last {
			t.Errorf("frame %v is not after %v", f, last)
		} else {
			last = seq
		}
	}
	if got := strings.Join(kinds, " "); got != "message thinking status text text text tool tool file final" {
		t.Errorf("frames %s", got)
	}
	if status, body := b.do("GET", file, ""); status != 200 || body != "pixels" {
		t.Errorf("%s = %d %s", file, status, body)
	}
	status, body = b.do("GET", "/page/threads/t/history", "")
	var past struct {
		Seq   float64
		Items []struct{ Type, URL string }
	}
	if err := json.Unmarshal([]byte(body), &past); err != nil || status != 200 || past.Seq != last {
		t.Errorf("history = %d %s, want seq %v", status, body, last)
	}
	for _, it := range past.Items {
		if it.Type == "file" && it.URL != file {
			t.Errorf("the history's file is at %s, the socket's at %s", it.URL, file)
		}
	}

	// A later tab goes on where the history ends; a message said twice is one.
	again := b.socket(fmt.Sprintf("thread=t&since=%d", int64(past.Seq)))
	send(`{"type":"message","id":"k","text":"work"}`)
	send(`{"type":"message","id":"k2","text":"next"}`)
	if f := b.frames(again, "final"); f[0]["text"] != "next" || f[len(f)-1]["text"] != "next" {
		t.Errorf("after the history comes %v", f)
	}
	send(`{"type":"message","text":"hold a"}`)
	h.begun("a")
	send(`{"type":"command","action":"stop"}`)
	if f := b.frames(again, "final"); f[len(f)-1]["stopped"] != true || f[len(f)-1]["text"] != "so far" {
		t.Errorf("stopped turn ends with %v", f)
	}

	// Events for the thread reach the page.
	h.want(200, "POST", "/event", `{"channelId":"WEBUI-t","text":"deploy done"}`)
	if f := b.frames(again, "final"); f[0]["type"] != "message" || f[len(f)-1]["text"] != "deploy done" {
		t.Errorf("event gives %v", f)
	}
	other := b.socket("thread=u&agent=nobody")
	if err := other.Write(t.Context(), websocket.MessageText, []byte(`{"type":"message","text":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if f := b.frames(other, "error"); f[0]["message"] != "Unknown agent 'nobody'" {
		t.Errorf("unknown agent: %v", f)
	}
}
