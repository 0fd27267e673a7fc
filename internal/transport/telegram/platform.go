package telegram

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// Traits implements transport.Platform. A group takes twenty messages a minute.
func (t *Telegram) Traits() transport.Traits {
	return transport.Traits{
		MaxChars: maxChars, PerSecond: 25, Fresh: transport.FreshAfterOwn, Preview: true,
		Pace: func(p transport.Place) transport.Pace {
			if strings.HasPrefix(p.Chat, "-") {
				return transport.Pace{Gap: 3 * time.Second, Burst: 5}
			}
			return transport.DefaultPace
		},
	}
}

// Place implements transport.Platform.
func (t *Telegram) Place(conv chat.Address, _ *turn.Accepted) (transport.Place, bool) {
	return transport.Place{Chat: conv.ID, Thread: conv.Thread}, conv.Space == chat.Telegram
}

// Render implements transport.Platform.
func (t *Telegram) Render(v transport.View) []transport.Body { return render(v) }

// yes switches link previews off: Telegram would fetch what a model links to.
var yes = true

// target is a place in the words of the Bot API.
func (t *Telegram) target(p transport.Place) (chatID string, thread int, err error) {
	t.mu.Lock()
	chatID = p.Chat
	if to, ok := t.moved[chatID]; ok {
		chatID = to
	}
	t.mu.Unlock()
	if p.Thread != "" {
		if thread, err = strconv.Atoi(p.Thread); err != nil {
			return "", 0, &transport.SendError{Fault: transport.Gone, Err: fmt.Errorf("%q is no topic", p.Thread)}
		}
	}
	return chatID, thread, nil
}

// told turns a failed call into what a courier is told, and notes a group that
// has got another id: the next try goes there.
func (t *Telegram) told(p transport.Place, err error) error {
	var moved *bot.MigrateError
	if errors.As(err, &moved) {
		if from, perr := strconv.ParseInt(p.Chat, 10, 64); perr == nil {
			t.move(from, int64(moved.MigrateToChatID))
		}
	}
	return fault(err)
}

// labelled is the text that is sent.
func labelled(m transport.Outgoing) string {
	if m.Repeat {
		return transport.RepeatLabel + "\n" + m.Body.Text // no character of it is escaped
	}
	return m.Body.Text
}

func markup(b transport.Body) models.ReplyMarkup {
	if len(b.Extra) == 0 {
		return nil
	}
	return json.RawMessage(b.Extra)
}

// Post implements transport.Platform.
func (t *Telegram) Post(ctx context.Context, p transport.Place, m transport.Outgoing) (string, error) {
	chatID, thread, err := t.target(p)
	if err != nil {
		return "", err
	}
	sent, err := t.api.SendMessage(ctx, &bot.SendMessageParams{
		ChatID: chatID, MessageThreadID: thread, Text: labelled(m), ParseMode: models.ParseMode(m.Body.Format),
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: &yes}, ReplyMarkup: markup(m.Body),
	})
	if err != nil {
		return "", t.told(p, err)
	}
	return strconv.Itoa(sent.ID), nil
}

// Edit implements transport.Platform. Without a keyboard in m there is none
// afterwards.
func (t *Telegram) Edit(ctx context.Context, p transport.Place, id string, m transport.Outgoing) error {
	chatID, _, err := t.target(p)
	if err != nil {
		return err
	}
	n, err := messageID(id)
	if err != nil {
		return err
	}
	_, err = t.api.EditMessageText(ctx, &bot.EditMessageTextParams{
		ChatID: chatID, MessageID: n, Text: labelled(m), ParseMode: models.ParseMode(m.Body.Format),
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: &yes}, ReplyMarkup: markup(m.Body),
	})
	if err != nil && errors.Is(err, bot.ErrorBadRequest) && strings.Contains(err.Error(), "message is not modified") {
		return nil
	}
	if err != nil {
		return t.told(p, err)
	}
	return nil
}

// Delete implements transport.Platform.
func (t *Telegram) Delete(ctx context.Context, p transport.Place, id string) error {
	chatID, _, err := t.target(p)
	if err != nil {
		return err
	}
	n, err := messageID(id)
	if err != nil {
		return err
	}
	if _, err = t.api.DeleteMessage(ctx, &bot.DeleteMessageParams{ChatID: chatID, MessageID: n}); err != nil {
		return t.told(p, err)
	}
	return nil
}

func messageID(id string) (int, error) {
	n, err := strconv.Atoi(id)
	if err != nil {
		return 0, &transport.SendError{Fault: transport.Gone, Err: fmt.Errorf("%q is no message of Telegram", id)}
	}
	return n, nil
}

// Upload implements transport.Platform. A file is sent as it is: a picture, too,
// keeps its bytes.
func (t *Telegram) Upload(ctx context.Context, p transport.Place, f transport.Upload) (string, error) {
	chatID, thread, err := t.target(p)
	if err != nil {
		return "", err
	}
	if f.Size > maxUpload {
		return "", &transport.SendError{Fault: transport.Refused, Err: fmt.Errorf("%d MB, and a bot may send 50", f.Size>>20)}
	}
	content, err := f.Open()
	if err != nil {
		return "", &transport.SendError{Fault: transport.Refused, Err: err}
	}
	defer content.Close()
	caption := cut(clean(f.Title), 800)
	if f.Repeat {
		caption = strings.TrimSpace(transport.RepeatLabel + "\n" + caption)
	}
	sent, err := t.api.SendDocument(ctx, &bot.SendDocumentParams{
		ChatID: chatID, MessageThreadID: thread, Caption: guard(caption),
		// The library wants a pointer, whatever the reader is.
		Document: &models.InputFileUpload{Filename: fileName(f.Name), Data: bufio.NewReader(content)},
	})
	if err != nil {
		return "", t.told(p, err)
	}
	return strconv.Itoa(sent.ID), nil
}

// fileName is a name that people see, without what moves a cursor or turns text
// around.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == '"' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if name = cut(strings.TrimSpace(name), 200); name == "" {
		return "file"
	}
	return name
}

// Find implements transport.Platform: a bot cannot read what it wrote.
func (t *Telegram) Find(context.Context, transport.Place, transport.Mark, time.Time) (string, error) {
	return "", transport.ErrCannotTell
}

var (
	_ transport.Platform  = (*Telegram)(nil)
	_ transport.Transport = (*Telegram)(nil)
)
