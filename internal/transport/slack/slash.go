package slack

import (
	"context"
	"errors"
	"strings"

	slackgo "github.com/slack-go/slack"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// SlashCommands are those an app has to declare, with what each does.
func SlashCommands() [][2]string {
	return [][2]string{
		{"/stop", "Stop the answer that is being written"},
		{"/compact", "Shorten the context"},
		{"/clear", "Forget the context and start fresh"},
		{"/reset", "Forget the context and start fresh"},
		{"/verbose", "Show tool output: on, off or status"},
	}
}

// Refusals that one person reads.
const (
	notHere     = "I do not listen in this channel."
	forwarded   = "Everything in this channel is forwarded; there is nothing here to command."
	inThreads   = "Every thread in this channel is a conversation of its own, and a slash command does not say which one is meant. Write the word into the thread instead."
	unknownWord = "I do not know this command. There are: /stop, /compact, /clear, /reset and /verbose [on|off|status]."
)

// slash acts on a slash command and returns what its sender reads. It comes with
// the acknowledgement, so there is exactly one.
func (in *intake) slash(id string, c *slash) (answer any, err error) {
	s := in.s
	ch := s.opts.Channel(c.Channel)
	name := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(c.Command)), "/")
	text := name // what follows is of no interest
	if name == string(transport.Verbose) {
		if words := strings.Fields(c.Text); len(words) > 0 {
			text += " " + words[0]
		}
	}
	_, _, known := route.ParseCommand(text)
	direct := strings.HasPrefix(c.Channel, "D")
	switch {
	case !s.listens(c.Channel):
		return whispered(notHere), nil
	case ch.Mode == route.Passthrough:
		return whispered(forwarded), nil
	case ch.Sessions() && !direct:
		return whispered(inThreads), nil
	case !known:
		return whispered(unknownWord), nil
	}
	from := s.people.person(c.User)
	from.Name = firstOf(from.Name, c.Name)
	receipt, err := in.submit(transport.Submission{
		Address: chat.Address{Space: chat.Slack, ID: c.Channel}, Origin: turn.FromChat, Direct: true, Proven: true,
		Message: chat.Message{ID: "slash-" + id, From: from, Text: "/" + text, At: s.opts.Now()},
	})
	if err != nil {
		return nil, err
	}
	return whispered(firstOf(receipt.Reply.Text, "Done.")), nil
}

// whispered is an answer that only its receiver sees.
func whispered(text string) any {
	return map[string]any{"response_type": "ephemeral", "text": text}
}

// whisper shows one person a line. It is a courtesy: nobody misses it for long.
func (s *Slack) whisper(ctx context.Context, channel, user, thread, text string) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := s.api.PostEphemeralContext(ctx, channel, user, slackgo.MsgOptionText(text, true), slackgo.MsgOptionTS(thread))
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("a line is not sent", "channel", channel, "err", err)
	}
}
