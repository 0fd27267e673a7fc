package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// checkSource refuses requests that another site makes a browser send: those
// for a name that is not ours (DNS rebinding) and those with a foreign Origin.
func (s *Site) checkSource(r *http.Request) error {
	host := hostname(r.Host)
	if !s.ours(host) {
		return fmt.Errorf("host %.100q is not allowed: add it to allowed_hosts", host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !s.sameOrigin(origin, r.Host) {
		return fmt.Errorf("origin %.100q is not allowed", origin)
	}
	if err := s.cross.Check(r); err != nil && r.Header.Get("Origin") == "" {
		return err // a browser that sends no Origin but says that the request is foreign
	}
	return nil
}

// hostname is a Host header without its port and brackets, in lower case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// ours reports whether the site may be reached under a host name.
func (s *Site) ours(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil && (ip.IsLoopback() || s.opts.AnyIP) {
		return true
	}
	for _, h := range s.opts.Hosts {
		if host != "" && hostname(h) == host {
			return true
		}
	}
	return false
}

// sameOrigin compares the Origin of a request with the address it was sent to,
// port included: another program on this machine is another origin. Behind a
// proxy that changes Host, an entry of Hosts that equals the origin's host, port
// included, counts.
func (s *Site) sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	if strings.EqualFold(u.Host, host) {
		return true
	}
	for _, h := range s.opts.Hosts {
		if strings.EqualFold(u.Host, h) && !loopback(h) {
			return true
		}
	}
	return false
}

// loopback reports whether an entry names this machine, whose other ports are
// other origins.
func loopback(host string) bool {
	h := hostname(host)
	ip, err := netip.ParseAddr(h)
	return h == "localhost" || err == nil && ip.IsLoopback()
}

// secure reports whether the browser speaks TLS, with us or with a proxy before
// us. A forged header costs the forger his own cookie only.
func secure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
