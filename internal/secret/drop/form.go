package drop

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// Prefix is what every link's path begins with.
const Prefix = "/secret-drop/"

// Limits of what a form sends.
const (
	maxBody  = 128 << 10
	bodyTime = 30 * time.Second
)

//go:embed page.html
var page string

//go:embed style.css
var style string

type form struct {
	policy string
	origin *http.CrossOriginProtection
}

func newForm(trusted []string) (*form, error) {
	sum := sha256.Sum256([]byte(style))
	f := &form{
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		origin: http.NewCrossOriginProtection(),
	}
	for _, o := range trusted {
		if err := f.origin.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// ServeHTTP answers below Prefix. Nobody need be logged in: the token is what
// opens the form. A GET changes nothing, for chat programs look at links before
// people do.
func (d *Drops) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.URL.Path, Prefix)
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		d.say(w, http.StatusMethodNotAllowed, "Not possible", "This address has a form and nothing else.")
		return
	}
	drop, ok := d.find(token)
	if !ok {
		d.missing(w)
		return
	}
	if r.Method != http.MethodPost {
		d.ask(w, http.StatusOK, drop, "")
		return
	}
	if err := d.form.origin.Check(r); err != nil {
		d.say(w, http.StatusForbidden, "Not from here", "This form was sent from another site. Open the link itself and send it from there; it still works.")
		return
	}
	v, proxyOnly, err := d.value(w, r, drop)
	if err != nil {
		var p *problem
		errors.As(err, &p)
		d.ask(w, p.status, drop, p.text)
		return
	}
	d.take(w, r, token, drop, v, proxyOnly)
}

// take burns the link and stores the value, in this order: a link that could be
// used again would let somebody replace what was stored.
func (d *Drops) take(w http.ResponseWriter, r *http.Request, token string, drop Drop, v secret.Value, proxyOnly bool) {
	ok, err := d.burn(token)
	if err != nil {
		d.log.Error("a secret link cannot be used up", "secret", drop.Name, "err", err)
		d.say(w, http.StatusBadGateway, "Not stored", "The link could not be used up, so nothing was stored. Ask for a new link.")
		return
	}
	if !ok {
		d.missing(w)
		return
	}
	// The person may close the page now; what they gave is not lost by that.
	ctx := context.WithoutCancel(r.Context())
	m, err := d.opts.Store(ctx, drop.Name, v, secret.Put{Origin: secret.FromDrop, ProxyOnly: &proxyOnly})
	if err != nil {
		d.log.Error("a secret that was handed over cannot be stored", "secret", drop.Name, "err", err)
		d.say(w, http.StatusBadGateway, "Not stored", "The store did not take it, and the link is used up. Ask for a new link.")
		return
	}
	d.log.Info("a secret was handed over", "secret", m.Name, "proxyOnly", proxyOnly)
	if d.opts.Stored != nil {
		if err := d.opts.Stored(ctx, drop, m.Name); err != nil {
			d.log.Error("nobody was told of a secret that has come", "secret", m.Name, "channel", drop.Channel, "err", err)
		}
	}
	d.say(w, http.StatusOK, "Stored", html.EscapeString(m.Name)+" is in the store. The link is used up and you can close this page.")
}

// A problem is what is wrong with what was sent. The link still works.
type problem struct {
	status int
	text   string
}

// Error returns the text.
func (p *problem) Error() string { return p.text }

// value reads what was sent, by the form or as JSON.
func (d *Drops) value(w http.ResponseWriter, r *http.Request, drop Drop) (v secret.Value, proxyOnly bool, err error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // recorders in tests have none
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return v, false, &problem{http.StatusRequestEntityTooLarge, "That is too large: at most 64 KiB."}
	}
	if err != nil {
		return v, false, &problem{http.StatusBadRequest, "It did not arrive whole. Try again."}
	}
	text, proxyOnly, err := parse(r.Header.Get("Content-Type"), data, drop.ProxyOnly)
	if err != nil {
		return v, false, &problem{http.StatusBadRequest, "It did not arrive as this form sends it. Try again."}
	}
	switch err := secret.CheckValue(secret.New(text)); {
	case errors.Is(err, secret.ErrEmpty):
		return v, false, &problem{http.StatusBadRequest, "The field is empty."}
	case len(text) > secret.MaxValue:
		return v, false, &problem{http.StatusRequestEntityTooLarge, "That is too large: at most 64 KiB."}
	case err != nil:
		return v, false, &problem{http.StatusBadRequest, "That is not text. Encode it in base64 first."}
	}
	return secret.New(text), proxyOnly, nil
}

// parse takes the value out of a body. Forms send line ends as CR LF, which no
// key has; one line end after the last line belongs to the typing.
func parse(contentType string, data []byte, proxyOnly bool) (text string, _ bool, err error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		return "", false, err
	}
	switch media {
	case "application/x-www-form-urlencoded":
		q, err := url.ParseQuery(string(data))
		if err != nil {
			return "", false, err
		}
		text = strings.ReplaceAll(q.Get("value"), "\r\n", "\n")
		return strings.TrimSuffix(text, "\n"), q.Get("proxyOnly") != "", nil
	case "application/json", "":
		var b struct {
			Value     string `json:"value"`
			ProxyOnly *bool  `json:"proxyOnly"`
		}
		if err := json.Unmarshal(data, &b); err != nil {
			return "", false, err
		}
		if b.ProxyOnly != nil {
			proxyOnly = *b.ProxyOnly
		}
		return b.Value, proxyOnly, nil
	}
	return "", false, fmt.Errorf("content type %.80q", contentType)
}

// missing is the one answer for a link that does not work, whatever the reason.
func (d *Drops) missing(w http.ResponseWriter) {
	if !d.misses.Allow() {
		w.Header().Set("Retry-After", "10")
		d.say(w, http.StatusTooManyRequests, "Too many attempts", "Wait a moment and try again.")
		return
	}
	d.say(w, http.StatusNotFound, "This link does not work", "It was used, has expired, or never was one. Ask for a new link.")
}

// ask shows the form.
func (d *Drops) ask(w http.ResponseWriter, status int, drop Drop, wrong string) {
	note := ""
	if wrong != "" {
		note = `<p class="wrong" role="alert">` + html.EscapeString(wrong) + `</p>`
	}
	checked := ""
	if drop.ProxyOnly {
		checked = " checked"
	}
	left := max(1, int(drop.Expires.Sub(d.opts.Now()).Round(time.Minute).Minutes()))
	unit := " minutes"
	if left == 1 {
		unit = " minute"
	}
	d.write(w, status, "Hand over "+html.EscapeString(drop.Name), note+`
<p>Iris asks for <code>`+html.EscapeString(drop.Name)+`</code>. What you enter goes into the encrypted store and is shown nowhere: not in the chat, not in a log.</p>
<form method="post" autocomplete="off">
<label for="value">Value</label>
<textarea id="value" name="value" rows="4" required autofocus autocomplete="off" autocapitalize="off" spellcheck="false" maxlength="65536"></textarea>
<label class="check"><input type="checkbox" name="proxyOnly" value="on"`+checked+`> Nobody may read it back. Only the broker puts it into requests.</label>
<button>Store</button>
</form>
<p class="small">The link works once, for `+strconv.Itoa(left)+unit+` more.</p>`)
}

// say shows a sentence.
func (d *Drops) say(w http.ResponseWriter, status int, title, text string) {
	d.write(w, status, title, "<p>"+text+"</p>")
}

func (d *Drops) write(w http.ResponseWriter, status int, title, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", d.form.policy)
	h.Set("Referrer-Policy", "no-referrer") // the address is the token
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, strings.NewReplacer("{{title}}", title, "{{style}}", style, "{{body}}", body).Replace(page)) // the client may be gone
}
