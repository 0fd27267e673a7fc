package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/transport"
)

// uploads remembers which file a mark became, as a file carries no metadata: on
// disk before anybody sees the file, so that after a crash it can be looked for.
// A mark that is not known was never shown.
type uploads struct {
	path string // empty: in memory only

	// mu guards the fields below.
	mu     sync.Mutex
	loaded bool
	all    []uploaded
}

// An uploaded file is one that was about to be shown.
type uploaded struct {
	Turn string `json:"turn,omitempty"`
	Part string `json:"part"`
	File string `json:"file"`
}

// maxUploads bounds what is remembered; a lost answer is asked for soon.
const maxUploads = 500

func uploadsFile(state string) string {
	if state == "" {
		return ""
	}
	return filepath.Join(state, "uploads.json")
}

// load reads what a process before this one left. mu must be held.
func (u *uploads) load() error {
	if u.loaded || u.path == "" {
		return nil
	}
	data, err := os.ReadFile(u.path)
	if err == nil {
		err = json.Unmarshal(data, &u.all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", u.path, err)
	}
	u.loaded = true
	return nil
}

// put remembers a file. What is there but cannot be read is not written over.
func (u *uploads) put(m transport.Mark, file string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.load(); err != nil {
		return err
	}
	u.all = append(u.all, uploaded{string(m.Turn), m.Part, file})
	if over := len(u.all) - maxUploads; over > 0 {
		u.all = append([]uploaded(nil), u.all[over:]...)
	}
	if u.path == "" {
		return nil
	}
	data, err := json.Marshal(u.all)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(u.path), 0o700)
	}
	if err == nil {
		err = durable.Replace(u.path, data, durable.Keep(0o600))
	}
	return err
}

// get returns the file of a mark, "" if it was never about to be shown.
func (u *uploads) get(m transport.Mark) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.load(); err != nil {
		return "", err
	}
	for i := len(u.all) - 1; i >= 0; i-- {
		if x := u.all[i]; x.Turn == string(m.Turn) && x.Part == m.Part {
			return x.File, nil
		}
	}
	return "", nil
}
