package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	skillFile = "SKILL.md"
	// maxDepth ends a search that links make endless in a way the check for
	// loops does not see.
	maxDepth = 12
	// maxFront is how much of a file is looked at for its front matter.
	maxFront = 64 << 10
	// tick is more than the steps in which file systems count time: what
	// changed this shortly before it was read may change again unseen.
	tick = 50 * time.Millisecond
)

// A tree is the result of searching one directory, and what to look at to know
// that it still holds.
type tree struct {
	skills []Skill
	seen   []mark
	fresh  bool // read too shortly after a change to be relied on
}

// A mark is a file or directory as it was when it was read.
type mark struct {
	path     string
	dev, ino uint64
	mode     uint32
	size     int64
	modified syscall.Timespec
}

// look asks the kernel itself: every turn asks for every file of every skill.
func look(p string) (mark, error) {
	var st syscall.Stat_t
	for {
		err := syscall.Stat(p, &st)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return mark{}, &fs.PathError{Op: "stat", Path: p, Err: err}
		}
		return mark{path: p, dev: uint64(st.Dev), ino: st.Ino, mode: st.Mode, size: st.Size, modified: st.Mtim}, nil
	}
}

func (m mark) isDir() bool  { return m.mode&syscall.S_IFMT == syscall.S_IFDIR }
func (m mark) isFile() bool { return m.mode&syscall.S_IFMT == syscall.S_IFREG }

func (t *tree) current() bool {
	if t.fresh {
		return false
	}
	for _, m := range t.seen {
		if now, err := look(m.path); err != nil || now != m {
			return false
		}
	}
	return true
}

// scan returns the skills below dir; the caller owns the slice. A missing
// directory has none.
func (l *Library) scan(dir string) ([]Skill, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.trees[dir]
	if old != nil && old.current() {
		return slices.Clone(old.skills), nil
	}
	m, err := look(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !m.isDir() {
		delete(l.trees, dir)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	s := search{lib: l, root: dir, old: old, started: time.Now(), tree: &tree{}}
	if s.walk(m, "", nil, nil); s.err != nil {
		return nil, fmt.Errorf("skills: %w", s.err)
	}
	if len(l.trees) >= maxTrees {
		clear(l.trees)
	}
	l.trees[dir] = s.tree
	return slices.Clone(s.tree.skills), nil
}

// A search walks one tree.
type search struct {
	lib     *Library
	root    string
	old     *tree
	started time.Time
	tree    *tree
	err     error // of the root; other directories only warn
}

func (s *search) note(m mark) {
	s.tree.seen = append(s.tree.seen, m)
	if s.started.Sub(time.Unix(m.modified.Unix())) < tick {
		s.tree.fresh = true
	}
}

func (s *search) warn(p string, why any) {
	s.lib.opts.Logger.Warn("skill skipped", "path", p, "why", why)
}

// walk searches a directory. above are the directories it lies in, rules the
// ignore rules from them.
func (s *search) walk(at mark, rel string, above []mark, rules []rule) {
	dir := filepath.Join(s.root, rel)
	s.note(at)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if rel == "" {
			s.err = err
			return
		}
		s.warn(dir, err)
		return
	}
	// A directory with a skill is one, and is not searched deeper.
	if rel != "" && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == skillFile }) {
		if !ignored(rules, path.Join(rel, skillFile), false) {
			s.take(filepath.Join(dir, skillFile), path.Base(rel))
		}
		return
	}
	for _, name := range ignoreFiles {
		if data, err := s.read(filepath.Join(dir, name)); err == nil {
			rules = append(slices.Clip(rules), parseIgnore(rel, string(data))...)
		}
	}
	above = append(slices.Clip(above), at)
	for _, e := range entries {
		s.visit(path.Join(rel, e.Name()), e.Name(), above, rules)
	}
}

func (s *search) visit(rel, name string, above []mark, rules []rule) {
	if strings.HasPrefix(name, ".") || name == "node_modules" {
		return
	}
	p := filepath.Join(s.root, rel)
	m, err := look(p)
	if err != nil {
		if !ignored(rules, rel, false) {
			s.warn(p, err)
		}
		return
	}
	if ignored(rules, rel, m.isDir()) {
		return
	}
	switch {
	case m.isDir():
		loop := slices.ContainsFunc(above, func(a mark) bool { return a.dev == m.dev && a.ino == m.ino })
		if loop || len(above) >= maxDepth {
			s.warn(p, "the directory lies in itself or too deep")
			return
		}
		s.walk(m, rel, above, rules)
	case len(above) == 1 && strings.HasSuffix(name, ".md"):
		s.take(p, strings.TrimSuffix(name, ".md"))
	}
}

// take adds the skill of a file.
func (s *search) take(p, fallback string) {
	sk, notice, err := s.load(p, fallback)
	if err != nil {
		s.warn(p, err)
		if s.old == nil {
			return
		}
		i := slices.IndexFunc(s.old.skills, func(o Skill) bool { return o.Location == p })
		if i < 0 || errors.Is(err, fs.ErrNotExist) {
			return
		}
		sk = s.old.skills[i]
		s.lib.opts.Logger.Warn("skill kept as it was before the edit", "path", p, "name", sk.Name)
	}
	if notice != "" {
		s.lib.opts.Logger.Warn("skill changed", "path", p, "how", notice)
	}
	if slices.ContainsFunc(s.tree.skills, func(o Skill) bool { return o.Name == sk.Name }) {
		s.warn(p, fmt.Sprintf("the name %s is taken by one found before", sk.Name))
		return
	}
	s.tree.skills = append(s.tree.skills, sk)
}

func (s *search) load(p, fallback string) (Skill, string, error) {
	data, err := s.read(p)
	if err != nil {
		return Skill{}, "", err
	}
	sk, notice, err := parse(data, fallback)
	sk.Location, sk.Dir = p, filepath.Dir(p)
	return sk, notice, err
}

// read returns the beginning of a regular file; a pipe would never end.
func (s *search) read(p string) ([]byte, error) {
	m, err := look(p)
	if err != nil {
		return nil, err
	}
	s.note(m)
	if !m.isFile() {
		return nil, errors.New("not a file")
	}
	f, err := os.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFront))
}
