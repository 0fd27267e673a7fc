package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/chat"
)

// The files of notes.
const (
	constitutionFile = "CONSTITUTION.md"
	memoryFile       = "MEMORY.md"
	systemFile       = "SYSTEM.md"
)

// Constitution returns the operator's rules; empty when there are none. A file
// beyond Options.MaxBytes is cut at the end, with a notice.
func (l *Library) Constitution() (string, error) { return l.note(constitutionFile, false) }

// SystemLog returns the log of changes to the environment; empty when there is
// none. A file beyond Options.MaxBytes loses its beginning, with a notice.
func (l *Library) SystemLog() (string, error) { return l.note(systemFile, true) }

// GlobalMemory and ChannelMemory return the memory of the workspace and of a
// conversation, empty when there is none and cut like the constitution.
func (l *Library) GlobalMemory() (string, error) { return l.note(memoryFile, false) }

// ChannelMemory: see GlobalMemory.
func (l *Library) ChannelMemory(addr chat.Address) (string, error) {
	if err := chat.CheckID(addr.Channel()); err != nil {
		return "", err
	}
	return l.note(path.Join(addr.Dir(), memoryFile), false)
}

// Memory returns both memories under their headings, empty when there is
// neither. A memory that cannot be read does not hide the other: what could be
// read comes with the error.
func (l *Library) Memory(addr chat.Address) (string, error) {
	global, err := l.GlobalMemory()
	own, ownErr := l.ChannelMemory(addr)
	var parts []string
	if global != "" {
		parts = append(parts, "### Global Workspace Memory\n"+global)
	}
	if own != "" {
		parts = append(parts, "### Channel-Specific Memory\n"+own)
	}
	return strings.Join(parts, "\n\n"), errors.Join(err, ownErr)
}

// note reads a file of the workspace. Links are refused: the model can write
// in the workspace, and what a link leads to would go into a prompt.
func (l *Library) note(p string, keepEnd bool) (string, error) {
	if err := l.checkNote(p); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", fmt.Errorf("read %s: %w", p, err)
	}
	f, err := l.root.Open(p)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", p, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", p, err)
	}
	size, limit := info.Size(), int64(l.opts.MaxBytes)
	off := int64(0)
	if keepEnd && size > limit {
		off = size - limit
	}
	data, err := io.ReadAll(io.NewSectionReader(f, off, limit))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", p, err)
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(trimRune(data)), ""))
	switch {
	case size <= limit:
	case keepEnd:
		text = fmt.Sprintf("[The first %d of %d bytes are left out; %s has them.]\n%s", off, size, p, text)
	default:
		text = fmt.Sprintf("%s\n[The last %d of %d bytes are left out; %s has them. Make the file shorter.]", text, size-limit, size, p)
	}
	return text, nil
}

// trimRune drops halves of characters at both ends.
func trimRune(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	for i := 1; i <= min(utf8.UTFMax, len(b)); i++ {
		if utf8.RuneStart(b[len(b)-i]) {
			if !utf8.FullRune(b[len(b)-i:]) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// checkNote accepts regular files only.
func (l *Library) checkNote(p string) error {
	// Most conversations have no notes, and every turn asks for all of them: a
	// look at the plain path costs one call where the guarded one takes a few
	// for each directory on the way. What is there is looked at properly.
	if _, err := os.Lstat(filepath.Join(l.opts.Workspace, p)); errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := l.root.Lstat(p)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("is a link: put the text itself there")
	case !info.Mode().IsRegular():
		return errors.New("is not a file")
	}
	return nil
}
