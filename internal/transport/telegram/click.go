package telegram

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// click answers a question by its button. Every click is answered, or the button
// would turn for a minute.
func (t *Telegram) click(ctx context.Context, q *models.CallbackQuery) {
	words := t.settle(ctx, q)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	p := &bot.AnswerCallbackQueryParams{CallbackQueryID: q.ID, Text: cut(words, 190), ShowAlert: words != ""}
	if _, err := t.api.AnswerCallbackQuery(ctx, p); err != nil && ctx.Err() == nil {
		t.log.Debug("a click is not answered", "err", fault(err))
	}
}

// settle returns what to tell the person who clicked; nothing if it worked.
func (t *Telegram) settle(ctx context.Context, q *models.CallbackQuery) string {
	const old = "This question is settled, or has expired."
	var c models.Chat
	var conv chat.Address
	switch m := q.Message; {
	case m.Message != nil:
		c, conv = m.Message.Chat, address(m.Message.Chat.ID, topic(m.Message))
	case m.InaccessibleMessage != nil:
		c, conv = m.InaccessibleMessage.Chat, chat.Address{Space: chat.Telegram, ID: strconv.FormatInt(m.InaccessibleMessage.Chat.ID, 10)}
	default:
		return old
	}
	owner, err := t.claims.read()
	if err != nil || !t.served(owner, c, &q.From) {
		return "You are not among those I serve here."
	}
	a := transport.Answer{Conversation: conv, From: person(&q.From), At: t.opts.Now()}
	if rest, ok := strings.CutPrefix(q.Data, sayPress); ok {
		a.Ask, a.Yes = rest, true
	} else if a.Ask, a.Yes, a.Choice, ok = pressed(q.Data); ok {
		a.Ask = t.opts.Question(conv, a.Ask)
	} else {
		return old
	}
	if a.Ask == "" {
		return old
	}
	_, err = t.opts.Inbox.Answer(ctx, a)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, transport.ErrNotAllowed):
		return "You may not answer this question; it still waits for somebody who may."
	case errors.Is(err, transport.ErrUnknownAsk):
		return old
	case errors.Is(err, transport.ErrBusy):
		return "Too many messages are waiting; the question stays open. Try again in a moment."
	}
	t.log.Warn("an answer is not taken", "conversation", conv, "err", err)
	return "The answer was not taken; the question stays open. Try again."
}
