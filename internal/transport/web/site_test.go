package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coder/websocket"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
)

const index = `<!doctype html><script type="importmap">{"imports":{"a":"/a.mjs"}}</script><script type="module" src="/a.mjs"></script>`

// site is a Site behind a real server.
type site struct {
	*Site
	inbox *inbox
	url   string
	jar   *cookiejar.Jar
	http  *http.Client
	clock *clock
}

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func start(t *testing.T, change func(*Options)) *site {
	t.Helper()
	s := &site{inbox: newInbox(), clock: &clock{t: time.Unix(1_700_000_000, 0)}}
	opts := Options{
		Logger: slog.New(slog.DiscardHandler),
		Inbox:  s.inbox, Now: s.clock.now, Password: secret.New("open sesame"),
		Page: fstest.MapFS{"index.html": {Data: []byte(index)}, "a.mjs": {Data: []byte("export {}")}, "vendor/x.css": {Data: []byte("a{}")}},
		Data: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "data of "+r.URL.Path) }),
		CheckFiles: func(_ context.Context, conv chat.Address, locals []string) (files []chat.File, err error) {
			for _, l := range locals {
				if !strings.HasPrefix(l, conv.Dir()+"/") {
					return nil, os.ErrPermission
				}
				files = append(files, chat.File{Local: l, Original: filepath.Base(l)})
			}
			return files, nil
		},
	}
	if change != nil {
		change(&opts)
	}
	made, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Site = made
	srv := httptest.NewServer(made)
	s.url = srv.URL
	s.jar, _ = cookiejar.New(nil)
	tr := &http.Transport{}
	s.http = &http.Client{Jar: s.jar, Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		made.Close()
		tr.CloseIdleConnections()
		srv.Close()
	})
	return s
}

// login gives the client of the test a cookie.
func (s *site) login(t *testing.T) *site {
	t.Helper()
	if res, _ := s.do(t, "GET", s.LoginLink(), "", nil); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("login link = %d", res.StatusCode)
	}
	return s
}

func (s *site) do(t *testing.T, method, path, body string, header map[string]string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	res, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(data)
}

func TestLoginPassword(t *testing.T) {
	s := start(t, nil)
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"wrong":     {`{"password":"nope"}`, 401, "wrong password"},
		"empty":     {`{}`, 401, "wrong password"},
		"malformed": {`{`, 400, "invalid JSON"},
	} {
		res, body := s.do(t, "POST", "/login", c.body, nil)
		if res.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: login = %d %s, want %d %q", name, res.StatusCode, body, c.status, c.want)
		}
	}
	res, body := s.do(t, "POST", "/login", `{"password":"open sesame"}`, map[string]string{"X-Forwarded-Proto": "https"})
	set := res.Header.Get("Set-Cookie")
	want := regexp.MustCompile(`^iris_webui_session=[0-9a-f]{48}; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=Strict$`)
	if res.StatusCode != 200 || body != "{\"ok\":true}\n" || !want.MatchString(set) {
		t.Errorf("login = %d %s, cookie %q", res.StatusCode, body, set)
	}
}

func TestLoginWithoutPasswordByLinkOnly(t *testing.T) {
	s := start(t, func(o *Options) { o.Password = secret.Value{} })
	if res, _ := s.do(t, "POST", "/login", `{"password":""}`, nil); res.StatusCode != 401 {
		t.Fatalf("empty password with none set = %d, want 401", res.StatusCode)
	}
	link := s.LoginLink()
	if !regexp.MustCompile(`^/login\?key=[0-9a-f]{48}$`).MatchString(link) {
		t.Fatalf("LoginLink() = %q", link)
	}
	res, _ := s.do(t, "GET", link, "", nil)
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" || strings.Contains(res.Header.Get("Set-Cookie"), "Secure") {
		t.Fatalf("link = %d to %q, %q", res.StatusCode, res.Header.Get("Location"), res.Header.Get("Set-Cookie"))
	}
	if res, body := s.do(t, "GET", "/page/threads", "", nil); res.StatusCode != 200 || body != "data of /page/threads" {
		t.Errorf("data behind cookie = %d %s", res.StatusCode, body)
	}
	if res, _ := s.do(t, "GET", link, "", nil); res.StatusCode != 401 {
		t.Errorf("second use of a link = %d, want 401", res.StatusCode)
	}
	html := map[string]string{"Accept": "text/html,*/*"}
	if res, _ := s.do(t, "GET", link, "", html); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/?link=over" || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("second use in a browser = %d to %q, want the page, which tells", res.StatusCode, res.Header.Get("Location"))
	}
	if res, body := s.do(t, "GET", "/login", "", map[string]string{"Accept": "application/json"}); res.StatusCode != 200 || body != "{\"password\":false}\n" {
		t.Errorf("ways to log in = %d %s, want no password", res.StatusCode, body)
	}
	late := s.LoginLink()
	s.clock.add(linkLife)
	if res, _ := s.do(t, "GET", late, "", nil); res.StatusCode != 401 {
		t.Errorf("expired link = %d, want 401", res.StatusCode)
	}
	if res, _ := s.do(t, "GET", "/login", "", nil); res.StatusCode != http.StatusSeeOther {
		t.Errorf("GET /login = %d, want a redirect to the page", res.StatusCode)
	}
}

func TestLoginRateLimited(t *testing.T) {
	s := start(t, nil)
	for i := range attemptsPerMinute {
		if res, _ := s.do(t, "POST", "/login", `{"password":"x"}`, nil); res.StatusCode != 401 {
			t.Fatalf("attempt %d = %d", i, res.StatusCode)
		}
	}
	res, _ := s.do(t, "POST", "/login", `{"password":"open sesame"}`, nil)
	if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
		t.Errorf("attempt too many = %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
	s.clock.add(time.Minute)
	if res, _ := s.do(t, "POST", "/login", `{"password":"open sesame"}`, nil); res.StatusCode != 200 {
		t.Errorf("a minute later = %d, want 200", res.StatusCode)
	}
}

func TestDoorsBounded(t *testing.T) {
	d, now := newDoors(), time.Unix(1, 0)
	ok := 0
	for i := range 3 * maxDoors {
		if d.allow("10."+itoa(i>>16)+"."+itoa(i>>8&255)+"."+itoa(i&255)+":1", now) {
			ok++
		}
	}
	if ok != attemptsOfAll || len(d.each) > maxDoors {
		t.Errorf("%d attempts allowed and %d addresses kept, want %d and at most %d", ok, len(d.each), attemptsOfAll, maxDoors)
	}
	if !d.allow("192.0.2.1:1", now.Add(time.Hour)) {
		t.Error("an hour later nobody is let in")
	}
	if network("[2001:db8::1]:5") != network("[2001:db8::ffff]:6") || network("[::ffff:10.0.0.1]:1") != "10.0.0.1" {
		t.Error("network does not group addresses")
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestLoginsSurviveRestartExpireAndAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "web-logins.json")
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	l, err := openLogins(path, c.now)
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.create()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || bytes.Contains(data, []byte(first)) || info.Mode().Perm() != 0o600 {
		t.Fatalf("file %s, mode %v, %v", data, info.Mode(), err)
	}
	again, err := openLogins(path, c.now)
	if err != nil || !again.valid(first) || again.valid("x") || again.valid("") {
		t.Fatalf("after a restart valid = %v, %v", again.valid(first), err)
	}
	if err := again.end(first); err != nil || again.valid(first) {
		t.Errorf("after logout valid = true, %v", err)
	}
	if third, err := openLogins(path, c.now); err != nil || third.valid(first) {
		t.Errorf("logout does not survive a restart: %v", err)
	}
	second, _ := again.create()
	c.add(loginLife)
	if again.valid(second) {
		t.Error("a login does not expire")
	}
	for range maxLogins + 5 {
		again.path = "" // the file is not what is tested here
		again.create()
	}
	if len(again.kept) != maxLogins {
		t.Errorf("%d logins kept, want %d", len(again.kept), maxLogins)
	}
}

func TestLoginsCorruptFileRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logins.json")
	os.WriteFile(path, []byte("[{"), 0o600)
	if _, err := openLogins(path, time.Now); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("openLogins = %v, want an error that names the file", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "[{" {
		t.Errorf("the file was changed to %q", data)
	}
}

func TestLogout(t *testing.T) {
	s := start(t, nil).login(t)
	if res, _ := s.do(t, "GET", "/logout", "", nil); res.StatusCode != 405 {
		t.Errorf("GET /logout = %d, want 405", res.StatusCode)
	}
	if res, _ := s.do(t, "POST", "/logout", "", nil); res.StatusCode != 200 {
		t.Fatalf("logout = %d", res.StatusCode)
	}
	if res, _ := s.do(t, "GET", "/agents", "", nil); res.StatusCode != 401 {
		t.Errorf("after logout = %d, want 401", res.StatusCode)
	}
}

func TestCookieNeeded(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/agents", "/page/threads", "/upload?channel=WEBUI-x", "/files/WEBUI-x/a", "/nope", "/ws?thread=x"} {
		if res, body := s.do(t, "GET", path, "", nil); res.StatusCode != 401 || body != "{\"error\":\"unauthorized\"}\n" {
			t.Errorf("GET %s = %d %s, want 401", path, res.StatusCode, body)
		}
	}
	s.jar.SetCookies(mustURL(s.url), []*http.Cookie{{Name: cookieName, Value: strings.Repeat("a", 48)}})
	if res, _ := s.do(t, "GET", "/agents", "", nil); res.StatusCode != 401 {
		t.Errorf("made-up cookie = %d, want 401", res.StatusCode)
	}
}

func mustURL(s string) *url.URL { u, _ := url.Parse(s); return u }

func TestStaticPage(t *testing.T) {
	s := start(t, nil)
	res, body := s.do(t, "GET", "/", "", nil)
	if res.StatusCode != 200 || body != index || res.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("GET / = %d %q %s", res.StatusCode, res.Header.Get("Content-Type"), body)
	}
	csp := res.Header.Get("Content-Security-Policy")
	// printf '{"imports":{"a":"/a.mjs"}}' | openssl dgst -sha256 -binary | base64
	for _, want := range []string{"default-src 'none'", "script-src 'self' 'sha256-PVsge3U1qQW7y7B40OexUTt13pg4mv18/Vqg5Uh1tYc='", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("CSP %q lacks %q", csp, want)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Count(csp, "'sha256-") != 1 {
		t.Errorf("CSP %q", csp)
	}
	for h, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
		if got := res.Header.Get(h); got != want {
			t.Errorf("%s = %q, want %q", h, got, want)
		}
	}
	if res, _ := s.do(t, "GET", "/index.html", "", map[string]string{"If-None-Match": res.Header.Get("ETag")}); res.StatusCode != 304 {
		t.Errorf("same tag = %d, want 304", res.StatusCode)
	}
	if res, body := s.do(t, "GET", "/a.mjs", "", nil); res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/javascript") || body != "export {}" {
		t.Errorf("GET /a.mjs = %d %s", res.StatusCode, body)
	}
	if res, body := s.do(t, "HEAD", "/vendor/x.css", "", nil); res.StatusCode != 200 || body != "" || res.Header.Get("Content-Length") != "3" {
		t.Errorf("HEAD = %d %q", res.StatusCode, body)
	}
	for _, p := range []string{"/vendor", "/vendor/", "/../web.go", "/%2e%2e/web.go"} {
		if res, body := s.do(t, "GET", p, "", nil); res.StatusCode != 401 {
			t.Errorf("GET %s = %d %s, want 401: no such file", p, res.StatusCode, body)
		}
	}
}

func TestHostAndOrigin(t *testing.T) {
	s := start(t, func(o *Options) { o.Hosts = []string{"iris.example", "box.example:8443"} }).login(t)
	own := strings.TrimPrefix(s.url, "http://")
	for name, c := range map[string]struct {
		method, host, origin, site string
		status                     int
	}{
		"plain":                {"GET", "", "", "", 200},
		"localhost":            {"GET", "localhost:3000", "", "", 200},
		"ipv6 loopback":        {"GET", "[::1]:3000", "", "", 200},
		"rebinding":            {"GET", "evil.example", "", "", 403},
		"other ip":             {"GET", "192.0.2.1:3000", "", "", 403},
		"allowed":              {"GET", "iris.example", "", "", 200},
		"allowed, any port":    {"GET", "box.example", "", "", 200},
		"allowed, dot, case":   {"GET", "IRIS.example.", "", "", 200},
		"same origin":          {"POST", own, "http://" + own, "same-origin", 200},
		"foreign origin":       {"POST", own, "http://evil.example", "cross-site", 403},
		"foreign origin, GET":  {"GET", own, "http://evil.example", "", 403},
		"null origin":          {"POST", own, "null", "cross-site", 403},
		"other port here":      {"POST", "localhost:3000", "http://localhost:8080", "same-site", 403},
		"no origin, foreign":   {"POST", own, "", "cross-site", 403},
		"proxy":                {"POST", own, "https://iris.example", "same-origin", 200},
		"proxy, port":          {"POST", own, "https://box.example:8443", "same-origin", 200},
		"proxy, another port":  {"POST", own, "https://box.example:1", "same-origin", 403},
		"origin is no web one": {"POST", own, "file://" + own, "", 403},
	} {
		h := map[string]string{}
		if c.host != "" {
			h["Host"] = c.host
		}
		if c.origin != "" {
			h["Origin"] = c.origin
		}
		if c.site != "" {
			h["Sec-Fetch-Site"] = c.site
		}
		if c.host != "" && c.host != own {
			h["Cookie"] = s.cookie()
		}
		res, body := s.do(t, c.method, "/data", "", h)
		if res.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", name, res.StatusCode, body, c.status)
		}
	}
}

func TestAnyIP(t *testing.T) {
	s := start(t, func(o *Options) { o.AnyIP = true })
	for host, want := range map[string]int{"192.0.2.1:3000": 200, "[2001:db8::1]": 200, "evil.example": 403, "": 200} {
		if res, _ := s.do(t, "GET", "/", "", map[string]string{"Host": host}); res.StatusCode != want {
			t.Errorf("Host %q = %d, want %d", host, res.StatusCode, want)
		}
	}
}

// cookie is the client's Cookie header.
func (s *site) cookie() string {
	var all []string
	for _, c := range s.jar.Cookies(mustURL(s.url)) {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

func TestNewChecksOptions(t *testing.T) {
	ok := Options{Inbox: newInbox(), Data: http.NotFoundHandler(), Page: fstest.MapFS{"index.html": {}}}
	for name, change := range map[string]func(*Options){
		"inbox": func(o *Options) { o.Inbox = nil },
		"data":  func(o *Options) { o.Data = nil },
		"page":  func(o *Options) { o.Page = nil },
		"index": func(o *Options) { o.Page = fstest.MapFS{} },
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

// dial opens a socket.
func (s *site) dial(t *testing.T, query string) *socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.url, "http")+"/?"+query, &websocket.DialOptions{HTTPClient: s.http})
	if err != nil {
		t.Fatalf("dial %s: %v", query, err)
	}
	conn.SetReadLimit(8 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &socket{t, conn}
}

type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

// next reads one frame.
func (s *socket) next() map[string]any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, data, err := s.conn.Read(ctx)
	if err != nil {
		s.t.Fatalf("read frame: %v", err)
	}
	var f map[string]any
	if err := json.Unmarshal(data, &f); err != nil {
		s.t.Fatalf("frame %s: %v", data, err)
	}
	return f
}

// want reads one frame and compares some of its fields.
func (s *socket) want(fields map[string]any) map[string]any {
	s.t.Helper()
	f := s.next()
	for k, v := range fields {
		if f[k] != v {
			s.t.Errorf("frame %v: %s = %v, want %v", f, k, f[k], v)
		}
	}
	return f
}

func (s *socket) send(text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		s.t.Fatalf("send: %v", err)
	}
}
