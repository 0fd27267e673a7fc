package facilitate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// ErrWebhook is an answer of a webhook that is no success. The notice is to be sent
// again.
var ErrWebhook = errors.New("facilitate: the webhook did not take the notice")

// wire is a notice as programs elsewhere read it.
type wire struct {
	Seq       uint64            `json:"seq"`
	Type      string            `json:"type"`
	Level     string            `json:"level"`
	Principal principal.ID      `json:"principal,omitempty"`
	Message   *room.Message     `json:"message,omitempty"`
	Statement *room.Statement   `json:"statement,omitempty"`
	Line      *room.Line        `json:"line,omitempty"`
	Person    *principal.Person `json:"person,omitempty"`
	Choice    *room.Choice      `json:"choice,omitempty"`
	Item      string            `json:"item,omitempty"`
	Text      string            `json:"text,omitempty"`
	Bits      float64           `json:"bits,omitempty"`
}

// JSON is the notice as one line, for a web socket's frame or a file. It holds what
// its audience may read, and so must go to that audience alone.
func (n Notice) JSON() []byte {
	if n.Line != nil { // its place in the journal counts what others do
		l := *n.Line
		l.Seq, n.Line = 0, &l
	}
	out, err := json.Marshal(wire{n.Seq, n.Type, n.Level.String(), n.Principal, n.Message, n.Statement, n.Line, n.Person, n.Choice, n.Item, n.Text, n.Bits})
	if err != nil { // plain values marshal
		return []byte("{}")
	}
	return out
}

// WriteSSE writes the notice as an event of an event stream: its number is the id,
// so that a browser comes back with Last-Event-ID, which is from of
// [Agent.Subscribe].
func (n Notice) WriteSSE(w io.Writer) error {
	_, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", n.Seq, n.Type, n.JSON())
	return err
}

// PostTo sends the notice to a webhook. An answer outside of 2xx is [ErrWebhook];
// who keeps the number of the last one that was taken loses none. A nil client is
// http.DefaultClient.
func (n Notice) PostTo(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(n.JSON()))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprint(n.Seq))
	if c == nil {
		c = http.DefaultClient
	}
	resp, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%w: status %d", ErrWebhook, resp.StatusCode)
	}
	return nil
}
