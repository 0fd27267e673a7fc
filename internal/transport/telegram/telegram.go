// Package telegram is the way in and out over the Bot API of Telegram.
//
// What people write comes in through a poll loop of its own: an update is
// confirmed only when [transport.Inbox] has it on disk, and the loop waits for
// no turn and no download. One chat is served, the one that claimed the bot with
// a token that was printed where the operator reads; in a group, those who are
// named. What Iris says is drawn as HTML through the tree of its Markdown, so
// that it is well formed, and sent by package delivery, which calls the
// [transport.Platform] that a Telegram is.
//
// The package owns the claim and the offset, in files under the workspace's
// state. Who answers, and when what is sent, is decided elsewhere. Follow one
// message: poll → dispatch → courier.take → submit.
package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-telegram/bot"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
)

// DefaultAPI is where Telegram's own Bot API is.
const DefaultAPI = "https://api.telegram.org"

// Options are the settings of a Telegram. Token and Dir are required; Inbox and
// Say are, too, for Serve.
type Options struct {
	Token secret.Value
	// API is the server, without a slash at its end: DefaultAPI.
	API string
	// Dir is where the claim and the offset lie; it is made.
	Dir   string
	Inbox transport.Inbox
	// Say sends the line that answers a command. It must not block.
	Say func(transport.Place, string) error
	// Print shows the operator how to claim the bot. nil: the log says that it
	// is not claimed.
	Print func(text string)
	// Members are the ids of the people who are served in a group beside the
	// one who claimed the bot there.
	Members []int64
	// Reclaim forgets the claim at the start of Serve.
	Reclaim bool
	// Claimed is called at the start, and whenever it changes, with the chat
	// that is served; zero: none. nil: nobody wants to know.
	Claimed func(chat.Address)
	// Store keeps a file that somebody sent; stem is what it may be called by.
	// nil: files are named as missing.
	Store func(ctx context.Context, conv chat.Address, stem, name string, r io.Reader) (chat.File, error)
	// Guest reports whether somebody is served in a chat beside the claimed one: a
	// participant of a room in its group, and on their own private line. nil: nobody.
	Guest func(conv chat.Address, user string) bool
	// Question finds the question whose id begins with a prefix. nil: the prefix
	// is the id.
	Question func(conv chat.Address, prefix string) string

	// PollTime is how long one question for updates stays open: 5 s, short
	// enough that a connection which is dead without a word is noticed.
	PollTime time.Duration
	// Late is the age from which a message is marked as late: 2 min. MaxAge is
	// the age from which it is not acted on any more; people are told: 24 h.
	Late, MaxAge time.Duration
	// DownloadTime bounds the download of one message's files: 30 s. Downloads
	// is how many run at the same time: 4.
	DownloadTime time.Duration
	Downloads    int
	// Stale is how long there may be no answer to the poll before Ready says
	// so: 1 min, and half of it when another process holds the token.
	Stale time.Duration

	HTTP   *http.Client     // nil: one of its own
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.DiscardHandler
}

// A Telegram is one bot. It is safe for concurrent use.
type Telegram struct {
	// Fixed by New.
	opts   Options
	api    *bot.Bot
	client *http.Client
	claims *claims
	log    *slog.Logger
	slots  chan struct{} // one per download

	// mu guards the fields below. It is held over nothing that blocks.
	mu     sync.Mutex
	me     identity
	polled time.Time // the last answer to the poll
	// polledOnce says that there was one since Serve began.
	polledOnce bool
	trouble    error
	serving    bool
	queues     map[chat.Address]*queue
	moved      map[string]string // chats that have got another id
	hinted     map[int64]time.Time
	handling   window
	saved      int64 // the offset on disk
	tasks      sync.WaitGroup
}

// identity is who the bot is.
type identity struct {
	id       int64
	username string
}

// New checks opts. It starts nothing: call Serve.
func New(opts Options) (*Telegram, error) {
	switch {
	case opts.Token.IsZero():
		return nil, errors.New("telegram: a token is required")
	case opts.Dir == "":
		return nil, errors.New("telegram: a directory is required")
	}
	setDefault(&opts.API, DefaultAPI)
	opts.API = strings.TrimRight(opts.API, "/")
	if u, err := url.Parse(opts.API); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("telegram: %q is no address of a Bot API server", opts.API)
	}
	setDefault(&opts.PollTime, 5*time.Second)
	setDefault(&opts.Late, 2*time.Minute)
	setDefault(&opts.MaxAge, 24*time.Hour)
	setDefault(&opts.DownloadTime, 30*time.Second)
	setDefault(&opts.Downloads, 4)
	setDefault(&opts.Stale, time.Minute)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Claimed == nil {
		opts.Claimed = func(chat.Address) {}
	}
	if opts.Question == nil {
		opts.Question = func(_ chat.Address, prefix string) string { return prefix }
	}
	t := &Telegram{
		opts: opts, log: opts.Logger.With("platform", "telegram"), slots: make(chan struct{}, opts.Downloads),
		queues: map[chat.Address]*queue{}, moved: map[string]string{}, hinted: map[int64]time.Time{},
		trouble: errors.New("starting"),
	}
	t.claims = &claims{file: filepath.Join(opts.Dir, "owner.json"), now: opts.Now}
	return t, t.connect()
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Name implements transport.Transport and transport.Platform.
func (t *Telegram) Name() string { return "telegram" }

// Ready returns nil when messages flow. It goes by the last poll that was
// answered and not by how often one failed.
func (t *Telegram) Ready() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.serving {
		return t.trouble
	}
	if !t.polledOnce {
		return t.trouble
	}
	silent := t.opts.Now().Sub(t.polled)
	limit := t.opts.Stale
	if errors.Is(t.trouble, errConflict) {
		limit /= 2
	}
	switch {
	case silent < limit:
		return nil
	case t.trouble == nil:
		return fmt.Errorf("no answer to a poll for %s", silent.Round(time.Second))
	}
	return fmt.Errorf("no answer to a poll for %s: %w", silent.Round(time.Second), t.trouble)
}

// say answers a person in a chat. A line that cannot be said is logged.
func (t *Telegram) say(conv chat.Address, text string) {
	if err := t.opts.Say(transport.Place{Chat: conv.ID, Thread: conv.Thread}, text); err != nil {
		t.log.Warn("a line is not said", "conversation", conv, "err", err)
	}
}

// whoami asks Telegram who the bot is, until it says so.
func (t *Telegram) whoami(ctx context.Context) (identity, error) {
	for n := 0; ; n++ {
		ask, cancel := context.WithTimeout(ctx, callTime)
		u, err := t.api.GetMe(ask)
		cancel()
		if err == nil {
			return identity{u.ID, u.Username}, nil
		}
		if ctx.Err() != nil {
			return identity{}, ctx.Err()
		}
		t.failed(fault(err))
		if err := sleep(ctx, pause(n, fault(err))); err != nil {
			return identity{}, err
		}
	}
}

// Serve implements transport.Transport: it takes what people say until ctx ends.
// A bot that cannot be reached is tried again; Ready says so meanwhile.
func (t *Telegram) Serve(ctx context.Context, ready func()) error {
	if t.opts.Inbox == nil || t.opts.Say == nil {
		return errors.New("telegram: an inbox and a way to say something are required")
	}
	t.mu.Lock()
	t.polledOnce, t.serving, t.trouble = false, true, errors.New("starting")
	t.handling.reset()
	t.mu.Unlock()
	defer func() {
		t.tasks.Wait()
		t.client.CloseIdleConnections()
		t.mu.Lock()
		t.serving, t.trouble = false, errors.New("stopped")
		t.mu.Unlock()
	}()
	me, err := t.whoami(ctx)
	if err != nil {
		return nil // ctx has ended
	}
	t.mu.Lock()
	t.me = me
	t.mu.Unlock()
	if err := t.openClaim(me); err != nil {
		return err
	}
	t.announceCommands(ctx)
	return t.poll(ctx, ready)
}

// CheckResult is what Check has found.
type CheckResult struct {
	ID       int64
	Username string
	// Webhook is an address that gets the messages instead of Iris; "": none.
	Webhook string
	// Pending is how many updates wait.
	Pending int
	// Owner is the chat that is served; 0: none. OwnerName is who claimed it.
	Owner     int64
	OwnerName string
}

// Check asks Telegram whether the token is good and nothing is in the way. It
// may be called while another process serves.
func (t *Telegram) Check(ctx context.Context) (CheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	u, err := t.api.GetMe(ctx)
	if err != nil {
		return CheckResult{}, fault(err)
	}
	info, err := t.api.GetWebhookInfo(ctx)
	if err != nil {
		return CheckResult{}, fault(err)
	}
	owner, err := t.claims.read()
	if err != nil {
		return CheckResult{}, err
	}
	r := CheckResult{ID: u.ID, Username: u.Username, Webhook: info.URL, Pending: int(info.PendingUpdateCount)}
	if owner.Claimed && owner.BotID == u.ID {
		r.Owner, r.OwnerName = owner.ChatID, owner.OwnerName
	}
	return r, nil
}

// Close lets go of idle connections. It ends nothing that runs.
func (t *Telegram) Close() { t.client.CloseIdleConnections() }

// address is the conversation of a chat.
func address(chatID int64, topic int) chat.Address {
	a := chat.Address{Space: chat.Telegram, ID: strconv.FormatInt(chatID, 10)}
	if topic != 0 {
		a.Thread = strconv.Itoa(topic)
	}
	return a
}
