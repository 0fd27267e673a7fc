// Package drop lets a person hand over a secret without anybody seeing it in a
// chat: a link that works once opens a form, and what is typed there goes into
// the store. It owns the links, which survive a restart, and the form; who may
// make a link, and whom to tell that the secret has come, is up to its user.
//
// Whoever has a link can put a value in, and nothing else: no page shows one.
package drop

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/secret"
)

// The life of a link.
const (
	DefaultTTL = 15 * time.Minute
	MinTTL     = time.Minute
	MaxTTL     = 24 * time.Hour
)

// maxOpen bounds the links that wait: more than people use, fewer than a loop
// can make.
const maxOpen = 200

// ErrTooMany: too many links wait already. Use one of them, or wait until they
// expire.
var ErrTooMany = errors.New("too many secret links are open")

// Options are what New needs.
type Options struct {
	// Dir keeps the links; it is made when needed. Required.
	Dir string
	// Store puts a value away. Required.
	Store func(ctx context.Context, name string, v secret.Value, p secret.Put) (secret.Meta, error)
	// Stored tells of a secret that has come. It gets no value. nil: nobody is
	// told.
	Stored func(ctx context.Context, d Drop, name string) error
	// Trusted are origins under which a proxy serves the form.
	Trusted []string
	Logger  *slog.Logger     // nil: slog.DiscardHandler
	Now     func() time.Time // nil: time.Now
}

// A Drop is a link that waits.
type Drop struct {
	Name string `json:"name"`
	// Channel is told when the secret has come; empty: nobody.
	Channel   string    `json:"channelId,omitempty"`
	ProxyOnly bool      `json:"proxyOnly"`
	Expires   time.Time `json:"expiresAt"`
}

// Drops keeps links. It is safe for concurrent use.
type Drops struct {
	opts   Options
	log    *slog.Logger
	form   *form
	misses *rate.Limiter
}

// New checks the options and forgets the links that have expired.
func New(opts Options) (*Drops, error) {
	if opts.Dir == "" || opts.Store == nil {
		return nil, errors.New("secret links need a directory and a store")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	f, err := newForm(opts.Trusted)
	if err != nil {
		return nil, err
	}
	// A token cannot be guessed; the limit keeps the log and the disk quiet.
	d := &Drops{opts: opts, log: opts.Logger, form: f, misses: rate.NewLimiter(rate.Every(2*time.Second), 30)}
	_, err = d.sweep()
	return d, err
}

// Create makes a link and returns its token, which is written nowhere.
func (d *Drops) Create(name, channel string, ttl time.Duration, proxyOnly bool) (token string, _ Drop, err error) {
	if err := secret.CheckName(name); err != nil {
		return "", Drop{}, err
	}
	switch {
	case ttl == 0:
		ttl = DefaultTTL
	case ttl < MinTTL:
		ttl = MinTTL
	case ttl > MaxTTL:
		ttl = MaxTTL
	}
	open, err := d.sweep()
	if err != nil {
		return "", Drop{}, err
	}
	if open >= maxOpen {
		return "", Drop{}, fmt.Errorf("%w (%d)", ErrTooMany, open)
	}
	var raw [24]byte
	rand.Read(raw[:]) //nolint:errcheck // never fails: it ends the process instead
	token = hex.EncodeToString(raw[:])
	drop := Drop{Name: name, Channel: channel, ProxyOnly: proxyOnly, Expires: d.opts.Now().Add(ttl).UTC().Truncate(time.Millisecond)}
	data, err := json.Marshal(drop)
	if err != nil {
		return "", Drop{}, err
	}
	if err := os.MkdirAll(d.opts.Dir, 0o700); err != nil {
		return "", Drop{}, fmt.Errorf("keep a secret link: %w", err)
	}
	if err := durable.Create(d.path(token), append(data, '\n'), durable.Exactly(0o600)); err != nil {
		return "", Drop{}, fmt.Errorf("keep a secret link: %w", err)
	}
	return token, drop, nil
}

// tokens look like this.
var tokens = regexp.MustCompile(`^[0-9a-f]{48}$`)

// path is where a link lies: under the hash of its token, so that a copy of the
// directory opens nothing.
func (d *Drops) path(token string) string {
	sum := sha256.Sum256([]byte(token))
	return filepath.Join(d.opts.Dir, hex.EncodeToString(sum[:])+".json")
}

// find returns a link that is open. Unknown, expired and used are the same.
func (d *Drops) find(token string) (Drop, bool) {
	if !tokens.MatchString(token) {
		return Drop{}, false
	}
	drop, err := read(d.path(token))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Error("a secret link cannot be read", "err", err)
	}
	return drop, err == nil && d.opts.Now().Before(drop.Expires)
}

func read(path string) (drop Drop, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return drop, err
	}
	if err := json.Unmarshal(data, &drop); err != nil {
		return drop, fmt.Errorf("%s: %w", path, err)
	}
	return drop, secret.CheckName(drop.Name)
}

// burn makes a link unusable. Of several at once it is true for one.
func (d *Drops) burn(token string) (bool, error) {
	err := durable.Remove(d.path(token)) // a power cut must not bring it back
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, nil
}

// sweep removes what has expired and counts the rest.
func (d *Drops) sweep() (open int, err error) {
	files, err := os.ReadDir(d.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read secret links: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(d.opts.Dir, f.Name())
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		drop, err := read(path)
		if err == nil && d.opts.Now().Before(drop.Expires) {
			open++
			continue
		}
		_ = os.Remove(path) // the next sweep tries again
	}
	return open, nil
}
