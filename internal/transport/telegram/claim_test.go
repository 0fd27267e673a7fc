package telegram

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// token is the one that was printed last.
func (s *stage) token() string {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.printed) == 0 {
		s.Fatal("nothing was printed")
	}
	m := regexp.MustCompile(`/start ([0-9a-f]{64})`).FindStringSubmatch(s.printed[len(s.printed)-1])
	if m == nil {
		s.Fatalf("no token in %q", s.printed)
	}
	return m[1]
}

// TestClaim holds what is said to a bot that belongs to nobody.
func TestClaim(t *testing.T) {
	s := setUp(t, nil)
	s.serve()
	token := s.token()
	if !strings.Contains(s.printed[0], "https://t.me/iris_bot?start="+token) || !strings.Contains(s.printed[0], "█") {
		t.Errorf("printed without a link or a QR code: %q", s.printed[0])
	}
	s.server.Say(telegramtest.Private(bob), bob, "hello")
	s.until("a hint", s.said(bob.ID, "not claimed yet"))
	s.server.Say(telegramtest.Private(bob), telegramtest.User{ID: 3, IsBot: true, FirstName: "B"}, token)
	s.server.Say(telegramtest.Private(bob), bob, "/start@other_bot "+token)
	s.server.Say(telegramtest.Private(ann), ann, strings.Repeat("0", 64))
	s.until("a refusal", s.said(ann.ID, "not the one"))
	s.server.Say(telegramtest.Private(ann), ann, "/start@Iris_Bot "+token)
	s.until("the claim", s.said(ann.ID, "Bot claimed"))
	s.server.Say(telegramtest.Private(bob), bob, token)
	s.server.Say(telegramtest.Private(ann), ann, "hi")
	s.until("a message", func() bool { return s.inbox.n() == 1 })
	if got := s.inbox.last(); got.Address != (chat.Address{Space: chat.Telegram, ID: "7"}) || !got.Proven || !got.Direct || got.Message.From.ID != "7" {
		t.Errorf("submitted %+v", got)
	}
	if n := len(s.server.Messages(bob.ID)); n != 1 {
		t.Errorf("a stranger got %d messages, want the hint", n)
	}
	s.stop()
	if info, err := os.Stat(filepath.Join(s.dir, "owner.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("owner.json: %v, %v", info, err)
	}
	// The claim outlives a restart, but not another bot, nor the wish to reclaim.
	s.make(nil)
	s.serve()
	if last := s.claimed[len(s.claimed)-1]; last.ID != "7" {
		t.Errorf("after a restart the owner is %v", last)
	}
	s.stop()
	s.make(func(o *Options) { o.Reclaim = true })
	s.serve()
	if again := s.token(); again == token {
		t.Error("a cleared claim has the old token")
	}
	s.stop()
	s.own(telegramtest.Private(ann), ann)
	if _, err := s.tg.claims.change(func(o *Owner) error { o.BotID = 43; return nil }); err != nil {
		t.Fatal(err)
	}
	s.make(nil)
	s.serve()
	if o, err := s.tg.claims.read(); err != nil || o.Claimed || o.BotID != 42 {
		t.Errorf("with another bot the claim is %+v, %v", o, err)
	}
}

// TestExpiredToken gets a new one.
func TestExpiredToken(t *testing.T) {
	s := setUp(t, nil)
	s.serve()
	token := s.token()
	if _, err := s.tg.claims.change(func(o *Owner) error { o.Expires = time.Now().Add(-time.Minute); return nil }); err != nil {
		t.Fatal(err)
	}
	s.server.Say(telegramtest.Private(ann), ann, token)
	s.until("the refusal", s.said(ann.ID, "❌ Token expired"))
	s.server.Say(telegramtest.Private(ann), ann, s.token())
	s.until("the claim", s.said(ann.ID, "✅ Bot claimed"))
	if text, err := s.tg.Invite(t.Context(), false); err == nil {
		t.Errorf("Invite of a claimed bot = %q", text)
	}
	if text, err := s.tg.Invite(t.Context(), true); err != nil || !strings.Contains(text, "/start ") {
		t.Errorf("Invite = %q, %v", text, err)
	}
	if r, err := s.tg.Check(t.Context()); err != nil || r.Username != "iris_bot" || r.Owner != 0 {
		t.Errorf("Check = %+v, %v", r, err)
	}
}

// TestGroup: a group claim says whom it serves, and others are ignored, also when
// they click.
func TestGroup(t *testing.T) {
	s := setUp(t, func(o *Options) { o.Members = []int64{8} })
	s.serve()
	group := telegramtest.Chat{ID: -100500, Type: "supergroup", Title: "Team", IsForum: true}
	eve := telegramtest.User{ID: 9, FirstName: "Eve"}
	s.server.Say(group, ann, "/start@iris_bot "+s.token())
	s.until("the claim", s.said(group.ID, "I serve Ann here, and the members whose ids are configured: 8"))
	s.server.Say(group, eve, "do something")
	s.server.Say(telegramtest.Private(ann), ann, "in private")
	s.server.Say(group, bob, "from bob")
	s.server.Put(telegramtest.Message{Chat: group, From: &ann, Text: "in a topic", Thread: 5, Topic: true})
	s.server.Put(telegramtest.Message{Chat: group, From: &ann, Text: "in a thread of replies", Thread: 77})
	s.server.Say(group, ann, "/stop@another_bot")
	s.until("three messages", func() bool { return s.inbox.n() == 3 })
	got := map[string]string{}
	for _, x := range s.inbox.all {
		got[x.Message.Text] = x.Address.Channel()
	}
	want := map[string]string{"from bob": "tg-n100500", "in a topic": "tg-n100500-5", "in a thread of replies": "tg-n100500"}
	for text, conv := range want {
		if got[text] != conv {
			t.Errorf("%q went to %q, want %q", text, got[text], conv)
		}
	}
	click := s.server.Click(group.ID, 11, eve, "yabc")
	s.until("an answer to the click", func() bool { _, ok := s.server.Answered(click); return ok })
	if text, _ := s.server.Answered(click); !strings.Contains(text, "not among those") || len(s.inbox.answers) != 0 {
		t.Errorf("a stranger's click: %q, %v", text, s.inbox.answers)
	}
	// The group becomes a supergroup with another id.
	s.server.Put(telegramtest.Message{Chat: group, From: &ann, Migrate: -100777})
	moved := group
	moved.ID = -100777
	s.until("the new id", func() bool { o, err := s.tg.claims.read(); return err == nil && o.ChatID == -100777 })
	s.server.Say(moved, ann, "hi again")
	s.until("a message there", func() bool { return s.inbox.last().Address.ID == "-100777" })
}

// TestCorruptOwnerIsRefused and stays as it is.
func TestCorruptOwnerIsRefused(t *testing.T) {
	s := setUp(t, nil)
	file := filepath.Join(s.dir, "owner.json")
	if err := os.WriteFile(file, []byte(`{"claimed":tr`), 0o600); err != nil {
		t.Fatal(err)
	}
	err := s.tg.Serve(t.Context(), func() {})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Serve = %v, want an error that names the file", err)
	}
	if data, rerr := os.ReadFile(file); rerr != nil || string(data) != `{"claimed":tr` {
		t.Errorf("the file says %q now (%v)", data, rerr)
	}
	if s.tg.Ready() == nil || errors.Is(err, os.ErrNotExist) {
		t.Error("ready all the same")
	}
}
