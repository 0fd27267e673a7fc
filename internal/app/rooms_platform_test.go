package app

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// nowhere checks that a private word is in no file of a workspace but the rooms'
// own, and there not in clear.
func nowhere(t *testing.T, dir, word string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), word) {
			t.Errorf("%s holds a private word", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// slackButton is the action and value of a button on a message.
func slackButton(m slacktest.Message, label string) (action, value string) {
	var blocks []struct {
		Elements []struct {
			Action string `json:"action_id"`
			Value  string
			Text   struct{ Text string }
		}
	}
	_ = json.Unmarshal(m.Blocks, &blocks) // none is none
	for _, b := range blocks {
		for _, e := range b.Elements {
			if e.Text.Text == label {
				return e.Action, e.Value
			}
		}
	}
	return "", ""
}

// TestRoomOnSlack is G22 with a whole server: the channel is the room, direct
// messages are the private lines, buttons are consent and ballots, the board is
// pinned; edits, duplicates, lost acknowledgements and a slow Slack are on the way,
// and no private word is in a payload for anybody else, or in the workspace.
func TestRoomOnSlack(t *testing.T) {
	canary := fmt.Sprintf("okapi%d", time.Now().UnixNano())
	h := newSlackHouse(t)
	people := []facilitator.Person{}
	for i, name := range []string{"ana", "ben", "cy", "di", "eve"} {
		u, d := fmt.Sprint("U1", i), fmt.Sprint("D1", i)
		h.slack.AddUser(u, name, name)
		h.slack.AddChannel(d, u)
		people = append(people, facilitator.Person{ID: name, Name: name, User: u, Channel: d})
	}
	h.slack.AddChannel("C9", "dinner")
	board := func() (out slacktest.Message) {
		for _, m := range h.slack.Own("C9") {
			if m.Pinned {
				out = m
			}
		}
		return out
	}
	with := func(channel, label string) (m slacktest.Message, action, value string) {
		for _, m := range h.slack.Own(channel) {
			if a, v := slackButton(m, label); a != "" {
				return m, a, v
			}
		}
		return m, "", ""
	}
	first, told := "", 0
	h.serve(func(s *server) {
		if _, err := s.house.rooms.Create(facilitator.Spec{ID: "dinner", Topic: "Friday dinner", Channel: "C9", Participants: people}); err != nil {
			t.Fatal(err)
		}
		// Every event comes twice, and the acknowledgement of the first is lost.
		say := func(channel, user, text string) {
			m, envs := h.slack.Say(channel, slacktest.Message{User: user, Text: text})
			h.slack.LoseAcks(envs[0], 1)
			h.slack.Tell(channel, m)
		}
		lines := func(n int) {
			t.Helper()
			until(t, fmt.Sprint(n, " lines"), func() bool {
				v, err := s.house.rooms.View(t.Context(), "dinner", "")
				spoken := 0
				for _, l := range v.Lines {
					if l.From != "iris" {
						spoken++
					}
				}
				return err == nil && spoken == n
			})
		}
		say("C9", "U10", "Where do we eat on Friday?")
		lines(1)
		say("C9", "U13", "Somewhere with a terrace")
		lines(2)
		h.slack.Pace(50*time.Millisecond, 2) // a Slack that says 429 soon
		say("C9", "U11", "I propose the steak house, @cy")
		lines(3)
		say("C9", "U13", "/edit 2 Somewhere with a garden")
		until(t, "a line is edited", func() bool {
			v, err := s.house.rooms.View(t.Context(), "dinner", "")
			return err == nil && v.Lines[1].Edited && strings.Contains(v.Lines[1].Text, "garden")
		})
		until(t, "the board is pinned", func() bool { return strings.Contains(board().Text, "steak house") })
		first = board().TS
		say("D12", "U12", canary+": I can spend at most 15 euros")
		until(t, "the question has buttons", func() bool { _, a, _ := with("D12", "Yes, share it"); return a != "" })
		m, action, value := with("D12", "Yes, share it")
		h.slack.Press("D12", "U11", m, action, value) // somebody else's hand
		until(t, "somebody else is refused", func() bool { return len(h.slack.Ephemerals()) == 1 })
		h.slack.Press("D12", "U12", m, action, value)
		until(t, "it can be taken back", func() bool { _, a, _ := with("D12", "Take it back"); return a != "" })
		nowhere(t, filepath.Join(h.dir, "state"), canary)
		v, err := s.house.rooms.View(t.Context(), "dinner", "cy")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range v.Private.Lines {
			if l.From == "cy" {
				told++
			}
		}
	})
	if told != 1 {
		t.Errorf("what Cy said once is there %d times", told)
	}
	h.serve(func(s *server) { // after a restart
		h.slack.Say("C9", slacktest.Message{User: "U14", Text: "I propose the noodle bar"})
		until(t, "the words are said", func() bool {
			for _, m := range h.slack.Own("C9") {
				if strings.Contains(m.Text, "15 euros") && !m.Pinned {
					return true
				}
			}
			return false
		})
		until(t, "the board is the same, and up to date", func() bool { return board().TS == first && strings.Contains(board().Text, "noodle bar") })
		until(t, "the card is over", func() bool { _, a, _ := with("D12", "Take it back"); return a == "" })
		if _, err := s.house.rooms.Do(t.Context(), "dinner", facilitate.Caucus("cy", "quagga: that was all")); err != nil {
			t.Fatal(err)
		}
	})
	for i := range people {
		for _, m := range h.slack.Own(fmt.Sprint("D1", i)) {
			if i != 2 && strings.Contains(m.Text+string(m.Blocks), "euros") {
				t.Errorf("%s reads %q", people[i].ID, m.Text)
			}
		}
	}
	for _, c := range h.slack.Calls() {
		if body := c.Form.Encode(); c.Form.Get("channel") != "D12" && strings.Contains(body, "quagga") {
			t.Errorf("%s carries a private word", c.Method)
		}
	}
	nowhere(t, filepath.Join(h.dir, "state"), "quagga")
	for _, w := range h.slack.Wrong() {
		if !strings.Contains(w, "inside the wait") {
			t.Error(w)
		}
	}
}

// TestPollOnTelegram: a group is the room, private chats are the lines; ballots
// are keys below a message, and without the right to pin the board is still kept.
func TestPollOnTelegram(t *testing.T) {
	r := newTelegramRig(t)
	users := []telegramtest.User{{ID: 7, FirstName: "Ana"}, {ID: 8, FirstName: "Ben"}, {ID: 9, FirstName: "Cy"}, {ID: 10, FirstName: "Di"}, {ID: 11, FirstName: "Eve"}}
	group := telegramtest.Chat{ID: -100, Type: "supergroup", Title: "Lunch"}
	var people []facilitator.Person
	for _, u := range users {
		people = append(people, facilitator.Person{ID: strings.ToLower(u.FirstName), Name: u.FirstName, User: fmt.Sprint(u.ID), Channel: fmt.Sprint("tg-", u.ID)})
	}
	key := func(chat int64, label string) (id int, data string) {
		for _, m := range r.api.Messages(chat) {
			if m.Markup == nil {
				continue
			}
			for _, row := range m.Markup.InlineKeyboard {
				for _, b := range row {
					if b.Text == label {
						return m.ID, b.CallbackData
					}
				}
			}
		}
		return 0, ""
	}
	r.serve(func(s *server, out *page) {
		until(t, "the invitation", func() bool { return strings.Contains(out.String(), "?start=") })
		token := regexp.MustCompile(`/start ([0-9a-f]{64})`).FindStringSubmatch(out.String())
		r.api.Say(telegramtest.Private(users[0]), users[0], "/start "+token[1])
		until(t, "the claim", r.says(7, "Bot claimed"))
		if _, err := s.house.rooms.Create(facilitator.Spec{ID: "lunch", Topic: "Lunch", Surface: "poll", Channel: "tg-n100", Participants: people}); err != nil {
			t.Fatal(err)
		}
		r.api.Say(group, telegramtest.User{ID: 99, FirstName: "Mallory"}, "I am not in this room")
		r.api.Say(group, users[0], "/open Lunch?: Soup | Salad")
		for _, u := range users {
			until(t, "a ballot for "+u.FirstName, func() bool { id, _ := key(u.ID, "Soup"); return id != 0 })
		}
		until(t, "the board is pinned", func() bool {
			for _, m := range r.api.Messages(-100) {
				if m.Pinned && strings.Contains(m.Text, "Lunch?") {
					return true
				}
			}
			return false
		})
		for _, u := range users[1:] {
			id, data := key(u.ID, "Salad")
			r.api.Click(u.ID, id, u, data)
		}
		id, data := key(7, "Soup")
		click := r.api.Click(7, id, users[1], data) // Ben's hand on Ana's line
		until(t, "a strange hand is answered", func() bool { text, ok := r.api.Answered(click); return ok && text != "" })
		until(t, "one's own vote shows", r.says(9, "Your vote: Salad"))
		until(t, "the board has the turnout", r.says(-100, "4 of 5"))
		r.api.Say(group, users[1], "Iris, what is the outcome?")
		if r.says(-100, "winner: Salad")() {
			t.Error("the outcome shows before the close")
		}
		if _, err := s.house.rooms.Do(t.Context(), "lunch", facilitate.Set("ana", "lunch", "status", "closed")); err != nil {
			t.Fatal(err)
		}
		until(t, "the board has the outcome", r.says(-100, "winner: Salad"))
		for _, u := range users {
			until(t, "no key is left for "+u.FirstName, func() bool { id, _ := key(u.ID, "Soup"); return id == 0 })
		}
		if r.says(-100, "for its participants")() {
			t.Error("somebody outside of the room was answered")
		}
	})
	for _, w := range r.api.Wrong() {
		if !strings.Contains(w, "inside the wait") { // the board is beside the replies
			t.Error(w)
		}
	}
}
