package app_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// TestSlackChaos has a whole server on bad days, by seed: acknowledgements and
// answers lost, sockets cut and half open, events twice and in the wrong order,
// storms of 429, half an hour of outage, and kill -9 in the middle of any call.
// Every message that is for Iris gets exactly one visible outcome, in its thread,
// in order; what comes late says so.
func TestSlackChaos(t *testing.T) {
	worlds(t, func(t *testing.T, seed uint64) { newSlackWorld(t, seed).live() })
}

type slackWorld struct {
	*testing.T
	*fuse
	r     *rand.Rand
	slack *slacktest.Server
	p     *place
	asked []slackAsked
}

// slackAsked is something that wants an outcome.
type slackAsked struct {
	channel string
	m       slacktest.Message
	k       int  // of the command, in D1
	swapped bool // it came in the wrong order
	late    bool
}

func newSlackWorld(t *testing.T, seed uint64) *slackWorld {
	w := &slackWorld{T: t, fuse: newFuse(seed, 8), r: rand.New(rand.NewPCG(7, seed)),
		slack: slacktest.New(slacktest.Options{AckWait: 500 * time.Millisecond})}
	t.Cleanup(w.slack.Close)
	w.slack.AddUser("U1", "ann", "Ann Lee")
	for id, name := range map[string]string{"C1": "general", "C2": "other", "D1": "U1"} {
		w.slack.AddChannel(id, name)
	}
	w.p = newPlace(t, "IRIS_SLACK_APP_TOKEN="+slacktest.AppToken, "IRIS_SLACK_BOT_TOKEN="+slacktest.BotToken, "IRIS_SLACK_API_URL="+w.slack.URL(), "IRIS_STATUS_SECS=1")
	meta := filepath.Join(w.p.workspace, "meta")
	err := os.MkdirAll(meta, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(meta, "channels.json"), []byte(`{"C1":{"mode":"interactive-thread"},"C2":{"mode":"interactive-thread"}}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.slack.Fault(w.weather)
	return w
}

// weather decides about one call.
func (w *slackWorld) weather(method string, _ url.Values) slacktest.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.burns() {
		return slacktest.Fault{Lose: w.rnd.IntN(2) == 0, Cut: w.rnd.IntN(3) == 0}
	}
	n := w.rnd.IntN(100)
	talks := strings.HasPrefix(method, "chat.")
	switch {
	case w.calm:
	case talks && time.Now().Before(w.storm):
		return slacktest.Fault{RetryAfter: time.Second}
	case talks && n < 8:
		return slacktest.Fault{Lose: true}
	case talks && n < 12:
		return slacktest.Fault{Cut: true}
	case talks && n < 16:
		return slacktest.Fault{RetryAfter: time.Second}
	case talks && n < 18:
		w.storm = time.Now().Add(2 * time.Second)
		return slacktest.Fault{RetryAfter: time.Second}
	case talks && n < 22, n < 5:
		return slacktest.Fault{Status: 503}
	case !talks && n < 9:
		return slacktest.Fault{RetryAfter: time.Second}
	case !talks && n < 40:
		return slacktest.Fault{Takes: time.Duration(w.rnd.IntN(300)) * time.Millisecond}
	}
	return slacktest.Fault{}
}

// ask has somebody write, with or without an event of it.
func (w *slackWorld) ask(channel string, silent bool, at time.Time) {
	k := len(w.asked)
	if channel == "D1" && w.direct() >= 6 {
		return // a conversation takes no more at once
	}
	m := slacktest.Message{User: "U1", Text: command(k)}
	if !at.IsZero() {
		m.TS = slacktest.Stamp(at.UnixMicro())
	}
	a := slackAsked{channel: channel, m: w.slack.Put(channel, m), k: k, late: !at.IsZero()}
	w.asked = append(w.asked, a)
	if silent {
		return
	}
	ids := w.slack.Tell(channel, a.m)
	switch w.r.IntN(12) {
	case 0, 1:
		w.slack.LoseAcks(ids[0], 1+w.r.IntN(2))
	case 2, 3:
		w.slack.Tell(channel, a.m) // twice
	case 4:
		w.slack.Cut()
	case 5:
		w.slack.Disconnect("refresh_requested")
	case 6:
		w.slack.Freeze()
	}
}

func (w *slackWorld) direct() (n int) {
	for _, a := range w.asked {
		if a.channel == "D1" {
			n++
		}
	}
	return n
}

// swap has two messages whose events come in the wrong order.
func (w *slackWorld) swap() {
	if w.direct() > 4 {
		return
	}
	w.ask("D1", true, time.Time{})
	w.ask("D1", true, time.Time{})
	n := len(w.asked)
	for i := n - 1; i >= n-2; i-- {
		w.asked[i].swapped = true
		w.slack.Tell("D1", w.asked[i].m)
	}
}

// outage is half an hour without Iris in which people wrote.
func (w *slackWorld) outage() {
	now := time.Now()
	file := filepath.Join(w.p.workspace, "state", "slack", "marks.json")
	var marks map[string]any
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return // it was never connected: there is nothing to come back to
	}
	if err == nil {
		err = json.Unmarshal(data, &marks)
	}
	if err != nil {
		w.Fatal(err)
	}
	marks["alive"] = now.Add(-30 * time.Minute)
	if data, err = json.Marshal(marks); err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
	for _, ago := range []int{29, 6 + w.r.IntN(20)} {
		w.ask("C2", true, now.Add(-time.Duration(ago)*time.Minute))
	}
}

// say has people talk to a server, from the moment it is connected or before.
func (w *slackWorld) say(s *server, quick bool) {
	if !quick {
		within(w.T, 2*time.Minute, s, "a connection", func() bool { n, _ := w.slack.Conns(); return n > 0 })
	}
	if w.r.IntN(5) == 0 {
		w.swap()
	} else {
		w.ask("D1", false, time.Time{})
		w.ask("D1", false, time.Time{})
	}
	for range 1 + w.r.IntN(2) {
		w.ask("C1", false, time.Time{})
	}
}

// live runs the world to its end.
func (w *slackWorld) live() {
	for life := range 1 + w.r.IntN(2) {
		burnt := w.light(60)
		s := w.p.start()
		if early := w.r.IntN(4) == 0; early || life == 0 {
			w.say(s, early)
		} else {
			w.ask("D1", false, time.Time{})
		}
		select {
		case <-burnt:
		case <-s.exited:
			w.Fatalf("the server ended by itself: %v\n%s", s.err, s.stderr)
		case <-w.done():
		}
		s.kill()
		// What is said while nobody is there comes with the history.
		if _, err := os.Stat(filepath.Join(w.p.workspace, "state", "slack", "marks.json")); err == nil {
			w.ask("D1", true, time.Time{})
		}
	}
	if w.r.IntN(2) == 0 {
		w.outage()
	}
	burnt := w.light(30)
	s := w.p.start()
	w.say(s, false)
	select {
	case <-burnt:
	case <-w.done():
	}
	w.clear()
	within(w.T, 2*time.Minute, s, "an outcome for everybody", func() bool {
		for _, a := range w.asked {
			if n, _, _ := w.outcomes(a); n == 0 {
				return false
			}
		}
		return true
	})
	within(w.T, 2*time.Minute, s, "no placeholder", func() bool {
		for _, c := range []string{"C1", "C2", "D1"} {
			for _, m := range w.slack.Own(c) {
				if waits(m.Text) {
					return false
				}
			}
		}
		return true
	})
	s.stop()
	w.check()
}

// done is closed when all have their outcome, or after a while.
func (w *slackWorld) done() <-chan struct{} {
	over := make(chan struct{})
	asked := append([]slackAsked(nil), w.asked...)
	go func() {
		defer close(over)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
			open := false
			for _, a := range asked {
				n, _, _ := w.outcomes(a)
				open = open || n == 0
			}
			if !open {
				return
			}
		}
	}()
	w.Cleanup(func() { <-over })
	return over
}

func waits(text string) bool { return strings.HasSuffix(text, " ...") }

// outcomes counts what people see as the answer to a message, says where the
// first is, and its text.
func (w *slackWorld) outcomes(a slackAsked) (n, at int, text string) {
	for i, m := range w.slack.Own(a.channel) {
		if waits(m.Text) || a.channel != "D1" && m.ThreadTS != a.m.TS || a.channel == "D1" && !tells(m.Text, a.k) {
			continue
		}
		if n++; n == 1 {
			at, text = i, m.Text
		}
	}
	return n, at, text
}

func (w *slackWorld) check() {
	last, have := -1, map[string]int{}
	for _, a := range w.asked {
		have[a.channel]++
		n, at, text := w.outcomes(a)
		if n != 1 {
			w.Errorf("%s %q (%s) has %d outcomes", a.channel, a.m.Text, a.m.TS, n)
		}
		if late := strings.Contains(text, "Late: this answers"); late != a.late {
			w.Errorf("%s %q is labelled as late: %v, want %v: %q", a.channel, a.m.Text, late, a.late, text)
		}
		if strings.Contains(text, strings.Trim(transport.RepeatLabel, "()")) {
			w.Errorf("%q is labelled as a repeat, where it could be read back", text)
		}
		if a.channel == "D1" && !a.swapped {
			if at < last {
				w.Errorf("%q is answered before the one before it", a.m.Text)
			}
			last = at
		}
	}
	for c, want := range have {
		if n := len(w.slack.Own(c)); n != want {
			w.Errorf("%d messages for %d questions in %s", n, want, c)
		}
	}
	for _, wrong := range w.slack.Wrong() {
		w.Error(wrong)
	}
	if w.Failed() {
		for c := range have {
			for _, m := range w.slack.Messages(c) {
				w.Logf("%s %s in %q: %q", c, m.TS, m.ThreadTS, m.Text)
			}
		}
	}
}
