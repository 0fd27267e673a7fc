package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/turn"
)

// A claim is written before an occurrence runs and once more when its turn is
// accepted. A process that finds a claim that is not done submits it again: the
// inbox takes a message once.
type claim struct {
	File string    `json:"file"`
	Slot time.Time `json:"slot"`
	Turn turn.ID   `json:"turn"`
	Done bool      `json:"done,omitempty"`
}

// A ledger keeps the last claim of every event, each in a file of its own. Only
// the holder of the lease writes to it.
type ledger struct{ dir string }

// key names an event for the ledger: its file, and for those that run once also
// which file of that name it is.
func (e *entry) key() string {
	id := e.file
	if e.ev.Type != Periodic {
		id = fmt.Sprintf("%s %d %d", e.file, e.at.inode, e.at.mod.UnixNano())
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:12])
}

func (l ledger) path(key string) string { return filepath.Join(l.dir, key+".json") }

// read returns the last claim; the zero claim if there is none.
func (l ledger) read(key string) (c claim, err error) {
	data, err := os.ReadFile(l.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return claim{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return claim{}, fmt.Errorf("read the claim %s: %w", l.path(key), err)
	}
	return c, nil
}

// write puts a claim on disk; it is there when write returns nil.
func (l ledger) write(key string, c claim) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := durable.Replace(l.path(key), append(data, '\n'), durable.Keep(0o600)); err != nil {
		return fmt.Errorf("write the claim of %s: %w", c.File, err)
	}
	return nil
}

func (l ledger) remove(key string) error {
	if err := os.Remove(l.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep removes the claims of events that are gone, so that the directory does
// not grow. keep tells of those that are there.
func (l ledger) sweep(keep map[string]bool) error {
	all, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, f := range all {
		key, ok := cutJSON(f.Name())
		if !ok || keep[key] {
			continue
		}
		if err := l.remove(key); err != nil {
			return err
		}
	}
	return nil
}
