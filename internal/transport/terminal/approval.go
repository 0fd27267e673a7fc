package terminal

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/turn"
)

// A Waiting is a command that waits for a person.
type Waiting struct {
	ID        string    `json:"id"`
	Channel   string    `json:"channel"`
	Command   string    `json:"command"`
	Reason    string    `json:"reason"`
	Requester string    `json:"requester"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until"`
}

// Approvals lists the commands that wait, oldest first.
func (c *Client) Approvals(ctx context.Context) ([]Waiting, error) {
	var out struct {
		Approvals []Waiting `json:"approvals"`
	}
	err := c.do(ctx, "GET", "/approvals", nil, &out)
	return out.Approvals, err
}

// Answer answers the question id and returns the turn that this started.
func (c *Client) Answer(ctx context.Context, id string, yes bool) (turn.ID, error) {
	return c.Choose(ctx, id, yes, "")
}

// Choose is Answer with one of the options of a question, words of the person's own,
// or "always".
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
