package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
	"github.com/iris-operator/iris/internal/turn"
)

func content(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// A desk is a courier that delivers what is in a journal to a Slack.
type desk struct {
	*testing.T
	slack   *slacktest.Server
	main    *deliverytest.Disk
	courier *delivery.Courier

	mu        sync.Mutex
	delivered int
}

func newDesk(t *testing.T, so slacktest.Options) *desk {
	d := &desk{T: t, slack: slacktest.New(so), main: deliverytest.NewDisk()}
	t.Cleanup(d.slack.Close)
	d.slack.AddChannel("D1", "U1")
	s, err := New(Options{AppToken: secret.New(slacktest.AppToken), BotToken: secret.New(slacktest.BotToken), API: d.slack.URL(), State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	d.courier, err = delivery.NewCourier(delivery.CourierOptions{Platform: s, Journal: d.main, Outbox: deliverytest.NewDisk(), Grace: time.Second,
		Open: func(local string) (io.ReadCloser, int64, error) {
			r, err := content(local)()
			return r, int64(len(local)), err
		},
		Hooks: delivery.CourierHooks{Delivered: func(string, time.Duration) { d.mu.Lock(); d.delivered++; d.mu.Unlock() }}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- d.courier.Serve(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
		s.http.CloseIdleConnections()
	})
	<-ready
	return d
}

func (d *desk) write(rec turn.Record) {
	d.Helper()
	data, err := json.Marshal(rec)
	if err == nil {
		_, err = d.main.Append(context.Background(), "D1", journal.Any, journal.Entry{Data: data})
	}
	if err != nil {
		d.Fatal(err)
	}
}

func (d *desk) begin() turn.ID {
	id := turn.NewID()
	d.write(turn.Record{Turn: id, Accepted: &turn.Accepted{Origin: turn.FromChat, Runner: "native", Message: chat.Message{ID: string(id), Text: "hi"}}})
	d.write(turn.Record{Turn: id, Begun: &turn.Begun{Attempt: 1}})
	return id
}

func (d *desk) event(id turn.ID, ev turn.Event) {
	ev.Turn = id
	d.write(turn.Record{Turn: id, Event: &ev})
}

func (d *desk) arrived() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.delivered
}

func (d *desk) until(what string, ok func() bool) {
	d.Helper()
	for end := time.Now().Add(time.Minute); !ok(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(end) {
			d.Fatalf("not within a minute: %s; %+v", what, d.slack.Own("D1"))
		}
	}
}

// TestALostAnswerIsOneMessageOnSlack is F7: Slack takes the message and the socket
// breaks before the answer. It is read back and not sent again, and a file
// likewise.
func TestALostAnswerIsOneMessageOnSlack(t *testing.T) {
	d := newDesk(t, slacktest.Options{})
	var mu sync.Mutex
	lost := map[string]bool{}
	d.slack.Fault(func(method string, _ url.Values) slacktest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if lost[method] || method != "chat.postMessage" && method != "chat.update" && method != "files.completeUploadExternal" {
			return slacktest.Fault{}
		}
		lost[method] = true
		return slacktest.Fault{Lose: true}
	})
	id := d.begin()
	d.event(id, turn.Event{Kind: turn.FileOut, Local: "a.txt", Filename: "a.txt"})
	d.event(id, turn.Event{Kind: turn.Final, Text: "done"})
	d.until("everything delivered", func() bool { return d.arrived() == 2 && d.courier.Open() == 0 })
	own := d.slack.Own("D1")
	files, texts := 0, 0
	for _, m := range own {
		if files += len(m.Files); len(m.Files) == 0 && m.Text == "done" {
			texts++
		}
	}
	if len(own) != 2 || files != 1 || texts != 1 {
		t.Errorf("%d messages, %d files, %d replies: %+v", len(own), files, texts, own)
	}
	if len(lost) != 3 && len(lost) != 2 { // the reply replaces its placeholder, or not
		t.Errorf("lost the answers of %v", lost)
	}
}

// TestABrokenSocketIsNoDelivery is F14: nothing counts as delivered that Slack
// gave no id, and it stays open until it has one.
func TestABrokenSocketIsNoDelivery(t *testing.T) {
	d := newDesk(t, slacktest.Options{})
	d.slack.Fault(func(string, url.Values) slacktest.Fault { return slacktest.Fault{Cut: true} })
	id := d.begin()
	d.event(id, turn.Event{Kind: turn.Final, Text: "done"})
	d.until("some tries", func() bool { return len(d.slack.Calls()) >= 3 })
	if d.courier.Open() != 1 || d.arrived() != 0 || len(d.slack.Own("D1")) != 0 {
		t.Errorf("open %d, delivered %d, shown %v", d.courier.Open(), d.arrived(), d.slack.Own("D1"))
	}
	d.slack.Fault(nil)
	d.until("the delivery", func() bool { return d.arrived() == 1 && d.courier.Open() == 0 })
	if own := d.slack.Own("D1"); d.arrived() != 1 || len(own) != 1 || own[0].Text != "done" {
		t.Errorf("delivered %d, shown %+v", d.arrived(), own)
	}
	d.slack.Close()
	s, err := New(Options{AppToken: secret.New(slacktest.AppToken), BotToken: secret.New(slacktest.BotToken), API: d.slack.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := s.Post(t.Context(), transport.Place{Chat: "D1"}, transport.Outgoing{Body: transport.Body{Text: "x"}}); err == nil || id != "" {
		t.Errorf("a message to nobody: %q, %v", id, err)
	}
}

// TestTenThousandTicksOnSlack is F19: a channel that takes a call a second, and
// bans for longer every time, gets none inside a wait, and the reply comes.
func TestTenThousandTicksOnSlack(t *testing.T) {
	d := newDesk(t, slacktest.Options{Gap: time.Second, Burst: 3})
	var mu sync.Mutex
	var until time.Time
	inside := 0
	d.slack.Fault(func(method string, _ url.Values) slacktest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			inside++
		}
		if method == "chat.update" && until.IsZero() {
			until = time.Now().Add(2 * time.Second)
			return slacktest.Fault{RetryAfter: 2 * time.Second}
		}
		return slacktest.Fault{}
	})
	id := d.begin()
	for i := range 10_000 {
		d.event(id, turn.Event{Kind: turn.Status, Label: fmt.Sprintf("tick %d", i)})
	}
	d.until("a wait", func() bool { mu.Lock(); defer mu.Unlock(); return !until.IsZero() })
	d.event(id, turn.Event{Kind: turn.Final, Text: "done"})
	d.until("the reply", func() bool { return d.arrived() == 1 && d.courier.Open() == 0 })
	if own := d.slack.Own("D1"); len(own) != 1 || own[0].Text != "done" {
		t.Errorf("shown %+v", own)
	}
	mu.Lock()
	defer mu.Unlock()
	if w := d.slack.Wrong(); inside > 0 || len(w) > 0 {
		t.Errorf("%d calls inside the wait, %v", inside, w)
	}
}
