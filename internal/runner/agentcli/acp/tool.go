package acp

import (
	"bytes"
	"encoding/json"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// resultRoom bounds the text of a tool's result; people see far less of it.
const resultRoom = 64 << 10

// take adds what an agent tells of a call; what it leaves out stays.
func (t *tool) take(c toolCall, content json.RawMessage) {
	if hasInput(c.Input) || len(t.Input) == 0 {
		t.Input = c.Input
	}
	t.kind = firstOf(c.ToolKind, t.kind)
	t.parent = firstOf(c.Meta.Claude.Parent, t.parent)
	name := strings.TrimPrefix(c.Meta.Claude.Tool, "mcp__acp__")
	in := inputOf(t.Input)
	t.Paths = union(t.Paths, in.paths())
	for _, l := range c.Locations {
		t.Paths = union(t.Paths, []string{l.Path})
	}
	t.Paths = union(t.Paths, diffPaths(content))
	t.Command, t.Dir = in.command(), firstOf(in.Cwd, in.Workdir)
	if t.What = deedOf(firstOf(t.kind, kinds[name])); t.Command != "" && (len(t.Paths) == 0 || t.What == agentcli.Execute) {
		t.What = agentcli.Execute
	} else {
		t.Command = ""
	}
	if t.Name = firstOf(name, t.Name); t.Name == "" || t.Name == names[""] {
		t.Name = firstOf(names[t.kind], names[""])
		if t.What == agentcli.Execute {
			t.Name = names["execute"]
		}
	}
}

// kinds are those of tools whose agent tells the name alone.
var kinds = map[string]string{
	"Bash": "execute", "Read": "read", "Grep": "search", "Glob": "search", "Write": "edit", "Edit": "edit",
	"NotebookEdit": "edit", "WebFetch": "fetch", "WebSearch": "fetch", "ExitPlanMode": "switch_mode",
}

// names are what a call is called whose agent tells the kind alone. Its title is
// no name: it may hold anything.
var names = map[string]string{
	"execute": "Bash", "read": "Read", "edit": "Edit", "delete": "Delete", "move": "Move", "search": "Search",
	"fetch": "Fetch", "think": "Think", "switch_mode": "Mode", "": "Tool",
}

func deedOf(kind string) agentcli.Deed {
	switch kind {
	case "execute":
		return agentcli.Execute
	case "read", "search":
		return agentcli.Read
	case "edit", "delete", "move":
		return agentcli.Edit
	case "fetch":
		return agentcli.Fetch
	}
	return agentcli.Other
}

// An input is what agents agree on in the input of their tools.
type input struct {
	Command  json.RawMessage `json:"command"`
	Cmd      json.RawMessage `json:"cmd"`
	Path     string          `json:"path"`
	FilePath string          `json:"file_path"`
	Absolute string          `json:"absolute_path"`
	Notebook string          `json:"notebook_path"`
	FileName string          `json:"fileName"`
	Cwd      string          `json:"cwd"`
	Workdir  string          `json:"workdir"`
	Plan     string          `json:"plan"`
}

func inputOf(raw json.RawMessage) (in input) {
	_ = decode(raw, &in) // what is no object has nothing to tell
	return in
}

func (in input) paths() (list []string) {
	for _, p := range []string{in.Path, in.FilePath, in.Absolute, in.Notebook, in.FileName} {
		if p != "" {
			list = append(list, p)
		}
	}
	return list
}

// command is the shell command of an input: a text, or words.
func (in input) command() string {
	for _, raw := range []json.RawMessage{in.Command, in.Cmd} {
		var s string
		if json.Unmarshal(raw, &s) == nil && s != "" {
			return s
		}
		var words []string
		if json.Unmarshal(raw, &words) == nil && len(words) > 0 {
			return quote(words)
		}
	}
	return ""
}

// quote writes words so that a shell reads them as they are.
func quote(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil {
			q = "'" + strings.ReplaceAll(strings.ReplaceAll(w, "\x00", ""), "'", `'\''`) + "'"
		}
		b.WriteString(q)
	}
	return b.String()
}

// hasInput reports that raw tells anything.
func hasInput(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) && !bytes.Equal(raw, []byte("{}"))
}

// A part is one of the contents of a tool call.
type part struct {
	Type    string `json:"type"`
	Path    string `json:"path"`
	Content block  `json:"content"`
}

func diffPaths(content json.RawMessage) (list []string) {
	var parts []part
	if decode(content, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		if p.Type == "diff" && p.Path != "" {
			list = append(list, p.Path)
		}
	}
	return list
}

// resultOf is what came out of a tool, as text.
func resultOf(output, content json.RawMessage) string {
	var parts []part
	var b strings.Builder
	if decode(content, &parts) == nil {
		for _, p := range parts {
			if p.Type == "content" && p.Content.Text != "" {
				b.WriteString(p.Content.Text)
			}
		}
	}
	if b.Len() > 0 {
		return clip(b.String(), resultRoom)
	}
	var s string
	if json.Unmarshal(output, &s) == nil {
		return clip(s, resultRoom)
	}
	var o struct {
		Content string `json:"content"`
		Message string `json:"message"`
		Output  string `json:"output"`
	}
	if decode(output, &o) == nil {
		return clip(firstOf(o.Content, o.Output, o.Message), resultRoom)
	}
	return ""
}
