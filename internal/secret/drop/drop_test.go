package drop

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// bench is a set of links with a clock, a store and somebody to tell.
type bench struct {
	t      *testing.T
	dir    string
	now    atomic.Pointer[time.Time]
	mu     sync.Mutex
	stored map[string]string
	puts   []secret.Put
	told   []string
	fail   error
}

func open(t *testing.T) *bench {
	b := &bench{t: t, dir: filepath.Join(t.TempDir(), "drops"), stored: map[string]string{}}
	b.at(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	return b
}

func (b *bench) at(now time.Time) { b.now.Store(&now) }

// drops opens the links as a process does at its start.
func (b *bench) drops() *Drops {
	b.t.Helper()
	d, err := New(Options{
		Dir: b.dir, Now: func() time.Time { return *b.now.Load() },
		Store: func(_ context.Context, name string, v secret.Value, p secret.Put) (secret.Meta, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.fail != nil {
				return secret.Meta{}, b.fail
			}
			b.stored[name] = v.Reveal()
			b.puts = append(b.puts, p)
			return secret.Meta{Name: name}, nil
		},
		Stored: func(_ context.Context, d Drop, name string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.told = append(b.told, d.Channel+" "+name)
			return nil
		},
		Trusted: []string{"https://iris.example.org"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func (b *bench) create(d *Drops, name string, ttl time.Duration, proxyOnly bool) string {
	b.t.Helper()
	token, drop, err := d.Create(name, "WEBUI-main", ttl, proxyOnly)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(token) != 48 || drop.Name != name {
		b.t.Errorf("token %q, %+v", token, drop)
	}
	return token
}

func send(d *Drops, method, token, contentType, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://iris.test"+Prefix+token, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

const formType = "application/x-www-form-urlencoded"

func formBody(value string, more ...string) string {
	q := url.Values{"value": {value}}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q.Encode()
}

func TestStoresOnceBurnsAndTells(t *testing.T) {
	b := open(t)
	d := b.drops()
	token := b.create(d, "STRIPE-KEY", 0, false)
	for range 3 { // looking changes nothing
		w := send(d, "GET", token, "", "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), "STRIPE-KEY") || !strings.Contains(w.Body.String(), "for 15 minutes more") {
			t.Fatalf("the form: %d %s", w.Code, w.Body)
		}
	}
	w := send(d, "POST", token, formType, formBody("line one\r\nline two\r\n"))
	if w.Code != 200 || strings.Contains(w.Body.String(), "line one") {
		t.Fatalf("POST = %d %s", w.Code, w.Body)
	}
	if b.stored["STRIPE-KEY"] != "line one\nline two" || *b.puts[0].ProxyOnly || b.puts[0].Origin != secret.FromDrop {
		t.Errorf("stored %q, %+v", b.stored["STRIPE-KEY"], b.puts)
	}
	if len(b.told) != 1 || b.told[0] != "WEBUI-main STRIPE-KEY" {
		t.Errorf("told %q", b.told)
	}
	if w := send(d, "POST", token, formType, formBody("again")); w.Code != 404 || b.stored["STRIPE-KEY"] == "again" {
		t.Errorf("a second use: %d", w.Code)
	}
}

func TestUnknownExpiredAndUsedAreOnePage(t *testing.T) {
	b := open(t)
	d := b.drops()
	used, expired := b.create(d, "A", 0, false), b.create(d, "B", time.Minute, false)
	if w := send(d, "POST", used, formType, formBody("value")); w.Code != 200 {
		t.Fatal(w.Code)
	}
	b.at(b.now.Load().Add(time.Minute))
	want := send(d, "GET", strings.Repeat("0", 48), "", "")
	for name, token := range map[string]string{"used": used, "expired": expired, "short": "abc", "capitals": strings.ToUpper(expired), "path": "../../state", "empty": "", "longer": expired + "0"} {
		for _, method := range []string{"GET", "POST"} {
			w := send(d, method, token, formType, formBody("value"))
			if w.Code != 404 || w.Body.String() != want.Body.String() {
				t.Errorf("%s %s: %d %s", method, name, w.Code, w.Body)
			}
		}
	}
	if len(b.stored) != 1 {
		t.Errorf("stored: %v", b.stored)
	}
}

func TestSurvivesARestart(t *testing.T) {
	b := open(t)
	token := b.create(b.drops(), "A-KEY", time.Hour, true)
	files, err := os.ReadDir(b.dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, _ := os.ReadFile(filepath.Join(b.dir, files[0].Name()))
	if strings.Contains(string(data)+files[0].Name(), token) {
		t.Error("the token lies on disk")
	}
	if info, _ := files[0].Info(); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	b.at(b.now.Load().Add(59 * time.Minute))
	d := b.drops()
	w := send(d, "GET", token, "", "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), " checked>") || !strings.Contains(w.Body.String(), "for 1 minute more") {
		t.Errorf("after a restart: %d %s", w.Code, w.Body)
	}
	if w := send(d, "POST", token, formType, formBody("value", "proxyOnly", "on")); w.Code != 200 || !*b.puts[0].ProxyOnly {
		t.Errorf("POST after a restart: %d %+v", w.Code, b.puts)
	}
	if w := send(b.drops(), "GET", token, "", ""); w.Code != 404 {
		t.Errorf("used, after another restart: %d", w.Code)
	}
}

func TestValidatedBeforeTheLinkIsUsedUp(t *testing.T) {
	b := open(t)
	d := b.drops()
	token := b.create(d, "A", 0, true)
	for name, c := range map[string]struct {
		contentType, body string
		status            int
	}{
		"nothing":       {formType, "", 400},
		"empty":         {formType, formBody(""), 400},
		"a line end":    {formType, formBody("\r\n"), 400},
		"too large":     {formType, formBody(strings.Repeat("x", secret.MaxValue+1)), 413},
		"a large body":  {formType, formBody(strings.Repeat("x", maxBody)), 413},
		"not text":      {formType, formBody("\xff\xfe\xff"), 400},
		"bad escapes":   {formType, "value=%zz", 400},
		"bad JSON":      {"application/json", "{", 400},
		"no value":      {"application/json", `{"proxyOnly":true}`, 400},
		"another type":  {"text/plain", "value", 400},
		"no media type": {";;", "value", 400},
	} {
		w := send(d, "POST", token, c.contentType, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), "<form") {
			t.Errorf("%s: %d %.300s", name, w.Code, w.Body)
		}
	}
	for _, method := range []string{"PUT", "DELETE", "OPTIONS"} {
		if w := send(d, method, token, "", ""); w.Code != 405 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if w := send(d, "POST", token, "application/json", `{"value":"`+strings.Repeat("x", secret.MaxValue)+`"}`); w.Code != 200 || !*b.puts[0].ProxyOnly {
		t.Errorf("the largest: %d", w.Code)
	}
}

func TestOtherSitesCannotSendTheForm(t *testing.T) {
	b := open(t)
	d := b.drops()
	token := b.create(d, "A", 0, false)
	for name, headers := range map[string][]string{
		"another origin": {"Origin", "https://evil.example"},
		"cross-site":     {"Sec-Fetch-Site", "cross-site"},
		"same site":      {"Sec-Fetch-Site", "same-site"},
	} {
		if w := send(d, "POST", token, formType, formBody("value"), headers...); w.Code != 403 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if w := send(d, "POST", token, formType, formBody("value"), "Origin", "https://iris.example.org", "Sec-Fetch-Site", "cross-site"); w.Code != 200 {
		t.Errorf("the proxy's origin: %d", w.Code)
	}
}

func TestHeadersKeepTheTokenIn(t *testing.T) {
	b := open(t)
	d := b.drops()
	w := send(d, "GET", b.create(d, "A", 0, false), "", "")
	for name, want := range map[string]string{
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "noindex, nofollow",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s = %q", name, got)
		}
	}
	csp := w.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "style-src 'sha256-"} {
		if !strings.Contains(csp, part) {
			t.Errorf("the policy %q lacks %s", csp, part)
		}
	}
}

func TestStoreFailureIs502AndTheLinkIsBurnt(t *testing.T) {
	b := open(t)
	d := b.drops()
	token := b.create(d, "A", 0, false)
	b.fail = errors.New("disk full")
	if w := send(d, "POST", token, formType, formBody("value")); w.Code != 502 || strings.Contains(w.Body.String(), "disk full") {
		t.Errorf("POST = %d %s", w.Code, w.Body)
	}
	b.fail = nil
	if w := send(d, "POST", token, formType, formBody("value")); w.Code != 404 || len(b.told) != 0 {
		t.Errorf("again: %d, told %v", w.Code, b.told)
	}
}

func TestManyAtOnceStoreOnce(t *testing.T) {
	b := open(t)
	d := b.drops()
	token := b.create(d, "A", 0, false)
	var ok atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if send(d, "POST", token, formType, formBody("value")).Code == 200 {
				ok.Add(1)
			}
		})
	}
	wg.Wait()
	if ok.Load() != 1 || len(b.puts) != 1 || len(b.told) != 1 {
		t.Errorf("%d were answered well, %d stored, %d told", ok.Load(), len(b.puts), len(b.told))
	}
}

func TestGuessingIsSlowedDown(t *testing.T) {
	d := open(t).drops()
	limited := 0
	for range 100 {
		if send(d, "GET", strings.Repeat("a", 48), "", "").Code == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 50 {
		t.Errorf("%d of 100 were limited", limited)
	}
}

func TestLimitsOfLinks(t *testing.T) {
	b := open(t)
	d := b.drops()
	for ttl, want := range map[time.Duration]time.Duration{0: DefaultTTL, time.Second: MinTTL, 48 * time.Hour: MaxTTL, -1: MinTTL, time.Hour: time.Hour} {
		_, drop, err := d.Create("A", "", ttl, false)
		if err != nil || drop.Expires.Sub(*b.now.Load()) != want {
			t.Errorf("ttl %v: %v, %v", ttl, drop.Expires, err)
		}
	}
	if _, _, err := d.Create("a b", "", 0, false); !errors.Is(err, secret.ErrName) {
		t.Errorf("a bad name: %v", err)
	}
	var err error
	for n := 0; err == nil && n <= maxOpen; n++ {
		_, _, err = d.Create("A", "", 0, false)
	}
	if !errors.Is(err, ErrTooMany) {
		t.Errorf("without end: %v", err)
	}
	b.at(b.now.Load().Add(MaxTTL))
	if _, _, err := d.Create("A", "", 0, false); err != nil {
		t.Errorf("after they have expired: %v", err)
	}
	if files, _ := os.ReadDir(b.dir); len(files) != 1 {
		t.Errorf("%d files are left", len(files))
	}
	if _, err := New(Options{}); err == nil {
		t.Error("New without a directory succeeds")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(formType, []byte("value=a&proxyOnly=on"))
	f.Add("application/json", []byte(`{"value":"a"}`))
	f.Fuzz(func(t *testing.T, contentType string, data []byte) {
		if text, _, err := parse(contentType, data, false); err != nil && text != "" {
			t.Errorf("parse = %q, %v", text, err)
		}
	})
}
