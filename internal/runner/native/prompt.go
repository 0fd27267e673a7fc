package native

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/iris-operator/iris/internal/chat"
)

//go:embed prompt/*.md
var texts embed.FS

// summarised stands before a summary in the context.
//
//go:embed prompt/summarised.md
var summarised string

//go:embed prompt/summary.md
var summaryPrompt string

// prompts are the parsed templates.
type prompts struct {
	system *template.Template
}

func newPrompts() (*prompts, error) {
	t, err := template.New("system.md").ParseFS(texts, "prompt/system.md")
	if err != nil {
		return nil, fmt.Errorf("system prompt: %w", err)
	}
	return &prompts{system: t}, nil
}

// systemView is what the template sees. Nothing in it may depend on the time or
// on the turn: the prompt is byte-identical as long as its sources are.
type systemView struct {
	Profile
	Constitution, Directory string
	Sandbox, Workspace      string
	Channel                 string // directory of the conversation, as tools see it
	Skills                  []Skill
	Agents                  []AgentInfo
	MCP                     bool
	Sections                []string
	System                  string
}

// system returns the system prompt of a conversation.
func (n *Native) system(_ context.Context, conv chat.Address, notes Notes) (string, error) {
	v := systemView{
		Profile:      n.opts.Profile(conv),
		Constitution: strings.TrimSpace(notes.Constitution),
		System:       strings.TrimSpace(notes.System),
		Sandbox:      n.opts.Sandbox,
		Workspace:    n.opts.Workspace,
		Channel:      strings.TrimSuffix(n.opts.Workspace, "/") + "/" + conv.Dir(),
		MCP:          n.opts.MCPStatus != nil,
	}
	for _, s := range notes.Skills {
		if s.Name == spawnSkill && conv.Space == chat.Session {
			continue
		}
		v.Skills = append(v.Skills, Skill{Name: xml(s.Name), Description: xml(s.Description), Location: xml(s.Location)})
	}
	if n.opts.Directory != nil {
		v.Directory = directory(n.opts.Directory(conv))
	}
	if n.opts.Agents != nil {
		v.Agents = slices.SortedFunc(slices.Values(n.opts.Agents()), func(a, b AgentInfo) int { return cmp.Compare(a.Name, b.Name) })
	}
	if n.opts.Sections != nil {
		v.Sections = n.opts.Sections(conv)
	}
	var b strings.Builder
	b.Grow(8 << 10)
	if err := n.prompt.system.Execute(&b, v); err != nil {
		return "", fmt.Errorf("system prompt: %w", err)
	}
	return b.String(), nil
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
	kind := "plain"
	switch conv.Space {
	case chat.Slack, chat.Telegram, chat.Web:
		kind = string(conv.Space)
	}
	tag := kind
	if kind == "plain" {
		tag = "web"
	}
	text, err := texts.ReadFile("prompt/" + kind + ".md")
	if err != nil {
		text = nil // embedded: cannot happen, and the prompt works without
	}
	return Profile{Identity: identity, Formatting: strings.TrimSpace(string(text)), AttachmentsTag: tag + "_attachments"}
}
