package app

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A plainSpeaker is a listener whose connections say in JSON what net/http
// refuses before any handler sees it: a malformed request, headers that are too
// long, an encoding that is not known.
type plainSpeaker struct{ net.Listener }

// Accept implements net.Listener.
func (l plainSpeaker) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &plainConn{Conn: c}, nil
}

// A plainConn remembers how the last thing it read began, which tells a
// malformed path from other faults of a request.
type plainConn struct {
	net.Conn
	began [512]byte
	n     int
}

// Read implements net.Conn.
func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.n = copy(c.began[:], p[:n])
	}
	return n, err
}

// Write implements net.Conn.
func (c *plainConn) Write(p []byte) (int, error) {
	status, said, refused := refusedByServer(p)
	if !refused {
		return c.Conn.Write(p)
	}
	if said == "" {
		said = strings.ToLower(http.StatusText(status))
		if status == http.StatusBadRequest && badTarget(c.began[:c.n]) {
			said = "invalid URL"
		}
	}
	body, err := json.Marshal(map[string]string{"error": said})
	if err != nil {
		return 0, err
	}
	text := "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)+1) + "\r\nConnection: close\r\n\r\n" + string(body) + "\n"
	if _, err := c.Conn.Write([]byte(text)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// serverHeaders are the headers of an answer that net/http makes without a
// handler; those of handlers have a date.
const serverHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusedByServer recognises such an answer. said is what it tells beside its
// status.
func refusedByServer(p []byte) (status int, said string, ok bool) {
	const maxAnswer = 1 << 10
	if len(p) > maxAnswer || !bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		return 0, "", false
	}
	head, body, found := bytes.Cut(p[len("HTTP/1.1 "):], []byte(serverHeaders))
	if !found || len(head) < 3 || bytes.IndexByte(head, '\r') >= 0 {
		return 0, "", false
	}
	status, err := strconv.Atoi(string(head[:3]))
	if err != nil || status < 400 {
		return 0, "", false
	}
	_, said, _ = strings.Cut(string(body), ": ")
	return status, said, true
}

// badTarget reports whether a request begins with a line whose path or query is
// malformed.
func badTarget(request []byte) bool {
	line, _, whole := bytes.Cut(request, []byte("\n"))
	words := strings.Fields(string(line))
	if !whole || len(words) < 2 {
		return false
	}
	if len(words) != 3 {
		return true // a space in the path
	}
	_, err := url.ParseRequestURI(words[1])
	return err != nil
}
