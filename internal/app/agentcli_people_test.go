package app

import (
	"testing"

	"github.com/iris-operator/iris/internal/chat"
)

// TestPrivateSessionsAreHidden: /sessions and /resume show what was said in a
// private chat, or by the operator, to nobody else.
func TestPrivateSessionsAreHidden(t *testing.T) {
	web, session := chat.Address{Space: chat.Web, ID: "t1"}, chat.Address{Space: chat.Session, ID: "s1"}
	channel, direct := chat.ThreadSession("C024BE91L", "1796083799.299112"), chat.Address{Space: chat.Slack, ID: "D024BE91L"}
	thread := chat.ThreadSession("D024BE91L", "1796083799.299112")
	group, private := chat.Address{Space: chat.Telegram, ID: "-1001"}, chat.Address{Space: chat.Telegram, ID: "7"}
	all := []chat.Address{web, session, channel, direct, thread, group, private}
	for _, a := range all {
		if back, err := chat.Parse(a.Channel()); err != nil || back != a {
			t.Fatalf("%s is read as %+v, %v", a, back, err)
		}
	}
	for _, from := range all {
		for _, other := range all {
			operator := from == web || from == session
			open := other == channel || other == group
			if got := cliHidden(from, other.Channel()); got == (operator || open) {
				t.Errorf("sessions of %s, seen from %s: hidden %t", other, from, got)
			}
		}
	}
	if !cliHidden(channel, "no channel id") {
		t.Error("what nobody can place is shown")
	}
}
