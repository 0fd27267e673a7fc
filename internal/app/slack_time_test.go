package app

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// TestSlackPlaceholderComesAtOnce measures from the event to the placeholder. The
// aim is 50 ms; the bound leaves room for a machine that does other things.
func TestSlackPlaceholderComesAtOnce(t *testing.T) {
	const chats, bound = 18, time.Second // fewer than all chats together may get at once
	h := newSlackHouse(t)
	posted := make(chan time.Time, 100*chats)
	h.slack.Fault(func(method string, _ url.Values) slacktest.Fault {
		if method == "chat.postMessage" {
			posted <- time.Now()
		}
		return slacktest.Fault{}
	})
	h.serve(func(*server) {
		var took []time.Duration
		for i := range chats {
			id := fmt.Sprintf("D9%02d", i)
			h.slack.AddChannel(id, "U1")
			began := time.Now()
			h.slack.Say(id, slacktest.Message{User: "U1", Text: "hello"})
			select {
			case at := <-posted:
				took = append(took, at.Sub(began))
			case <-time.After(20 * time.Second):
				t.Fatal("no placeholder")
			}
			h.own(id, 1)
		}
		slices.Sort(took)
		t.Logf("event to placeholder: median %v, worst %v", took[len(took)/2], took[len(took)-1])
		if took[len(took)/2] > bound {
			t.Errorf("median %v, want at most %v", took[len(took)/2], bound)
		}
	})
}
