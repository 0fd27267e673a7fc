package native

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

func mustZone(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// §14.4 and §16 #35: byte-identical from turn to turn and from day to day.
func TestSystemPromptIsByteStable(t *testing.T) {
	m := scriptedOK(info)
	now := noon
	round := 0
	people := []Entry{{ID: "U2", Name: "bob"}, {ID: "U1", Name: "ada", Display: "Ada L."}, {ID: "C9", Name: "ops", Channel: true}}
	b := newBed(t, one(m), func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Notes = func(context.Context, chat.Address) (Notes, error) {
			round++
			return Notes{Constitution: "Be kind.", Memory: strings.Repeat("new ", round), Skills: []Skill{{"a", "does <a>", "/ws/skills/a/SKILL.md"}}}, nil
		}
		o.MCPStatus = func(context.Context) []string { return []string{strings.Repeat("x", round)} }
		o.Directory = func(chat.Address) []Entry {
			people[0], people[1] = people[1], people[0]
			return people
		}
		o.Agents = func() []AgentInfo {
			return []AgentInfo{{Name: "db", Description: "Databases.", URL: "http://127.0.0.1:4001"}}
		}
		o.Sections = func(chat.Address) []string { return []string{"## Events\nWrite files."} }
	})
	for range 3 {
		b.say("hi")
		now = now.Add(25 * time.Hour)
	}
	b.restart()
	b.say("hi")
	all := m.Requests()
	for i, r := range all {
		if r.System != all[0].System {
			t.Errorf("request %d has another system prompt", i)
		}
		if r.CacheKey != "WEBUI-room" {
			t.Errorf("cache key = %q", r.CacheKey)
		}
	}
	sys := all[0].System
	order := []string{"You are Iris", "Be kind.", "## Context", "## Formatting", "U1 @ada Ada L.", "U2 @bob", "C9 #ops", "## Environment", "/ws/WEBUI-room", "<name>a</name><description>does &lt;a&gt;</description>", "**db**: Databases.", "http://127.0.0.1:4001/bridge", "## MCP servers", "## Events", "## Memory", "SYSTEM.md", "log.jsonl", "`label`", "[SILENT]"}
	at := 0
	for _, want := range order {
		i := strings.Index(sys[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order in:\n%s", want, sys)
		}
		at += i
	}
	if strings.Contains(sys, "2026") || strings.Contains(sys, "new new") {
		t.Error("what changes is in the system prompt")
	}
}

func TestPromptLeavesOutWhatIsNotThere(t *testing.T) {
	m := scriptedOK(info)
	b := newBed(t, one(m), nil)
	b.say("hi")
	sys := last(t, m).System
	for _, no := range []string{"Sub-agents", "MCP", "Constitution (", "People and channels", "<available_skills>", "Events", "<no value>", "\n\n\n"} {
		if strings.Contains(sys, no) {
			t.Errorf("the prompt has %q:\n%s", no, sys)
		}
	}
}

func TestSpawnAgentIsHiddenInSessions(t *testing.T) {
	m := scriptedOK(info)
	b := newBed(t, one(m), func(o *Options) {
		o.Notes = func(context.Context, chat.Address) (Notes, error) {
			return Notes{Skills: []Skill{{Name: "spawn-agent", Description: "x"}, {Name: "status", Description: "y"}}}, nil
		}
	})
	b.say("hi")
	if !strings.Contains(last(t, m).System, "spawn-agent") {
		t.Error("spawn-agent is hidden in a chat")
	}
	req := b.accept("hi")
	req.Conversation = chat.Address{Space: chat.Session, ID: "s1"}
	if _, err := b.run(req); err != nil {
		t.Fatal(err)
	}
	if sys := last(t, m).System; strings.Contains(sys, "spawn-agent") || !strings.Contains(sys, "status") {
		t.Error("spawn-agent is shown in a session")
	}
}

func TestDefaultProfiles(t *testing.T) {
	for _, c := range []struct {
		conv     chat.Address
		tag, say string
	}{
		{chat.Address{Space: chat.Slack, ID: "C1"}, "slack_attachments", "mrkdwn"},
		{chat.Address{Space: chat.Telegram, ID: "1"}, "telegram_attachments", "Telegram"},
		{chat.Address{Space: chat.Web, ID: "x"}, "web_attachments", "web page"},
		{chat.Address{Space: chat.Bridge, ID: "x"}, "web_attachments", "program"},
	} {
		p := DefaultProfile(c.conv)
		if p.AttachmentsTag != c.tag || !strings.Contains(p.Formatting, c.say) || p.Identity == "" {
			t.Errorf("%s: %+v", c.conv, p)
		}
	}
}
