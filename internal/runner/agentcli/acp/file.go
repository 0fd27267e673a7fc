package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// fileRoom is the most that is read for an agent; more does not fit a model.
const fileRoom = 10 << 20

func fileKey(d agentcli.Deed, path string) string { return string(d) + ":" + path }

// A refusal is an error that is a decision.
type refusal string

func (r refusal) Error() string { return string(r) }

func (a *Agent) readFile(m message) {
	var p readFile
	if decode(m.Params, &p) != nil || !filepath.IsAbs(p.Path) {
		a.refuse(m.ID, codeParams, "the path must be absolute")
		return
	}
	a.file(m.ID, agentcli.Read, "Read", p.Session, p.Path, func(dir, name string) (any, error) {
		text, err := readIn(dir, name)
		if err != nil {
			return nil, err
		}
		return fileText{window(text, p.Line, p.Limit)}, nil
	})
}

func (a *Agent) writeFile(m message) {
	var p writeFile
	if decode(m.Params, &p) != nil || !filepath.IsAbs(p.Path) {
		a.refuse(m.ID, codeParams, "the path must be absolute")
		return
	}
	a.file(m.ID, agentcli.Edit, "Write", p.Session, p.Path, func(dir, name string) (any, error) {
		return empty{}, writeIn(dir, name, p.Content)
	})
}

// file does something with a file, after the supervisor said yes to it, unless that
// has been said of this very file with a tool call. Reading where the agent works
// needs no person's word but in manual mode.
func (a *Agent) file(id json.RawMessage, deed agentcli.Deed, name, session, path string, do func(dir, name string) (any, error)) {
	path = filepath.Clean(path)
	dir, rel, inside := a.place(deed, path)
	work := func() {
		a.work.Go(func() {
			var err error
			if !inside {
				dir, rel, err = outside(path)
			}
			var result any
			if err == nil {
				result, err = do(dir, rel)
			}
			if err != nil {
				a.refuseError(id, path, err)
				return
			}
			a.respond(id, result)
		})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch key := fileKey(deed, path); {
	case session != a.id:
		a.refuse(id, codeParams, "no such session")
	case a.granted(key):
		work()
	default:
		in, _ := json.Marshal(map[string]string{"file_path": path}) // cannot fail
		a.put(&ask{key: key, settle: a.consent(id, work)}, agentcli.Event{Kind: agentcli.Permission, Tool: agentcli.Tool{
			Name: name, Input: in, What: deed, Paths: []string{path}, Outside: !inside, Always: true,
			Granted: a.always[key] || deed == agentcli.Read && inside && a.mode != agentcli.Manual,
		}})
	}
}

// granted uses up a grant for key, if there is one. mu is held.
func (a *Agent) granted(key string) bool {
	if a.once[key] == 0 {
		return false
	}
	a.once[key]--
	return true
}

// consent makes of an answer either the work or a refusal that says why.
func (a *Agent) consent(id json.RawMessage, work func()) func(*agentcli.Answer) {
	return func(ans *agentcli.Answer) {
		switch {
		case ans == nil:
			a.refuse(id, codeRefused, "withdrawn: the turn was stopped")
		case !ans.Allow:
			a.refuse(id, codeRefused, firstOf(ans.Reason, "refused: stop and wait for the user's instructions"))
		default:
			work()
		}
	}
}

// place finds the directory that path is in and that the agent may use so: its
// work directory, or one that it may read.
func (a *Agent) place(deed agentcli.Deed, path string) (dir, rel string, inside bool) {
	dirs := []string{a.setup.WorkDir}
	if deed == agentcli.Read {
		dirs = append(dirs, a.setup.Readable...)
	}
	for _, d := range dirs {
		rel, err := filepath.Rel(d, path)
		if err == nil && filepath.IsLocal(rel) {
			return d, rel, true
		}
	}
	return "", "", false
}

// outside names a file that a person allowed by its path, which therefore has to
// be where it seems to be.
func outside(path string) (dir, name string, err error) {
	dir, name = filepath.Split(path)
	dir = filepath.Clean(dir)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", "", err
	}
	if real != dir {
		return "", "", refusal(fmt.Sprintf("the path leads through a link; the real directory is %s", real))
	}
	return dir, name, nil
}

// readIn reads a regular file below dir. No link leads out, and no pipe makes it
// wait.
func readIn(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := regular(f); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, fileRoom+1))
	if err != nil {
		return "", err
	}
	if len(text) > fileRoom {
		return "", refusal(fmt.Sprintf("the file is larger than %d MB", fileRoom>>20))
	}
	return string(text), nil
}

// writeIn writes a regular file below dir, its directories included. A file that
// has a second name elsewhere is left alone.
func writeIn(dir, name, content string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := regular(f)
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		return refusal("the file has more than one name (hard links)")
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return err
}

func regular(f *os.File) (os.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, refusal("not a regular file")
	}
	return info, nil
}

// window is the part of a text that starts at a line, from 1, and has so many.
func window(text string, line, limit *int) string {
	if line == nil && limit == nil {
		return text
	}
	all := strings.SplitAfter(text, "\n")
	from, to := 0, len(all)
	if line != nil {
		from = min(max(*line-1, 0), len(all))
	}
	if limit != nil {
		to = min(from+max(*limit, 0), len(all))
	}
	return strings.Join(all[from:to], "")
}

// refuseError tells the agent why something did not work.
func (a *Agent) refuseError(id json.RawMessage, path string, err error) {
	var no refusal
	switch {
	case errors.As(err, &no):
		a.refuse(id, codeRefused, path+": "+string(no))
	case errors.Is(err, os.ErrNotExist):
		a.refuse(id, codeNotFound, path+": no such file")
	default:
		a.refuse(id, codeInternal, path+": "+err.Error())
	}
}
