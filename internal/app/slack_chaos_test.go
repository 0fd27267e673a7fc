package app

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// TestSlackChaos has a whole server on a bad day, by seed: acknowledgements and
// answers lost, sockets cut and half open, duplicates, limits, outages, a restart.
// Every message that is for Iris gets exactly one visible outcome, in its thread.
func TestSlackChaos(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { slackChaos(t, seed) })
	}
}

func slackChaos(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(7, seed))
	h := newSlackHouse(t)
	h.channels(`{"C1":{"mode":"interactive-thread"}}`)
	var mu sync.Mutex
	faults := rand.New(rand.NewPCG(8, seed))
	weather := func(method string, _ url.Values) slacktest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(method, "chat.") {
			return slacktest.Fault{}
		}
		switch faults.IntN(8) {
		case 0:
			return slacktest.Fault{Lose: true}
		case 1:
			return slacktest.Fault{RetryAfter: time.Second}
		case 2:
			return slacktest.Fault{Status: 503}
		}
		return slacktest.Fault{}
	}
	var roots []slacktest.Message
	day := func(*server) {
		h.slack.Fault(weather)
		for range 3 {
			m, ids := h.slack.Say("C1", slacktest.Message{User: "U1", Text: fmt.Sprintf("message %d", len(roots))})
			roots = append(roots, m)
			switch r.IntN(5) {
			case 0:
				h.slack.LoseAcks(ids[0], 1)
			case 1:
				h.slack.Tell("C1", m) // twice
			case 2:
				h.slack.Cut()
			case 3:
				h.slack.Disconnect("refresh_requested")
			}
		}
	}
	h.serve(day)
	// What is said while nobody is there comes with the history.
	roots = append(roots, h.slack.Put("C1", slacktest.Message{User: "U2", Text: "while you were away"}))
	h.serve(func(s *server) {
		day(s)
		h.slack.Fault(nil)
		outcomes := func(root string) (done int) {
			for _, m := range h.slack.Own("C1") {
				if m.ThreadTS == root && !strings.HasSuffix(m.Text, " ...") {
					done++
				}
			}
			return done
		}
		until(t, "an outcome for everybody", func() bool {
			return !slices.ContainsFunc(roots, func(m slacktest.Message) bool { return outcomes(m.TS) == 0 })
		})
		until(t, "nothing under way", func() bool { return s.house.posts[0].courier.Open() == 0 })
		for _, m := range roots {
			if n := outcomes(m.TS); n != 1 {
				t.Errorf("%q has %d outcomes", m.Text, n)
			}
		}
		if n := len(h.slack.Own("C1")); n != len(roots) {
			t.Errorf("%d messages for %d questions", n, len(roots))
		}
	})
}
