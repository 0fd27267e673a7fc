package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// A process with a thousand sessions on disk, some of them talked in, says that
// it is ready within 200 ms of being started, and has them all. Starts compete
// with the rest of the machine, so the fastest counts.
func TestReadyAtOnceWithAThousandSessions(t *testing.T) {
	const sessions, talked, starts = 1000, 40, 5
	p := newPlace(t)
	s := p.serve()
	ids := make(chan string, talked)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < sessions; i += 4 {
				a, err := p.call(t.Context(), "POST", "/sessions", fmt.Sprintf(`{"originChannel":"ready","originThreadTs":"%d"}`, i))
				var made struct {
					ID string `json:"sessionId"`
				}
				if err != nil || a.status != http.StatusCreated || json.Unmarshal([]byte(a.body), &made) != nil || made.ID == "" {
					t.Errorf("create session %d: %+v, %v", i, a, err)
					return
				}
				select {
				case ids <- made.ID:
				default:
				}
			}
		})
	}
	wg.Wait()
	close(ids)
	var last string
	for id := range ids {
		last = id
		if a, err := p.call(t.Context(), "POST", "/sessions/"+id+"/message", `{"text":"hello"}`); err != nil || a.status != http.StatusOK {
			t.Fatalf("message: %+v, %v", a, err)
		}
	}
	s.kill()
	best := time.Hour
	for range starts {
		began := time.Now()
		s := p.serve()
		best = min(best, time.Since(began))
		s.kill()
	}
	if limit := 200 * time.Millisecond * detector; best > limit {
		t.Errorf("ready after %s, more than %s", best, limit)
	}
	t.Logf("ready after %s", best)
	p.serve()
	a, err := p.call(t.Context(), "GET", "/sessions/"+last+"/history", "")
	if err != nil || a.status != http.StatusOK {
		t.Errorf("history of the last session: %+v, %v", a, err)
	}
}
