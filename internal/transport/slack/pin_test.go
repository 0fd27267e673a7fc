package slack

import (
	"errors"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// TestButtonsOfAView are drawn in rows, a press comes back as the value with who
// pressed where, and an edit without buttons takes them away.
func TestButtonsOfAView(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	v := transport.View{Show: transport.ShowNotice, Text: "**Lunch?** & more"}
	for i := range 30 {
		v.Buttons = append(v.Buttons, transport.Button{Label: strings.Repeat("ü", i*3+1), Value: "room.abc"})
	}
	place := transport.Place{Chat: "D1"}
	id, err := c.iris.Post(t.Context(), place, transport.Outgoing{Body: c.iris.Render(v)[0], Mark: transport.Mark{Part: "room.x"}})
	if err != nil {
		t.Fatal(err)
	}
	m := c.slack.Own("D1")[0]
	if n := strings.Count(string(m.Blocks), `"button"`); n != transport.MaxButtons || strings.Count(string(m.Blocks), `"actions"`) != 5 {
		t.Errorf("%d buttons in %s", n, m.Blocks)
	}
	c.acked(c.slack.Press("D1", "U1", m, pressed+"3", "room.abc"))
	c.box.mu.Lock()
	answers := c.box.answers
	c.box.mu.Unlock()
	if len(answers) != 1 || answers[0].Ask != "room.abc" || !answers[0].Yes || answers[0].From.ID != "U1" || answers[0].Conversation.Channel() != "D1" {
		t.Errorf("answers %+v", answers)
	}
	v.Buttons = nil
	if err := c.iris.Edit(t.Context(), place, id, transport.Outgoing{Body: c.iris.Render(v)[0], Mark: transport.Mark{Part: "room.x"}}); err != nil {
		t.Fatal(err)
	}
	if m := c.slack.Own("D1")[0]; len(m.Blocks) != 0 {
		t.Errorf("after the edit: %s", m.Blocks)
	}
	if w := c.slack.Wrong(); len(w) > 0 {
		t.Error(w)
	}
}

// TestPin: twice is once, and each refusal says what it is.
func TestPin(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	place := transport.Place{Chat: "C1"}
	id, err := c.iris.Post(t.Context(), place, transport.Outgoing{Body: transport.Body{Text: "the board"}, Mark: transport.Mark{Part: "room.board"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.iris.Pin(t.Context(), place, id); err != nil {
			t.Errorf("Pin = %v", err)
		}
	}
	if m := c.slack.Own("C1")[0]; !m.Pinned {
		t.Error("not pinned")
	}
	check := func(what string, err error, want transport.Fault) {
		t.Helper()
		var send *transport.SendError
		if !errors.As(err, &send) || send.Fault != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	check("a message that is gone", c.iris.Pin(t.Context(), place, "1.000001"), transport.Gone)
	check("a channel that is not there", c.iris.Pin(t.Context(), transport.Place{Chat: "C404"}, id), transport.Gone)
	c.slack.Revoke("pins:write")
	check("without the scope", c.iris.Pin(t.Context(), place, id), transport.Refused)
}
