package telegram

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// TestKeysOfAView: each has a row, a press comes back as its value from whom it
// was, and an edit without keys takes them away.
func TestKeysOfAView(t *testing.T) {
	s := served(t, nil)
	v := transport.View{Show: transport.ShowNotice, Text: "**Lunch?**", Buttons: []transport.Button{
		{Label: "Soup <b>", Value: "room.0123456789abcdef01234567"}, {Label: strings.Repeat("ü", 90), Value: "room.b"},
	}}
	place := transport.Place{Chat: "7"}
	id, err := s.tg.Post(t.Context(), place, transport.Outgoing{Body: s.tg.Render(v)[0]})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(id)
	found := func() (out telegramtest.Message) {
		for _, m := range s.server.Messages(7) {
			if m.ID == n {
				out = m
			}
		}
		return out
	}
	keys := found().Markup.InlineKeyboard
	if len(keys) != 2 || keys[0][0].Text != "Soup <b>" || len(keys[1][0].Text) > transport.MaxLabel {
		t.Errorf("keys %+v", keys)
	}
	click := s.server.Click(7, n, ann, keys[0][0].CallbackData)
	s.until("the answer", func() bool { _, ok := s.server.Answered(click); return ok })
	s.inbox.mu.Lock()
	answers := s.inbox.answers
	s.inbox.mu.Unlock()
	if len(answers) != 1 || answers[0].Ask != v.Buttons[0].Value || !answers[0].Yes || answers[0].From.ID != "7" || answers[0].Conversation.ID != "7" {
		t.Errorf("answers %+v", answers)
	}
	v.Buttons = nil
	if err := s.tg.Edit(t.Context(), place, id, transport.Outgoing{Body: s.tg.Render(v)[0]}); err != nil || found().Markup != nil {
		t.Errorf("after the edit: %v %+v", err, found().Markup)
	}
}

// TestPin: twice is once, and each refusal says what it is.
func TestPin(t *testing.T) {
	s := served(t, nil)
	for _, place := range []transport.Place{{Chat: "7"}, {Chat: "-100200"}} {
		id, err := s.tg.Post(t.Context(), place, transport.Outgoing{Body: transport.Body{Text: "the board"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.tg.Pin(t.Context(), place, id); err != nil {
				t.Errorf("Pin in %s = %v", place.Chat, err)
			}
		}
		n, _ := strconv.ParseInt(place.Chat, 10, 64)
		pinned := 0
		for _, m := range s.server.Messages(n) {
			if m.Pinned {
				pinned++
			}
		}
		if pinned != 1 {
			t.Errorf("%d messages are pinned in %s", pinned, place.Chat)
		}
	}
	refused := func(err error) bool {
		var send *transport.SendError
		return errors.As(err, &send) && (send.Fault == transport.Refused || send.Fault == transport.Gone)
	}
	if err := s.tg.Pin(t.Context(), transport.Place{Chat: "7"}, "9999"); !refused(err) {
		t.Errorf("a message that is gone: %v", err)
	}
	if err := s.tg.Pin(t.Context(), transport.Place{Chat: "7"}, "x"); !refused(err) {
		t.Errorf("no message at all: %v", err)
	}
	s.server.NoPins(-100200)
	if err := s.tg.Pin(t.Context(), transport.Place{Chat: "-100200"}, "1"); !refused(err) {
		t.Errorf("without the right to: %v", err)
	}
}

// TestGuests: a participant of a room is served in its group and on their own line,
// and nobody else is.
func TestGuests(t *testing.T) {
	s := served(t, func(o *Options) {
		o.Guest = func(conv chat.Address, user string) bool { return user == "8" && (conv.ID == "8" || conv.ID == "-100") }
	})
	group := telegramtest.Chat{ID: -100, Type: "supergroup"}
	before := s.inbox.n()
	s.server.Say(telegramtest.Private(bob), bob, "on my line")
	s.server.Say(group, telegramtest.User{ID: 9, FirstName: "Eve"}, "not in this room")
	s.server.Say(group, bob, "in the group")
	s.until("both lines", func() bool { return s.inbox.n() == before+2 })
	if got := s.inbox.texts(); strings.Contains(strings.Join(got, " "), "not in this room") {
		t.Errorf("taken: %q", got)
	}
}
