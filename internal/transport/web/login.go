package web

import (
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The cookie and its life.
const (
	cookieName = "iris_webui_session"
	loginLife  = 30 * 24 * time.Hour
	linkLife   = 10 * time.Minute
	maxLogin   = 4 << 10 // of the body of POST /login
)

// login answers the password form and login links.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		s.followLink(w, r)
	case http.MethodPost:
		s.checkPassword(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		fail(w, http.StatusMethodNotAllowed, "method not allowed")
	}
}

func (s *Site) checkPassword(w http.ResponseWriter, r *http.Request) {
	if !s.doors.allow(r.RemoteAddr, s.opts.Now()) {
		w.Header().Set("Retry-After", "60")
		fail(w, http.StatusTooManyRequests, "too many attempts: wait a minute")
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Header.Get("Content-Type") != "" && (err != nil || media != "application/json") {
		fail(w, http.StatusUnsupportedMediaType, "send application/json")
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opts.SendLimit))
	var body struct {
		Password string `json:"password"`
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	if err != nil || json.Unmarshal(data, &body) != nil {
		fail(w, http.StatusBadRequest, "invalid JSON")
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if s.opts.Password.IsZero() {
		fail(w, http.StatusUnauthorized, "no password is set: use the login link that iris serve prints")
		return
	}
	if !s.opts.Password.Equal(body.Password) {
		fail(w, http.StatusUnauthorized, "wrong password")
		return
	}
	if s.admit(w, r) {
		answer(w, http.StatusOK, map[string]bool{"ok": true})
	}
}

// followLink logs in who has a login link and sends everybody to the page. A
// browser goes there also with a link that is not good any more: who is logged
// in is where they wanted to be, and the page tells the others. A program that
// asks for JSON without a link learns whether a password is a way in.
func (s *Site) followLink(w http.ResponseWriter, r *http.Request) {
	accept := r.Header.Get("Accept")
	if key := r.URL.Query().Get("key"); key != "" {
		if !s.doors.allow(r.RemoteAddr, s.opts.Now()) {
			w.Header().Set("Retry-After", "60")
			fail(w, http.StatusTooManyRequests, "too many attempts: wait a minute")
			return
		}
		if !s.logins.redeem(key) {
			if strings.Contains(accept, "text/html") {
				w.Header().Set("Cache-Control", "no-store")
				http.Redirect(w, r, "/?link=over", http.StatusSeeOther)
				return
			}
			fail(w, http.StatusUnauthorized, "this login link was used or has expired: iris serve prints a new one at each start")
			return
		}
		if !s.admit(w, r) {
			return
		}
	} else if strings.Contains(accept, "application/json") {
		answer(w, http.StatusOK, map[string]bool{"password": !s.opts.Password.IsZero()})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// admit makes a login and gives the browser its cookie.
func (s *Site) admit(w http.ResponseWriter, r *http.Request) bool {
	token, err := s.logins.create()
	if err != nil {
		s.log.ErrorContext(r.Context(), "keep login", "error", err)
		fail(w, http.StatusInternalServerError, "internal server error")
		return false
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: token, Path: "/", MaxAge: int(loginLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure(r),
	})
	return true
}

func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		fail(w, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	if err := s.logins.end(cookie(r)); err != nil {
		s.log.ErrorContext(r.Context(), "end login", "error", err)
		fail(w, http.StatusInternalServerError, "internal server error")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure(r)})
	answer(w, http.StatusOK, map[string]bool{"ok": true})
}

// LoginLink makes a link, relative to the site, that logs in once within ten
// minutes. Older links stay good for their own time; at most eight do.
func (s *Site) LoginLink() string { return "/login?key=" + s.logins.link() }

// cookie returns the login of a request, "" if it has none.
func cookie(r *http.Request) string {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return c.Value
}

// The rates of login attempts: a person mistypes a few times, a program does not
// get far. The limit for all together bounds an attacker with many addresses.
const (
	attemptsPerMinute = 5
	attemptsOfAll     = 60
	maxDoors          = 1024
)

// doors limits login attempts by address.
type doors struct {
	// mu guards the fields below.
	mu   sync.Mutex
	all  *rate.Limiter
	each map[string]*rate.Limiter
}

func newDoors() *doors {
	return &doors{all: perMinute(attemptsOfAll), each: map[string]*rate.Limiter{}}
}

func perMinute(n int) *rate.Limiter {
	return rate.NewLimiter(rate.Every(time.Minute/time.Duration(n)), n)
}

// allow reports whether an address may try once more.
func (d *doors) allow(remote string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := network(remote)
	l := d.each[key]
	if l == nil {
		if len(d.each) >= maxDoors {
			d.forget(now)
		}
		if len(d.each) >= maxDoors {
			return false
		}
		l = perMinute(attemptsPerMinute)
		d.each[key] = l
	}
	return l.AllowN(now, 1) && d.all.AllowN(now, 1)
}

// forget drops the addresses that could try as often as new ones.
func (d *doors) forget(now time.Time) {
	for key, l := range d.each {
		if l.TokensAt(now) >= attemptsPerMinute {
			delete(d.each, key)
		}
	}
}

// network is what one attacker has at least: an IPv4 address or an IPv6 /64.
func network(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
