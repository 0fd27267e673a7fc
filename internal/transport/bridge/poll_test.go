package bridge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/turn"
)

// Issue C: a reply that exists is with a polling caller at most 100 ms later, over
// a real socket. The middle of several counts: the machine may be busy.
func TestAReplyIsWithAPollingCallerAtOnce(t *testing.T) {
	let := make(chan struct{})
	at := make(chan time.Time, 1)
	p := start(t, setup{run: func(ctx context.Context, req turn.Request, s turn.Sink) error {
		<-let
		at <- time.Now()
		return s.Emit(turn.Event{Kind: turn.Final, Text: "done"})
	}})
	srv := httptest.NewServer(p.server)
	defer srv.Close()
	client := srv.Client()
	var took []time.Duration
	for i := range 9 {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/bridge", strings.NewReader(ask(fmt.Sprint("k", i), "x")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", wire.StreamType)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel() // the connection is lost
		resp.Body.Close()
		answered := make(chan time.Duration, 1)
		go func() {
			defer close(answered)
			resp, err := client.Get(fmt.Sprintf("%s/bridge/jobs/k%d?since=0&wait=30000", srv.URL, i))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			if j, perr := wire.ParseJob(data); err != nil || perr != nil || !j.Done {
				t.Errorf("the poll got %s, %v", data, err)
			}
			answered <- time.Since(<-at)
		}()
		let <- struct{}{}
		took = append(took, <-answered)
	}
	slices.Sort(took)
	if middle := took[len(took)/2]; middle > 100*time.Millisecond {
		t.Errorf("the reply took %v (%v)", middle, took)
	}
}
