package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

const (
	// Format is the number of the workspace layout this version writes.
	Format     = 1
	stateDir   = "state"
	formatFile = stateDir + "/format.json"
	backupDir  = stateDir + "/backup"
)

// A format is what state/format.json holds.
type format struct {
	Format int `json:"format"`
	// Migrating is the format that a migration is under way to; Backup is
	// where the copy from before it lies.
	Migrating int    `json:"migrating,omitempty"`
	Backup    string `json:"backup,omitempty"`
}

// PrepareOptions configure Prepare.
type PrepareOptions struct {
	// Root is the workspace. It is made, for its owner only, if it is missing.
	Root string
	// Now is the clock; nil means time.Now. It names backups.
	Now func() time.Time
	// Logger hears of what was moved; nil discards it.
	Logger *slog.Logger
}

// CheckWorkspace reports what would keep Prepare from its work: no error, one
// that wraps ErrFormat (a newer version wrote the workspace) or ErrCorrupt. It
// changes nothing; a missing workspace is fine.
func CheckWorkspace(root string) error {
	_, _, err := readFormat(root)
	return err
}

func readFormat(root string) (f format, found bool, err error) {
	p := filepath.Join(root, formatFile)
	data, err := os.ReadFile(p)
	if errors.Is(err, fs.ErrNotExist) {
		return format{}, false, nil
	}
	if err != nil {
		return format{}, false, err
	}
	if err := json.Unmarshal(data, &f); err != nil || f.Format < 0 || f.Format == 0 && f.Migrating == 0 {
		return format{}, false, fmt.Errorf("%s: %w: it should hold {\"format\":%d}", p, ErrCorrupt, Format)
	}
	if n := max(f.Format, f.Migrating); n > Format {
		return format{}, false, fmt.Errorf("%w: %s says %d and this version knows %d: use a newer Iris, or restore a backup", ErrFormat, p, n, Format)
	}
	return f, true, nil
}

// Prepare makes a directory a workspace of this version: it checks that it can
// be written, makes state/ (0700) and moves what older versions laid out
// otherwise, after a copy in state/backup. A migration that was cut off is
// completed. It never overwrites anything. It must not run beside a Store of
// the same workspace.
func Prepare(opts PrepareOptions) error {
	if opts.Root == "" {
		return errors.New("no workspace given")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(opts.Root, dirMode); err != nil {
		return fmt.Errorf("workspace %s cannot be made: %w", opts.Root, err)
	}
	f, found, err := readFormat(opts.Root)
	if err != nil {
		return err
	}
	if err := writable(opts.Root); err != nil {
		return fmt.Errorf("workspace %s cannot be written: %w", opts.Root, err)
	}
	p := preparation{opts: opts}
	moves, err := p.plan()
	if err != nil {
		return err
	}
	if err := p.migrate(f, moves); err != nil {
		return fmt.Errorf("migrate workspace %s: %w", opts.Root, err)
	}
	if found && f.Format == Format && f.Migrating == 0 && len(moves) == 0 {
		return nil
	}
	return p.writeFormat(format{Format: Format})
}

// writable makes state/ and puts some bytes on the disk, which shows a read-
// only file system, a wrong owner and a full disk alike.
func writable(root string) error {
	state := filepath.Join(root, stateDir)
	if err := os.MkdirAll(state, dirMode); err != nil {
		return err
	}
	if err := os.Chmod(state, dirMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(state, ".probe-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 4096))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// A move brings a directory of an older layout to where it belongs now.
type move struct{ from, to string } // relative to the workspace

type preparation struct{ opts PrepareOptions }

func (p preparation) path(rel string) string { return filepath.Join(p.opts.Root, rel) }

// slackDir is the name of a Slack conversation's directory. The letters alone
// would also take a person's "Documents".
var slackDir = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[CDGW][A-Z0-9]*[0-9][A-Z0-9]*$`)
})

// plan lists the directories that lie where an older version put them. One
// whose place is taken stays where it is.
func (p preparation) plan() (moves []move, err error) {
	entries, err := os.ReadDir(p.opts.Root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		m := move{from: e.Name()}
		switch {
		case strings.HasPrefix(e.Name(), "tg-"):
			m.to = path.Join(string(chat.Telegram), e.Name())
		case slackDir().MatchString(e.Name()):
			m.to = path.Join(string(chat.Slack), e.Name())
		case e.Name() == "data":
			m.to = "meta"
		default:
			continue
		}
		if _, err := os.Lstat(p.path(m.to)); err == nil {
			p.opts.Logger.Warn("directory of an older layout left alone: its new place is taken", "directory", m.from, "taken", m.to)
			continue
		}
		moves = append(moves, m)
	}
	return moves, nil
}

// migrate copies what it is about to move, then moves it. Every step can be
// repeated, so that a migration that was cut off is done by doing it again.
func (p preparation) migrate(f format, moves []move) error {
	if f.Migrating != 0 {
		p.opts.Logger.Warn("completing a migration that was cut off", "to", f.Migrating, "backup", f.Backup)
	}
	if len(moves) == 0 {
		return nil
	}
	backup := f.Backup
	if f.Migrating == 0 {
		backup = path.Join(backupDir, p.opts.Now().UTC().Format("20060102T150405.000Z"))
		if err := p.writeFormat(format{Format: f.Format, Migrating: Format, Backup: backup}); err != nil {
			return err
		}
	}
	for _, m := range moves {
		if err := p.copyTree(m.from, path.Join(backup, m.from)); err != nil {
			return fmt.Errorf("copy %s to %s: %w", m.from, backup, err)
		}
	}
	for _, m := range moves {
		if err := os.MkdirAll(filepath.Dir(p.path(m.to)), dirMode); err != nil {
			return err
		}
		if err := os.Rename(p.path(m.from), p.path(m.to)); err != nil {
			return err
		}
		p.opts.Logger.Info("moved a directory of an older layout", "from", m.from, "to", m.to, "backup", backup)
	}
	return nil
}

// copyTree copies a directory; what an earlier try copied is copied again.
// Links are copied as links.
func (p preparation) copyTree(from, to string) error {
	return filepath.WalkDir(p.path(from), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.path(from), name)
		if err != nil {
			return err
		}
		target := filepath.Join(p.path(to), rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, dirMode)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(name)
			if err != nil {
				return err
			}
			if err := os.Symlink(link, target); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		case d.Type().IsRegular():
			return copyFile(name, target)
		}
		return nil // sockets and pipes hold nothing
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func (p preparation) writeFormat(f format) error {
	s, err := Open(Options{Root: p.opts.Root})
	if err != nil {
		return err
	}
	data, err := json.Marshal(f)
	if err == nil {
		err = s.replace(formatFile, slices.Concat(data, []byte{'\n'}))
	}
	return errors.Join(err, s.Close())
}
