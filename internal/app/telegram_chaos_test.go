package app_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// TestTelegramChaos runs seeded worlds: answers that are lost after the effect,
// connections that hang, updates that come twice, storms of 429, half an hour of
// outage, and kill -9 in the middle of any call. Every message gets one outcome in
// its chat, in order, what may be a repeat says so, and so does what is late (F1).
func TestTelegramChaos(t *testing.T) {
	worlds(t, func(t *testing.T, seed uint64) { newTelegramWorld(t, seed).live() })
}

type telegramWorld struct {
	*testing.T
	*fuse
	r     *rand.Rand
	api   *telegramtest.Server
	ago   atomic.Int64 // how long ago people write, in minutes
	p     *place
	asked []bool // whether the kth was asked in the outage
}

var ann = telegramtest.User{ID: 7, FirstName: "Ann"}

func newTelegramWorld(t *testing.T, seed uint64) *telegramWorld {
	w := &telegramWorld{T: t, fuse: newFuse(seed, 3), r: rand.New(rand.NewPCG(9, seed))}
	w.api = telegramtest.New(telegramtest.Options{Now: func() time.Time { return time.Now().Add(-time.Duration(w.ago.Load()) * time.Minute) }})
	t.Cleanup(w.api.Close)
	w.p = newPlace(t, "TELEGRAM_BOT_TOKEN="+w.api.Token(), "IRIS_TELEGRAM_API_URL="+w.api.URL(), "IRIS_STATUS_SECS=1")
	dir := filepath.Join(w.p.workspace, "state", "telegram")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "owner.json"), []byte(`{"claimed":true,"chatId":7,"ownerId":7,"ownerName":"Ann","botId":42}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.api.Always(w.weather)
	return w
}

// weather decides about one call.
func (w *telegramWorld) weather(method, _ string) *telegramtest.Break {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.burns() {
		return &telegramtest.Break{How: telegramtest.RST, Applied: w.rnd.IntN(2) == 0}
	}
	if w.calm {
		return nil
	}
	if time.Now().Before(w.storm) && method != "getMe" {
		return &telegramtest.Break{Status: 429, After: 1}
	}
	switch n := w.rnd.IntN(100); {
	case n < 12:
		return &telegramtest.Break{How: telegramtest.EOF, Applied: true}
	case n < 16 && method != "getMe":
		return &telegramtest.Break{Status: 429, After: 1}
	case n < 18 && method != "getMe":
		w.storm = time.Now().Add(2 * time.Second)
		return &telegramtest.Break{Status: 429, After: 1}
	case n < 22:
		return &telegramtest.Break{Status: 502, Body: "<html>Bad Gateway</html>"}
	case n < 25:
		return &telegramtest.Break{How: telegramtest.Half}
	}
	return nil
}

// ask has Ann write.
func (w *telegramWorld) ask() {
	w.api.Say(telegramtest.Private(ann), ann, command(len(w.asked)))
	w.asked = append(w.asked, w.ago.Load() > 0)
	if w.r.IntN(4) == 0 {
		w.api.Repeat()
	}
}

// live runs the world to its end.
func (w *telegramWorld) live() {
	w.ask()
	for range 1 + w.r.IntN(2) {
		burnt := w.light(25)
		s := w.p.start()
		w.ask()
		select {
		case <-burnt:
		case <-s.exited:
			w.Fatalf("the server ended by itself: %v\n%s", s.err, s.stderr)
		}
		s.kill()
	}
	if w.r.IntN(2) == 0 { // half an hour in which nobody was there
		w.ago.Store(30)
		w.ask()
		w.ago.Store(0)
	}
	w.ask()
	burnt := w.light(20)
	s := w.p.start()
	within(w.T, time.Minute, s, "enough calls", func() bool {
		select {
		case <-burnt:
			return true
		default:
			return w.missing() == 0
		}
	})
	w.clear()
	within(w.T, 2*time.Minute, s, "an outcome for everybody", func() bool { return w.missing() == 0 && w.api.Open() == 0 })
	s.stop()
	w.check()
}

// answers reports that a message is the outcome of the kth.
func (w *telegramWorld) answers(m telegramtest.Message, k int) bool {
	if m.From == nil || !m.From.IsBot || strings.HasSuffix(m.Text, " ...") {
		return false
	}
	if w.asked[k] { // there is one, and its text came with a remark about its age
		return strings.Contains(m.Text, "Late: this answers")
	}
	return tells(m.Text, k)
}

func (w *telegramWorld) missing() (n int) {
	for k := range w.asked {
		found := false
		for _, m := range w.api.Messages(7) {
			found = found || w.answers(m, k)
		}
		if !found {
			n++
		}
	}
	return n
}

func (w *telegramWorld) check() {
	last := -1
	for k := range w.asked {
		first, repeats, at := 0, 0, -1
		for i, m := range w.api.Messages(7) {
			if !w.answers(m, k) {
				continue
			}
			if at < 0 {
				at = i
			}
			if strings.Contains(m.Text, transport.RepeatLabel) {
				repeats++
			} else {
				first++
			}
		}
		if first > 1 || first+repeats == 0 {
			w.Errorf("message %d has %d outcomes and %d labelled repeats", k, first, repeats)
		}
		if at < last {
			w.Errorf("message %d is answered before the one before it", k)
		}
		last = at
	}
	for _, wrong := range w.api.Wrong() {
		w.Error(wrong)
	}
	if w.Failed() {
		for _, m := range w.api.Messages(7) {
			w.Logf("%d: %q", m.ID, m.Text)
		}
	}
}
