package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/native"
	"github.com/iris-operator/iris/internal/runner/relay"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport/slack"
)

// slackOptions are what the configuration says of Slack.
func slackOptions(cfg *config.Config) slack.Options {
	return slack.Options{
		AppToken: cfg.Slack.AppToken, BotToken: cfg.Slack.BotToken, API: cfg.Slack.API, Channels: cfg.Slack.Channels,
		MaxChars: cfg.Slack.MaxChars, MaxAge: cfg.Turns.MaxAge.Duration(), Runner: nativeRunner,
	}
}

// openSlack makes the way to Slack; nil if there are no tokens.
func (s *server) openSlack(h *house) (p *platform, err error) {
	opts := slackOptions(s.opts.Config)
	for name, token := range map[string]*secret.Value{"IRIS_SLACK_APP_TOKEN": &opts.AppToken, "IRIS_SLACK_BOT_TOKEN": &opts.BotToken} {
		if !token.IsZero() {
			continue
		}
		// The store may hold what the environment does not.
		v, _, err := s.secrets.source.Get(context.Background(), name)
		if err != nil && !errors.Is(err, secret.ErrNotFound) {
			s.log.Warn("a token of Slack cannot be read", "name", name, "err", err)
		}
		*token = v
	}
	if opts.AppToken.IsZero() && opts.BotToken.IsZero() {
		return nil, nil
	}
	if opts.AppToken.IsZero() || opts.BotToken.IsZero() {
		s.log.Warn("Slack needs two tokens, IRIS_SLACK_APP_TOKEN and IRIS_SLACK_BOT_TOKEN; there is one, so it stays off (see docs/slack.md)")
		return nil, nil
	}
	opts.Inbox, opts.Files, opts.Channel, opts.Logger = h.engine, h.sessions, h.channels.For, s.log
	opts.State = filepath.Join(s.opts.Config.Workspace, "state", "slack")
	opts.Thread = func(conv chat.Address) (channel, ts string, ok bool) {
		ses, err := h.sessions.Get(context.Background(), conv.ID)
		if err != nil {
			return "", "", false
		}
		t := ses.Integrations.Slack
		if t.WorkingChannel != "" {
			return t.WorkingChannel, t.WorkingThreadTS, t.WorkingThreadTS != ""
		}
		return t.OriginChannel, t.OriginThreadTS, t.OriginThreadTS != ""
	}
	h.slack, err = slack.New(opts)
	if err != nil {
		return nil, err
	}
	return &platform{in: h.slack, out: h.slack, lines: h.slack.SetSay}, nil
}

// slackSnapshot adds what routing must know of a channel of Slack.
func (h *house) slackSnapshot(a chat.Address, snap *route.Snapshot) {
	ch := h.channels.For(a.ID)
	snap.Channel = &ch
	if !ch.Sessions() {
		return
	}
	snap.Session = func(thread string) (chat.Address, bool) {
		ses, err := h.sessions.FindByThread(context.Background(), a.ID, thread)
		return ses.Address(), err == nil
	}
	snap.With = func(thread string) string {
		ses, _ := h.sessions.FindByThread(context.Background(), a.ID, thread)
		return ses.Runner
	}
}

// threads are the sessions that people have opened by a thread, as far as they
// are known to have a record.
type threads struct {
	mu    sync.Mutex
	known map[string]bool
}

// openedByThread gives the session of a thread its record, so that the API and
// the page know it. The conversation lives without one, too.
func (s *server) openedByThread(t engine.TurnInfo) {
	channel, ts, ok := chat.ThreadOf(t.Conversation)
	if !ok {
		return
	}
	h := s.house
	h.threads.mu.Lock()
	seen := h.threads.known[t.Conversation.ID]
	if h.threads.known == nil || len(h.threads.known) > 10_000 {
		h.threads.known = map[string]bool{}
	}
	h.threads.known[t.Conversation.ID] = true
	h.threads.mu.Unlock()
	if seen {
		return
	}
	_, err := h.sessions.Create(context.Background(), session.Session{ID: t.Conversation.ID, Runner: s.projectOf(t.Runner),
		Integrations: session.Integrations{Slack: session.SlackThread{OriginChannel: channel, OriginThreadTS: ts}}})
	if err != nil && !errors.Is(err, session.ErrExists) {
		s.log.Error("a thread's session has no record", "session", t.Conversation, "err", err)
	}
}

// relays are the runners of channels that are forwarded.
func (s *server) relays(h *house) (map[string]runner.Runner, error) {
	all := map[string]runner.Runner{}
	for name, quiet := range map[string]bool{route.Relay: false, route.RelayQuiet: true} {
		r, err := relay.New(relay.Options{Quiet: quiet, Logger: s.log, Target: func(ctx context.Context, conv chat.Address) (relay.Target, error) {
			ch := h.channels.For(conv.ID)
			if ch.Mode != route.Passthrough || ch.URL == "" {
				return relay.Target{}, fmt.Errorf("%s is not forwarded any more", conv)
			}
			t := relay.Target{URL: ch.URL, Payload: ch.Payload, ReplyPrefix: ch.ReplyPrefix}
			if ch.SecretName != "" {
				v, _, err := s.secrets.source.Get(ctx, ch.SecretName)
				if err != nil && !errors.Is(err, secret.ErrNotFound) {
					return t, fmt.Errorf("the key %q: %w", ch.SecretName, err)
				}
				t.Key = v
			}
			if t.Key.IsZero() {
				t.Key, _ = s.opts.Config.Lookup("PASSTHROUGH_API_KEY")
			}
			return t, nil
		}})
		if err != nil {
			return nil, err
		}
		all[name] = r
	}
	return all, nil
}

// directory is what the prompt says of the people and channels of Slack.
func (h *house) directory(conv chat.Address) []native.Entry {
	if h.slack == nil {
		return nil
	}
	if _, shown := h.slack.Place(conv, nil); !shown {
		return nil
	}
	known := h.slack.Directory()
	all := make([]native.Entry, len(known))
	for i, e := range known {
		all[i] = native.Entry{ID: e.ID, Name: e.Name, Display: e.Display, Channel: e.Channel}
	}
	return all
}

// awaitFile waits for a file that is still on its way from a platform.
func (h *house) awaitFile(ctx context.Context, local string) error {
	if h.slack == nil {
		return nil
	}
	return h.slack.Wait(ctx, local)
}

// SlackManifest prints what Slack asks for when an app is made.
func SlackManifest(out io.Writer, name string) error {
	_, err := out.Write(slack.Manifest(name))
	return err
}

// SlackCheck says whether the tokens are right and what is missing.
func SlackCheck(ctx context.Context, opts Options) error {
	good := true
	for _, f := range slack.Check(ctx, slackOptions(opts.Config)) {
		sign := "ok     "
		if !f.OK {
			sign, good = "missing", false
		}
		if _, err := fmt.Fprintf(opts.Out, "%s  %s\n", sign, f.Text); err != nil {
			return err
		}
	}
	if !good {
		return ErrTold
	}
	return nil
}
