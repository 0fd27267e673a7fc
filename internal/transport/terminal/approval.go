package terminal

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/turn"
)

// A Waiting is a command or a question that waits for a person.
type Waiting struct {
	ID        string    `json:"id"`
	Channel   string    `json:"channel"`
	Text      string    `json:"text"`
	Command   string    `json:"command"`
	Reason    string    `json:"reason"`
	Requester string    `json:"requester"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until"`
	// Waits says that whoever asked waits inside of its turn; Options and Always are
	// those of turn.Ask.
	Waits   bool          `json:"waits"`
	Options []turn.Option `json:"options"`
	Many    bool          `json:"many"`
	Always  bool          `json:"always"`
}

// Answers says in few words what can be answered.
func (w Waiting) Answers() string {
	switch {
	case len(w.Options) > 0 && w.Many:
		return "NUMBERS (as in 1,2), your own words, or no"
	case len(w.Options) > 0:
		return "NUMBER, your own words, or no"
	case w.Always:
		return "yes, no, or always"
	}
	return "yes or no"
}

// Reply understands words as an answer; ok is false if they are none.
func (w Waiting) Reply(words string) (yes bool, choice string, ok bool) {
	return replyTo(&turn.Ask{Options: w.Options, Many: w.Many, Always: w.Always}, words)
}

// Approvals lists what waits, oldest first.
func (c *Client) Approvals(ctx context.Context) ([]Waiting, error) {
	var out struct {
		Approvals []Waiting `json:"approvals"`
	}
	err := c.do(ctx, "GET", "/approvals", nil, &out)
	return out.Approvals, err
}

// Choose answers the question id, with a yes to options by one of them or words of
// the person's own, or with "always". It returns the turn that this started, or
// that goes on.
func (c *Client) Choose(ctx context.Context, id string, yes bool, choice string) (turn.ID, error) {
	var out struct {
		Turn turn.ID `json:"turn"`
	}
	body := map[string]string{"answer": "no"}
	if yes {
		body["answer"] = "yes"
	}
	if choice != "" {
		body["choice"] = choice
	}
	err := c.do(ctx, "POST", "/approvals/"+url.PathEscape(id), body, &out)
	return out.Turn, err
}

// replyTo understands a line as the answer to a question that waits inside of the
// running turn; ok is false if it is none.
func replyTo(a *turn.Ask, line string) (yes bool, choice string, ok bool) {
	switch strings.ToLower(line) {
	case "no", "n", "deny":
		return false, "", true
	case "yes", "y", "allow":
		if len(a.Options) == 0 {
			return true, "", true
		}
	case "always", "a":
		if a.Always {
			return true, "always", true
		}
	}
	return true, line, len(a.Options) > 0
}
