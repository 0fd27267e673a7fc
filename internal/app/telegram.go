package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/telegram"
)

// telegramSecret is the name of the bot's token among the secrets.
const telegramSecret = "TELEGRAM_BOT_TOKEN"

// telegram makes the bot; nil if there is no token.
func (s *server) telegram(h *house) (*platform, error) {
	opts, err := telegramOptions(s.opts, s.secrets)
	if err != nil || opts.Token.IsZero() {
		return nil, err
	}
	say := func(transport.Place, string) error { return errors.New("not started yet") }
	opts.Inbox = h.engine
	opts.Say = func(p transport.Place, text string) error { return say(p, text) }
	opts.Print = func(text string) { fmt.Fprint(s.opts.Out, text) }
	opts.Claimed = func(a chat.Address) { h.claimed.Store(&a) }
	opts.Store = func(ctx context.Context, conv chat.Address, stem, name string, r io.Reader) (chat.File, error) {
		return h.sessions.Receive(ctx, conv, stem, name, r, 0)
	}
	opts.Question = func(conv chat.Address, prefix string) string { return h.question(conv, prefix) }
	opts.Guest = h.guest
	opts.Logger = s.log
	bot, err := telegram.New(opts)
	if err != nil {
		return nil, err
	}
	return &platform{in: bot, out: bot, lines: func(f func(transport.Place, string) error) { say = f }}, nil
}

// telegramOptions are what the configuration says of the bot.
func telegramOptions(opts Options, secrets *secrets) (telegram.Options, error) {
	cfg := opts.Config.Telegram
	members, err := cfg.MemberIDs()
	if err != nil {
		return telegram.Options{}, err
	}
	token := cfg.Token
	if token.IsZero() {
		token, _ = secrets.lookup(telegramSecret)
	}
	return telegram.Options{
		Token: token, API: cfg.API, Dir: filepath.Join(opts.Config.Workspace, "state", "telegram"),
		Members: members, Reclaim: cfg.Reclaim, MaxAge: cfg.MaxAge.Duration(), DownloadTime: cfg.Download.Duration(),
	}, nil
}

// question is the id of the open question in a conversation that begins with a
// prefix, or the prefix if there is none: a button may not hold a whole id.
func (h *house) question(conv chat.Address, prefix string) string {
	for _, q := range h.approvals.List(conv) {
		if strings.HasPrefix(q.ID, prefix) {
			return q.ID
		}
	}
	return prefix
}

// owner is where the operator reads when nothing is configured.
func (h *house) owner() chat.Address {
	if a := h.claimed.Load(); a != nil {
		return *a
	}
	return chat.Address{}
}

// deskBot is a bot for the command line: it takes no messages.
func deskBot(opts Options) (*telegram.Telegram, error) {
	vault, err := openSecrets(opts.Config, newRedactor(opts.Config), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer vault.close()
	o, err := telegramOptions(opts, vault)
	if err != nil {
		return nil, err
	}
	if o.Token.IsZero() {
		return nil, errors.New("there is no token: set TELEGRAM_BOT_TOKEN, or put it into the secrets as TELEGRAM-BOT-TOKEN; @BotFather makes one")
	}
	return telegram.New(o)
}

// CheckTelegram says whether the bot's token is good, who the bot is and who is
// served.
func CheckTelegram(ctx context.Context, opts Options) error {
	bot, err := deskBot(opts)
	if err != nil {
		return err
	}
	defer bot.Close()
	r, err := bot.Check(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(opts.Out, "The token is good: it is that of @%s (%d).\n", r.Username, r.ID)
	if r.Webhook != "" {
		fmt.Fprintf(opts.Out, "A webhook gets its messages: %s\niris serve removes it.\n", r.Webhook)
	}
	fmt.Fprintf(opts.Out, "%d messages wait.\n", r.Pending)
	if r.Owner == 0 {
		_, err = fmt.Fprintln(opts.Out, "The bot is not claimed yet: iris telegram claim shows how.")
	} else {
		_, err = fmt.Fprintf(opts.Out, "It serves chat %d, claimed by %s.\n", r.Owner, printable(r.OwnerName))
	}
	return err
}

// ClaimTelegram shows how to claim the bot; a running server takes the token.
// release gives up the claim there is.
func ClaimTelegram(ctx context.Context, opts Options, release bool) error {
	bot, err := deskBot(opts)
	if err != nil {
		return err
	}
	defer bot.Close()
	text, err := bot.Invite(ctx, release)
	if err != nil {
		return fmt.Errorf("%w; --release gives it up", err)
	}
	_, err = fmt.Fprint(opts.Out, text)
	return err
}
