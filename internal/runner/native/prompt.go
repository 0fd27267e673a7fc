package native

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
)

// The texts, each in a file of its own.
var (
	//go:embed prompt/agent.md
	agentText string
	//go:embed prompt/agents.md
	agentsText string
	//go:embed prompt/changes.md
	changesText string
	//go:embed prompt/constitution.md
	constitutionText string
	//go:embed prompt/directory.md
	directoryText string
	//go:embed prompt/formatting.md
	formattingText string
	//go:embed prompt/host.md
	hostText string
	//go:embed prompt/mcp.md
	mcpText string
	//go:embed prompt/plain.md
	plainText string
	//go:embed prompt/sandbox.md
	sandboxText string
	//go:embed prompt/slack.md
	slackText string
	//go:embed prompt/system.md
	systemText string
	//go:embed prompt/telegram.md
	telegramText string
	//go:embed prompt/web.md
	webText string

	// summarised stands before a summary in the context.
	//go:embed prompt/summarised.md
	summarised string
	//go:embed prompt/summary.md
	summaryPrompt string
)

// system returns the system prompt of a conversation. Nothing in it may depend on
// the time or on the turn: it is byte-identical as long as its sources are. The
// texts are files with places to fill in and no more: a template language that
// calls methods by name would keep every method of every library in the binary.
func (n *Native) system(_ context.Context, conv chat.Address, notes Notes) (string, error) {
	profile := n.opts.Profile(conv)
	environment := fill(hostText)
	if n.opts.Sandbox != "host" {
		environment = fill(sandboxText, "sandbox", n.opts.Sandbox)
	}
	var people, mcp, sections string
	if n.opts.Directory != nil {
		people = directory(n.opts.Directory(conv))
	}
	if n.opts.MCPStatus != nil {
		mcp = fill(mcpText)
	}
	if n.opts.Sections != nil {
		for _, s := range n.opts.Sections(conv) {
			sections += "\n" + s + "\n"
		}
	}
	return fill(systemText,
		"identity", profile.Identity,
		"constitution", passage(constitutionText, notes.Constitution),
		"formatting", passage(formattingText, profile.Formatting),
		"directory", passage(directoryText, people),
		"environment", environment,
		"dir", n.opts.Dir,
		"workspace", n.opts.Workspace,
		"channel", strings.TrimSuffix(n.opts.Workspace, "/")+"/"+conv.Dir(),
		"skills", skillIndex(notes.Skills, conv),
		"agents", n.agents(),
		"mcp", mcp,
		"sections", sections,
		"changes", passage(changesText, notes.System),
	), nil
}

// fill puts values, given as name and value in turns, into a text. What is filled
// in is not looked at again.
func fill(text string, values ...string) string {
	var b strings.Builder
	n := len(text)
	for _, v := range values {
		n += len(v)
	}
	b.Grow(n)
	rest := text
	for {
		before, after, found := strings.Cut(rest, "{{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, end, closed := strings.Cut(after, "}}")
		value, known := "", false
		for i := 0; i+1 < len(values) && closed && !known; i += 2 {
			value, known = values[i+1], values[i] == name
		}
		if known {
			b.WriteString(value)
			rest = end
			continue
		}
		b.WriteString("{{") // no place to fill in
		rest = after
	}
}

// passage is a text under its heading, nothing without the text.
func passage(heading, text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return fill(heading, "text", text)
}

func skillIndex(skills []Skill, conv chat.Address) string {
	var b strings.Builder
	for _, s := range skills {
		if s.Name == spawnSkill && conv.Space == chat.Session {
			continue
		}
		fmt.Fprintf(&b, "<skill><name>%s</name><description>%s</description><location>%s</location></skill>\n", xml(s.Name), xml(s.Description), xml(s.Location))
	}
	if b.Len() == 0 {
		return "\nNo skills are installed yet.\n"
	}
	return "\n<available_skills>\n" + b.String() + "</available_skills>\n"
}

func (n *Native) agents() string {
	if n.opts.Agents == nil {
		return ""
	}
	var b strings.Builder
	for _, a := range slices.SortedFunc(slices.Values(n.opts.Agents()), func(a, b AgentInfo) int { return cmp.Compare(a.Name, b.Name) }) {
		fmt.Fprintf(&b, "- **%s**", a.Name)
		if a.Description != "" {
			b.WriteString(": " + a.Description)
		}
		if a.URL != "" {
			b.WriteString("\n" + strings.TrimRight(fill(agentText, "url", a.URL), "\n"))
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return ""
	}
	return fill(agentsText, "agents", b.String())
}

// directory lists people and channels by id.
func directory(entries []Entry) string {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	var b strings.Builder
	for _, channels := range []bool{false, true} {
		for _, e := range entries {
			switch {
			case e.Channel != channels:
			case e.Channel:
				fmt.Fprintf(&b, "- %s #%s\n", name(e.ID), name(e.Name))
			default:
				fmt.Fprintf(&b, "- %s @%s %s\n", name(e.ID), name(e.Name), name(e.Display))
			}
		}
	}
	return b.String()
}

func xml(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\n", " ").Replace(s)
}

// spawnSkill is not shown in sessions: what a program starts should not start
// agents. A hint and no more, the shell can do it all the same.
const spawnSkill = "spawn-agent"

// identity is the first line of the system prompt.
const identity = "You are Iris, an assistant and operator who works with a team."

// DefaultProfile returns how to speak in a conversation, by its space.
func DefaultProfile(conv chat.Address) Profile {
	formatting, tag := plainText, "web"
	switch conv.Space {
	case chat.Slack:
		formatting, tag = slackText, "slack"
	case chat.Telegram:
		formatting, tag = telegramText, "telegram"
	case chat.Web:
		formatting = webText
	}
	return Profile{Identity: identity, Formatting: strings.TrimSpace(formatting), AttachmentsTag: tag + "_attachments"}
}
