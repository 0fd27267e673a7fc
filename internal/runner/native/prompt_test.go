package native

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/skill"
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

func TestNotesFromALibrary(t *testing.T) {
	m := scriptedOK(info)
	b := newBed(t, one(m), nil)
	b.file("CONSTITUTION.md", []byte("Never touch the pump."))
	b.file("MEMORY.md", []byte("all know this"))
	b.file("WEBUI-room/MEMORY.md", []byte("only here"))
	b.file("SYSTEM.md", []byte("installed jq"))
	b.file("skills/status/SKILL.md", []byte("---\nname: status\ndescription: How things are.\n---\nx"))
	b.file("skills/spawn-agent/SKILL.md", []byte("---\nname: spawn-agent\ndescription: Makes agents.\n---\nx"))
	b.file("skills/quiet/SKILL.md", []byte("---\nname: quiet\ndescription: Not shown.\ndisable-model-invocation: true\n---\nx"))
	l, err := skill.New(skill.Options{Workspace: b.root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b.opts.Notes = NotesFrom(l, b.root, "/ws")
	b.restart()
	b.say("hi")
	req := last(t, m)
	for _, want := range []string{"Never touch the pump.", "installed jq", "<location>/ws/skills/status/SKILL.md</location>", "spawn-agent"} {
		if !strings.Contains(req.System, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	if strings.Contains(req.System, "Not shown.") || strings.Contains(req.System, "all know this") {
		t.Error("the prompt has what it should not")
	}
	if text := req.Messages[0].Parts[0].Text; !strings.Contains(text, "### Global Workspace Memory\nall know this\n### Channel-Specific Memory\nonly here\n") {
		t.Errorf("message = %q", text)
	}
	// A note that may not be read does not take the turn or the others.
	if err := os.Remove(filepath.Join(b.root, "MEMORY.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(b.root, "MEMORY.md")); err != nil {
		t.Fatal(err)
	}
	b.say("hi")
	if text := last(t, m).Messages[2].Parts[0].Text; !strings.Contains(text, "only here") {
		t.Errorf("message = %q", text)
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
