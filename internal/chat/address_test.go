package chat

import (
	"errors"
	"path"
	"strings"
	"testing"
)

func TestParseRoundTrip(t *testing.T) {
	for channel, want := range map[string]Address{
		"C024BE91L":          {Space: Slack, ID: "C024BE91L"},
		"SESSION-0193":       {Space: Session, ID: "0193"},
		"BRIDGE-slack-C1":    {Space: Bridge, ID: "slack-C1"},
		"ESCALATE-billing":   {Space: Escalate, ID: "billing"},
		"SELFHEAL-billing":   {Space: SelfHeal, ID: "billing"},
		"WEBUI-WEBUI-x":      {Space: Web, ID: "WEBUI-x"},
		"tg-123":             {Space: Telegram, ID: "123"},
		"tg-n100123":         {Space: Telegram, ID: "-100123"},
		"tg-n100123-7":       {Space: Telegram, ID: "-100123", Thread: "7"},
		"WEBUI-" + long("a"): {Space: Web, ID: long("a")},
	} {
		got, err := Parse(channel)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", channel, got, err, want)
			continue
		}
		if back := got.Channel(); back != channel {
			t.Errorf("Parse(%q).Channel() = %q", channel, back)
		}
	}
}

func long(s string) string { return strings.Repeat(s, maxID) }

func TestParseRefuses(t *testing.T) {
	for _, channel := range []string{
		"", "SESSION-", "WEBUI-", "tg-", "tg-x", "tg-n", "tg-1-2-3", "..", "../x", "SESSION-../x", "a/b", "a\\b",
		"C1\x00", "C1\n", "%2e%2e", "報告", "C 1", "WEBUI-" + long("a") + "a", strings.Repeat("k", 300),
	} {
		if got, err := Parse(channel); !errors.Is(err, ErrBadID) {
			t.Errorf("Parse(%q) = %v, %v, want ErrBadID", channel, got, err)
		}
	}
}

func TestDir(t *testing.T) {
	for channel, want := range map[string]string{
		"C1": "slack/C1", "tg-n5-7": "telegram/tg-n5-7", "WEBUI-a": "WEBUI-a", "SESSION-1": "SESSION-1",
	} {
		a, err := Parse(channel)
		if err != nil || a.Dir() != want {
			t.Errorf("Parse(%q).Dir() = %q, %v, want %q", channel, a.Dir(), err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"C1", "tg-n1-2", "SESSION-x", "WEBUI-..", "tg--1", "tg-n-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, channel string) {
		a, err := Parse(channel)
		if err != nil {
			return
		}
		if a.Channel() != channel {
			t.Fatalf("Parse(%q).Channel() = %q", channel, a.Channel())
		}
		if d := a.Dir(); d != path.Clean(d) || strings.HasPrefix(d, "..") || path.IsAbs(d) {
			t.Fatalf("Parse(%q).Dir() = %q leaves the workspace", channel, d)
		}
	})
}

func TestThreadSession(t *testing.T) {
	a := ThreadSession("C024BE91L", "1700000000.000100")
	if got, err := Parse(a.Channel()); err != nil || got != a {
		t.Errorf("Parse(%q) = %v, %v", a.Channel(), got, err)
	}
	if channel, ts, ok := ThreadOf(a); channel != "C024BE91L" || ts != "1700000000.000100" || !ok {
		t.Errorf("ThreadOf(%v) = %q, %q, %v", a, channel, ts, ok)
	}
	for _, id := range []string{"x", "slack-C1", "slack-C1-1-2", "slack-c1-1700000000-000100", "slack-C1-17x-000100", "slack-../-1-000001"} {
		if _, _, ok := ThreadOf(Address{Space: Session, ID: id}); ok {
			t.Errorf("ThreadOf(%q) is a thread", id)
		}
	}
	if _, _, ok := ThreadOf(Address{Space: Bridge, ID: a.ID}); ok {
		t.Error("a bridge's conversation is a thread")
	}
}
