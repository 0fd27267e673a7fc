package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// A Pi of a few lines: it says where it works and what it was asked.
const smallPi = `#!/bin/sh
say() { printf '%s\n' "$1"; }
say '{"type":"extension_ui_request","id":"g","method":"setStatus","statusKey":"iris-gate","statusText":"on"}'
while read -r line; do
	id=$(printf %s "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
	asked=$(printf %s "$line" | sed 's/.*"message":"\([^"]*\)".*/\1/')
	case "$line" in
	*'"type":"get_state"'*) say '{"type":"response","id":"'"$id"'","command":"get_state","success":true,"data":{"sessionId":"s-1"}}' ;;
	*'"type":"prompt"'*)
		say '{"type":"response","id":"'"$id"'","command":"prompt","success":true}'
		say '{"type":"agent_start"}'
		say '{"type":"message_start","message":{"role":"user","content":"x"}}'
		say '{"type":"message_end","message":{"role":"assistant","stopReason":"stop","content":"pi in '"$(basename "$PWD")"' heard '"$asked"'"}}'
		say '{"type":"agent_end"}'
		;;
	esac
done
`

// TestSlackProjects has people reach a project from Slack, and others not: in a
// channel of its lists, in one that channels.json gives it, and in private.
func TestSlackProjects(t *testing.T) {
	h := newSlackHouse(t)
	h.slack.AddChannel("C2", "given")
	h.slack.AddChannel("D2", "U2")
	work := filepath.Join(h.home, "webwork")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(h.home, "small-pi")
	if err := os.WriteFile(bin, []byte(smallPi), 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("pi_bin = %q\n[[projects]]\nname = \"web\"\nagent = \"pi\"\nwork_dir = %q\nallow_channels = [\"C1\"]\nallow_users = [\"U1\"]\n", bin, work)
	if err := os.WriteFile(filepath.Join(h.dir, "iris.config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.channels(`{"C2":{"mode":"agent","project":"web"}}`)
	h.serve(func(s *server) {
		heard := func(channel string, want ...string) {
			t.Helper()
			var got []string
			for _, m := range h.own(channel, len(want)) {
				line, _, _ := strings.Cut(m.Text, "\n")
				got = append(got, m.ThreadTS+" "+line)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", channel, got, want)
			}
		}
		h.slack.Say("C1", slacktest.Message{User: "U2", Text: at() + "a stranger"})
		other, _ := h.slack.Say("C1", slacktest.Message{User: "U1", Text: "not for her"})
		h.slack.Say("C1", slacktest.Message{User: "U1", Text: "nor this", ThreadTS: other.TS})
		root, _ := h.slack.Say("C1", slacktest.Message{User: "U1", Text: at() + "one"})
		first := root.TS + " pi in webwork heard one"
		heard("C1", first)
		h.slack.Say("C1", slacktest.Message{User: "U2", Text: "a stranger in her thread", ThreadTS: root.TS})
		h.slack.Say("C1", slacktest.Message{User: "U1", Text: "two", ThreadTS: root.TS})
		heard("C1", first, root.TS+" pi in webwork heard two")

		given, _ := h.slack.Say("C2", slacktest.Message{User: "U1", Text: at() + "three"})
		heard("C2", given.TS+" pi in webwork heard three")
		private, _ := h.slack.Say("D1", slacktest.Message{User: "U1", Text: "four"})
		heard("D1", private.TS+" pi in webwork heard four")
		h.slack.Say("D1", slacktest.Message{User: "U1", Text: "/status"})
		if got := h.own("D1", 2)[1].Text; !strings.Contains(got, "s-1") {
			t.Errorf("/status in private says %q", got)
		}
		h.slack.Say("D2", slacktest.Message{User: "U2", Text: "hello"})
		if got := h.own("D2", 1)[0].Text; strings.Contains(got, "pi in webwork") {
			t.Errorf("a stranger reaches the project in private: %q", got)
		}
		ses, err := s.house.sessions.FindByThread(t.Context(), "C1", root.TS)
		if err != nil || ses.Runner != "web" {
			t.Errorf("the thread's session is %+v, %v", ses, err)
		}
	})
}
