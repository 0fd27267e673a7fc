package terminal

import (
	"context"
	"net/url"
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
	var out struct {
		Turn turn.ID `json:"turn"`
	}
	word := "no"
	if yes {
		word = "yes"
	}
	err := c.do(ctx, "POST", "/approvals/"+url.PathEscape(id), map[string]string{"answer": word}, &out)
	return out.Turn, err
}
