package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// A Copilot of a few lines: each prompt asks for leave to deploy, and says what it
// was answered.
const smallCopilot = `#!/bin/sh
say() { printf '%s\n' "$1"; }
while read -r line; do
	id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\),"method".*/\1/')
	case "$line" in
	*'"method":"initialize"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1}}' ;;
	*'"method":"session/new"'*) say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}' ;;
	*'"method":"session/prompt"'*)
		prompt=$id
		say '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"execute","rawInput":{"command":"make deploy"}},"options":[{"optionId":"1","kind":"allow_once"},{"optionId":"2","kind":"allow_always"},{"optionId":"3","kind":"reject_once"}]}}'
		;;
	*'"outcome"'*)
		picked=$(printf %s "$line" | sed 's/.*"optionId":"\([0-9]*\)".*/\1/')
		say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"picked '"$picked"'"}}}}'
		say '{"jsonrpc":"2.0","id":'"$prompt"',"result":{"stopReason":"end_turn"}}'
		;;
	esac
done
`

// TestSlackButtonsOfAnAgent: in a channel that others read too, a stranger's press, a
// forged value and a press that comes again do nothing; the press of one of the
// project's people is the answer, and the message says whose it was.
func TestSlackButtonsOfAnAgent(t *testing.T) {
	h := newSlackHouse(t)
	bin := filepath.Join(h.home, "small-copilot")
	if err := os.WriteFile(bin, []byte(smallCopilot), 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("copilot_bin = %q\n[[projects]]\nname = \"web\"\nagent = \"copilot\"\nwork_dir = %q\nallow_channels = [\"C1\"]\nallow_users = [\"U1\"]\n", bin, h.home)
	if err := os.WriteFile(filepath.Join(h.dir, "iris.config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.serve(func(s *server) {
		find := func(what, part string) (m slacktest.Message) {
			t.Helper()
			until(t, what, func() bool {
				for _, x := range h.slack.Messages("C1") {
					if x.User == slacktest.BotUser && strings.Contains(x.Text+string(x.Blocks), part) {
						m = x
						return true
					}
				}
				return false
			})
			return m
		}
		h.slack.Say("C1", slacktest.Message{User: "U1", Text: at() + "deploy it"})
		q := find("the question", "iris_always")
		value := valueOf(t, q, "iris_yes")
		if !strings.Contains(q.Text, "make deploy") || len(value) < 32 {
			t.Errorf("the question %q has the value %q", q.Text, value)
		}
		h.slack.Press("C1", "U2", q, "iris_yes", value)
		h.slack.Press("C1", "U1", q, "iris_yes", strings.Repeat("0", len(value)))
		h.slack.Press("C1", "U2", q, "iris_always", value)
		until(t, "both are told", func() bool { return len(h.slack.Ephemerals()) == 3 })
		for _, e := range h.slack.Ephemerals() {
			if e.User == "U2" && !strings.Contains(e.Text, "may not answer") || e.User == "U1" && !strings.Contains(e.Text, "over") {
				t.Errorf("whispered %+v", e)
			}
		}
		if open := s.house.approvals.List(chat.Address{}); len(open) != 1 {
			t.Errorf("%d questions are open after that", len(open))
		}
		h.slack.Press("C1", "U1", q, "iris_yes", value)
		find("the answer", "picked 1")
		over := find("who decided", "Approved, once by")
		if len(over.Blocks) != 0 && strings.Contains(string(over.Blocks), "iris_yes") || over.TS != q.TS {
			t.Errorf("the question is over and looks so: %+v", over)
		}
		h.slack.Press("C1", "U1", q, "iris_no", value)
		until(t, "the repeat is told", func() bool { return len(h.slack.Ephemerals()) == 4 })
		h.slack.Say("C1", slacktest.Message{User: "U2", ThreadTS: q.ThreadTS, Text: "/mode auto"})
		h.slack.Say("C1", slacktest.Message{User: "U1", ThreadTS: q.ThreadTS, Text: "/mode"})
		find("the mode", "The mode is *manual*")
	})
}

// valueOf is what a button of a message sends.
func valueOf(t *testing.T, m slacktest.Message, action string) string {
	t.Helper()
	var blocks []struct {
		Elements []struct {
			ActionID string `json:"action_id"`
			Value    string `json:"value"`
		} `json:"elements"`
	}
	if err := json.Unmarshal(m.Blocks, &blocks); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		for _, e := range b.Elements {
			if e.ActionID == action {
				return e.Value
			}
		}
	}
	t.Fatalf("no button %s in %s", action, m.Blocks)
	return ""
}
