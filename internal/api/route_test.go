package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/turn"
)

func TestAuth(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	for name, c := range map[string]struct {
		header string
		status int
	}{
		"none": {"", 401}, "wrong": {"Bearer nope", 401}, "empty": {"Bearer ", 401}, "basic": {"Basic " + operatorToken, 401},
		"lower case": {"bearer " + operatorToken, 200}, "upper case": {"BEARER " + operatorToken, 200},
		"agent": {"Bearer agent-token", 403},
	} {
		r := h.want(c.status, "GET", "/sessions/"+id, "", "Authorization", c.header, "X-Iris-Caller", "iris")
		if c.status == 401 && (r.raw != "{\"error\":\"unauthorized\"}\n" || r.header.Get("WWW-Authenticate") != "Bearer") {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
	for _, path := range []string{"/health", "/health?x=1", "/openapi.json", "/readyz"} {
		h.want(200, "GET", path, "", "Authorization", "")
	}
	if r := h.want(200, "GET", "/health", "", "Authorization", ""); r.json["ok"] != true || r.json["channels"] == nil {
		t.Errorf("health: %s", r.raw)
	}
}

// Every route but the open ones refuses who has no token, and every route but
// those of events and secrets refuses agents and turns.
func TestDenyIsTheDefault(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	pending := h.say(id, "hold a")
	h.begun("a")
	token := h.api.opts.Tokens.Mint(turn.Request{ID: runningTurn(t, h, id), Conversation: chat.Address{Space: chat.Session, ID: id}}).Reveal()
	for _, r := range h.api.Routes() {
		path := strings.NewReplacer("{id}", id, "{turn}", string(turn.NewID()), "{thread}", "t", "{channel}", "WEBUI-t", "{file}", "f", "{name}", "SOME-SECRET").Replace(r.Pattern)
		if r.Open {
			continue
		}
		h.want(401, r.Method, path, "", "Authorization", "")
		if r.Pattern == "/event" || r.Pattern == "/escalate" {
			continue
		}
		h.want(403, r.Method, path, "", "Authorization", "Bearer agent-token")
		if strings.Contains(r.Pattern, "secret") && r.Method != "DELETE" && r.Pattern != "/secrets" || r.Pattern == "/meta/{name}" {
			continue // a turn may: see TestATurnReadsAndStoresWhatIsNew
		}
		h.want(403, r.Method, path, "", "Authorization", "Bearer "+token)
	}
	h.script.release("a")
	<-pending
}

// runningTurn finds the id of the turn that runs in a session.
func runningTurn(t *testing.T, h *house, session string) turn.ID {
	t.Helper()
	for _, p := range h.journal.Pins() {
		if p.Stream == "SESSION-"+session {
			return turn.ID(p.Name)
		}
	}
	t.Fatal("no turn runs")
	return ""
}

func TestTurnToken(t *testing.T) {
	h := openHouse(t, nil)
	id, other := h.session(""), h.session("")
	conv := chat.Address{Space: chat.Session, ID: id}
	pending := h.say(id, "hold a")
	h.begun("a")
	req := turn.Request{ID: runningTurn(t, h, id), Conversation: conv}
	auth := "Bearer " + h.api.opts.Tokens.Mint(req).Reveal()
	event := func(channel string) string { return `{"channelId":"` + channel + `","text":"wake up","user":"root"}` }
	h.want(200, "POST", "/event", event("SESSION-"+id), "Authorization", auth)
	h.want(403, "POST", "/event", event("SESSION-"+other), "Authorization", auth)
	h.want(403, "POST", "/event", event("C1"), "Authorization", auth)
	h.want(200, "POST", "/escalate", `{"agent":"billing","issue":"down"}`, "Authorization", auth)

	forged := strings.Replace(auth, id, other, 1)
	h.want(401, "POST", "/event", event("SESSION-"+other), "Authorization", forged)
	h.want(401, "POST", "/event", event("SESSION-"+id), "Authorization", "Bearer "+NewTokens().Mint(req).Reveal())
	h.want(401, "POST", "/event", event("SESSION-"+id), "Authorization", "Bearer "+h.api.opts.Tokens.Mint(turn.Request{ID: turn.NewID(), Conversation: conv}).Reveal())
	h.script.release("a")
	<-pending
	h.want(401, "POST", "/event", event("SESSION-"+id), "Authorization", auth)
}

func TestAgentTokenReachesItsRoutesOnly(t *testing.T) {
	h := openHouse(t, nil)
	mine, other := h.session(`,"runner":"billing"`), h.session("")
	as := func(status int, path, body string) result {
		return h.want(status, "POST", path, body, "Authorization", "Bearer agent-token", "X-Iris-Caller", "iris")
	}
	as(200, "/event", `{"channelId":"SESSION-`+mine+`","text":"x"}`)
	as(403, "/event", `{"channelId":"SESSION-`+other+`","text":"x"}`)
	as(403, "/event", `{"channelId":"SESSION-nobody","text":"x"}`)
	as(200, "/event", `{"channelId":"ESCALATE-billing","text":"x"}`)
	as(403, "/event", `{"channelId":"ESCALATE-shop","text":"x"}`)
	as(403, "/event", `{"channelId":"WEBUI-x","text":"x"}`)
	if r := as(200, "/escalate", `{"issue":"down"}`); r.str("channelId") != "ESCALATE-billing" {
		t.Errorf("escalation without a name: %s", r.raw)
	}
	as(403, "/escalate", `{"agent":"shop","issue":"down"}`)
	as(403, "/sessions", `{"originChannel":"C1","originThreadTs":"1"}`)
	// An agent without a token of its own uses the operator's and is the operator.
	h.want(200, "POST", "/event", `{"channelId":"WEBUI-x","text":"x"}`)
}

func TestEventIsDurableTurn(t *testing.T) {
	h := openHouse(t, nil)
	r := h.want(200, "POST", "/event", `{"channelId":"WEBUI-x","text":"deploy done","user":"ci"}`)
	id, err := turn.ParseID(r.str("eventId"))
	if err != nil || r.json["ok"] != true {
		t.Fatalf("event: %s, %v", r.raw, err)
	}
	end, err := h.engine.Wait(t.Context(), id)
	if err != nil || end.Text != "deploy done" {
		t.Errorf("turn of the event = %+v, %v", end, err)
	}
	lines, err := h.store.Log(t.Context(), chat.Address{Space: chat.Web, ID: "x"}, session.LogOptions{})
	if err != nil || len(lines) != 2 || lines[0].User != "ci" || lines[0].TS != string(id) {
		t.Errorf("log %+v, %v", lines, err)
	}
}

func TestEscalationText(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 7e6, time.UTC)
	for name, c := range map[string]struct {
		e    Escalation
		want string
	}{
		"defaults": {Escalation{Agent: "billing", Issue: "down"},
			"🟠 **Escalation from @billing** [error/prod]: down\n\n_Received via internal API at 2026-05-04T03:02:01.007Z_"},
		"critical": {Escalation{Agent: "billing", Issue: "down", Context: "disk full", Severity: "critical", Environment: "dev"},
			"🔴 **Escalation from @billing** [critical/dev]: down\n\nContext:\ndisk full\n\n_Received via internal API at 2026-05-04T03:02:01.007Z_"},
		"warning": {Escalation{Agent: "billing", Issue: "slow", Severity: "warning"},
			"🟡 **Escalation from @billing** [warning/prod]: slow\n\n_Received via internal API at 2026-05-04T03:02:01.007Z_"},
	} {
		if err := c.e.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.e.Text(at); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	h := openHouse(t, nil)
	r := h.want(200, "POST", "/escalate", `{"agent":"billing","issue":"down"}`)
	if r.str("channelId") != "ESCALATE-billing" {
		t.Errorf("escalate: %s", r.raw)
	}
	end, err := h.engine.Wait(t.Context(), turn.ID(r.str("eventId")))
	if err != nil || !strings.HasPrefix(end.Text, "🟠 **Escalation from @billing** [error/prod]: down") {
		t.Errorf("turn of the escalation: %+v, %v", end, err)
	}
}

func TestRouting(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	h.want(404, "GET", "/nope", "")
	h.want(404, "GET", "/nope", "", "Authorization", "")
	h.want(404, "GET", "/secretes", "")
	h.want(404, "GET", "/sessions/", "")
	h.want(404, "POST", "/sessions/open/message", `{"text":"x"}`)
	if r := h.want(405, "DELETE", "/sessions/"+id, ""); r.header.Get("Allow") != "GET, HEAD, PATCH" {
		t.Errorf("Allow = %q", r.header.Get("Allow"))
	}
	h.want(405, "GET", "/event", "")
	h.want(200, "HEAD", "/sessions/"+id, "")
	h.want(200, "GET", "/sessions?x", "")
	h.want(415, "POST", "/sessions", "a=b", "Content-Type", "application/x-www-form-urlencoded")
	h.want(415, "POST", "/sessions", "{}", "Content-Type", "application/json; charset=latin1")
	h.want(415, "POST", "/sessions", "{}", "Content-Type", ";;")
	for _, ct := range []string{"application/json", "application/json; charset=utf-8", "APPLICATION/JSON;charset=UTF-8", ""} {
		h.want(201, "POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1"}`, "Content-Type", ct)
	}
	if r := h.want(200, "GET", "/mcp/status", ""); r.raw != "{\"configErrors\":[],\"configHash\":\"\",\"servers\":[]}\n" {
		t.Errorf("mcp status: %s", r.raw)
	}
	if r := h.want(200, "GET", "/agents", ""); r.raw != "{\"agents\":[{\"name\":\"billing\",\"description\":\"invoices\"}]}\n" {
		t.Errorf("agents: %s", r.raw)
	}
	h.want(200, "POST", "/sessions/"+id+"/message", `{"text":"x"}`)
	if r := h.want(200, "GET", "/channels", ""); !strings.Contains(r.raw, `{"id":"SESSION-`+id+`","running":false}`) {
		t.Errorf("channels: %s", r.raw)
	}
}

func TestMalformedPathIs400AndTheProcessLives(t *testing.T) {
	h := openHouse(t, nil)
	for _, line := range []string{"GET /%zz HTTP/1.1", "GET /sessions/%zz HTTP/1.1", "GET nope HTTP/1.1", "GET /sessions/../../etc/passwd HTTP/1.1", "GET //health HTTP/1.1",
		"GET /sessions/%2e%2e/stream HTTP/1.1", "GET /sessions/a%00 HTTP/1.1", "GET /sessions/./x HTTP/1.1", "OPTIONS * HTTP/1.1"} {
		if code := h.rawRequest(line); code != 400 && !(strings.HasPrefix(line, "OPTIONS") && code == 200) {
			t.Errorf("%s = %d, want 400", line, code)
		}
	}
	h.want(200, "GET", "/health", "")
}

// rawRequest sends a request line that net/http's client would refuse.
func (h *house) rawRequest(line string) int {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "%s\r\nHost: localhost\r\nConnection: close\r\n\r\n", line)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		h.t.Fatalf("%s: %v", line, err)
	}
	res.Body.Close()
	return res.StatusCode
}

func TestHostileIDs(t *testing.T) {
	h := openHouse(t, nil)
	before := h.written()
	for _, id := range []string{"..", "%2e%2e", "%2e%2e%2f%2e%2e", "a%00b", strings.Repeat("a", 300), "%E5%A0%B1%E5%91%8A", "a%20b", "a%0Ab", "C%3A", "..%5C..", "%F0%9F%98%80", "-", "SESSION-x"} {
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/sessions/" + id, ""},
			{"PATCH", "/sessions/" + id, "{}"},
			{"POST", "/sessions/" + id + "/message", `{"text":"x"}`},
			{"POST", "/sessions/" + id + "/attachments", "x"},
			{"POST", "/sessions/" + id + "/reset", ""},
			{"POST", "/sessions/" + id + "/compact", ""},
			{"GET", "/sessions/" + id + "/stream", ""},
			{"GET", "/files/WEBUI-x/" + id, ""},
			{"GET", "/files/" + id + "/x", ""},
			{"POST", "/upload?channel=" + id, "x"},
			{"POST", "/upload?channel=SESSION-" + id, "x"},
		} {
			r := h.request(c.method, c.path, c.body, "X-Filename", "a.txt")
			if r.status != 400 && r.status != 404 {
				t.Errorf("%s %s = %d %s, want 400 or 404", c.method, c.path, r.status, r.raw)
			}
		}
	}
	if after := h.written(); len(after) != len(before) {
		t.Errorf("hostile ids wrote %v", after)
	}
}

func FuzzPath(f *testing.F) {
	h := openHouse(f, nil)
	for _, s := range []string{"/sessions/x/message", "/files/WEBUI-a/%2e%2e", "//", "/sessions/%00/attachments", "/upload?channel=SESSION-..", "/page/threads/a/history"} {
		f.Add("GET", s)
		f.Add("POST", s)
	}
	handler := h.api.Handler(nil)
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.HasSuffix(u.Path, "/stream") || u.Path == "/event" || u.Path == "/escalate" || u.Path == "/sessions" {
			return
		}
		if method != "GET" && method != "POST" && method != "PATCH" {
			method = "POST"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := (&http.Request{Method: method, URL: u, Header: http.Header{"Authorization": {"Bearer " + operatorToken}, "X-Filename": {"a"}}, Body: io.NopCloser(strings.NewReader(`{"text":"x"}`)), ContentLength: -1}).WithContext(ctx)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s %q = %d %s", method, target, w.Code, w.Body)
		}
		for _, p := range h.written() {
			if !strings.HasPrefix(p, "WEBUI-") && !strings.HasPrefix(p, "meta/") {
				t.Errorf("%s %q wrote %s", method, target, p)
			}
		}
	})
}

func TestOversizedBodyIs413(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	r := h.want(413, "POST", "/sessions/"+id+"/message", `{"text":"`+strings.Repeat("x", MaxBody)+`"}`)
	if !strings.Contains(r.str("error"), "10 MiB") {
		t.Errorf("error %q", r.str("error"))
	}
}

// A client that writes everything before it reads sees the refusal, not a broken
// pipe.
func TestOversizedBodyIsReadOn(t *testing.T) {
	h := openHouse(t, nil)
	id := h.session("")
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := strings.Repeat("x", MaxBody+4<<20)
	if _, err := fmt.Fprintf(c, "POST /sessions/%s/message HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", id, operatorToken, len(body), body); err != nil {
		t.Fatalf("the client could not send everything: %v", err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", res.StatusCode)
	}
}

func TestSlowBodyIsCutOff(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	rd, wr := io.Pipe()
	defer wr.Close()
	req := h.build(context.Background(), "POST", "/sessions", "")
	req.Body, req.ContentLength = rd, 100
	res, err := h.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("slow body = %d, want 408", res.StatusCode)
	}
}

func TestWaitOutlivesTheBodyDeadline(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	id := h.session("")
	pending := h.say(id, "hold a")
	h.begun("a")
	<-time.After(150 * time.Millisecond) // longer than a body may take
	h.script.release("a")
	if r := <-pending; r.status != 200 || r.str("text") != "hold a" {
		t.Errorf("a reply later than the body's deadline = %d %s", r.status, r.raw)
	}
}

func TestPanicEndsItsRequestOnly(t *testing.T) {
	h := openHouse(t, func(o *Options) {
		o.Agents = func() []Agent { panic("a defect") }
		o.MCP = func(context.Context) (any, error) { return nil, fmt.Errorf("the secret detail") }
	})
	if r := h.want(500, "GET", "/agents", ""); r.str("error") != "internal server error" {
		t.Errorf("panic: %s", r.raw)
	}
	if !strings.Contains(h.logs.String(), "a defect") || !strings.Contains(h.logs.String(), "route_test.go") {
		t.Errorf("the log has no stack: %s", h.logs)
	}
	if r := h.want(500, "GET", "/mcp/status", ""); strings.Contains(r.raw, "secret detail") || !strings.Contains(h.logs.String(), "secret detail") {
		t.Errorf("details of an error: %s; log %s", r.raw, h.logs)
	}
	h.want(200, "GET", "/health", "")
}

func TestReadyz(t *testing.T) {
	h := openHouse(t, func(o *Options) {
		o.Ready = func(context.Context) []Check { return []Check{{"slack", false, "token refused"}} }
	})
	if r := h.want(503, "GET", "/readyz", "", "Authorization", ""); strings.Contains(r.raw, "slack") {
		t.Errorf("details for everybody: %s", r.raw)
	}
	if r := h.want(503, "GET", "/readyz", ""); !strings.Contains(r.raw, "token refused") {
		t.Errorf("no details for the operator: %s", r.raw)
	}
}

func TestObserve(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	h := openHouse(t, func(o *Options) {
		o.Observe = func(route string, status int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			seen[fmt.Sprint(route, " ", status)]++
			if took < 0 {
				t.Errorf("took %v", took)
			}
		}
	})
	h.want(404, "GET", "/sessions/a", "")
	h.want(404, "GET", "/sessions/b", "")
	h.want(404, "GET", "/nope", "")
	h.stop()
	if seen["/sessions/{id} 404"] != 2 || seen["unknown 404"] != 1 {
		t.Errorf("observed %v", seen)
	}
}

func TestHandlerSharesItsListenerWithThePage(t *testing.T) {
	h := openHouse(t, nil)
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page") })
	srv := httptest.NewServer(h.api.Handler(page))
	t.Cleanup(srv.Close)
	h.url = srv.URL
	for path, want := range map[string]string{"/": "page", "/nope": "page", "/agents": "page", "/upload": "page", "/files/a/b": "page", "/page/threads": "page"} {
		if r := h.request("GET", path, "", "Authorization", ""); r.raw != want {
			t.Errorf("GET %s without a token = %s, want the page", path, r.raw)
		}
	}
	h.want(401, "GET", "/sessions", "", "Authorization", "")
	h.want(200, "GET", "/health", "", "Authorization", "")
	h.want(200, "GET", "/agents", "")
	h.want(404, "GET", "/nope", "")
}

func TestNewChecksOptions(t *testing.T) {
	h := openHouse(t, nil)
	ok := Options{Engine: h.engine, Sessions: h.store, Files: h.store, Journal: h.journal, Token: secret.New("x")}
	for name, change := range map[string]func(*Options){
		"engine": func(o *Options) { o.Engine = nil }, "sessions": func(o *Options) { o.Sessions = nil }, "files": func(o *Options) { o.Files = nil },
		"journal": func(o *Options) { o.Journal = nil }, "token": func(o *Options) { o.Token = secret.Value{} },
	} {
		o := ok
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("without %s New = nil error", name)
		}
	}
	if _, err := New(ok); err != nil {
		t.Errorf("New = %v", err)
	}
}
