package slack

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	slackgo "github.com/slack-go/slack"

	"github.com/iris-operator/iris/internal/transport"
)

var _ transport.Pinner = (*Slack)(nil)

// Pin implements transport.Pinner.
func (s *Slack) Pin(ctx context.Context, p transport.Place, id string) error {
	err := s.api.AddPinContext(ctx, p.Chat, slackgo.NewRefToMessage(p.Chat, id))
	if err == nil || word(err) == "already_pinned" {
		return nil
	}
	return sendError(err)
}

// pressed begins the action of a button that is no answer to a question of a
// runner; a number follows, as no two buttons of a message have the same action.
const pressed = "iris_press_"

// pressButtons are the blocks of a message with buttons: its text, which is mrkdwn
// already, and the buttons in rows of five.
func pressButtons(text string, all []transport.Button) []byte {
	type m = map[string]any
	var blocks []m
	for _, part := range sections(text) {
		blocks = append(blocks, m{"type": "section", "text": m{"type": "mrkdwn", "text": part}})
	}
	var row []m
	for i, b := range all[:min(len(all), transport.MaxButtons)] {
		row = append(row, m{"type": "button", "action_id": pressed + strconv.Itoa(i), "value": b.Value, "text": m{"type": "plain_text", "text": b.Cut()}})
		if len(row) == 5 || i == len(all)-1 || i == transport.MaxButtons-1 {
			blocks = append(blocks, m{"type": "actions", "elements": row})
			row = nil
		}
	}
	data, err := json.Marshal(blocks)
	if err != nil {
		return nil // strings always marshal
	}
	return data
}

// value is what a pressed button says, "" if it is none of these.
func (p *press) value() string {
	for _, a := range p.Actions {
		if strings.HasPrefix(a.ID, pressed) && p.User.ID != "" {
			return a.Value
		}
	}
	return ""
}
