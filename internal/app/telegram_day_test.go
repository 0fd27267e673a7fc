package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// own makes a chat the bot's owner, as a claim would.
func (r *telegramRig) own(chatID, person int64) {
	r.Helper()
	dir := filepath.Join(r.dir, "state", "telegram")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.Fatal(err)
	}
	text := fmt.Sprintf(`{"claimed":true,"chatId":%d,"ownerId":%d,"ownerName":"Ann","botId":42}`, chatID, person)
	if err := os.WriteFile(filepath.Join(dir, "owner.json"), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// TestTelegramFlood: no call falls into a wait that Telegram asked for, and the
// replies come all the same (F19).
func TestTelegramFlood(t *testing.T) {
	r := newTelegramRig(t)
	ann := telegramtest.User{ID: 7, FirstName: "Ann"}
	r.own(7, 7)
	r.api.Next("sendMessage", telegramtest.Break{Status: 429, After: 2})
	r.serve(func(*server, *page) {
		for k := range 3 {
			r.api.Say(telegramtest.Private(ann), ann, fmt.Sprintf("run `echo out-$((%d+1))`", 100+k))
		}
		for k := range 3 {
			until(t, "a reply", r.says(7, fmt.Sprintf("out-%d", 101+k)))
		}
	})
	for _, w := range r.api.Wrong() {
		t.Error(w)
	}
}

// TestTelegramKeepsPeopleApart: what is said in one topic is in no request of
// another, and what a stranger says is nowhere (F42).
func TestTelegramKeepsPeopleApart(t *testing.T) {
	r := newTelegramRig(t, "IRIS_TELEGRAM_MEMBERS=8")
	ann, bob, eve := telegramtest.User{ID: 7, FirstName: "Ann"}, telegramtest.User{ID: 8, FirstName: "Bob"}, telegramtest.User{ID: 9, FirstName: "Eve"}
	group := telegramtest.Chat{ID: -100500, Type: "supergroup", Title: "Team", IsForum: true}
	r.own(group.ID, 7)
	in := func(topic int, who telegramtest.User, text string) {
		r.api.Put(telegramtest.Message{Chat: group, From: &who, Text: text, Thread: topic, Topic: true})
	}
	replies := func(topic int) (n int) {
		for _, m := range r.api.Messages(group.ID) {
			if m.Thread == topic && !strings.Contains(m.Text, "...") {
				n++
			}
		}
		return n
	}
	r.serve(func(*server, *page) {
		in(1, ann, "remember: the canary sings at noon")
		in(1, eve, "eve was here")
		until(t, "a reply to Ann", func() bool { return replies(1) == 1 })
		in(2, bob, "what did Ann tell you about the canary at noon?")
		until(t, "a reply to Bob", func() bool { return replies(2) == 1 })
	})
	for name, want := range map[string]bool{"tg-n100500-1": true, "tg-n100500-2": false} {
		dir := filepath.Join(r.dir, "telegram", name)
		files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(data), "sings"); got != want {
				t.Errorf("%s holds the canary: %v, want %v", f, got, want)
			}
			if strings.Contains(string(data), "eve was here") {
				t.Errorf("%s holds what a stranger said", f)
			}
		}
	}
}

// TestTelegramPlaceholderIsQuick measures from the event to the placeholder. The
// bound is for a machine that does other things as well; with the tag soak it is the
// 50 ms that people get.
func TestTelegramPlaceholderIsQuick(t *testing.T) {
	r := newTelegramRig(t)
	ann := telegramtest.User{ID: 7, FirstName: "Ann"}
	r.own(7, 7)
	r.serve(func(s *server, _ *page) {
		until(t, "ready", func() bool { code, _ := ready(s); return code == 200 })
		var worst time.Duration
		for k := range quickMessages {
			before, begin := len(r.api.Calls()), time.Now()
			r.api.Say(telegramtest.Private(ann), ann, fmt.Sprintf("run `echo out-$((%d+1))`", 100+k))
			until(t, "the placeholder", func() bool {
				for _, c := range r.api.Calls()[before:] {
					if c.Method == "sendMessage" {
						worst = max(worst, c.At.Sub(begin))
						return true
					}
				}
				return false
			})
			until(t, "the reply", r.says(7, fmt.Sprintf("out-%d", 101+k)))
			if k+1 < quickMessages {
				time.Sleep(3 * time.Second) // the chat's own pace is not what is measured
			}
		}
		t.Logf("the slowest of %d placeholders came after %v", quickMessages, worst)
		if worst > quickBound {
			t.Errorf("the slowest placeholder came after %v, more than %v", worst, quickBound)
		}
	})
}
