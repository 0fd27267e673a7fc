package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// A slackHouse is a whole server with a Slack beside it.
type slackHouse struct {
	*testing.T
	dir, home string
	slack     *slacktest.Server
	env       []string
}

func newSlackHouse(t *testing.T, env ...string) *slackHouse {
	s := &slackHouse{T: t, dir: t.TempDir(), home: t.TempDir(), slack: slacktest.New(slacktest.Options{}), env: env}
	t.Cleanup(s.slack.Close)
	s.slack.AddUser("U1", "ann", "Ann Lee")
	s.slack.AddUser("U2", "bob", "Bob Ray")
	s.slack.AddChannel("C1", "general")
	s.slack.AddChannel("D1", "U1")
	return s
}

// channels writes meta/channels.json.
func (h *slackHouse) channels(text string) {
	h.Helper()
	meta := filepath.Join(h.dir, "meta")
	if err := os.MkdirAll(meta, 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(meta, "channels.json"), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

// serve runs a server while f does.
func (h *slackHouse) serve(f func(s *server)) {
	h.Helper()
	environ := append([]string{"HOME=" + h.home, "IRIS_WORKSPACE=" + h.dir, "IRIS_API_TOKEN=t", "PATH=/usr/bin:/bin", "IRIS_PROVIDER=rehearsal",
		"IRIS_SLACK_APP_TOKEN=" + slacktest.AppToken, "IRIS_SLACK_BOT_TOKEN=" + slacktest.BotToken, "IRIS_SLACK_API_URL=" + h.slack.URL()}, h.env...)
	cfg, _, err := config.Load(config.Source{Environ: environ, Dir: h.dir, Home: h.home})
	if err != nil {
		h.Fatal(err)
	}
	ln, err := listen(h.Context(), "127.0.0.1", 0, "IRIS_API_PORT")
	if err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	up, ended := make(chan *server, 1), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Options{Config: cfg, Out: io.Discard, Err: h.Output(), Environ: environ, listener: ln, started: func(s *server) { up <- s }})
	}()
	select {
	case s := <-up:
		until(h.T, "Slack is ready", func() bool { return s.house.slack.Ready() == nil && s.house.posts[0].courier.Ready() == nil })
		f(s)
	case err := <-ended:
		h.Fatalf("Serve = %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		h.Errorf("Serve = %v", err)
	}
	if w := h.slack.Wrong(); len(w) > 0 {
		h.Error(w)
	}
}

// own waits until n messages of Iris in a channel are no placeholders.
func (h *slackHouse) own(channel string, n int) []slacktest.Message {
	h.Helper()
	var all []slacktest.Message
	until(h.T, "replies in "+channel, func() bool {
		all = h.slack.Own(channel)
		for _, m := range all {
			if strings.HasSuffix(m.Text, " ...") {
				return false
			}
		}
		return len(all) >= n
	})
	if len(all) != n {
		h.Errorf("%d messages in %s, want %d: %+v", len(all), channel, n, all)
	}
	return all
}

func at() string { return "<@" + slacktest.BotUser + "> " }

// TestSlackEndToEnd has people talk to a whole Iris: direct, in a channel, in a
// thread, by a word and by a button.
func TestSlackEndToEnd(t *testing.T) {
	h := newSlackHouse(t)
	h.serve(func(s *server) {
		began := time.Now()
		_, ids := h.slack.Say("D1", slacktest.Message{User: "U1", Text: "hello"})
		h.own("D1", 1)
		t.Logf("answered after %v", time.Since(began))
		if n, _ := h.slack.Acks(ids[0]); n != 1 {
			t.Errorf("%d acknowledgements", n)
		}
		root, _ := h.slack.Say("C1", slacktest.Message{User: "U1", Text: "nobody is asked"})
		h.slack.Say("C1", slacktest.Message{User: "U2", Text: at() + "what now?", ThreadTS: root.TS})
		if got := h.own("C1", 1)[0]; got.ThreadTS != root.TS {
			t.Errorf("the reply is in thread %q, want %q: %q", got.ThreadTS, root.TS, got.Text)
		}
		h.slack.Say("D1", slacktest.Message{User: "U1", Text: "stop"})
		if got := h.own("D1", 2)[1]; !strings.Contains(got.Text, "Nothing running") {
			t.Errorf("stop while idle says %q", got.Text)
		}
		until(t, "the directory", func() bool { return len(s.house.directory(chat.Address{Space: chat.Slack, ID: "C1"})) >= 5 })
		if got := s.house.directory(chat.Address{Space: chat.Telegram, ID: "1"}); got != nil {
			t.Errorf("the directory of Slack is told elsewhere: %v", got)
		}
	})
}

// TestSlackButtonsAndWordsAnswer is F35: who may not answer is refused by either,
// and the question stays open.
func TestSlackButtonsAndWordsAnswer(t *testing.T) {
	h := newSlackHouse(t, "IRIS_APPROVERS=U1")
	h.serve(func(s *server) {
		h.slack.Say("C1", slacktest.Message{User: "U2", Text: at() + "run `echo ran >> ~/counter; : $((echo x) | cat)`"})
		var ask slacktest.Message
		until(t, "a question with buttons", func() bool {
			for _, m := range h.slack.Own("C1") {
				if bytes.Contains(m.Blocks, []byte("iris_yes")) {
					ask = m
					return true
				}
			}
			return false
		})
		var blocks []struct {
			Elements []struct{ Value string }
		}
		if err := json.Unmarshal(ask.Blocks, &blocks); err != nil {
			t.Fatal(err)
		}
		id := blocks[len(blocks)-1].Elements[0].Value
		h.slack.Press("C1", "U2", ask, "iris_yes", id)
		until(t, "a refusal", func() bool { return len(h.slack.Ephemerals()) == 1 })
		h.slack.Say("C1", slacktest.Message{User: "U2", Text: at() + "yes"})
		until(t, "a refusal in words", func() bool {
			for _, m := range h.slack.Own("C1") {
				if strings.Contains(m.Text, "may not approve") {
					return true
				}
			}
			return false
		})
		if state, _ := s.house.approvals.State(id); string(state) != "pending" {
			t.Errorf("the question is %q", state)
		}
		h.slack.Press("C1", "U1", ask, "iris_no", id)
		var last string
		defer func() { t.Log(last) }()
		until(t, "the question says who decided", func() bool {
			for _, m := range h.slack.Own("C1") {
				if m.TS == ask.TS {
					last = fmt.Sprintf("%q with %s", m.Text, m.Blocks)
					return len(m.Blocks) == 0 && strings.Contains(m.Text, "Declined by ann")
				}
			}
			return false
		})
	})
}

// TestSlackThreadsAreSessions has a channel whose threads are conversations.
func TestSlackThreadsAreSessions(t *testing.T) {
	h := newSlackHouse(t)
	h.channels(`{"C1":{"mode":"interactive-thread"}}`)
	h.serve(func(s *server) {
		a, _ := h.slack.Say("C1", slacktest.Message{User: "U1", Text: "one"})
		b, _ := h.slack.Say("C1", slacktest.Message{User: "U2", Text: "two"})
		h.own("C1", 2)
		h.slack.Say("C1", slacktest.Message{User: "U2", Text: "more", ThreadTS: a.TS})
		in := map[string]int{}
		for _, m := range h.own("C1", 3) {
			in[m.ThreadTS]++
		}
		if in[a.TS] != 2 || in[b.TS] != 1 {
			t.Errorf("replies by thread: %v", in)
		}
		ses, err := s.house.sessions.FindByThread(t.Context(), "C1", a.TS)
		if err != nil || ses.Address() != chat.ThreadSession("C1", a.TS) {
			t.Errorf("the session of the thread: %+v, %v", ses, err)
		}
		log, err := os.ReadFile(filepath.Join(h.dir, "SESSION-"+ses.ID, "log.jsonl"))
		if err != nil || bytes.Count(log, []byte("\n")) != 4 {
			t.Errorf("its log: %s, %v", log, err)
		}
	})
}

// TestSlackPassthrough has a channel that is forwarded.
func TestSlackPassthrough(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]string
		if json.NewDecoder(r.Body).Decode(&in) != nil || in["text"] == "fail" || r.Header.Get("X-API-Key") != "k3" {
			w.WriteHeader(500)
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"response": "you said " + in["text"]})
	}))
	defer hook.Close()
	h := newSlackHouse(t, "PASSTHROUGH_API_KEY=k3")
	h.channels(`{"C1":{"mode":"passthrough","url":"` + hook.URL + `","replyPrefix":"bot: "}}`)
	h.serve(func(*server) {
		m, _ := h.slack.Say("C1", slacktest.Message{User: "U1", Text: "stop"})
		got := h.own("C1", 1)[0]
		if got.Text != "bot: you said stop" || got.ThreadTS != m.TS {
			t.Errorf("forwarded: %+v", got)
		}
		h.slack.Say("C1", slacktest.Message{User: "U1", Text: at() + "fail"})
		if got := h.own("C1", 2)[1]; !strings.Contains(got.Text, "Bot unavailable") {
			t.Errorf("a failure that was asked for: %q", got.Text)
		}
		h.slack.Say("C1", slacktest.Message{User: "U1", Text: "fail"})
		h.slack.Say("C1", slacktest.Message{User: "U1", Text: "after"})
		if got := h.own("C1", 3)[2]; !strings.Contains(got.Text, "said after") {
			t.Errorf("after a silent failure: %q", got.Text)
		}
	})
}

// TestSlackBacklogIsAnswered is F4: what was said while Iris was down gets an
// outcome, each once, also what is too old to be answered.
func TestSlackBacklogIsAnswered(t *testing.T) {
	h := newSlackHouse(t)
	h.serve(func(*server) {
		h.slack.Say("D1", slacktest.Message{User: "U1", Text: "hello"})
		h.own("D1", 1)
	})
	marks := filepath.Join(h.dir, "state", "slack", "marks.json")
	data, err := json.Marshal(map[string]any{"alive": time.Now().Add(-6 * time.Hour)})
	if err == nil {
		err = os.WriteFile(marks, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range 4 {
		h.slack.Put("D1", slacktest.Message{User: "U1", Text: "while you were away", TS: slacktest.Stamp(now.Add(-time.Hour).UnixMicro() + int64(i))})
	}
	old := h.slack.Put("D1", slacktest.Message{User: "U1", Text: "too old", TS: slacktest.Stamp(now.Add(-5 * time.Hour).UnixMicro())})
	h.slack.Put("C1", slacktest.Message{User: "U2", Text: at() + "in a channel", TS: slacktest.Stamp(now.Add(-time.Minute).UnixMicro())})
	h.serve(func(*server) {
		h.own("C1", 1)
		var said bool
		for _, m := range h.own("D1", 6) {
			said = said || m.ThreadTS == old.TS && strings.Contains(m.Text, "5 hours ago")
		}
		if !said {
			t.Error("nothing is said about what is too old")
		}
	})
	h.serve(func(*server) {
		h.slack.Say("D1", slacktest.Message{User: "U1", Text: "again"})
		h.own("D1", 7)
	})
}

// TestSlackFilesComeBeforeTheTurn has a turn wait for its file.
func TestSlackFilesComeBeforeTheTurn(t *testing.T) {
	h := newSlackHouse(t)
	h.serve(func(s *server) {
		f := h.slack.AddFile(slacktest.File{Name: "報告.txt", Content: []byte("the content")})
		h.slack.Say("D1", slacktest.Message{User: "U1", Subtype: "file_share", Text: "hello", Files: []slacktest.File{f}})
		h.own("D1", 1)
		found, err := filepath.Glob(filepath.Join(h.dir, "slack", "D1", "attachments", "*.txt"))
		if err != nil || len(found) != 1 {
			t.Fatalf("attachments %v, %v", found, err)
		}
		if data, err := os.ReadFile(found[0]); err != nil || string(data) != "the content" {
			t.Errorf("%q, %v", data, err)
		}
	})
}
