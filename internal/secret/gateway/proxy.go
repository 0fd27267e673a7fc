package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// hopByHop are the headers that belong to one connection, and those a caller
// must not decide about: who it is, where it goes, how long it is, and through
// whom it came.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Expect", "Authorization", "Host", "Content-Length", "Cookie",
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override",
}

// newTransport reaches services. The header time is that of a model that thinks
// before it says anything.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 10 * time.Minute,
		IdleConnTimeout:       60 * time.Second,
		MaxIdleConnsPerHost:   8,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // bodies pass as they are
	}
}

// proxy passes a request on to a service with its secret put in.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request, service, below string) {
	svc, ok := s.opts.Services[service]
	if !ok {
		refuse(w, http.StatusNotFound, "unknown service")
		return
	}
	if problem := suspicious(r); problem != "" || unclean(below) {
		if problem == "" {
			problem = "the path is not clean"
		}
		refuse(w, http.StatusBadRequest, problem)
		return
	}
	if r.ContentLength > maxProxy {
		refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than 10 MiB")
		return
	}
	v, _, err := s.opts.Source.Get(r.Context(), svc.Secret)
	if err != nil {
		s.log.Error("broker: no secret for a service", "service", service, "secret", svc.Secret, "err", err)
		refuse(w, http.StatusBadGateway, "the secret of the service is missing")
		return
	}
	body := &bounded{r: r.Body, left: maxProxy}
	out, err := svc.request(r, below, body, v)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the request cannot be passed on")
		return
	}
	s.pass(w, r, out, body, service)
}

// pass sends a request and streams the answer.
func (s *Server) pass(w http.ResponseWriter, r, out *http.Request, body *bounded, service string) {
	// An answer may begin before the body has ended.
	_ = http.NewResponseController(w).EnableFullDuplex()
	resp, err := s.opts.Transport.RoundTrip(out)
	if err != nil {
		if body.over.Load() {
			refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than 10 MiB")
			return
		}
		// The error may name the URL, and with it a query.
		s.log.Warn("broker: a service cannot be reached", "service", service, "err", unwrapURL(err))
		refuse(w, http.StatusBadGateway, "the service cannot be reached")
		return
	}
	defer resp.Body.Close()
	header := w.Header()
	for k, vs := range resp.Header {
		header[k] = vs
	}
	dropHop(header)
	header.Del("Set-Cookie") // a session of the service is the broker's
	if n := resp.Header.Get("Content-Length"); n != "" {
		header.Set("Content-Length", n)
	}
	w.WriteHeader(resp.StatusCode)
	if err := stream(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // a cut answer must not pass for a whole one
	}
}

// stream copies and flushes what has come, as it comes.
func stream(w http.ResponseWriter, body io.Reader) error {
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			if ferr := rc.Flush(); ferr != nil && !errors.Is(ferr, http.ErrNotSupported) {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// suspicious says what makes a request one that two servers could read in two
// ways, "" if nothing does. The server has refused most of these already; this
// does not rely on it.
func suspicious(r *http.Request) string {
	if len(r.Header.Values("Content-Length")) > 1 || len(r.TransferEncoding) > 1 || len(r.TransferEncoding) == 1 && r.TransferEncoding[0] != "chunked" {
		return "the length of the body is given twice"
	}
	if r.Method == http.MethodConnect || r.Header.Get("Upgrade") != "" {
		return "the protocol cannot be changed"
	}
	for k, vs := range r.Header {
		if textproto.CanonicalMIMEHeaderKey(k) != k || strings.ContainsAny(k, "_ \t") {
			return "a header has an odd name"
		}
		for _, v := range vs {
			if strings.ContainsAny(v, "\r\n\x00") {
				return "a header has an odd value"
			}
		}
	}
	return ""
}

// request makes the request to the service.
func (s Service) request(r *http.Request, below string, body io.ReadCloser, v secret.Value) (*http.Request, error) {
	target, err := url.Parse(strings.TrimSuffix(s.Upstream, "/") + "/" + below)
	if err != nil {
		return nil, err
	}
	target.RawQuery = r.URL.RawQuery
	if r.ContentLength == 0 {
		body = http.NoBody
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, target.String(), body)
	if err != nil {
		return nil, err
	}
	out.ContentLength = r.ContentLength
	out.Header = r.Header.Clone()
	dropHop(out.Header)
	for k, template := range s.Headers {
		// Whatever spelling the caller used, and with underscores, which some
		// servers read as hyphens.
		for have := range out.Header {
			if strings.EqualFold(strings.ReplaceAll(have, "_", "-"), k) {
				delete(out.Header, have)
			}
		}
		out.Header.Set(k, strings.ReplaceAll(template, "{value}", v.Reveal()))
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = nil // and not Go's own
	}
	return out, nil
}

// dropHop removes what belongs to one connection, also what Connection names.
func dropHop(h http.Header) {
	for _, v := range h.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// bounded is a body that ends with an error when it is too large.
type bounded struct {
	r    io.ReadCloser
	left int64
	over atomic.Bool
}

var errTooLarge = errors.New("the body is too large")

// Read reads on while there is room.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.over.Store(true)
		return 0, errTooLarge
	}
	return n, err
}

// Close closes the body.
func (b *bounded) Close() error { return b.r.Close() }

// unwrapURL is an error without the URL around it.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
