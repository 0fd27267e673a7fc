package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// raw sends bytes to the server's port and returns what comes back.
func (p *place) raw(request string) string {
	p.t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request); err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body)))
}

// alive checks that the server answers a message in a session made before.
func (p *place) alive(session string) {
	p.t.Helper()
	if a := p.do("POST", "/sessions/"+session+"/message", `{"text":"are you there?"}`); a.status != http.StatusOK {
		p.t.Errorf("after all this: %v", a)
	}
}

// A bad request and what its answer must hold: a status and words that name the
// thing.
type badRequest struct {
	name, method, path, body string
	headers                  []string
	status                   int
	says                     string
}

// Unknown routes, methods and content types; malformed, oversized and repeated
// requests; ids of every kind.
func TestBadInputRequests(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	id := p.session()
	message := "/sessions/" + id + "/message"
	long := strings.Repeat("a", 300)
	table := []badRequest{
		{"unknown route", "GET", "/nothing/here", "", nil, 404, "not found"},
		{"unknown method", "DELETE", "/sessions/" + id, "", nil, 405, "method not allowed"},
		{"invented method", "BREW", message, "", nil, 405, "method not allowed"},
		{"content type", "POST", message, "<text/>", []string{"Content-Type: application/xml"}, 415, `content type \"application/xml\" is not supported: send application/json`},
		{"charset", "POST", message, `{"text":"x"}`, []string{"Content-Type: application/json; charset=utf-16"}, 415, "send application/json"},
		{"not JSON", "POST", message, `{"text":`, nil, 400, "invalid JSON body"},
		{"two values", "POST", message, `{"text":"a"}{"text":"b"}`, nil, 400, "invalid JSON body"},
		{"a list", "POST", message, `[]`, nil, 400, "it must be an object"},
		{"null", "POST", message, `null`, nil, 400, "it must be an object"},
		{"a number as text", "POST", message, `{"text":7}`, nil, 400, "text must be a string"},
		{"no text", "POST", message, `{}`, nil, 400, "text is required"},
		{"blank text", "POST", message, `{"text":" \n "}`, nil, 400, "text is required"},
		{"attachments as text", "POST", message, `{"text":"x","attachments":"y"}`, nil, 400, "attachments must be a list"},
		{"deep", "POST", message, `{"text":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, nil, 400, ""},
		{"too large", "POST", message, `{"text":"` + strings.Repeat("x", 11<<20) + `"}`, nil, 413, "larger than 10 MiB"},
		{"long key", "POST", message, `{"text":"x"}`, []string{"Idempotency-Key: " + long}, 400, "Idempotency-Key must be 1 to 255"},
		{"key in another script", "POST", message, `{"text":"x"}`, []string{"Idempotency-Key: ключ"}, 400, "Idempotency-Key"},
		{"attachment outside", "POST", message, `{"text":"x","attachments":[{"local":"../../etc/passwd"}]}`, nil, 400, "etc/passwd"},
		{"attachment that climbs", "POST", message, `{"text":"x","attachments":[{"local":"SESSION-` + id + `/../state/format.json"}]}`, nil, 400, "escapes"},
		{"wrong token", "GET", "/sessions", "", []string{"Authorization: Bearer wrong"}, 401, "unauthorized"},
		{"no token", "GET", "/sessions", "", []string{"Authorization: "}, 401, "unauthorized"},
		{"unknown runner", "POST", "/sessions", `{"originChannel":"C","originThreadTs":"1","runner":"nobody"}`, nil, 400, "known are native"},
		{"id with dots", "GET", "/sessions/..", "", nil, 400, "malformed path"},
		{"id with encoded dots", "GET", "/sessions/%2e%2e/history", "", nil, 400, "malformed path"},
		{"id with an encoded slash", "GET", "/sessions/..%2f..%2fetc", "", nil, 400, "malformed path"},
		{"id with NUL", "GET", "/sessions/a%00b", "", nil, 400, "malformed path"},
		{"id of 300 bytes", "GET", "/sessions/" + long, "", nil, 404, "session not found"},
		{"id in another script", "GET", "/sessions/%D1%81%D0%B5%D1%81%D1%81%D0%B8%D1%8F", "", nil, 404, "session not found"},
		{"id that is a path", "POST", "/event", `{"channelId":"SESSION-../../x","text":"x"}`, nil, 400, "channelId"},
		{"id with NUL in JSON", "POST", "/event", `{"channelId":"C\u0000","text":"x"}`, nil, 400, "channelId"},
		{"turn id", "GET", "/sessions/" + id + "/turns/..", "", nil, 400, "malformed path"},
		{"turn of nobody", "GET", "/sessions/" + id + "/turns/0198c000-0000-7000-8000-000000000000", "", nil, 404, "turn not found"},
		{"position", "GET", "/sessions/" + id + "/stream?since=-1", "", nil, 400, "since must be a whole number"},
		{"file that climbs", "GET", "/files/SESSION-" + id + "/..%2f..%2fstate%2fformat.json", "", nil, 400, ""},
	}
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			a := p.do(c.method, c.path, c.body, c.headers...)
			var said struct{ Error string }
			if err := json.Unmarshal([]byte(a.body), &said); err != nil || said.Error == "" {
				t.Errorf("the answer is no JSON with an error: %.300s", a)
			}
			if a.status != c.status || !strings.Contains(a.body, c.says) {
				t.Errorf("%s %.80s = %.300s, want %d with %q", c.method, c.path, a, c.status, c.says)
			}
		})
	}
	p.alive(id)
	if a := p.do("GET", "/sessions/"+id+"/history", ""); strings.Count(a.body, "are you there?") == 0 || strings.Contains(a.body, `"x"`) {
		t.Errorf("refused messages left something: %v", a)
	}
	s.stop()
}

// GET /%zz and what else is no HTTP at all: net/http answers it, and the
// process lives.
func TestBadInputNoHTTP(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	id := p.session()
	for name, request := range map[string]string{
		"bad escape":     "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"garbage":        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
		"two lengths":    "POST /sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"huge header":    "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n",
		"no host":        "GET /health HTTP/1.1\r\n\r\n",
		"bad version":    "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
		"space in path":  "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
		"negative chunk": "POST /event HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + operatorToken + "\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
	} {
		if got := p.raw(request); !strings.HasPrefix(got, "4") && !strings.HasPrefix(got, "5") {
			t.Errorf("%s: %.200s", name, got)
		}
	}
	p.alive(id)
	s.stop()
}

// Slow requests hold a connection and nothing else; those that never end are
// cut by their sender's leaving here, and by the limits of api and net/http.
func TestBadInputSlowRequestsDelayNobody(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	id := p.session()
	for _, half := range []string{
		"POST /sessions/" + id + "/message HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + operatorToken + "\r\nContent-Length: 1000\r\n\r\n{\"text\":\"never",
		"GET /sessions HTTP/1.1\r\nHost: x\r\nX-Slow",
	} {
		for range 20 {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, half); err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := time.Now()
	p.alive(id)
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("an honest message took %v", d)
	}
	s.stop() // and they do not keep the server from its end
	if all := ends(t, p, id); len(all) != 1 {
		t.Errorf("%d turns, want that of the honest message alone", len(all))
	}
}

// The same message several times at once is one message. (More at once than a
// conversation may queue are told to come again before one of them is known.)
func TestBadInputDuplicateRequests(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	id := p.session()
	answers := make(chan string, 6)
	for range 6 {
		go func() {
			a, err := p.call(t.Context(), "POST", "/sessions/"+id+"/message", `{"text":"only once"}`, "Idempotency-Key: once")
			answers <- fmt.Sprint(a, err)
		}()
	}
	first := <-answers
	for range 5 {
		if next := <-answers; next != first {
			t.Errorf("one client was told %s, another %s", first, next)
		}
	}
	if a := p.do("POST", "/sessions/"+id+"/message", `{"text":"only once"}`, "Idempotency-Key: once"); fmt.Sprint(a, nil) != first {
		t.Errorf("the key again: %v, the first time %s", a, first)
	}
	s.stop()
	if all := ends(t, p, id); len(all) != 1 {
		t.Errorf("%d turns", len(all))
	}
}

func TestBadInputAttachmentsWithTheSameName(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	id := p.session()
	upload := func(name, content string) answer {
		return p.do("POST", "/sessions/"+id+"/attachments", content, "Content-Type: application/octet-stream", "X-Filename: "+url.PathEscape(name))
	}
	contents := map[string]string{}
	for i, name := range []string{"image.png", "image.png", "image.png", "図 1.png", ".env", "-rf", "con"} {
		content := fmt.Sprint("content ", i)
		a := upload(name, content)
		local := a.field(p, "local")
		if a.status != http.StatusOK || a.field(p, "original") != name || !strings.HasPrefix(local, "SESSION-"+id+"/") || contents[local] != "" {
			t.Errorf("upload of %q: %v, the others lie at %v", name, a, contents)
		}
		contents[local] = content
	}
	for _, name := range []string{"../../image.png", "..", "a\x00b", "a/b", ""} {
		if a := upload(name, "x"); a.status != http.StatusBadRequest || !strings.Contains(a.body, "X-Filename") {
			t.Errorf("upload of %q: %v", name, a)
		}
	}
	if a := upload(strings.Repeat("n", 300), "x"); a.status != http.StatusOK && a.status != http.StatusBadRequest {
		t.Errorf("upload under a name of 300 bytes: %v", a)
	}
	for local, content := range contents {
		got, err := os.ReadFile(filepath.Join(p.workspace, local))
		if err != nil || string(got) != content {
			t.Errorf("%s holds %q, %v, want %q", local, got, err, content)
		}
	}
	s.stop()
}
