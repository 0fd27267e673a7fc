package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a broker with a store, and a service that shows what it got.
type bench struct {
	t      *testing.T
	store  *store.Store
	url    string
	server *httptest.Server
	got    chan *http.Request
	bodies chan string
	// reply, if set, answers instead.
	reply func(http.ResponseWriter, *http.Request)
}

func open(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	if err := store.NewKey(dir + "/key"); err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Options{File: dir + "/store", Key: dir + "/key"})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, store: s, got: make(chan *http.Request, 16), bodies: make(chan string, 16)}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.reply != nil {
			b.reply(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		b.got <- r
		b.bodies <- string(body)
		w.Header().Set("Set-Cookie", "session=service")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "hop")
		w.Header().Set("X-Service", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "from the service")
	}))
	t.Cleanup(up.Close)
	gw, err := New(Options{Source: s, Token: secret.New("broker-token"), Services: map[string]Service{
		"echo": {up.URL + "/v1", "ECHO-KEY", map[string]string{"x-api-key": "{value}", "Authorization": "Bearer {value}"}},
		"gone": {"http://127.0.0.1:1", "ECHO-KEY", bearer},
		"bare": {up.URL, "NO-SUCH-SECRET", bearer},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.server = httptest.NewServer(gw)
	t.Cleanup(func() { b.server.Close(); gw.Close() })
	b.url = b.server.URL
	b.set("ECHO-KEY", "echo-secret-value", true)
	return b
}

func (b *bench) set(name, value string, proxyOnly bool) {
	b.t.Helper()
	if _, err := b.store.Put(b.t.Context(), name, secret.New(value), secret.Put{ProxyOnly: &proxyOnly}); err != nil {
		b.t.Fatal(err)
	}
}

// call makes a request with the broker's token unless a header says otherwise.
func (b *bench) call(method, path, body string, headers ...string) (int, string, http.Header) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer broker-token")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.server.Client().Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(data)), resp.Header
}

func (b *bench) want(status int, body, method, path, send string, headers ...string) {
	b.t.Helper()
	code, got, _ := b.call(method, path, send, headers...)
	if code != status || !strings.Contains(got, body) {
		b.t.Errorf("%s %s %.60q = %d %.200s, want %d %s", method, path, send, code, got, status, body)
	}
	if strings.Contains(got, "echo-secret-value") {
		b.t.Errorf("%s %s shows the secret", method, path)
	}
}

func TestNoTokenNoBroker(t *testing.T) {
	b := open(t)
	if _, err := New(Options{Source: b.store}); err == nil || !strings.Contains(err.Error(), "IRIS_SECRET_BROKER_TOKEN") {
		t.Errorf("New without a token = %v", err)
	}
	if _, err := New(Options{Token: secret.New("x")}); err == nil {
		t.Error("New without a source succeeds")
	}
	if _, err := New(Options{Source: b.store, Token: secret.New("x"), Services: map[string]Service{"a": {}}}); err == nil {
		t.Error("New with a wrong service succeeds")
	}
}

func TestBrokerAuth(t *testing.T) {
	b := open(t)
	b.want(200, `{"ok":true}`, "GET", "/health", "", "Authorization", "")
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "broker-token", "Basic broker-token", "Bearer broker-token2"} {
		for _, path := range []string{"/secrets", "/meta/ECHO-KEY", "/secret/ECHO-KEY", "/proxy/echo/x", "/", "/none"} {
			b.want(401, `{"error":"unauthorized"}`, "GET", path, "", "Authorization", auth)
		}
	}
	b.want(200, "ECHO-KEY", "GET", "/secrets", "", "Authorization", "bEaReR broker-token")
	select {
	case r := <-b.got:
		t.Errorf("the service was reached: %s", r.URL)
	default:
	}
}

func TestBrokerCRUD(t *testing.T) {
	b := open(t)
	b.want(200, `{"name":"A-KEY","ok":true}`, "PUT", "/secret/A-KEY", `{"value":"value-a","source":"cli"}`)
	b.want(200, `{"value":"value-a"}`, "GET", "/secret/A_KEY", "")
	b.want(200, `"source":"cli","proxyOnly":false,"agentReadable":true`, "GET", "/meta/A_KEY", "")
	b.want(200, `{"name":"A-KEY","ok":true}`, "PUT", "/secret/A_KEY", `{"value":"value-b","source":"nonsense","agentReadable":false}`)
	b.want(200, `"agentReadable":false`, "GET", "/meta/A-KEY", "")
	b.want(200, `{"secrets":[{"name":"A-KEY"`, "GET", "/secrets", "")
	b.want(200, `{"ok":true}`, "DELETE", "/secret/A-KEY", "")
	b.want(404, `{"error":"secret not found"}`, "DELETE", "/secret/A-KEY", "")
	b.want(404, `{"error":"secret not found"}`, "GET", "/secret/A-KEY", "")
	b.want(404, `{"error":"secret not found"}`, "GET", "/meta/A-KEY", "")
	for _, name := range []string{"a.b", "a%20b", "..", "%2e%2e", "a/b", strings.Repeat("n", 129), "%C3%A4"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			b.want(400, `{"error":"invalid secret name"}`, method, "/secret/"+name, `{"value":"x"}`)
		}
	}
	b.want(400, `{"error":"invalid JSON body"}`, "PUT", "/secret/A", `{"value":`)
	b.want(400, `{"error":"invalid JSON body"}`, "PUT", "/secret/A", `{"value":7}`)
	b.want(400, `{"error":"missing value"}`, "PUT", "/secret/A", `{}`)
	b.want(400, `{"error":"missing value"}`, "PUT", "/secret/A", `{"value":""}`)
	b.want(400, "65537 bytes", "PUT", "/secret/A", `{"value":"`+strings.Repeat("x", secret.MaxValue+1)+`"}`)
	b.want(413, "too large", "PUT", "/secret/A", `{"value":"`+strings.Repeat("x", maxJSON)+`"}`)
	for _, c := range [][2]string{{"POST", "/secret/A"}, {"PUT", "/secrets"}, {"DELETE", "/meta/A"}} {
		b.want(405, "method not allowed", c[0], c[1], "")
	}
	for _, path := range []string{"/", "/secret", "/secret/", "/secrets/", "/meta", "/proxy", "/none", "/health/x"} {
		want := 404
		if path == "/secrets/" {
			want = 200
		}
		b.want(want, "", "GET", path, "")
	}
}

func TestProxyOnlyIsUnreadableAndUsable(t *testing.T) {
	b := open(t)
	b.want(403, "proxy-only", "GET", "/secret/ECHO-KEY", "")
	b.want(403, "proxy-only", "GET", "/secret/ECHO_KEY", "")
	b.want(200, `"proxyOnly":true`, "GET", "/meta/ECHO-KEY", "")
	b.want(418, "from the service", "POST", "/proxy/echo/messages?a=b%20c&d", `hello`, "Content-Type", "text/plain", "X-Own", "kept")
	r := <-b.got
	if body := <-b.bodies; body != "hello" || r.URL.String() != "/v1/messages?a=b%20c&d" || r.Method != "POST" {
		t.Errorf("the service got %s %s %q", r.Method, r.URL, body)
	}
	if r.Header.Get("X-Api-Key") != "echo-secret-value" || r.Header.Get("Authorization") != "Bearer echo-secret-value" || r.Header.Get("X-Own") != "kept" {
		t.Errorf("headers: %v", r.Header)
	}
	_, _, header := b.call("GET", "/proxy/echo/", "")
	if header.Get("X-Service") != "yes" || header.Get("X-Hop") != "" || header.Get("Set-Cookie") != "" {
		t.Errorf("the answer's headers: %v", header)
	}
}

func TestGatewayRefusals(t *testing.T) {
	b := open(t)
	b.want(404, "unknown service", "GET", "/proxy/none/x", "")
	b.want(404, "unknown service", "GET", "/proxy/ECHO/x", "")
	b.want(502, "missing", "GET", "/proxy/bare/x", "")
	b.want(502, "cannot be reached", "GET", "/proxy/gone/x", "")
	for _, path := range []string{"../x", "a/../../x", "a/./b", "a//b", "%2e%2e/x", "a/%2E%2e/b", "a%2fb", "a%5cb", "a%252e", "a%00b", "..", "a/.."} {
		b.want(400, "not clean", "GET", "/proxy/echo/"+path, "")
	}
	b.want(404, "", "GET", "/proxy/../secret/ECHO-KEY", "")
	b.want(418, "", "GET", "/proxy/echo/a%20b/c%3Fd/", "")
	if r := <-b.got; r.URL.EscapedPath() != "/v1/a%20b/c%3Fd/" {
		t.Errorf("path %q", r.URL.EscapedPath())
	}
	b.want(413, "10 MiB", "POST", "/proxy/echo/x", strings.Repeat("x", maxProxy+1))
	b.want(418, "", "POST", "/proxy/echo/x", strings.Repeat("x", maxProxy))
	b.want(400, "protocol", "GET", "/proxy/echo/x", "", "Upgrade", "websocket")
}

// A body of unknown length is cut where it gets too large.
func TestOversizedStreamIs413(t *testing.T) {
	b := open(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/proxy/echo/x", io.MultiReader(strings.NewReader(strings.Repeat("x", maxProxy)), strings.NewReader("y")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer broker-token")
	resp, err := b.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// raw sends bytes as they are and returns the status.
func (b *bench) raw(request string) string {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Status
}

func TestHeaderSmuggling(t *testing.T) {
	b := open(t)
	const head = "GET /proxy/echo/x HTTP/1.1\nHost: broker\nauthorization: Bearer broker-token\n"
	for name, c := range map[string]struct {
		request string
		passes  bool
	}{
		"case variants":            {head + "x-API-key: mine\nX-api-KEY: mine\nX-Api-Key: mine\n\n", true},
		"listed in Connection":     {head + "Connection: X-Api-Key, x-own, Authorization\nX-Own: hop\n\n", true},
		"cookies and forwards":     {head + "Cookie: a=b\nX-Forwarded-For: 1.2.3.4\nForwarded: for=1\nX-HTTP-Method-Override: DELETE\n\n", true},
		"hop by hop":               {head + "Te: trailers\nProxy-Authorization: Basic x\nKeep-Alive: 5\n\n", true},
		"underscores":              {head + "X_Api_Key: mine\n\n", false},
		"two lengths":              {"POST /proxy/echo/x HTTP/1.1\nHost: b\nAuthorization: Bearer broker-token\nContent-Length: 5\nContent-Length: 6\n\nhello!", false},
		"length and chunks":        {"POST /proxy/echo/x HTTP/1.1\nHost: b\nAuthorization: Bearer broker-token\nContent-Length: 50\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n", true},
		"odd chunks":               {"POST /proxy/echo/x HTTP/1.1\nHost: b\nAuthorization: Bearer broker-token\nTransfer-Encoding: chunked, identity\n\n0\n\n", false},
		"a space before the colon": {head + "X-Api-Key : mine\n\n", false},
		"a line within a header":   {head + "X-Own: a\n b\n\n", true},
		"two tokens":               {head + "Authorization: Bearer other\n\n", false},
		"an absolute address":      {"GET http://elsewhere/proxy/echo/x HTTP/1.1\nHost: elsewhere\nAuthorization: Bearer broker-token\n\n", true},
		"another authority":        {"GET /proxy/echo/@elsewhere/x HTTP/1.1\nHost: b\nAuthorization: Bearer broker-token\n\n", true},
		"NUL":                      {head + "X-Own: a\x00b\n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			status := b.raw(c.request)
			if passed := strings.HasPrefix(status, "418"); passed != c.passes {
				t.Fatalf("status %s, passes: want %v", status, c.passes)
			}
			if !c.passes {
				return
			}
			r := <-b.got
			<-b.bodies
			if got := r.Header.Values("X-Api-Key"); len(got) != 1 || got[0] != "echo-secret-value" {
				t.Errorf("X-Api-Key = %q", got)
			}
			if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "Bearer echo-secret-value" {
				t.Errorf("Authorization = %q", got)
			}
			for _, name := range []string{"Cookie", "X-Forwarded-For", "Forwarded", "X-Http-Method-Override", "Te", "Proxy-Authorization", "Keep-Alive"} {
				if r.Header.Get(name) != "" {
					t.Errorf("%s came through", name)
				}
			}
			if strings.Contains(name, "Connection") && r.Header.Get("X-Own") != "" {
				t.Error("a header named by Connection came through")
			}
			if r.Host == "elsewhere" || r.Host == "broker" {
				t.Errorf("Host = %q", r.Host)
			}
		})
	}
}

// What the service says arrives as it says it, while the request's body is still
// coming.
func TestStreamsBothWays(t *testing.T) {
	b := open(t)
	b.reply = func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, "echo", lines.Text())
			w.(http.Flusher).Flush()
		}
	}
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+"/proxy/echo/x", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer broker-token")
	go fmt.Fprintln(out, "one")
	resp, err := b.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answers := bufio.NewScanner(resp.Body)
	for _, word := range []string{"one", "two", "three"} {
		if word != "one" {
			fmt.Fprintln(out, word)
		}
		if !answers.Scan() || answers.Text() != "echo "+word {
			t.Fatalf("got %q, want the echo of %q", answers.Text(), word)
		}
	}
	out.Close()
	if answers.Scan() {
		t.Errorf("more: %q", answers.Text())
	}
}

func TestACutAnswerIsCut(t *testing.T) {
	b := open(t)
	b.reply = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", b.url+"/proxy/echo/x", nil)
	req.Header.Set("Authorization", "Bearer broker-token")
	resp, err := b.server.Client().Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if err == nil {
		t.Error("half an answer passes for a whole one")
	}
}

func TestWithoutAStore503(t *testing.T) {
	dir := t.TempDir()
	s, err := store.New(store.Options{File: dir + "/store", Key: dir + "/key"})
	if err != nil {
		t.Fatal(err)
	}
	gw, err := New(Options{Source: s, Token: secret.New("broker-token"), Services: Bundled("acct")})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, server: httptest.NewServer(gw)}
	defer b.server.Close()
	b.url = b.server.URL
	b.want(503, "cannot be used", "GET", "/secret/A", "")
	b.want(503, "cannot be used", "PUT", "/secret/A", `{"value":"some-value"}`)
	b.want(503, "cannot be used", "GET", "/secrets", "")
	b.want(502, "missing", "GET", "/proxy/openai/v1/models", "")
	if err := os.Mkdir(dir+"/key", 0o700); err != nil { // not a file at all
		t.Fatal(err)
	}
	b.want(503, "cannot be used", "GET", "/meta/A", "")
}

func TestServices(t *testing.T) {
	all := Bundled("acct")
	for name, want := range map[string]Service{
		"anthropic":     {"https://api.anthropic.com", "ANTHROPIC-API-KEY", map[string]string{"X-Api-Key": "{value}"}},
		"azure-foundry": {"https://acct.cognitiveservices.azure.com", "AZURE-FOUNDRY-KEY", map[string]string{"Api-Key": "{value}"}},
		"resend":        {"https://api.resend.com", "RESEND-API-KEY", bearer},
	} {
		if diff := cmp.Diff(want, all[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, s := range all {
		if err := s.check(name); err != nil {
			t.Error(err)
		}
	}
	if _, ok := Bundled("")["azure-foundry"]; ok || len(Bundled("")) != 7 {
		t.Error("azure-foundry without an account, or another is missing")
	}
	file := filepath.Join(t.TempDir(), "services.json")
	if got, err := Load(file, all); err != nil || len(got) != 8 {
		t.Errorf("a missing file: %v, %v", got, err)
	}
	if err := os.WriteFile(file, []byte(`{"github":{"upstream":"https://ghe.example.org/api","secret":"GHE-TOKEN","headers":{"Authorization":"token {value}"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(file, all)
	if err != nil || got["github"].Secret != "GHE-TOKEN" || len(got) != 8 || all["github"].Secret != "GITHUB-TOKEN" {
		t.Errorf("Load = %v, %v", got["github"], err)
	}
	if ServiceFor(got, "GHE_TOKEN") != "github" || ServiceFor(got, "GITHUB-TOKEN") != "" {
		t.Error("ServiceFor is wrong")
	}
	for _, bad := range []string{
		``, `[]`, `{"a":{"upstream":"ftp://x","secret":"A","headers":{"A":"{value}"}}}`, `{"A B":{"upstream":"https://x","secret":"A","headers":{"A":"{value}"}}}`,
		`{"a":{"upstream":"https://u:p@x","secret":"A","headers":{"A":"{value}"}}}`, `{"a":{"upstream":"https://x","secret":"a b","headers":{"A":"{value}"}}}`,
		`{"a":{"upstream":"https://x","secret":"A","headers":{"A":"static"}}}`, `{"a":{"upstream":"https://x","secret":"A","headers":{"A B":"{value}"}}}`,
		`{"a":{"upstream":"https://x","secret":"A","headers":{"A":"x\r\ny{value}"}}}`, `{"a":{"upstream":"https://x?a=b","secret":"A","headers":{"A":"{value}"}}}`,
	} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file, all); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("Load of %s = %v", bad, err)
		}
	}
}

func FuzzUnclean(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "%2e%2e/a", "a//b", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if !unclean(p) && (strings.Contains("/"+p+"/", "/../") || strings.Contains(p, "//")) {
			t.Errorf("unclean(%q) = false", p)
		}
	})
}
