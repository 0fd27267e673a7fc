package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/durable"
)

const (
	versionsDir = ".versions"
	// maxVersions bounds the copies kept of a file.
	maxVersions = 20
	// A memory file of more than guardFrom bytes does not lose more than half
	// in one write. Real clean-ups come in pieces; an answer that was cut
	// short comes all at once.
	guardFrom = 1 << 10
)

// ErrShrinks refuses a write that would lose most of a memory file. Its text
// is for the model and says what to do instead.
var ErrShrinks = errors.New("the new text is less than half of the old one")

// Guard judges a write to a file of the workspace: replacing more than 1 KiB
// of a memory file (MEMORY.md, SYSTEM.md, CONSTITUTION.md) by less than half
// of it is ErrShrinks. Everything else passes. Large removals are made in
// several edits, each of which leaves at least half.
func Guard(p string, old, new []byte) error {
	if !IsNote(p) || len(old) <= guardFrom || 2*len(new) >= len(old) {
		return nil
	}
	return fmt.Errorf("%s was not changed: it has %d bytes and would have %d: %w. If the text was cut short, write it again whole. "+
		"To remove a lot on purpose, use edit several times and leave at least half each time", p, len(old), len(new), ErrShrinks)
}

// IsNote reports whether a path names a file that Guard and Keep look after.
func IsNote(p string) bool {
	switch filepath.Base(p) {
	case memoryFile, systemFile, constitutionFile:
		return true
	}
	return false
}

// A Version is a former text of a file.
type Version struct {
	Path string // relative to the workspace
	At   time.Time
	Size int64
}

// versionTime sorts as text.
const versionTime = "20060102T150405.000000000Z"

// Keep copies the present text of a file to .versions/ beside it, before it is
// written. p is absolute or relative to the workspace and must lie in it. A
// missing file, and a text that is the latest version already, are no work.
// The oldest copies above 20 are removed.
func (l *Library) Keep(p string) error {
	rel, err := l.relative(p)
	if err != nil {
		return err
	}
	data, err := l.root.ReadFile(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", rel, err)
	}
	versions, err := l.Versions(rel)
	if err != nil {
		return err
	}
	if len(versions) > 0 {
		if last, err := l.root.ReadFile(versions[0].Path); err == nil && bytes.Equal(last, data) {
			return nil
		}
	}
	if err := l.writeVersion(rel, data); err != nil {
		return fmt.Errorf("keep %s: %w", rel, err)
	}
	for _, v := range versions[min(len(versions), maxVersions-1):] {
		if err := l.root.Remove(v.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep %s: %w", rel, err)
		}
	}
	return nil
}

func (l *Library) writeVersion(rel string, data []byte) error {
	dir := versionsOf(rel)
	if err := l.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	at := l.opts.Now()
	for {
		err := durable.CreateIn(l.root, path.Join(dir, at.UTC().Format(versionTime)), data, durable.Exactly(0o600))
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		at = at.Add(time.Nanosecond)
	}
}

// Versions lists the kept texts of a file, the latest first.
func (l *Library) Versions(p string) ([]Version, error) {
	rel, err := l.relative(p)
	if err != nil {
		return nil, err
	}
	dir := versionsOf(rel)
	entries, err := fs.ReadDir(l.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("versions of %s: %w", rel, err)
	}
	var out []Version
	for _, e := range entries {
		at, err := time.Parse(versionTime, e.Name())
		if err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		out = append(out, Version{Path: path.Join(dir, e.Name()), At: at, Size: info.Size()})
	}
	slices.Reverse(out)
	return out, nil
}

func versionsOf(rel string) string {
	return path.Join(path.Dir(rel), versionsDir, path.Base(rel))
}

// relative brings a path into the workspace or refuses it.
func (l *Library) relative(p string) (string, error) {
	rel := filepath.Clean(p)
	if filepath.IsAbs(p) {
		var err error
		if rel, err = filepath.Rel(l.opts.Workspace, p); err != nil {
			return "", err
		}
	}
	if !filepath.IsLocal(rel) || rel == "." || strings.HasSuffix(p, "/") {
		return "", fmt.Errorf("%q is not a file of the workspace", p)
	}
	return filepath.ToSlash(rel), nil
}
