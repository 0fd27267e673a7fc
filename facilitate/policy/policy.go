// Package policy reads how Iris behaves: Markdown for the model, with a front
// matter the engine obeys, so that a stance is never guessed from prose. Four
// policies ship with the SDK. A policy is read-only and may be swapped at any
// time; it applies from the next beat.
package policy

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed preset/*.md
var presets embed.FS

// A Stance is who speaks to the room.
type Stance string

// The stances.
const (
	Facilitator Stance = "facilitator" // Iris may surface what she was allowed to
	Coach       Stance = "coach"       // the person speaks, Iris helps in private
	Standup     Stance = "standup"     // Iris asks after work and blockers
	Teller      Stance = "vote-teller" // Iris runs votes and has no opinion
)

// A Mirror says what a person may see of what Iris holds about them.
type Mirror string

// The mirrors. The default is MirrorContributions.
const (
	MirrorNone          Mirror = "none"
	MirrorContributions Mirror = "own-contributions"
	MirrorRecord        Mirror = "own-record"
)

// A Policy is one way to behave.
type Policy struct {
	Name      string
	Stance    Stance
	Intents   []string // intents a choice may use; empty allows all
	Quietness int      // public lines between two posts; 0 leaves the engine's default
	K         int      // support from which threshold statements show; 0 leaves the surface's
	NExact    int      // voters from which exact counts show; 0 leaves the surface's
	Mirror    Mirror
	Text      string // for the model
}

// Allows reports whether an intent may be used.
func (p Policy) Allows(intent string) bool {
	return len(p.Intents) == 0 || slices.Contains(p.Intents, intent)
}

// Parse reads a policy: front matter between two lines of "---", then Markdown.
// An unknown key or value is an error that names it.
func Parse(text string) (Policy, error) {
	p := Policy{Stance: Facilitator, Mirror: MirrorContributions}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		p.Text = strings.TrimSpace(text)
		return p, p.check()
	}
	head, body, ok := strings.Cut(rest, "\n---\n")
	if !ok {
		return p, fmt.Errorf("policy: the front matter has no end")
	}
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return p, fmt.Errorf("policy: %q is not key: value", line)
		}
		if err := p.set(strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return p, err
		}
	}
	p.Text = strings.TrimSpace(body)
	return p, p.check()
}

func (p *Policy) set(key, value string) (err error) {
	switch key {
	case "name":
		p.Name = value
	case "stance":
		p.Stance = Stance(value)
	case "mirror":
		p.Mirror = Mirror(value)
	case "intents":
		for _, i := range strings.Split(strings.Trim(value, "[]"), ",") {
			if i = strings.TrimSpace(i); i != "" {
				p.Intents = append(p.Intents, i)
			}
		}
	case "quietness":
		p.Quietness, err = strconv.Atoi(value)
	case "k":
		p.K, err = strconv.Atoi(value)
	case "nexact":
		p.NExact, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("policy: unknown key %q", key)
	}
	if err != nil {
		return fmt.Errorf("policy: %s: %q is not a number", key, value)
	}
	return nil
}

func (p Policy) check() error {
	switch {
	case !slices.Contains([]Stance{Facilitator, Coach, Standup, Teller}, p.Stance):
		return fmt.Errorf("policy: unknown stance %q", p.Stance)
	case !slices.Contains([]Mirror{MirrorNone, MirrorContributions, MirrorRecord}, p.Mirror):
		return fmt.Errorf("policy: unknown mirror %q", p.Mirror)
	case p.Quietness < 0 || p.K < 0 || p.NExact < 0:
		return fmt.Errorf("policy: a number is negative")
	case p.Text == "":
		return fmt.Errorf("policy: no text")
	}
	return nil
}

// Names lists the policies that ship, sorted.
func Names() (out []string) {
	files, _ := fs.Glob(presets, "preset/*.md")
	for _, f := range files {
		if n := strings.TrimSuffix(strings.TrimPrefix(f, "preset/"), ".md"); n != "core" {
			out = append(out, n)
		}
	}
	return out
}

// Preset returns a policy that ships: its own stance and the core that all
// share.
func Preset(name string) (Policy, error) {
	own, err := presets.ReadFile("preset/" + name + ".md")
	if err != nil || name == "core" {
		return Policy{}, fmt.Errorf("no policy %q: have %s", name, strings.Join(Names(), ", "))
	}
	core, err := presets.ReadFile("preset/core.md")
	if err != nil {
		return Policy{}, err
	}
	p, err := Parse(string(own))
	p.Text = strings.TrimSpace(string(core)) + "\n\n" + p.Text
	return p, err
}
