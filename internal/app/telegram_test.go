package app

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// A page takes what a person would read.
type page struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

// A telegramRig is a workspace with a bot, served any number of times.
type telegramRig struct {
	*testing.T
	api       *telegramtest.Server
	dir, home string
	environ   []string
}

func newTelegramRig(t *testing.T, more ...string) *telegramRig {
	r := &telegramRig{T: t, api: telegramtest.New(telegramtest.Options{}), dir: t.TempDir(), home: t.TempDir()}
	t.Cleanup(r.api.Close)
	r.environ = append([]string{"HOME=" + r.home, "IRIS_WORKSPACE=" + r.dir, "IRIS_API_TOKEN=t", "PATH=/usr/bin:/bin",
		"TELEGRAM_BOT_TOKEN=" + r.api.Token(), "IRIS_TELEGRAM_API_URL=" + r.api.URL(), "IRIS_STATUS_SECS=1"}, more...)
	return r
}

func (r *telegramRig) options(out *page) Options {
	cfg, _, err := config.Load(config.Source{Environ: r.environ, Dir: r.dir, Home: r.home})
	if err != nil {
		r.Fatal(err)
	}
	return Options{Config: cfg, Out: out, Err: r.Output(), Environ: r.environ}
}

// serve runs the server while f does.
func (r *telegramRig) serve(f func(s *server, out *page)) {
	r.Helper()
	out := &page{}
	opts := r.options(out)
	ln, err := listen(r.Context(), "127.0.0.1", 0, "IRIS_API_PORT")
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	up, ended := make(chan *server, 1), make(chan error, 1)
	opts.listener, opts.started = ln, func(s *server) { up <- s }
	go func() { ended <- Serve(ctx, opts) }()
	select {
	case s := <-up:
		f(s, out)
	case err := <-ended:
		if strings.Contains(err.Error(), "in use by another iris serve") && r.Context().Err() == nil {
			// Of many servers in one process, a child that one has just forked
			// may hold the lock of another for a moment.
			r.serve(f)
			return
		}
		r.Fatalf("Serve = %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		r.Errorf("Serve = %v", err)
	}
}

func (r *telegramRig) says(chatID int64, word string) func() bool {
	return func() bool {
		for _, m := range r.api.Messages(chatID) {
			if strings.Contains(m.Text, word) {
				return true
			}
		}
		return false
	}
}

func ready(s *server) (int, string) {
	rec := httptest.NewRecorder()
	s.gate.ServeHTTP(rec, httptest.NewRequest("GET", "/readyz", nil))
	return rec.Code, rec.Body.String()
}

// TestTelegramFromClaimToReply has a whole server with a bot: it is claimed with
// the printed token, answers its owner and nobody else, and is the operator's
// place from then on.
func TestTelegramFromClaimToReply(t *testing.T) {
	r := newTelegramRig(t)
	ann, eve := telegramtest.User{ID: 7, FirstName: "Ann"}, telegramtest.User{ID: 9, FirstName: "Eve"}
	home, other := telegramtest.Private(ann), telegramtest.Private(eve)
	r.serve(func(s *server, out *page) {
		until(t, "the invitation", func() bool { return strings.Contains(out.String(), "https://t.me/iris_bot?start=") })
		token := regexp.MustCompile(`/start ([0-9a-f]{64})`).FindStringSubmatch(out.String())
		if token == nil {
			t.Fatalf("no token in:\n%s", out)
		}
		until(t, "ready", func() bool { code, _ := ready(s); return code == http.StatusOK })
		r.api.Say(home, ann, "/start "+token[1])
		until(t, "the claim", r.says(7, "Bot claimed"))
		if got := s.house.desk.Operator(); got != (chat.Address{Space: chat.Telegram, ID: "7"}) {
			t.Errorf("the operator reads in %v", got)
		}
		r.api.Say(other, eve, "let me in")
		r.api.Say(home, ann, "hello there")
		until(t, "a reply", func() bool { return len(r.api.Messages(7)) == 2 && !r.says(7, "Thinking")() })
		r.api.Say(home, ann, "/help@iris_bot")
		until(t, "a command's line", r.says(7, "ends the running turn"))
		s.house.desk.Tell(t.Context(), "something for the operator")
		until(t, "the notice", r.says(7, "something for the operator"))
	})
	if n := len(r.api.Messages(9)); n != 0 {
		t.Errorf("a stranger got %d messages", n)
	}
	log, err := os.ReadFile(filepath.Join(r.dir, "telegram", "tg-7", "log.jsonl"))
	if err != nil || !strings.Contains(string(log), "hello there") || strings.Contains(string(log), "let me in") {
		t.Errorf("log.jsonl: %v\n%s", err, log)
	}
	out := &page{}
	if err := CheckTelegram(t.Context(), r.options(out)); err != nil || !strings.Contains(out.String(), "It serves chat 7, claimed by Ann.") {
		t.Errorf("CheckTelegram = %v, %s", err, out)
	}
	if err := ClaimTelegram(t.Context(), r.options(out), false); err == nil || !strings.Contains(err.Error(), "claimed by Ann") {
		t.Errorf("ClaimTelegram of a claimed bot = %v", err)
	}
	for _, w := range r.api.Wrong() {
		t.Error(w)
	}
}
