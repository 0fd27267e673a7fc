package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/durable"
)

const (
	maxLogins = 500 // the oldest makes room
	maxLinks  = 8
)

// logins keeps who is logged in, as hashes: whoever reads the file cannot log
// in with it. Links to log in live in memory alone.
type logins struct {
	path string // empty: in memory
	now  func() time.Time

	// mu guards the fields below and the file.
	mu    sync.Mutex
	kept  []kept
	links []kept
}

// kept is a login or a link.
type kept struct {
	Hash  string    `json:"hash"`
	Until time.Time `json:"until"`
}

// openLogins reads the file. A file that cannot be read as what it should be is
// an error and stays as it is.
func openLogins(path string, now func() time.Time) (*logins, error) {
	l := &logins{path: path, now: now}
	if path == "" {
		return l, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read logins: %w", err)
	}
	if err := json.Unmarshal(data, &l.kept); err != nil {
		return nil, fmt.Errorf("%s is corrupt (move it away to log everybody out): %w", path, err)
	}
	return l, nil
}

// token returns 48 hex digits that nobody can guess.
func token() string {
	var b [24]byte
	rand.Read(b[:]) //nolint:errcheck // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}

// hash makes comparing two secrets safe: what an attacker learns from the time
// it takes is about the hash.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// create makes a login and keeps it.
func (l *logins) create() (string, error) {
	t := token()
	l.mu.Lock()
	defer l.mu.Unlock()
	next := append(live(l.kept, l.now()), kept{hash(t), l.now().Add(loginLife)})
	if len(next) > maxLogins {
		next = next[len(next)-maxLogins:]
	}
	return t, l.save(next)
}

// valid reports whether a cookie's value is a login that has not ended.
func (l *logins) valid(t string) bool {
	if t == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return find(l.kept, t, l.now()) >= 0
}

// end forgets a login.
func (l *logins) end(t string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := find(l.kept, t, l.now())
	if i < 0 {
		return nil
	}
	return l.save(slices.Delete(slices.Clone(l.kept), i, i+1))
}

// link makes a key that logs in once.
func (l *logins) link() string {
	t := token()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links = append(live(l.links, l.now()), kept{hash(t), l.now().Add(linkLife)})
	if len(l.links) > maxLinks {
		l.links = l.links[1:]
	}
	return t
}

// redeem reports whether a key is good, which it then no longer is.
func (l *logins) redeem(t string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := find(l.links, t, l.now())
	if i >= 0 {
		l.links = slices.Delete(l.links, i, i+1)
	}
	return i >= 0
}

func find(list []kept, t string, now time.Time) int {
	h := hash(t)
	return slices.IndexFunc(list, func(k kept) bool { return k.Hash == h && now.Before(k.Until) })
}

// live returns a copy without what has ended.
func live(list []kept, now time.Time) []kept {
	var out []kept
	for _, k := range list {
		if now.Before(k.Until) {
			out = append(out, k)
		}
	}
	return out
}

// save writes the file and then takes the list over. mu is held.
func (l *logins) save(next []kept) error {
	if l.path == "" {
		l.kept = next
		return nil
	}
	if next == nil {
		next = []kept{}
	}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	if err := durable.Replace(l.path, data, durable.Exactly(0o600)); err != nil {
		return fmt.Errorf("write logins: %w", err)
	}
	l.kept = next
	return nil
}
