// Package tray is where files pass between people and agent programs. The out-tray is
// a directory in which a program puts files for the people of its conversation; what
// lies there at the end of a turn is sent, once, and deleted. The in-tray is where a
// program finds the files that people sent, outside of any repository, under names that
// can be read.
//
// A program, and whatever else runs in its work directory, may put anything into an
// out-tray: links to secrets, pipes, a file that is swapped while it is read. So
// directories are opened one below the other without following links, files are judged
// by their open descriptor, and what is sent is a copy. The package keeps no copies
// itself and talks to no platform: Options say who does.
package tray

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// OutOptions are fixed by NewOut.
type OutOptions struct {
	// Keep stores a copy of a file among those of a conversation, on disk when it
	// returns nil, and returns its path relative to the workspace. Required.
	Keep func(ctx context.Context, conv chat.Address, name string, r io.Reader, limit int64) (local string, err error)
	// MaxFile is the largest file that is sent, in bytes: 25 MiB. MaxFiles is how many
	// are sent in one turn: 20; the next turn sends the others.
	MaxFile  int64
	MaxFiles int
	// Settle is how long a file must not have changed: 300 ms. Patience is how long
	// Collect waits for that: 3 s; what still changes then is left for the next turn.
	Settle, Patience time.Duration
	// Tries is how often a file may fail before it is put aside: 3.
	Tries int
	// Logger is told what is put aside. nil: nobody.
	Logger *slog.Logger
}

// An Out is the out-trays of all conversations. It is safe for concurrent use, with
// one Collect per conversation at a time.
type Out struct {
	opts OutOptions

	// mu guards the field below.
	mu     sync.Mutex
	failed map[string]int // how often a file has failed, by its path
}

// NewOut checks the options.
func NewOut(opts OutOptions) (*Out, error) {
	if opts.Keep == nil {
		return nil, errors.New("tray: nobody keeps what is sent")
	}
	if opts.MaxFile == 0 {
		opts.MaxFile = 25 << 20
	}
	if opts.MaxFiles == 0 {
		opts.MaxFiles = 20
	}
	if opts.Settle == 0 {
		opts.Settle = 300 * time.Millisecond
	}
	if opts.Patience == 0 {
		opts.Patience = 3 * time.Second
	}
	if opts.Tries == 0 {
		opts.Tries = 3
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Out{opts: opts, failed: map[string]int{}}, nil
}

// below is the way from a work directory to the trays, aside where refused files go.
var below = []string{".iris", "outbox"}

const (
	aside = ".aside"
	// leaving begins the name of a file whose copy is being sent. What is found
	// under such a name has perhaps been sent: the process ended meanwhile.
	leaving = ".leaving-"
)

// session is the name of a conversation's tray.
func session(conv chat.Address) string {
	name := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, conv.Channel())
	if name == "" {
		return "default"
	}
	return name
}

// Dir is the out-tray of a conversation.
func Dir(workDir string, conv chat.Address) string {
	return filepath.Join(append(append([]string{workDir}, below...), session(conv))...)
}

// Prepare makes the out-tray of a conversation, 0700, and returns what a program is
// told about it. It fails if somebody has put a link or a file of another user in its
// place, or lets others write there.
func (o *Out) Prepare(workDir string, conv chat.Address) (contract string, err error) {
	d, err := openTray(workDir, conv, true)
	if err != nil {
		return "", err
	}
	d.close()
	return strings.ReplaceAll(strings.TrimSpace(contractText), "{dir}", Dir(workDir, conv)), nil
}

// Collect sends what lies in the out-tray of a conversation: each file is copied by
// Keep, shown with emit as a turn.FileOut, and deleted then. A file that could not be
// sent stays for the next turn. What may not be sent (a link, a second name of another
// file, no plain file, too large, of another user) is put aside and shown as a
// turn.Status. The error says why the tray could not be read, or is emit's.
func (o *Out) Collect(ctx context.Context, workDir string, conv chat.Address, emit func(turn.Event) error) error {
	d, err := openTray(workDir, conv, false)
	if err != nil || d == nil {
		return err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return err
	}
	sent := 0
	deadline := time.Now().Add(o.opts.Patience)
	for _, name := range names {
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(name, leaving) {
			continue
		}
		if sent == o.opts.MaxFiles {
			return emit(turn.Event{Kind: turn.Status, Label: "more files are waiting; they come with the next reply"})
		}
		err := o.send(ctx, d, conv, name, deadline, emit)
		var no *refusal
		var stop *broken
		switch {
		case err == nil:
			sent++
			o.forget(d.path, name)
		case errors.As(err, &stop):
			return stop.err
		case errors.As(err, &no):
			if err := o.putAside(d, name, no.why, emit); err != nil {
				return err
			}
		case errors.Is(err, errMoving), errors.Is(err, errGone):
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			o.opts.Logger.Warn("a file of an agent was not sent", "file", shown(name), "conversation", conv, "err", err)
			if o.fail(d.path, name) >= o.opts.Tries {
				if err := o.putAside(d, name, "it failed again and again", emit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fail counts a failure and returns how many there were.
func (o *Out) fail(dir, name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := filepath.Join(dir, name)
	o.failed[key]++
	return o.failed[key]
}

func (o *Out) forget(dir, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failed, filepath.Join(dir, name))
}

// putAside moves an entry where nobody looks for it again, and says so.
func (o *Out) putAside(d *dir, name, why string, emit func(turn.Event) error) error {
	o.forget(d.path, name)
	o.opts.Logger.Warn("a file of an agent is put aside", "file", shown(name), "dir", d.path, "why", why)
	if err := d.putAside(name); err != nil {
		o.opts.Logger.Error("a file of an agent could not be put aside", "file", shown(name), "dir", d.path, "err", err)
	}
	return emit(turn.Event{Kind: turn.Status, Label: "not sent: " + shown(strings.TrimPrefix(name, leaving)) + " (" + why + ")"})
}

// A refusal says why a file may never be sent.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// A broken is an error of emit: nothing more can be told.
type broken struct{ err error }

func (b *broken) Error() string { return b.err.Error() }

var (
	errMoving = errors.New("it still changes")
	errGone   = errors.New("it is not there any more")
)

// longestName bounds what is shown of a file's name, in characters.
const longestName = 120

// shown is a file's name for people: one line, valid text.
func shown(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '/' || r == '\\' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if r := []rune(name); len(r) > longestName {
		name = string(r[:longestName])
	}
	return name
}
