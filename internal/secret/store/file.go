package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/lockfile"
	"github.com/iris-operator/iris/internal/secret"
)

// A stamp tells one version of a file from the next. Writers replace the file,
// so that its inode changes too.
type stamp struct {
	inode, dev uint64
	size       int64
	mod        time.Time
	gone       bool
}

// A cache holds what was read from a file and when that counts as current.
type cache[T any] struct {
	at    stamp
	value *T
	err   error
	// fresh says that the file was so young when it was read that a later
	// version could have the same stamp: clocks of file systems are coarse.
	fresh bool
}

// coarse is more than the tick of any clock that file systems stamp with.
const coarse = 20 * time.Millisecond

// maxFile bounds the store: thousands of the largest secrets.
const maxFile = 256 << 20

func look(info fs.FileInfo, err error) (stamp, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{gone: true}, nil
	}
	if err != nil {
		return stamp{}, err
	}
	at := stamp{size: info.Size(), mod: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		at.inode, at.dev = st.Ino, uint64(st.Dev) //nolint:unconvert // its type depends on the platform
	}
	return at, nil
}

// current returns what c holds of the file at path, reading it again if that may
// have changed.
func (c *cache[T]) current(path string, load func(data []byte, info fs.FileInfo) (*T, error)) (*T, error) {
	at, err := look(os.Stat(path))
	if err != nil {
		return nil, err
	}
	if c.at == at && !c.fresh && (c.value != nil || c.err != nil) {
		return c.value, c.err
	}
	*c = cache[T]{at: at}
	if at.gone {
		c.value, c.err = load(nil, nil)
		return c.value, c.err
	}
	f, err := os.Open(path)
	if err != nil {
		*c = cache[T]{}
		return nil, err
	}
	defer f.Close()
	// The stamp must be that of the bytes, and not of a version before.
	info, err := f.Stat()
	if err == nil {
		c.at, err = look(info, nil)
	}
	if err != nil {
		*c = cache[T]{}
		return nil, err
	}
	c.fresh = time.Since(info.ModTime()) < coarse
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		*c = cache[T]{}
		return nil, err
	}
	c.value, c.err = load(data, info)
	return c.value, c.err
}

// read returns the key and the file as they are now. What it returns is shared:
// it must not be changed.
func (s *Store) read() (*keys, *document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.key.current(s.opts.Key, s.loadKey)
	if err != nil {
		return nil, nil, disabled(err)
	}
	before := s.file.at
	doc, err := s.file.current(s.opts.File, s.load)
	if s.file.at != before {
		clear(s.warned)
	}
	return k, doc, err
}

func disabled(err error) error {
	if errors.Is(err, secret.ErrDisabled) {
		return err
	}
	return fmt.Errorf("%w: %w", secret.ErrDisabled, err)
}

func (s *Store) loadKey(data []byte, info fs.FileInfo) (*keys, error) {
	if info == nil {
		return nil, fmt.Errorf("%w: there is no key file %s; make one with iris secret init", secret.ErrDisabled, s.opts.Key)
	}
	// Group-read stays allowed: systemd's credentials carry it as the mask of
	// their access list.
	if mode := info.Mode().Perm(); mode&0o037 != 0 {
		return nil, fmt.Errorf("%w: the key file %s is open to other users (mode %04o): chmod 600 it", secret.ErrDisabled, s.opts.Key, mode)
	}
	k, err := parseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%w: the key file %s cannot be used: %w", secret.ErrDisabled, s.opts.Key, err)
	}
	return k, nil
}

func (s *Store) load(data []byte, info fs.FileInfo) (*document, error) {
	if info == nil {
		return &document{Version: formatVersion, Secrets: map[string]entry{}}, nil
	}
	doc, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w; it is left as it is, bring back a good copy", secret.ErrCorrupt, s.opts.File, err)
	}
	return doc, nil
}

// change reads, changes and replaces the file while no other process does.
func (s *Store) change(ctx context.Context, edit func(*keys, *document) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	k, _, err := s.read()
	if err != nil {
		return err // before a lock file is made beside a store that cannot be used
	}
	path := s.opts.File
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the secret store: %w", err)
	}
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return fmt.Errorf("write the secret store: %w", err)
	}
	defer unlock()
	_, shared, err := s.read()
	if err != nil {
		return err
	}
	doc := &document{Version: formatVersion, Secrets: maps.Clone(shared.Secrets)}
	if err := edit(k, doc); err != nil {
		return err
	}
	k.sealAll(doc)
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the secret store: %w", err)
	}
	if err := durable.Replace(path, append(data, '\n'), durable.Exactly(0o600)); err != nil {
		return fmt.Errorf("write the secret store: %w", err)
	}
	return nil
}

// lock takes the lock between processes. The lock file stays: removing it would
// let two processes lock two files of one name.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockfile.Wait(ctx, f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { _ = lockfile.Close(f) }, nil
}

// NewKey writes a fresh key, readable by its owner alone. An existing file is an
// fs.ErrExist and is left alone: what it encrypts would be lost with it.
func NewKey(path string) error {
	var raw [32]byte
	rand.Read(raw[:]) //nolint:errcheck // never fails: it ends the process instead
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make a key for the secret store: %w", err)
	}
	// Two that start at once agree on one key.
	if err := durable.Create(path, []byte(hex.EncodeToString(raw[:])+"\n"), durable.Exactly(0o600)); err != nil {
		return fmt.Errorf("make a key for the secret store: %w", err)
	}
	return nil
}
