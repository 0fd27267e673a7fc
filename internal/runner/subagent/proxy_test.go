package subagent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/iris-operator/iris/internal/turn"
)

// A proxy that cuts off the body of a request gets a 400 from the agent, which
// it passes on: the caller sends the same turn again, and it runs once.
func TestABodyThatAProxyCutsOffIsSentAgain(t *testing.T) {
	for name, framed := range map[string]bool{"inside its frame": false, "with a frame of its own": true} {
		t.Run(name, func(t *testing.T) {
			var runs, posts atomic.Int32
			agent := real(t, func(_ context.Context, req turn.Request, sink turn.Sink) error {
				runs.Add(1)
				return sink.Emit(turn.Event{Kind: turn.Final, Text: "got " + req.Message.Text})
			})
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Errorf("read the request: %v", err)
				}
				keep, length := len(body), len(body)
				if r.Method == http.MethodPost && posts.Add(1) == 1 {
					keep = len(body) / 2
				}
				if framed {
					length = keep
				}
				forward(t, w, r, agent.Listener.Addr().String(), body[:keep], length)
			}))
			t.Cleanup(proxy.Close)
			reply, _, err := ask(t, agents(t, proxy.URL))
			if err != nil || reply != "got how much?" {
				t.Errorf("Ask = %q, %v", reply, err)
			}
			if r, p := runs.Load(), posts.Load(); r != 1 || p != 2 {
				t.Errorf("%d runs of %d posts, want 1 of 2", r, p)
			}
		})
	}
}

// forward sends a request of that length with as much of its body as there is,
// and passes the answer on.
func forward(t *testing.T, w http.ResponseWriter, r *http.Request, addr string, body []byte, length int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Errorf("reach the agent: %v", err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: agent\r\nAccept: %s\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s",
		r.Method, r.URL.RequestURI(), strings.Join(r.Header.Values("Accept"), ", "), r.Header.Get("Authorization"), length, body)
	if len(body) < length {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Errorf("cut off the body: %v", err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Errorf("read the answer: %v", err)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the caller judges what came
}
