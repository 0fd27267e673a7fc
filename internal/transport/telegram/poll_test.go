package telegram

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// served is a bot of ann's that is running.
func served(t *testing.T, change func(*Options)) *stage {
	s := setUp(t, change)
	s.own(telegramtest.Private(ann), ann)
	s.serve()
	return s
}

// TestBrokenPolls breaks the poll in twenty ways; traffic resumes within ten
// seconds of each (F15).
func TestBrokenPolls(t *testing.T) {
	page := "<html><head><title>502 Bad Gateway</title></head></html>"
	for name, b := range map[string]telegramtest.Break{
		"eof": {How: telegramtest.EOF}, "rst": {How: telegramtest.RST}, "half a body": {How: telegramtest.Half},
		"half a header": {How: telegramtest.HalfHead}, "hang": {How: telegramtest.Hang}, "hang in the body": {How: telegramtest.HangBody},
		"garbage": {How: telegramtest.Garbage}, "trickle": {How: telegramtest.Trickle}, "less than promised": {How: telegramtest.BadLength},
		"eof after the effect": {How: telegramtest.EOF, Applied: true},
		"502":                  {Status: http.StatusBadGateway, Body: page}, "200 with a page": {Body: page}, "503 and nothing": {Status: http.StatusServiceUnavailable},
		"500 in JSON":  {Status: 500, Body: `{"ok":false,"error_code":500,"description":"Internal Server Error"}`},
		"504 in JSON":  {Status: 504, Body: `{"ok":false,"error_code":504,"description":"Gateway Timeout"}`},
		"not a list":   {Body: `{"ok":true,"result":{"x":1}}`},
		"null":         {Body: `null`},
		"an odd entry": {Body: `{"ok":true,"result":["x",{"update_id":"no"}]}`},
		"429":          {Status: http.StatusTooManyRequests, After: 1},
		"409":          {Status: http.StatusConflict, Body: `{"ok":false,"error_code":409,"description":"Conflict: terminated by other getUpdates request"}`},
		"a redirect":   {Status: http.StatusFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := served(t, func(o *Options) { o.PollTime = 2 * time.Second })
			s.server.Next("getUpdates", b)
			s.server.Say(telegramtest.Private(ann), ann, "one") // ends the poll that is open
			begin := time.Now()
			s.server.Say(telegramtest.Private(ann), ann, "two")
			s.until("both messages", func() bool { return s.inbox.n() == 2 })
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("traffic resumed after %v", took)
			}
			if got := s.inbox.texts(); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("came as %q", got)
			}
		})
	}
}

// TestConflictIsToldApart: a second poller makes readiness red with a sentence
// that names the cure, and a limit does with another (F16).
func TestConflictIsToldApart(t *testing.T) {
	s := served(t, func(o *Options) { o.Stale = 600 * time.Millisecond })
	if err := s.tg.Ready(); err != nil {
		t.Fatalf("Ready = %v", err)
	}
	for kind, c := range map[string]struct {
		b    telegramtest.Break
		want string
	}{
		"conflict": {telegramtest.Break{Status: 409, Body: `{"ok":false,"error_code":409,"description":"Conflict: terminated by other getUpdates request"}`}, "409: another process"},
		"limit":    {telegramtest.Break{Status: 429, After: 1}, "Too Many Requests"},
	} {
		s.server.Always(func(method, _ string) *telegramtest.Break {
			if method == "getUpdates" {
				return &c.b
			}
			return nil
		})
		s.until(kind, func() bool { err := s.tg.Ready(); return err != nil && strings.Contains(err.Error(), c.want) })
	}
	s.server.Always(nil)
	s.until("ready again", func() bool { return s.tg.Ready() == nil })
}

// TestTwoPollersOneYields has two processes with one token: what is said still
// arrives, at one of them, and one of them says why it gets nothing.
func TestTwoPollersOneYields(t *testing.T) {
	s := served(t, func(o *Options) { o.Stale = 2 * time.Second })
	other := &stage{T: t, server: s.server, inbox: &inbox{}, dir: t.TempDir()}
	other.make(func(o *Options) { o.Stale = 2 * time.Second })
	other.own(telegramtest.Private(ann), ann)
	other.begin(func() {})
	s.until("one of them is red", func() bool {
		for _, x := range []*stage{s, other} {
			if err := x.tg.Ready(); errors.Is(err, errConflict) {
				return true
			}
		}
		return false
	})
	s.server.Say(telegramtest.Private(ann), ann, "anybody?")
	s.until("the message", func() bool { return s.inbox.n()+other.inbox.n() > 0 })
}

// TestWrongTokenAndWebhook are said in words.
func TestWrongTokenAndWebhook(t *testing.T) {
	s := served(t, nil)
	s.server.SetWebhook()
	s.server.Say(telegramtest.Private(ann), ann, "past the webhook")
	s.server.Say(telegramtest.Private(ann), ann, "again")
	s.until("the messages", func() bool { return s.inbox.n() == 2 })
	s.stop()
	wrong := telegramtest.New(telegramtest.Options{Token: "43:OTHER"})
	defer wrong.Close()
	s.make(func(o *Options) { o.API = wrong.URL() })
	s.begin(func() { t.Error("ready with a wrong token") })
	s.until("the reason", func() bool {
		err := s.tg.Ready()
		return err != nil && strings.Contains(err.Error(), string(transport.Unauthorized))
	})
}

// TestOffsetAfterTheMessageIsOnDisk: an update is confirmed when Submit has
// returned and not before, and what was cut off comes again (F2, F4).
func TestOffsetAfterTheMessageIsOnDisk(t *testing.T) {
	s := setUp(t, nil)
	s.own(telegramtest.Private(ann), ann)
	broken := errors.New("the disk is full")
	s.inbox.submit = func(x transport.Submission) error {
		if x.Message.Text == "two" {
			return broken
		}
		return nil
	}
	for _, text := range []string{"one", "two", "three"} {
		s.server.Say(telegramtest.Private(ann), ann, text)
	}
	s.serve()
	s.until("the first is confirmed", func() bool { return s.server.Open() == 2 })
	s.stop()
	if got := s.inbox.texts(); !slices.Equal(got, []string{"one"}) || s.server.Open() != 2 {
		t.Fatalf("taken %q, %d open: a later message may not overtake", got, s.server.Open())
	}
	s.inbox.submit = nil
	s.make(nil)
	s.serve()
	s.until("all are confirmed", func() bool { return s.server.Open() == 0 })
	s.server.Repeat()
	if got := s.inbox.texts(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("taken %q", got)
	}
}

// TestBacklogIsAnsweredByAge: what waited is taken, marked as late, more of it
// than a queue holds; what is too old is answered with a line; nothing is dropped
// (F4).
func TestBacklogIsAnsweredByAge(t *testing.T) {
	s := setUp(t, nil)
	s.own(telegramtest.Private(ann), ann)
	room := make(chan struct{}, 100)
	for range 5 {
		room <- struct{}{}
	}
	s.inbox.submit = func(transport.Submission) error {
		select {
		case <-room:
			return nil
		default:
			return transport.ErrBusy
		}
	}
	put := func(text string, age time.Duration) {
		s.server.Put(telegramtest.Message{Chat: telegramtest.Private(ann), From: &ann, Text: text, Date: time.Now().Add(-age).Unix()})
	}
	put("ancient", 30*time.Hour)
	for i := range 8 {
		put(fmt.Sprintf("late %d", i), 3*time.Hour)
	}
	s.serve()
	s.until("five are taken", func() bool { return s.inbox.n() == 5 })
	for range 50 {
		room <- struct{}{}
	}
	s.until("all are taken", func() bool { return s.inbox.n() == 8 && s.server.Open() == 0 })
	s.until("the old one is answered", s.said(ann.ID, "too old to be acted on"))
	if got := s.inbox.last().Message; !strings.HasPrefix(got.Prompt, "[This message was sent at ") || got.Text != "late 7" {
		t.Errorf("a late message is %+v", got)
	}
	// What comes now is refused at once when the queue is full.
	for len(room) > 0 {
		<-room
	}
	put("now", 0)
	s.until("the refusal", s.said(ann.ID, "Too many messages queued. Please wait."))
	s.until("it is confirmed", func() bool { return s.server.Open() == 0 })
}

// TestStopIsHeardWhateverRuns: neither a download nor a submission that hangs
// keeps the loop from a stop (spec §16 #26).
func TestStopIsHeardWhateverRuns(t *testing.T) {
	hang := make(chan struct{})
	s := setUp(t, nil)
	s.own(telegramtest.Private(ann), ann)
	s.inbox.submit = func(x transport.Submission) error {
		if x.Message.Text == "hangs" {
			<-hang
		}
		return nil
	}
	s.inbox.reply = "_Stopping..._"
	s.serve()
	t.Cleanup(func() { close(hang) }) // before the bot is stopped
	s.server.Next("download", telegramtest.Break{How: telegramtest.Hang})
	s.server.AddFile("f1", []byte("x"))
	s.server.Put(telegramtest.Message{Chat: telegramtest.Private(ann), From: &ann, Caption: "with a file", Document: &telegramtest.File{FileID: "f1", FileName: "a.txt"}})
	s.server.Say(telegramtest.Private(ann), ann, "hangs")
	s.server.Say(telegramtest.Private(ann), ann, "/stop@iris_bot")
	s.until("the stop", func() bool { return slices.Contains(s.inbox.texts(), "/stop") })
	s.until("its line", s.said(ann.ID, "Stopping..."))
	if n := s.inbox.n(); n != 1 {
		t.Errorf("%d messages taken, want the stop alone", n)
	}
	if s.server.Open() != 3 {
		t.Errorf("%d updates open, want 3: the first is not on disk", s.server.Open())
	}
}

// TestRefusalsAreNotSuccess: success is the platform's own answer (F14).
func TestRefusalsAreNotSuccess(t *testing.T) {
	s := setUp(t, nil)
	place := transport.Place{Chat: "7"}
	for name, c := range map[string]struct {
		b     telegramtest.Break
		fault transport.Fault
		maybe bool
	}{
		"closed":         {telegramtest.Break{How: telegramtest.EOF}, transport.Unreachable, true},
		"a page":         {telegramtest.Break{Body: "<html>"}, transport.Unreachable, true},
		"blocked":        {telegramtest.Break{Status: 403, Body: `{"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}`}, transport.Gone, false},
		"unauthorized":   {telegramtest.Break{Status: 401, Body: `{"ok":false,"error_code":401,"description":"Unauthorized"}`}, transport.Unauthorized, false},
		"flood":          {telegramtest.Break{Status: 429, After: 33}, transport.Limited, false},
		"bad entities":   {telegramtest.Break{Status: 400, Body: `{"ok":false,"error_code":400,"description":"Bad Request: can't parse entities: x"}`}, transport.BadFormat, false},
		"too long":       {telegramtest.Break{Status: 400, Body: `{"ok":false,"error_code":400,"description":"Bad Request: message is too long"}`}, transport.TooLong, false},
		"something else": {telegramtest.Break{Status: 400, Body: `{"ok":false,"error_code":400,"description":"Bad Request: BUTTON_DATA_INVALID"}`}, transport.Refused, false},
		"the topic":      {telegramtest.Break{Status: 400, Body: `{"ok":false,"error_code":400,"description":"Bad Request: message thread not found"}`}, transport.Gone, false},
		"no server":      {telegramtest.Break{Status: 500, Body: `{"ok":false,"error_code":500,"description":"Internal"}`}, transport.Unreachable, true},
	} {
		t.Run(name, func(t *testing.T) {
			s.server.Next("sendMessage", c.b)
			id, err := s.tg.Post(t.Context(), place, transport.Outgoing{Body: transport.Body{Text: "x"}})
			var e *transport.SendError
			if id != "" || !errors.As(err, &e) || e.Fault != c.fault || e.Maybe != c.maybe {
				t.Errorf("Post = %q, %+v, want %s, maybe %v", id, err, c.fault, c.maybe)
			}
			if err != nil && strings.Contains(err.Error(), s.server.Token()) {
				t.Errorf("the error holds the token: %v", err)
			}
		})
	}
	s.server.Migrate(-5, -1005)
	if _, err := s.tg.Post(t.Context(), transport.Place{Chat: "-5"}, transport.Outgoing{Body: transport.Body{Text: "x"}}); err == nil {
		t.Error("Post to a group that has moved succeeds")
	}
	if _, err := s.tg.Post(t.Context(), transport.Place{Chat: "-5"}, transport.Outgoing{Body: transport.Body{Text: "x"}}); err != nil || len(s.server.Messages(-1005)) != 1 {
		t.Errorf("the next Post = %v, and %d messages there", err, len(s.server.Messages(-1005)))
	}
	s.tg.Close() // the connections that are open
	s.server.Close()
	_, err := s.tg.Post(t.Context(), place, transport.Outgoing{Body: transport.Body{Text: "x"}})
	if e := transport.AsSendError(err); e.Fault != transport.Unreachable || e.Maybe {
		t.Errorf("Post to nobody = %+v, want Unreachable, certainly not sent", err)
	}
}
