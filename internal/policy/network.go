package policy

import (
	"strconv"
	"strings"
)

// network judges programs that talk to hosts. It reports whether name is one.
func (s *shell) network(name string, args []string) bool {
	switch name {
	case "curl":
		s.curl(args)
	case "wget", "wget2":
		s.wget(args)
	case "openssl":
		for _, a := range args {
			s.hosts(a)
		}
		s.operands(args)
		if hasWord(args, "-d") && (hasWord(args, "base64") || hasWord(args, "-base64") || hasWord(args, "-a")) && !hasWord(args, "-in") {
			s.decode("base64", []string{"-d"})
		}
	case "nc", "ncat", "netcat", "telnet", "socat", "ftp", "sftp", "tftp", "ping", "ping6", "fping", "hping3", "traceroute", "tracepath", "mtr", "nmap", "http", "https", "xh", "xhs", "httpie",
		"aria2c", "axel", "lynx", "links", "elinks", "w3m", "websocat", "grpcurl", "hey", "ab", "wrk", "siege", "lwp-request", "GET", "POST", "HEAD", "lwp-download", "fetch", "chromium", "google-chrome", "firefox", "curlie", "arping", "rsh", "rlogin", "redis-cli", "psql", "mysql", "mongosh":
		for _, a := range args {
			s.hosts(a)
		}
		s.operands(args)
	default:
		return false
	}
	return true
}

// host notes a connection to what a client takes for a URL or a host.
func (s *shell) host(target string) {
	h := hostOf(plain(target))
	if hasAny(h, "{") || hasAny(h, "[") && !strings.Contains(h, ":") {
		for _, one := range urlGlob(h, 0) {
			s.note(effect{kind: connect, path: one})
		}
		return
	}
	s.note(effect{kind: connect, path: h})
}

// hosts notes a connection for every part of an argument that could be a host.
func (s *shell) hosts(a string) {
	s.host(a)
	if h := strings.TrimLeft(a, "-+"); strings.ContainsAny(h, ":=,@ ") {
		for part := range strings.FieldsFuncSeq(h, func(r rune) bool { return strings.ContainsRune(":=,@ ", r) }) {
			s.note(effect{kind: connect, path: part})
		}
		if i := strings.IndexByte(h, '['); i >= 0 {
			if end := strings.IndexByte(h[i:], ']'); end > 0 {
				s.note(effect{kind: connect, path: h[i : i+end+1]})
			}
		}
	}
}

// urlGlob expands the {a,b} and [1-3] that curl itself expands.
func urlGlob(h string, depth int) []string {
	i := strings.IndexAny(h, "{[")
	if i < 0 || depth > 3 {
		return []string{h}
	}
	closing := byte('}')
	if h[i] == '[' {
		closing = ']'
	}
	end := strings.IndexByte(h[i:], closing)
	if end < 0 {
		return []string{h}
	}
	var choices []string
	inside, rest := h[i+1:i+end], h[i+end+1:]
	if closing == '}' {
		choices = strings.Split(inside, ",")
	} else {
		choices = span(inside)
	}
	var out []string
	for _, c := range choices {
		for _, tail := range urlGlob(rest, depth+1) {
			out = append(out, h[:i]+c+tail)
		}
		if len(out) > 1024 {
			break
		}
	}
	return out
}

// span lists the numbers of "a-b".
func span(inside string) []string {
	a, b, _ := strings.Cut(inside, "-")
	from, err := strconv.Atoi(a)
	to, err2 := strconv.Atoi(b)
	if err != nil || err2 != nil {
		return []string{inside}
	}
	var out []string
	for n := from; n <= to && len(out) < 256; n++ {
		out = append(out, strconv.Itoa(n))
	}
	return out
}

const curlLong = " data data-ascii data-binary data-raw data-urlencode json form form-string header user-agent referer cookie cookie-jar user proxy-user output output-dir config upload-file request url proxy preproxy proxy1.0 socks4 socks4a socks5 socks5-hostname resolve connect-to interface dns-servers doh-url max-time connect-timeout retry retry-delay retry-max-time range write-out cacert capath cert key cert-type key-type ciphers limit-rate speed-limit speed-time max-redirs proto proto-default proto-redir tls-max unix-socket abstract-unix-socket noproxy netrc-file dump-header trace trace-ascii stderr time-cond keepalive-time local-port mail-from mail-rcpt quote request-target continue-at ftp-port engine crlfile pinnedpubkey aws-sigv4 variable expand-url expand-data etag-save etag-compare max-filesize rate oauth2-bearer login-options proxy-header proxy-cacert pass "

func (s *shell) curl(args []string) {
	l := grammar{short: "AbcCdDeEFHKmoPQrtTuUwxXyYz", long: curlLong}.split(args)
	targets := l.operands
	for _, o := range l.options {
		switch o.name {
		case "url", "expand-url":
			targets = append(targets, o.value)
		case "x", "proxy", "preproxy", "proxy1.0", "socks4", "socks4a", "socks5", "socks5-hostname", "doh-url":
			s.host(o.value)
		case "resolve", "connect-to":
			s.hosts(o.value)
			s.pinned(o.value)
		case "d", "data", "data-binary", "data-ascii", "json", "F", "form", "data-urlencode", "expand-data", "H", "header", "w", "write-out":
			s.upload(o.value)
		case "T", "upload-file", "K", "config", "E", "cert", "key", "cacert", "netrc-file":
			s.reads([]string{strings.TrimPrefix(o.value, "@")})
		case "b", "cookie":
			if !strings.Contains(o.value, "=") {
				s.reads([]string{o.value})
			}
		case "variable":
			s.operand(o.value)
		case "o", "output", "D", "dump-header", "c", "cookie-jar", "trace", "trace-ascii", "stderr", "etag-save":
			s.writes([]string{o.value})
		}
	}
	if v, ok := l.value("K", "config"); ok && v == "-" {
		s.urlsIn(s.input())
	}
	named := l.has("O", "remote-name", "remote-name-all")
	for _, t := range targets {
		if strings.HasPrefix(t, "file:") {
			s.reads([]string{"/" + strings.TrimLeft(strings.TrimPrefix(t[len("file:"):], "//localhost"), "/")})
			continue
		}
		s.host(t)
		if named {
			s.writes([]string{baseName(t)})
		}
	}
}

// urlsIn judges the URLs of a text that a client reads as its configuration.
func (s *shell) urlsIn(text string) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n\"'=", r) }) {
		if schemeOf(word) > 0 {
			s.url(word)
		}
	}
}

// pinned judges the addresses of --resolve host:port:address[,address].
func (s *shell) pinned(v string) {
	parts := strings.SplitN(v, ":", 3)
	if len(parts) < 3 {
		return
	}
	for a := range strings.SplitSeq(parts[2], ",") {
		s.note(effect{kind: connect, path: a})
	}
}

// upload judges the "@file" and "<file" of a body or a form.
func (s *shell) upload(v string) {
	if v == "" {
		return
	}
	switch {
	case v[0] == '@' || v[0] == '<':
		v = v[1:]
	case strings.Contains(v, "=@"):
		_, v, _ = strings.Cut(v, "=@")
	case strings.Contains(v, "=<"):
		_, v, _ = strings.Cut(v, "=<")
	case strings.Contains(v, "@") && isName(v[:strings.IndexByte(v, '@')]):
		_, v, _ = strings.Cut(v, "@")
	default:
		return
	}
	for f := range strings.SplitSeq(v, ",") {
		f, _, _ = strings.Cut(f, ";")
		s.reads([]string{strings.Trim(f, `"`)})
	}
}

func (s *shell) wget(args []string) {
	l := grammar{short: "oaeiBtTwQOPUDIARSlX", long: " output-document output-file append-output input-file base tries timeout wait quota user-agent header post-data post-file body-data body-file method execute directory-prefix load-cookies save-cookies user password http-user http-password proxy-user referer domains reject accept exclude-directories include-directories level ca-certificate certificate private-key bind-address limit-rate dns-servers config "}.split(args)
	for _, o := range l.options {
		switch o.name {
		case "e", "execute":
			_, v, _ := strings.Cut(o.value, "=")
			s.host(strings.TrimSpace(v))
		case "post-file", "body-file", "i", "input-file", "load-cookies", "private-key", "certificate", "config":
			s.reads([]string{o.value})
		case "O", "output-document", "o", "output-file", "a", "append-output", "save-cookies":
			s.writes([]string{o.value})
		case "base", "B":
			s.host(o.value)
		}
	}
	if v, ok := l.value("i", "input-file"); ok && v == "-" {
		s.urlsIn(s.input())
	}
	dir, ok := l.value("P", "directory-prefix")
	for _, t := range l.operands {
		s.host(t)
		if !l.has("O", "output-document") {
			name := baseName(t)
			if ok {
				name = dir + "/" + name
			}
			if name != "" && name != ".env" {
				s.writes([]string{name})
			}
		}
	}
}
