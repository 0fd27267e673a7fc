package agentcli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
)

// A record is what is kept of a conversation with a program: a file of its own,
// 0600, replaced as a whole.
type record struct {
	Channel string `json:"channel"`
	// Session is the program's session. Known says that the program has named it;
	// before that it is an id that Iris chose, which the program may never have
	// seen.
	Session string `json:"session,omitempty"`
	Known   bool   `json:"known,omitempty"`
	// Paused says that the process was ended because it was idle.
	Paused bool `json:"paused,omitempty"`
	// Dir, Mode and Model override the project's.
	Dir   string `json:"dir,omitempty"`
	Mode  Mode   `json:"mode,omitempty"`
	Model string `json:"model,omitempty"`
	// What the present session was about, and what was before it.
	Now  talk   `json:"now"`
	Past []talk `json:"past,omitempty"`
	// Total is what the conversation has cost.
	Total total `json:"total"`
}

// A talk is a session as people remember it.
type talk struct {
	Session string    `json:"session,omitempty"`
	Dir     string    `json:"dir,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Turns   int       `json:"turns,omitempty"`
	First   string    `json:"first,omitempty"`
	Last    []string  `json:"last,omitempty"`
}

type total struct {
	Turns      int     `json:"turns,omitempty"`
	Input      int64   `json:"input,omitempty"`
	Output     int64   `json:"output,omitempty"`
	CacheRead  int64   `json:"cacheRead,omitempty"`
	CacheWrite int64   `json:"cacheWrite,omitempty"`
	Cost       float64 `json:"cost,omitempty"`
}

const (
	// maxPrompt is what is kept of a prompt, enough to recognise it.
	maxPrompt = 160
	maxLast   = 3
	// maxPast is how many sessions of a conversation can be gone back to.
	maxPast = 50
	// maxRecord bounds what is read as a record.
	maxRecord = 1 << 20
)

// prompted notes a prompt of the present session.
func (r *record) prompted(text string, at time.Time) {
	text = clip(oneLine(text), maxPrompt)
	if r.Now.First == "" {
		r.Now.First = text
	}
	if r.Now.Last = append(r.Now.Last, text); len(r.Now.Last) > maxLast {
		r.Now.Last = r.Now.Last[len(r.Now.Last)-maxLast:]
	}
	r.Now.At = at
	r.Now.Turns++
}

// forget leaves the present session; it can be gone back to if the program knows
// it.
func (r *record) forget(dir string) {
	if r.Session != "" && r.Known && r.Now.Turns > 0 {
		r.Now.Session, r.Now.Dir = r.Session, dir
		if r.Past = append(r.Past, r.Now); len(r.Past) > maxPast {
			r.Past = r.Past[len(r.Past)-maxPast:]
		}
	}
	r.Session, r.Known, r.Paused, r.Now = "", false, false, talk{}
}

// A shelf keeps the records of one project.
type shelf struct{ dir string }

func (s shelf) path(conv chat.Address) string { return filepath.Join(s.dir, conv.Channel()+".json") }

// load reads a record; one that was never kept is empty. A file that is no record
// is an error with its path, and stays as it is.
func (s shelf) load(conv chat.Address) (record, error) {
	r, err := readRecord(s.path(conv))
	if errors.Is(err, fs.ErrNotExist) {
		return record{Channel: conv.Channel()}, nil
	}
	if err == nil && r.Channel != conv.Channel() {
		err = fmt.Errorf("%s: it is about %.80q", s.path(conv), r.Channel)
	}
	return r, err
}

func readRecord(path string) (r record, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return r, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		return r, fmt.Errorf("%s: not a plain file of a record's size", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// save replaces a record: when it returns nil it survives a power cut.
func (s shelf) save(conv chat.Address, r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err = os.MkdirAll(s.dir, 0o700); err == nil {
		err = durable.Replace(s.path(conv), append(data, '\n'), durable.Exactly(0o600))
	}
	if err != nil {
		return fmt.Errorf("keep the session of %s: %w", conv, err)
	}
	return nil
}

// all reads the records of the project. Those that cannot be read are left out
// and named in err.
func (s shelf) all() (list []record, err error) {
	files, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		r, err := readRecord(filepath.Join(s.dir, f.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, r)
	}
	return list, errors.Join(errs...)
}
