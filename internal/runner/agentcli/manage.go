package agentcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/iris-operator/iris/internal/chat"
)

// A Status is how a conversation's program is.
type Status struct {
	Project, Agent string
	// Alive says that a process runs; PID and Instance are its.
	Alive    bool
	PID      int
	Instance string
	// Session is the program's session, empty before the first message; Known says
	// that the program has confirmed it.
	Session string
	Known   bool
	Dir     string
	Mode    Mode
	Model   string // empty: the program's default
	// Busy says that a turn runs, Asks how many questions of it are open.
	Busy bool
	Asks int
	// Active is when something happened last, in this process of Iris.
	Active time.Time
}

// A Past is a session of a project that can be gone back to.
type Past struct {
	ID           string
	Conversation string // its channel id
	Dir          string
	At           time.Time // of the last message
	Turns        int
	First        string   // the first prompt, cut
	Last         []string // the last ones
	// Open says that it is the present session of its conversation, Alive that a
	// process has it.
	Open, Alive bool
}

// Spent is what a conversation has cost, over all its sessions.
type Spent struct {
	Turns                                int
	Input, Output, CacheRead, CacheWrite int64
	Cost                                 float64
}

// What managing answers.
var (
	// ErrNoPast: the project has no such session that Iris began.
	ErrNoPast = errors.New("no such session")
	// ErrElsewhere: another conversation has the session.
	ErrElsewhere = errors.New("another conversation has this session")
	// ErrNoDir: no such directory below the project's.
	ErrNoDir = errors.New("no such directory")
)

// Project returns what the runner was made for.
func (r *Runner) Project() Project { return r.project }

// Status tells how the program of a conversation is.
func (r *Runner) Status(conv chat.Address) (Status, error) {
	c := r.acquire(conv)
	defer r.release(c)
	rec, err := c.view()
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Project: r.project.Name, Agent: r.project.agent(), Session: rec.Session, Known: rec.Known,
		Dir: c.dir(rec), Mode: c.mode(rec), Model: c.model(rec),
	}
	c.mu.Lock()
	p, t := c.live, c.turn
	s.Active = c.active
	c.mu.Unlock()
	if p != nil {
		s.Alive, s.PID, s.Instance = true, p.tree.Pid(), p.instance
	}
	if t != nil {
		t.mu.Lock()
		s.Busy, s.Asks = true, len(t.asks)
		t.mu.Unlock()
	}
	return s, nil
}

// Sessions lists the sessions that Iris began for the project and that a
// conversation may see (Options.Hidden), newest first, and no others that the
// program may have. An error names records that could not be read; the list holds
// the rest.
func (r *Runner) Sessions(conv chat.Address) ([]Past, error) {
	records, err := r.shelf.all()
	var list []Past
	for _, rec := range records {
		if hidden := r.pool.opts.Hidden; hidden != nil && rec.Channel != conv.Channel() && hidden(conv, rec.Channel) {
			continue
		}
		if rec.Session != "" && rec.Known {
			now := rec.Now
			now.Session, now.Dir = rec.Session, rec.Dir
			past := r.past(rec.Channel, now)
			past.Open, past.Alive = true, r.alive(rec.Channel)
			list = append(list, past)
		}
		for _, t := range rec.Past {
			list = append(list, r.past(rec.Channel, t))
		}
	}
	slices.SortStableFunc(list, func(a, b Past) int { return b.At.Compare(a.At) })
	return list, err
}

func (r *Runner) past(channel string, t talk) Past {
	if t.Dir == "" {
		t.Dir = r.project.WorkDir
	}
	return Past{ID: t.Session, Conversation: channel, Dir: t.Dir, At: t.At, Turns: t.Turns, First: t.First, Last: t.Last}
}

func (r *Runner) alive(channel string) bool {
	for _, c := range r.open() {
		if c.addr.Channel() == channel && c.process() != nil {
			return true
		}
	}
	return false
}

// Restart ends the process of a conversation; the next message goes on with its
// session in a new one.
func (r *Runner) Restart(conv chat.Address) {
	c := r.acquire(conv)
	defer r.release(c)
	c.close()
}

// maxMatches is how many directories or sessions a word may mean before they are
// too many to list.
const maxMatches = 10

// Switch has a conversation work in another directory, which is the project's or
// below it; the empty one is the project's. The session is left: programs find one
// only where it was begun.
func (r *Runner) Switch(conv chat.Address, dir string) error {
	switch {
	case dir == "", filepath.Clean(dir) == filepath.Clean(r.project.WorkDir):
		dir = ""
	case !within([]string{r.project.WorkDir}, resolve(absolute(r.project.WorkDir, dir))):
		return fmt.Errorf("%s is not below %s: %w", dir, r.project.WorkDir, ErrNoDir)
	default:
		dir = absolute(r.project.WorkDir, dir)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s: %w", dir, ErrNoDir)
		}
	}
	c := r.acquire(conv)
	defer r.release(c)
	c.close()
	return c.change(func(rec *record) {
		rec.forget(c.dir(*rec))
		rec.Dir = dir
	})
}

// Resume has a conversation go on with a session of the project, named by its id or
// the beginning of it; the newest that fits is taken.
func (r *Runner) Resume(conv chat.Address, id string) (Past, error) {
	list, err := r.Sessions(conv)
	i := slices.IndexFunc(list, func(p Past) bool { return p.ID == id })
	if i < 0 && id != "" {
		i = slices.IndexFunc(list, func(p Past) bool { return strings.HasPrefix(p.ID, id) })
	}
	if i < 0 {
		return Past{}, errors.Join(fmt.Errorf("%.40q: %w", id, ErrNoPast), err)
	}
	past := list[i]
	if past.Open && past.Conversation != conv.Channel() {
		return past, ErrElsewhere
	}
	c := r.acquire(conv)
	defer r.release(c)
	if past.Open {
		return past, nil // it is this conversation's
	}
	c.close()
	return past, c.change(func(rec *record) {
		rec.forget(c.dir(*rec))
		rec.Past = slices.DeleteFunc(rec.Past, func(t talk) bool { return t.Session == past.ID })
		rec.Session, rec.Known, rec.Dir = past.ID, true, past.Dir
		if past.Dir == r.project.WorkDir {
			rec.Dir = ""
		}
		rec.Now = talk{At: past.At, Turns: past.Turns, First: past.First, Last: past.Last}
	})
}

// SetMode changes what the program may do in a conversation without being asked.
// It counts for the next call, also of a turn that runs. What the program itself
// asks about is decided when it starts, so the next message has a new process.
func (r *Runner) SetMode(ctx context.Context, conv chat.Address, m Mode) error {
	if _, err := ParseMode(string(m)); err != nil {
		return err
	}
	c := r.acquire(conv)
	defer r.release(c)
	if err := c.change(func(rec *record) { rec.Mode = m }); err != nil {
		return err
	}
	if p := c.renew(); p != nil {
		if err := p.agent.SetMode(ctx, m); err != nil && !errors.Is(err, ErrNotOffered) && !errors.Is(err, ErrGone) {
			return fmt.Errorf("tell %s: %w", r.project.agent(), err)
		}
	}
	return nil
}

// SetModel changes the model of a conversation from the next message on; the empty
// one is the project's. A program that cannot change it is started anew.
func (r *Runner) SetModel(ctx context.Context, conv chat.Address, model string) error {
	// Programs take it on their command line, where it must not be read as a flag.
	if strings.HasPrefix(model, "-") || strings.Contains(model, "/-") || strings.ContainsFunc(model, unicode.IsControl) {
		return fmt.Errorf("%.80q is no name of a model", model)
	}
	c := r.acquire(conv)
	defer r.release(c)
	renew := true
	if p := c.process(); p != nil && model != "" {
		err := p.agent.SetModel(ctx, model)
		if err != nil && !errors.Is(err, ErrNotOffered) && !errors.Is(err, ErrGone) {
			return err
		}
		renew = err != nil
	}
	if err := c.change(func(rec *record) { rec.Model = model }); err != nil {
		return err
	}
	if renew {
		c.renew()
	}
	return nil
}

// modelsLimit is what a program gets to list its models.
const modelsLimit = 5 * time.Second

// Models lists the models of a conversation's program and the present one.
// ErrGone: no process runs that could be asked. ErrNotOffered: it does not tell.
func (r *Runner) Models(ctx context.Context, conv chat.Address) ([]Model, string, error) {
	c := r.acquire(conv)
	defer r.release(c)
	p := c.process()
	if p == nil {
		return nil, "", ErrGone
	}
	ctx, cancel := context.WithTimeout(ctx, modelsLimit)
	defer cancel()
	return p.agent.Models(ctx)
}

// Usage is what a conversation has cost so far.
func (r *Runner) Usage(conv chat.Address) (Spent, error) {
	c := r.acquire(conv)
	defer r.release(c)
	rec, err := c.view()
	return Spent(rec.Total), err
}

// passedOver are directories in which nobody works.
var passedOver = []string{"node_modules", "dist", "build", "coverage"}

// maxDepth is how far below the project's directory others are looked for.
const maxDepth = 3

// Directories finds directories below the project's whose name contains a word,
// whatever its case; one of exactly that name is the only one. There are at most
// ten; more says that there were others.
func (r *Runner) Directories(word string) (dirs []string, more bool) {
	root := r.project.WorkDir
	word = strings.ToLower(strings.TrimSpace(word))
	var exact []string
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || path == root:
			return nil // what cannot be read is passed over
		case strings.HasPrefix(d.Name(), "."), slices.Contains(passedOver, d.Name()):
			return filepath.SkipDir
		}
		name := strings.ToLower(d.Name())
		if name == word {
			exact = append(exact, path)
		} else if strings.Contains(name, word) {
			dirs = append(dirs, path)
		}
		if rel, err := filepath.Rel(root, path); err != nil || strings.Count(rel, string(filepath.Separator)) >= maxDepth-1 {
			return filepath.SkipDir
		}
		return nil
	})
	if len(exact) > 0 {
		dirs = exact
	}
	if len(dirs) > maxMatches {
		return dirs[:maxMatches], true
	}
	return dirs, false
}
