// Package skill reads what the model is told besides the conversation: skills
// (directories with a SKILL.md), the operator's constitution, the memory files
// and the log of environment changes. All of them are plain files of the
// workspace, read again when they change, without a restart.
//
// It owns the rules of discovery and the guard over files that the model
// rewrites itself. It does not put a prompt together; that is the runner's
// matter. A skill's body is never read here: the model reads it with a tool.
package skill

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// Options configure a Library.
type Options struct {
	// Workspace is the directory that holds skills/ and the memory files.
	Workspace string
	// SessionHidden are names of skills that conversations of programs do not
	// see; nil means spawn-agent. It is a hint and no barrier: the files can
	// still be read.
	SessionHidden []string
	// MaxBytes bounds what is read of a memory file; 0 means 64 KiB.
	MaxBytes int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger takes warnings about skills that were skipped; nil discards them.
	Logger *slog.Logger
}

const maxBytes = 64 << 10

// A Skill is an entry of the index that the model sees.
type Skill struct {
	Name        string
	Description string
	// Location is the absolute path of the skill's file on this machine, Dir
	// its directory: what {baseDir} in the body means.
	Location string
	Dir      string
	// Secrets are the names of secrets that the skill's scripts resolve.
	Secrets []string
	// Hidden skills are there for people and programs and not in the index.
	Hidden bool
	// Channel reports that the skill belongs to the conversation alone.
	Channel bool
}

// A Library reads the skills and notes of one workspace. It is safe for
// concurrent use.
type Library struct {
	opts Options
	root *os.Root

	// mu guards trees.
	mu    sync.Mutex
	trees map[string]*tree // by directory
}

// maxTrees bounds the directories remembered; above it all are read anew.
const maxTrees = 256

// New opens the library of a workspace, which must exist. Call Close when done.
func New(opts Options) (*Library, error) {
	if opts.Workspace == "" {
		return nil, errors.New("skills: no workspace given")
	}
	abs, err := filepath.Abs(opts.Workspace)
	if err != nil {
		return nil, err
	}
	opts.Workspace = abs
	if opts.SessionHidden == nil {
		opts.SessionHidden = []string{"spawn-agent"}
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = maxBytes
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	return &Library{opts: opts, root: root, trees: map[string]*tree{}}, nil
}

// Close releases the workspace.
func (l *Library) Close() error { return l.root.Close() }

// Skills returns the skills of a conversation in the order they are found: the
// workspace's, then the conversation's own, which take the place of those of
// the same name. Names in hide are left out. A zero address means the
// workspace's alone. Files that are no skills are left out with a warning; one
// that was a skill before a broken edit stays as it was.
func (l *Library) Skills(addr chat.Address, hide ...string) ([]Skill, error) {
	out, err := l.scan(filepath.Join(l.opts.Workspace, "skills"))
	if err != nil {
		return nil, err
	}
	if !addr.IsZero() {
		if err := chat.CheckID(addr.Channel()); err != nil {
			return nil, err
		}
		own, err := l.scan(filepath.Join(l.opts.Workspace, addr.Dir(), "skills"))
		if err != nil {
			return nil, err
		}
		for _, s := range own {
			s.Channel = true
			if i := slices.IndexFunc(out, func(o Skill) bool { return o.Name == s.Name }); i >= 0 {
				out[i] = s
			} else {
				out = append(out, s)
			}
		}
	}
	if addr.Space == chat.Session {
		hide = append(slices.Clone(hide), l.opts.SessionHidden...)
	}
	return slices.DeleteFunc(out, func(s Skill) bool { return slices.Contains(hide, s.Name) }), nil
}

// Index renders the skills that are not hidden as the block the model sees;
// without any it is empty. Values are escaped and on one line, so that no
// description can end the block. A caller whose tools see the files elsewhere
// translates Location first.
func Index(skills []Skill) string {
	var b strings.Builder
	for _, s := range skills {
		if s.Hidden {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("<available_skills>\n")
		}
		fmt.Fprintf(&b, "  <skill>\n    <name>%s</name>\n    <description>%s</description>\n    <location>%s</location>\n  </skill>\n",
			escape(s.Name), escape(s.Description), escape(s.Location))
	}
	if b.Len() == 0 {
		return ""
	}
	b.WriteString("</available_skills>")
	return b.String()
}

func escape(s string) string {
	r := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
	return r.Replace(strings.Join(strings.Fields(s), " "))
}
