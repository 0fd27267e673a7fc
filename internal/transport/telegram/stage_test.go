package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

var (
	ann = telegramtest.User{ID: 7, FirstName: "Ann", Username: "ann"}
	bob = telegramtest.User{ID: 8, FirstName: "Bob"}
)

// An inbox keeps what it is given.
type inbox struct {
	mu      sync.Mutex
	all     []transport.Submission
	seen    map[string]bool
	answers []transport.Answer
	submit  func(transport.Submission) error // nil: taken
	answer  func(transport.Answer) error
	reply   string
}

func (b *inbox) Submit(ctx context.Context, s transport.Submission) (transport.Receipt, error) {
	b.mu.Lock()
	refuse := b.submit
	b.mu.Unlock()
	if refuse != nil {
		if err := refuse(s); err != nil {
			return transport.Receipt{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := s.Address.Channel() + ":" + s.Message.ID
	if b.seen[key] {
		return transport.Receipt{Outcome: transport.Accepted, Duplicate: true}, nil
	}
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	b.seen[key] = true
	b.all = append(b.all, s)
	r := transport.Receipt{Outcome: transport.Accepted}
	r.Reply.Text = b.reply
	return r, nil
}

func (b *inbox) Command(context.Context, transport.Command) (transport.Reply, error) {
	return transport.Reply{}, errors.New("not used")
}

func (b *inbox) Answer(_ context.Context, a transport.Answer) (transport.Reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, a)
	if b.answer != nil {
		return transport.Reply{}, b.answer(a)
	}
	return transport.Reply{}, nil
}

func (b *inbox) Watch(context.Context, chat.Address, int64) iter.Seq2[transport.Seen, error] {
	return func(func(transport.Seen, error) bool) {}
}

func (b *inbox) texts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, s := range b.all {
		out = append(out, s.Message.Text)
	}
	return out
}

func (b *inbox) last() transport.Submission {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return transport.Submission{}
	}
	return b.all[len(b.all)-1]
}

func (b *inbox) n() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// A stage is a server with a bot that is served.
type stage struct {
	*testing.T
	server *telegramtest.Server
	inbox  *inbox
	tg     *Telegram
	dir    string

	mu      sync.Mutex
	printed []string
	claimed []chat.Address
	stored  []string
	stop    func()
}

// set up makes a bot; serve starts it.
func setUp(t *testing.T, change func(*Options)) *stage {
	t.Helper()
	s := &stage{T: t, server: telegramtest.New(telegramtest.Options{Gap: -1}), inbox: &inbox{}, dir: t.TempDir()}
	t.Cleanup(s.server.Close)
	s.make(change)
	return s
}

func (s *stage) make(change func(*Options)) {
	s.Helper()
	opts := Options{
		Token: secret.New(s.server.Token()), API: s.server.URL(), Dir: s.dir, Inbox: s.inbox, PollTime: time.Second,
		Say: func(p transport.Place, text string) error {
			go func() {
				_, _ = s.tg.Post(context.Background(), p, transport.Outgoing{Body: render(transport.View{Text: text})[0]})
			}()
			return nil
		},
		Print:   func(text string) { s.mu.Lock(); defer s.mu.Unlock(); s.printed = append(s.printed, text) },
		Claimed: func(a chat.Address) { s.mu.Lock(); defer s.mu.Unlock(); s.claimed = append(s.claimed, a) },
		Store: func(_ context.Context, conv chat.Address, stem, name string, r io.Reader) (chat.File, error) {
			data, err := io.ReadAll(r)
			if err != nil {
				return chat.File{}, err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stored = append(s.stored, fmt.Sprintf("%s/%s %s %d", conv, stem, name, len(data)))
			return chat.File{Original: name, Local: conv.Dir() + "/attachments/" + stem}, nil
		},
		Logger: slog.New(slog.NewTextHandler(s.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&opts)
	}
	tg, err := New(opts)
	if err != nil {
		s.Fatal(err)
	}
	s.tg = tg
	s.Cleanup(tg.Close)
}

// own makes a chat the owner's.
func (s *stage) own(c telegramtest.Chat, who telegramtest.User) {
	s.Helper()
	_, err := s.tg.claims.change(func(o *Owner) error {
		*o = Owner{Claimed: true, ChatID: c.ID, OwnerID: who.ID, OwnerName: who.FirstName, BotID: 42}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// serve starts the bot and returns when it is ready. It ends with the test, or
// with stop.
func (s *stage) serve() {
	s.Helper()
	ready := make(chan struct{})
	s.begin(func() { close(ready) })
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		s.Fatal("not ready within 20 s")
	}
}

func (s *stage) begin(ready func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.tg.Serve(ctx, ready) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				s.Errorf("Serve = %v", err)
			}
		})
	}
	s.Cleanup(s.stop)
}

// until polls, because what is waited for happens behind a socket.
func (s *stage) until(what string, f func() bool) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within 20 s: %s", what)
		}
	}
}

// said reports whether the bot says something in a chat.
func (s *stage) said(chatID int64, words string) func() bool {
	return func() bool {
		for _, m := range s.server.Messages(chatID) {
			if strings.Contains(m.Text, words) {
				return true
			}
		}
		return false
	}
}
