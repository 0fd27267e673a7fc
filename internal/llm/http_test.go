package llm

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// As many requests as turns run at once, again and again: only the first of
// them dial.
func TestHTTPClientKeepsConnections(t *testing.T) {
	const rounds = 3
	var dialed atomic.Int64
	var arrived sync.WaitGroup
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait() // all of a round are under way together
		_, _ = io.WriteString(w, "ok")
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialed.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	client := NewHTTPClient()
	defer client.CloseIdleConnections()
	for range rounds {
		arrived.Add(idlePerHost)
		var done sync.WaitGroup
		for range idlePerHost {
			done.Go(func() {
				resp, err := client.Get(srv.URL)
				if err != nil {
					t.Error(err)
					arrived.Done()
					return
				}
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body)
			})
		}
		done.Wait()
	}
	if n := dialed.Load(); n > idlePerHost {
		t.Errorf("%d connections for %d rounds of %d requests", n, rounds, idlePerHost)
	}
}

func TestHTTPClientFollowsNoRedirect(t *testing.T) {
	srv := httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
	defer srv.Close()
	client := NewHTTPClient()
	defer client.CloseIdleConnections()
	resp, err := client.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("status %d, want the redirect itself", resp.StatusCode)
	}
}

// counted is a connection that keeps what is written to it.
type counted struct {
	net.Conn
	got    bytes.Buffer
	writes int
}

func (c *counted) Write(b []byte) (int, error) {
	c.writes++
	return c.got.Write(b)
}

func TestABodyIsWrittenFromWhereItLies(t *testing.T) {
	text := strings.Repeat("x", 300<<10)
	for name, c := range map[string]struct {
		from   io.Reader
		want   int
		writes int
	}{
		"what net/http gives":        {io.LimitReader(bytes.NewReader([]byte(text)), int64(len(text))), len(text), 1},
		"what Post gives":            {io.LimitReader(newBody([]byte(text)), int64(len(text))), len(text), 1},
		"more bytes than announced":  {io.LimitReader(bytes.NewReader([]byte(text)), 1000), 1000, 1},
		"fewer bytes than announced": {io.LimitReader(bytes.NewReader([]byte(text)), 1<<20), len(text), 1},
		"another reader":             {struct{ io.Reader }{strings.NewReader(text)}, len(text), 10},
	} {
		to := &counted{}
		n, err := bodyConn{to}.ReadFrom(c.from)
		if err != nil || int(n) != c.want || to.got.Len() != c.want || to.writes != c.writes {
			t.Errorf("%s: %d, %v: %d bytes in %d writes, want %d in %d", name, n, err, to.got.Len(), to.writes, c.want, c.writes)
		}
		if l, ok := c.from.(*io.LimitedReader); ok && c.writes == 1 && c.want == len(text) && inMemory(l.R).Len() != 0 {
			t.Errorf("%s: %d bytes are left", name, inMemory(l.R).Len())
		}
	}
}
