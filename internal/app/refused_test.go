package app

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What net/http refuses by itself is said in JSON, at every listener: the spec
// wants {"error":"invalid URL"} for a malformed path.
func TestServerRefusalsAreJSON(t *testing.T) {
	ln, err := listen(t.Context(), "127.0.0.1", 0, "X")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{MaxHeaderBytes: 1 << 10, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "HTTP/1.1 400 Bad Request"+serverHeaders+"400 Bad Request")
	})}
	go srv.Serve(ln)
	defer srv.Close()
	for _, c := range []struct {
		name, request string
		status        int
		said          string
	}{
		{"bad escape", "GET /bridge/jobs/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid URL"},
		{"a space", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid URL"},
		{"no slash", "GET bridge HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid URL"},
		{"after another", "GET / HTTP/1.1\r\nHost: x\r\n\r\n|GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid URL"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		{"a header that is none", "GET / HTTP/1.1\r\nHost: x\r\n:\r\n\r\n", 400, "bad request"},
		{"no HTTP", "hello\r\n\r\n", 400, "bad request"},
		{"headers too long", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 8<<10) + "\r\n\r\n", 431, "request header fields too large"},
		{"encoding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "not implemented"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			r := bufio.NewReader(conn)
			var resp *http.Response
			for part := range strings.SplitSeq(c.request, "|") {
				if _, err := io.WriteString(conn, part); err != nil {
					t.Fatal(err)
				}
				if resp, err = http.ReadResponse(r, nil); err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode == 200 {
					io.Copy(io.Discard, resp.Body)
				}
			}
			var e struct{ Error string }
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != c.status || e.Error != c.said {
				t.Errorf("%d %q (%v), want %d %q", resp.StatusCode, e.Error, err, c.status, c.said)
			}
			if typ := resp.Header.Get("Content-Type"); typ != "application/json" {
				t.Errorf("content type %q", typ)
			}
		})
	}
	resp, err := http.Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || !strings.HasSuffix(string(text), "400 Bad Request") {
		t.Errorf("a handler's own text came as %d %q", resp.StatusCode, text)
	}
}
