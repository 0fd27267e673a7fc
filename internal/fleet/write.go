package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/lockfile"
)

// maxDescription bounds a description: it is part of every system prompt.
const maxDescription = 1024

// Register adds an agent or changes the one of this name. What a has empty stays
// as it was, and so does everything in the file that is not about this entry.
// When it returns nil the change is on disk. ErrTaken: the name is reserved,
// another agent's name differs from it by case only, or another agent has the
// token. ErrCorrupt: the file is left alone.
func (r *Registry) Register(a Agent) error {
	a, err := r.tidy(a)
	if err != nil {
		return err
	}
	return r.update(func(doc *document, all []Agent) error { return register(doc, all, a) })
}

// Reserve is Register that chooses the port: the bridge is on 127.0.0.1, at the
// first free port from base on, and lock covers both the choice and the entry,
// so that two who reserve at the same time get two ports. An agent that has a
// bridge already keeps it. free, if not nil, is asked about each candidate, for
// ports that are in use by others.
func (r *Registry) Reserve(a Agent, base int, free func(port int) bool) (Agent, error) {
	a.BridgeURL = ""
	a, err := r.tidy(a)
	if err != nil {
		return Agent{}, err
	}
	err = r.update(func(doc *document, all []Agent) error {
		i := slices.IndexFunc(all, func(o Agent) bool { return o.Name == a.Name })
		if i >= 0 && all[i].BridgeURL != "" {
			a.BridgeURL = all[i].BridgeURL
		} else {
			port, err := nextPort(all, base, free)
			if err != nil {
				return err
			}
			a.BridgeURL = fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		return register(doc, all, a)
	})
	if err != nil {
		return Agent{}, err
	}
	kept, ok := r.Get(a.Name)
	if !ok {
		return Agent{}, fmt.Errorf("agent %s: %w: somebody removed it just now", a.Name, ErrUnknown)
	}
	return kept, nil
}

// Remove takes an agent out of the registry and returns what it was. ErrUnknown:
// there is none of this name.
func (r *Registry) Remove(name string) (Agent, error) {
	var was Agent
	err := r.update(func(doc *document, all []Agent) error {
		i := slices.IndexFunc(all, func(a Agent) bool { return a.Name == name })
		if i < 0 {
			return fmt.Errorf("%q: %w", name, ErrUnknown)
		}
		was = all[i]
		*doc = slices.DeleteFunc(*doc, func(m member) bool { return m.key == name })
		return nil
	})
	return was, err
}

// tidy checks what an entry is to hold.
func (r *Registry) tidy(a Agent) (Agent, error) {
	if err := CheckName(a.Name); err != nil {
		return a, err
	}
	reserved := r.opts.Reserved
	if r.opts.Others != nil {
		others, err := r.opts.Others()
		if err != nil {
			return a, fmt.Errorf("whether the name %q is free is not known: %w", a.Name, err)
		}
		reserved = append(reserved[:len(reserved):len(reserved)], others...)
	}
	for _, name := range reserved {
		if strings.EqualFold(name, a.Name) {
			return a, fmt.Errorf("the name %q is %w: it stands for something else here", a.Name, ErrTaken)
		}
	}
	a.Description = strings.Join(strings.Fields(a.Description), " ")
	if len(a.Description) > maxDescription {
		return a, fmt.Errorf("the description has %d bytes, at most %d are allowed", len(a.Description), maxDescription)
	}
	if a.BridgeURL != "" {
		if _, err := portOf(a.BridgeURL); err != nil {
			return a, err
		}
	}
	for _, s := range a.Secrets {
		if !secretWord().MatchString(s) {
			return a, fmt.Errorf("%q cannot be the name of a secret", s)
		}
	}
	if strings.ContainsFunc(a.Token.Reveal(), func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }) {
		return a, errors.New("a token holds no spaces and no control characters")
	}
	return a, nil
}

func register(doc *document, all []Agent, a Agent) error {
	for _, o := range all {
		if o.Name == a.Name {
			continue
		}
		if strings.EqualFold(o.Name, a.Name) {
			return fmt.Errorf("the name %q is %w by %q: a mention does not tell them apart", a.Name, ErrTaken, o.Name)
		}
		if a.Token.Equal(o.Token.Reveal()) {
			return fmt.Errorf("the token is %w by the agent %q", ErrTaken, o.Name)
		}
	}
	if raw, ok := doc.get(a.Name); ok && raw[0] != '{' {
		return fmt.Errorf("%w: the entry %q is no object", ErrCorrupt, a.Name)
	}
	return doc.put(a)
}

// update changes the file under its lock.
func (r *Registry) update(change func(doc *document, all []Agent) error) error {
	// A link is followed, so that the file it leads to is replaced and not the
	// link, and so that everybody locks the same name.
	path, err := filepath.EvalSymlinks(r.opts.Path)
	if errors.Is(err, fs.ErrNotExist) {
		path = r.opts.Path
	} else if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	doc, _, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		doc = document{}
	} else if err != nil {
		return err
	}
	all, _, err := doc.agents()
	if err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	if err := change(&doc, all); err != nil {
		return err
	}
	text, err := doc.text()
	if err != nil {
		return err
	}
	return durable.Replace(path, text, durable.Keep(0o600))
}

// lock waits for the lock file. It stays, because removing it would let two
// hold it; flock(1) on the same file takes part.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the registry of agents: %w", err)
	}
	if err := adopt(f, filepath.Dir(path)); err != nil {
		f.Close()
		return nil, err
	}
	if err := lockfile.Block(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = lockfile.Close(f) }, nil
}

// adopt gives a file the owner that like has, so that what root registers can be
// read by the user Iris runs as. Others own what they write.
func adopt(f *os.File, like string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
