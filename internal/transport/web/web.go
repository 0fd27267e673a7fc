// Package web is the way in for a browser: login, the page's static files and
// the web socket. It owns the cookie, the checks of Host and Origin that every
// request of a browser passes, and the frames of the socket.
//
// It does not own what the page shows: lists, histories, uploads and downloads
// are handlers of package api, passed in as Options.Data and reached through
// this package's checks only. Nor does it listen; the site is an http.Handler.
//
// Frames follow the journal: a socket is fed from [transport.Inbox.Watch] at its
// own pace and has no queue that could overflow. A socket that does not take a
// frame in time is cut; the page opens another one with the last seq it saw and
// has missed nothing.
package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
)

// The limits of the socket.
const (
	// maxFrame bounds a message of a client.
	maxFrame = 1 << 20
	// maxSockets bounds the open sockets of the site. A person has a few tabs.
	maxSockets = 256
	// pingEvery is shorter than the idle limits of common proxies.
	pingEvery = 20 * time.Second
	// sendLimit is how long a socket may take for a frame, or for its answer to
	// a ping, before it is cut.
	sendLimit = 10 * time.Second
)

// Options are what New needs.
type Options struct {
	Inbox transport.Inbox // required
	// Data answers what the page asks for; api.Server.Page. Required.
	Data http.Handler
	// Page holds index.html and what it loads. Required.
	Page fs.FS
	// Password opens a login form; empty: only login links log in.
	Password secret.Value
	// Logins is the file that keeps logins over a restart. Empty: they end with
	// the process.
	Logins string
	// Hosts are the names the site may be reached by besides the loopback ones:
	// the listen host and allowed_hosts, each with a port or without.
	Hosts []string
	// AnyIP accepts every IP address as Host, for a listener on all interfaces.
	// Rebinding attacks need a name.
	AnyIP bool
	// CheckFiles checks the attachments of a message. nil: messages may have
	// none.
	CheckFiles func(ctx context.Context, conv chat.Address, locals []string) ([]chat.File, error)
	Logger     *slog.Logger // nil: slog.Default

	// PingEvery, SendLimit and Now are changed by tests. Zero: 20 s, 10 s and
	// time.Now.
	PingEvery, SendLimit time.Duration
	Now                  func() time.Time
}

// A Site answers the requests of browsers. It is safe for concurrent use.
type Site struct {
	opts   Options
	log    *slog.Logger
	files  map[string]file
	csp    string
	logins *logins
	doors  *doors
	cross  *http.CrossOriginProtection
	stamps transport.Stamps

	// leaving ends with Close; sockets counts the handlers that run until then.
	leaving context.Context
	leave   context.CancelFunc

	// mu guards the fields below.
	mu      sync.Mutex
	closed  bool
	open    int
	sockets sync.WaitGroup // Add is called with mu held and closed unset
}

// A file is a static file of the page.
type file struct {
	content []byte
	kind    string // content type
	tag     string // ETag
}

// New reads the page and the logins that are kept. It starts nothing.
func New(opts Options) (*Site, error) {
	switch {
	case opts.Inbox == nil:
		return nil, errors.New("web: Inbox is required")
	case opts.Data == nil:
		return nil, errors.New("web: Data is required")
	case opts.Page == nil:
		return nil, errors.New("web: Page is required")
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.PingEvery == 0 {
		opts.PingEvery = pingEvery
	}
	if opts.SendLimit == 0 {
		opts.SendLimit = sendLimit
	}
	s := &Site{opts: opts, log: opts.Logger, doors: newDoors(), cross: http.NewCrossOriginProtection()}
	var err error
	if s.files, err = readPage(opts.Page); err != nil {
		return nil, err
	}
	index, ok := s.files["/index.html"]
	if !ok {
		return nil, errors.New("web: the page has no index.html")
	}
	s.csp = policy(index.content)
	if s.logins, err = openLogins(opts.Logins, opts.Now); err != nil {
		return nil, err
	}
	s.leaving, s.leave = context.WithCancel(context.Background())
	return s, nil
}

// Close ends all sockets and returns when they are gone. The pages come back
// when the site does.
func (s *Site) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.leave()
	s.sockets.Wait()
}

// enter takes a place for a socket; done gives it back.
func (s *Site) enter() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open >= maxSockets {
		return false
	}
	s.open++
	s.sockets.Add(1)
	return true
}

func (s *Site) exit() {
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
	s.sockets.Done()
}

// readPage loads the static files once: they are few and do not change.
func readPage(page fs.FS) (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(page, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(page, p)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		files["/"+p] = file{content, kindOf(p), `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return files, nil
}

// kindOf does not ask the system, whose tables differ.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".json", ".map":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

var importMap = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)<script\b[^>]*\btype\s*=\s*["']?importmap["']?[^>]*>(.*?)</script>`)
})

// policy is the Content-Security-Policy of the page. The one inline script that
// may be there is an import map, allowed by its hash.
func policy(index []byte) string {
	scripts := "'self'"
	for _, m := range importMap().FindAllSubmatch(index, -1) {
		sum := sha256.Sum256(m[1])
		scripts += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return strings.Join([]string{
		"default-src 'none'", "script-src " + scripts, "style-src 'self'", "img-src 'self' data: blob:",
		"font-src 'self'", "connect-src 'self'", "manifest-src 'self'", "form-action 'self'",
		"base-uri 'none'", "frame-ancestors 'none'",
	}, "; ")
}

// ServeHTTP checks where a request comes from, then who sends it.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", s.csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if err := s.checkSource(r); err != nil {
		fail(w, http.StatusForbidden, err.Error())
		return
	}
	switch {
	case r.URL.Path == "/login":
		s.login(w, r)
	case r.URL.Path == "/logout":
		s.logout(w, r)
	case r.URL.Path == "/" && upgrades(r), r.URL.Path == "/ws":
		s.socket(w, r)
	case s.static(w, r):
	case !s.logins.valid(cookie(r)):
		fail(w, http.StatusUnauthorized, "unauthorized")
	default:
		s.opts.Data.ServeHTTP(w, r)
	}
}

// static serves a file of the page and reports whether there is one. The page is
// no secret; what it shows is.
func (s *Site) static(w http.ResponseWriter, r *http.Request) bool {
	p := r.URL.Path
	if p == "/" {
		p = "/index.html"
	}
	f, ok := s.files[p]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	h.Set("Cache-Control", "no-cache")
	if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	h.Set("Content-Length", fmt.Sprint(len(f.content)))
	if r.Method == http.MethodGet {
		w.Write(f.content) //nolint:errcheck // the client is gone
	}
	return true
}

func fail(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"error": text})
}

func answer(w http.ResponseWriter, status int, value any) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value) //nolint:errcheck // the client is gone
}
