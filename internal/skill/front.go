package skill

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxName        = 64   // bytes
	maxDescription = 1024 // characters
)

var errNoFront = errors.New("no front matter between two lines of ---")

// parse reads the front matter of a skill's file. fallback is the name of a
// skill that gives none. A description that is too long is cut and notice says
// so.
func parse(data []byte, fallback string) (s Skill, notice string, err error) {
	front, err := frontMatter(data)
	if err != nil {
		return Skill{}, "", err
	}
	var f struct {
		Name        string   `yaml:"name"`
		Description string   `yaml:"description"`
		Secrets     []string `yaml:"secrets"`
		Hidden      bool     `yaml:"disable-model-invocation"`
	}
	if err := yaml.Unmarshal(front, &f); err != nil {
		return Skill{}, "", fmt.Errorf("front matter: %w", err)
	}
	s = Skill{Name: f.Name, Description: strings.TrimSpace(f.Description), Secrets: f.Secrets, Hidden: f.Hidden}
	if s.Name == "" {
		s.Name = fallback
	}
	if err := checkName(s.Name); err != nil {
		return Skill{}, "", err
	}
	if s.Description == "" {
		return Skill{}, "", errors.New("no description")
	}
	if r := []rune(s.Description); len(r) > maxDescription {
		s.Description = string(r[:maxDescription-1]) + "…"
		notice = fmt.Sprintf("description of %d characters cut to %d", len(r), maxDescription)
	}
	return s, notice, nil
}

// frontMatter returns what stands between the first line, ---, and the next
// such line.
func frontMatter(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	first, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || string(bytes.TrimRight(first, " \t\r")) != "---" {
		return nil, errNoFront
	}
	for off := 0; off < len(rest); {
		line, _, _ := bytes.Cut(rest[off:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return rest[:off], nil
		}
		off += len(line) + 1
	}
	return nil, errNoFront
}

func checkName(name string) error {
	ok := len(name) > 0 && len(name) <= maxName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c == '-' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
	}
	if !ok {
		return fmt.Errorf("name %.80q must be 1 to %d characters of a-z, 0-9 and -", name, maxName)
	}
	return nil
}
