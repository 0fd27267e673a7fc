package llm

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
