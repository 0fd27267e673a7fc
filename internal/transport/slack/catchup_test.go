package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// ids are the messages of a channel in the order they were submitted.
func (b *inbox) ids(channel string) (all []string) {
	for _, s := range b.all() {
		if s.Address.ID == channel {
			all = append(all, s.Message.ID)
		}
	}
	return all
}

// TestWhatIsSaidNowComesAfterTheBacklog: nothing that is said after the connection
// overtakes what was said before, and no channel waits for another's history.
func TestWhatIsSaidNowComesAfterTheBacklog(t *testing.T) {
	state := t.TempDir()
	with := func(o *Options) { o.State = state }
	c := set(t, slacktest.Options{}, with)
	c.end()
	var want []string
	for i := range 3 {
		want = append(want, c.slack.Put("D1", slacktest.Message{User: "U1", Text: fmt.Sprint("before ", i)}).TS)
	}
	hold := make(chan struct{})
	c.slack.Fault(func(method string, form url.Values) slacktest.Fault {
		if method == "conversations.history" && form.Get("channel") == "D1" {
			<-hold
		}
		return slacktest.Fault{}
	})
	c.begin(with)
	for i := range 3 {
		m, _ := c.slack.Say("D1", slacktest.Message{User: "U1", Text: fmt.Sprint("now ", i)})
		want = append(want, m.TS)
	}
	other := c.say("C1", slacktest.Message{User: "U2", Text: "in another channel"})
	if got := c.box.ids("C1"); len(got) != 1 || got[0] != other.TS {
		t.Errorf("the other channel has %v", got)
	}
	if got := c.box.ids("D1"); len(got) != 0 {
		t.Errorf("submitted before the history was read: %v", got)
	}
	close(hold)
	c.until("all messages", func() bool { return len(c.box.ids("D1")) == len(want) })
	if got := c.box.ids("D1"); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("submitted as %v, want %v", got, want)
	}
	c.until("everything acknowledged", func() bool { return c.slack.Unacked() == 0 })
}

// TestABrokenHistoryHoldsNobodyUp: what is said now goes on when the history is
// refused, and is retried when it is out for a moment.
func TestABrokenHistoryHoldsNobodyUp(t *testing.T) {
	for name, fault := range map[string]slacktest.Fault{"refused": {Error: "channel_not_found"}, "out": {Status: 503}} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			with := func(o *Options) { o.State = state }
			c := set(t, slacktest.Options{}, with)
			c.end()
			c.slack.Fault(first("conversations.history", fault))
			c.begin(with)
			m := c.say("D1", slacktest.Message{User: "U1", Text: "hello"})
			if got := c.box.ids("D1"); len(got) != 1 || got[0] != m.TS {
				t.Errorf("submitted %v", got)
			}
		})
	}
}

// TestAnUploadCutOffIsFound: a file whose answer was lost is found by another
// process, so that it is not sent again; one that was never shown is not found.
func TestAnUploadCutOffIsFound(t *testing.T) {
	server := slacktest.New(slacktest.Options{})
	defer server.Close()
	server.AddChannel("C1", "general")
	state := t.TempDir()
	open := func() *Slack {
		s, err := New(Options{AppToken: secret.New(slacktest.AppToken), BotToken: secret.New(slacktest.BotToken), API: server.URL(), State: state})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.http.CloseIdleConnections)
		return s
	}
	place := transport.Place{Chat: "C1"}
	send := func(s *Slack, part string, f slacktest.Fault) error {
		server.Fault(first("files.completeUploadExternal", f))
		_, err := s.Upload(t.Context(), place, transport.Upload{Name: "a.txt", Size: 3, Open: content("abc"), Mark: transport.Mark{Turn: "t1", Part: part}})
		return err
	}
	s, began := open(), time.Now()
	if err := send(s, "file.1/1", slacktest.Fault{Lose: true}); err == nil || !transport.AsSendError(err).Maybe {
		t.Fatalf("a lost answer: %v", err)
	}
	if err := send(s, "file.2/1", slacktest.Fault{Cut: true}); err == nil || !transport.AsSendError(err).Maybe {
		t.Fatalf("a cut before the effect: %v", err)
	}
	s = open() // the process after the crash
	find := func(part string) (string, error) {
		return s.Find(context.Background(), place, transport.Mark{Turn: "t1", Part: part}, began)
	}
	if id, err := find("file.1/1"); err != nil || id == "" {
		t.Errorf("what is there: %q, %v", id, err)
	}
	for _, part := range []string{"file.2/1", "file.3/1"} {
		if id, err := find(part); !errors.Is(err, transport.ErrNotThere) {
			t.Errorf("%s, which is not there: %q, %v", part, id, err)
		}
	}
	if n := len(server.Own("C1")); n != 1 {
		t.Errorf("%d files are shown", n)
	}
}
