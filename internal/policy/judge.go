package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Options of a Judge.
type Options struct {
	// Workspace is the directory whose state/ belongs to Iris alone. Required.
	Workspace string
	// Home is what "~" means; empty leaves it as it is written.
	Home string
	// Secrets are further base names of files that nobody may open.
	Secrets []string
}

// A Judge gives verdicts. Make it with New.
type Judge struct {
	opts    Options
	secrets []string
}

// secretFiles are the base names that no command and no file tool may open.
var secretFiles = []string{".env", "secret.key", "secrets.json.enc", "agents.json"}

// metadataHosts serve credentials of the machine to whoever asks.
var metadataHosts = []string{"169.254.169.254", "metadata.google.internal", "100.100.100.100"}

// maxCommand bounds what is parsed, in bytes.
const maxCommand = 128 << 10

// New checks the options.
func New(opts Options) (*Judge, error) {
	if !filepath.IsAbs(opts.Workspace) {
		return nil, fmt.Errorf("policy: the workspace %q is not absolute", opts.Workspace)
	}
	return &Judge{opts, append(slices.Clone(secretFiles), opts.Secrets...)}, nil
}

// Command judges a command that bash is about to run in cwd with env.
func (j *Judge) Command(command string, _ []string, cwd string) Verdict {
	unjudged := Verdict{Confirm, "unjudged", "", "the command cannot be judged"}
	if len(command) > maxCommand {
		return unjudged
	}
	tree, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return unjudged
	}
	verdict := Verdict{Decision: Allow}
	syntax.Walk(tree, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok && verdict.Decision == Allow {
			verdict = j.word(literal(w), cwd)
		}
		return verdict.Decision == Allow
	})
	return verdict
}

// word judges one word of a command.
func (j *Judge) word(text, cwd string) Verdict {
	lower := strings.ToLower(text)
	for _, h := range metadataHosts {
		if strings.Contains(lower, h) {
			return Verdict{Deny, "metadata", text, "command targets a cloud instance metadata endpoint"}
		}
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" =:,;'\"()@", r) }) {
		if v := j.Path(Read, part, cwd); v.Decision != Allow {
			return v
		}
	}
	return Verdict{Decision: Allow}
}

// literal is the text of a word as far as it is known without running anything.
func literal(w *syntax.Word) string {
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, p := range parts {
			switch p := p.(type) {
			case *syntax.Lit:
				b.WriteString(p.Value)
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				add(p.Parts)
			}
		}
	}
	add(w.Parts)
	return b.String()
}

// Path judges a path that a tool is about to open. A relative one is relative to
// cwd.
func (j *Judge) Path(_ Access, path, cwd string) Verdict {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && j.opts.Home != "" {
		path = filepath.Join(j.opts.Home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	path = filepath.Clean(path)
	if base := filepath.Base(path); slices.Contains(j.secrets, base) {
		return Verdict{Deny, "secret", path, "command references a secret file (" + base + ")"}
	}
	state := filepath.Join(j.opts.Workspace, "state")
	if path == state || strings.HasPrefix(path, state+"/") {
		return Verdict{Deny, "state", path, "state/ belongs to Iris alone"}
	}
	return Verdict{Decision: Allow}
}
