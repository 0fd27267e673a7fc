package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/go-telegram/bot"

	"github.com/iris-operator/iris/internal/transport"
)

var _ transport.Pinner = (*Telegram)(nil)

// Pin implements transport.Pinner. Nobody is notified. In a group Iris needs the
// right to pin messages.
func (t *Telegram) Pin(ctx context.Context, p transport.Place, id string) error {
	chatID, _, err := t.target(p)
	if err != nil {
		return err
	}
	n, err := messageID(id)
	if err != nil {
		return err
	}
	_, err = t.api.PinChatMessage(ctx, &bot.PinChatMessageParams{ChatID: chatID, MessageID: n, DisableNotification: true})
	if err != nil && errors.Is(err, bot.ErrorBadRequest) && strings.Contains(err.Error(), "CHAT_NOT_MODIFIED") {
		return nil
	}
	if err != nil {
		return t.told(p, err)
	}
	return nil
}

// sayPress begins the data of a key that is no answer to a question of a runner.
const sayPress = "p"

// pressKeyboard draws buttons, each in a row of its own.
func pressKeyboard(all []transport.Button) []byte {
	var rows [][]key
	for _, b := range all[:min(len(all), transport.MaxButtons)] {
		rows = append(rows, []key{{clean(b.Cut()), sayPress + b.Value}})
	}
	out, err := json.Marshal(map[string]any{"inline_keyboard": rows})
	if err != nil {
		return nil // strings always marshal
	}
	return out
}
