package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/transport"
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

// cut runs the server until f returns and then ends it as fast as it can: open
// turns stay open, and what is on its way is not waited for.
func (r *telegramRig) cut(f func()) {
	r.Helper()
	opts := r.options(&page{})
	ln, err := listen(r.Context(), "127.0.0.1", 0, "IRIS_API_PORT")
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	now, ended := make(chan struct{}), make(chan error, 1)
	up := make(chan struct{})
	opts.listener, opts.Now, opts.started = ln, now, func(*server) { close(up) }
	go func() { ended <- Serve(ctx, opts) }()
	select {
	case <-up:
		f()
	case err := <-ended:
		r.Fatalf("Serve = %v", err)
	}
	close(now)
	cancel()
	if err := <-ended; err != nil {
		r.Errorf("Serve = %v", err)
	}
}

// TestTelegramChaos runs seeded worlds: answers that are lost after the effect,
// storms of 429, an outage, and a process that is cut off in the middle. Every
// message gets one outcome in its chat, and what may be a repeat says so (F1).
func TestTelegramChaos(t *testing.T) {
	// Worlds wait most of the time: eight of them share a processor.
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for seed := range uint64(chaosRuns) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(fmt.Sprint(seed), func(t *testing.T) { telegramChaos(t, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
	all.Wait()
}

func telegramChaos(t *testing.T, rng *rand.Rand) {
	const messages = 3
	r := newTelegramRig(t)
	ann := telegramtest.User{ID: 7, FirstName: "Ann"}
	r.own(7, 7)
	var mu sync.Mutex
	calm := false
	outage := time.Now().Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
	r.api.Always(func(method, chat string) *telegramtest.Break {
		mu.Lock()
		defer mu.Unlock()
		if calm {
			return nil
		}
		if d := time.Since(outage); d > 0 && d < time.Second {
			return &telegramtest.Break{How: telegramtest.RST}
		}
		switch n := rng.IntN(100); {
		case n < 12:
			return &telegramtest.Break{How: telegramtest.EOF, Applied: true}
		case n < 17 && method != "getMe":
			return &telegramtest.Break{Status: 429, After: 1}
		case n < 22:
			return &telegramtest.Break{Status: 502, Body: "<html>Bad Gateway</html>"}
		case n < 25:
			return &telegramtest.Break{How: telegramtest.Half}
		}
		return nil
	})
	say := func(k int) { r.api.Say(telegramtest.Private(ann), ann, fmt.Sprintf("run `echo out-$((%d+1))`", 100+k)) }
	say(0)
	r.cut(func() {
		say(1)
		mu.Lock()
		pause := time.Duration(rng.IntN(2500)) * time.Millisecond
		mu.Unlock()
		time.Sleep(pause) // the moment of the cut is the seed's
	})
	say(2)
	r.serve(func(*server, *page) {
		time.AfterFunc(3*time.Second, func() { mu.Lock(); calm = true; mu.Unlock() })
		deadline := time.Now().Add(90 * time.Second)
		for {
			missing := 0
			for k := range messages {
				if !outcome(r.api.Messages(7), k) {
					missing++
				}
			}
			if missing == 0 && r.api.Open() == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%d messages without an outcome, %d updates open", missing, r.api.Open())
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	for k := range messages {
		first, repeats := 0, 0
		for _, m := range r.api.Messages(7) {
			switch {
			case !outcome([]telegramtest.Message{m}, k):
			case strings.Contains(m.Text, transport.RepeatLabel):
				repeats++
			default:
				first++
			}
		}
		if first > 1 || first+repeats == 0 {
			t.Errorf("message %d has %d outcomes and %d labelled repeats", k, first, repeats)
		}
	}
	if t.Failed() {
		for _, m := range r.api.Messages(7) {
			t.Logf("%d: %q", m.ID, m.Text)
		}
	}
}

// outcome reports whether one of the messages is how the kth command went. One
// that was running at the cut is told as interrupted, and not run again.
func outcome(all []telegramtest.Message, k int) bool {
	for _, m := range all {
		for _, how := range []string{"says:", "did not work:"} {
			if strings.Contains(m.Text, fmt.Sprintf("echo out-$((%d+1)) %s", 100+k, how)) {
				return true
			}
		}
	}
	return false
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
