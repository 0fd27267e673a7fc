// Package store keeps secrets in one encrypted file, in the format of the
// predecessor: each side reads what the other wrote. It owns that file and the
// lock beside it; who may have which secret is not its matter.
//
// What it protects against is the accidental leak: `env`, `cat`, a backup, a
// commit. It is no wall against a process of the same user, which can read the
// key. For that there is the broker under a user of its own.
//
// Every call looks at the file anew, by its stamp, so that processes see each
// other's writes at once. Values are decrypted when they are asked for and not
// kept.
package store

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// Options say where a store lies.
type Options struct {
	// File is the encrypted file, Key the file with 64 hex digits. Required.
	// Neither need exist: without a key every call fails with
	// secret.ErrDisabled, without a file there are no secrets yet.
	File, Key string
	// Logger hears of damaged entries, by name and once per version of the
	// file. nil means slog.DiscardHandler.
	Logger *slog.Logger
	// Now is the clock. nil means time.Now.
	Now func() time.Time
}

// A Store is a secret.Source. It holds no open file.
type Store struct {
	opts Options

	// mu guards the fields below. It is not held while waiting for the lock.
	mu     sync.Mutex
	key    cache[keys]
	file   cache[document]
	warned map[string]bool // damaged entries of the file as it is

	// writing lets one writer of this process at a time stand in line for the
	// lock between processes. It is taken before mu.
	writing sync.Mutex
}

var _ secret.Source = (*Store)(nil)

// New checks the options. It opens nothing.
func New(opts Options) (*Store, error) {
	if opts.File == "" || opts.Key == "" {
		return nil, errors.New("a secret store needs a file and a key file")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Store{opts: opts, warned: map[string]bool{}}, nil
}

// Check reports whether the store can be used: ErrDisabled or ErrCorrupt if not.
func (s *Store) Check() error {
	_, _, err := s.read()
	return err
}

// Get decrypts one secret.
func (s *Store) Get(_ context.Context, name string) (secret.Value, secret.Meta, error) {
	if err := secret.CheckName(name); err != nil {
		return secret.Value{}, secret.Meta{}, err
	}
	k, doc, err := s.read()
	if err != nil {
		return secret.Value{}, secret.Meta{}, err
	}
	at, ok := doc.find(name)
	if !ok {
		return secret.Value{}, secret.Meta{}, notFound(name)
	}
	e := doc.Secrets[at]
	text, err := k.open(at, e)
	if err != nil {
		s.warn(at, err)
		return secret.Value{}, secret.Meta{}, fmt.Errorf("%w: %s", secret.ErrDamaged, at)
	}
	return secret.New(text), e.meta(at), nil
}

// Meta tells what is known of a secret. It does not decrypt the value; an entry
// whose seal is broken is damaged all the same, for its flags are not to be
// trusted.
func (s *Store) Meta(_ context.Context, name string) (secret.Meta, error) {
	if err := secret.CheckName(name); err != nil {
		return secret.Meta{}, err
	}
	k, doc, err := s.read()
	if err != nil {
		return secret.Meta{}, err
	}
	at, ok := doc.find(name)
	if !ok {
		return secret.Meta{}, notFound(name)
	}
	if err := k.checkSeal(at, doc.Secrets[at]); err != nil {
		s.warn(at, err)
		return secret.Meta{}, fmt.Errorf("%w: %s", secret.ErrDamaged, at)
	}
	return doc.Secrets[at].meta(at), nil
}

// List returns what there is, damaged entries included: they are there to be
// removed or written again.
func (s *Store) List(context.Context) ([]secret.Meta, error) {
	_, doc, err := s.read()
	if err != nil {
		return nil, err
	}
	list := make([]secret.Meta, 0, len(doc.Secrets))
	for _, name := range slices.Sorted(maps.Keys(doc.Secrets)) {
		list = append(list, doc.Secrets[name].meta(name))
	}
	return list, nil
}

// Put encrypts and stores one secret. When it returns nil the secret is on disk.
func (s *Store) Put(ctx context.Context, name string, v secret.Value, p secret.Put) (m secret.Meta, err error) {
	if err := errors.Join(secret.CheckName(name), secret.CheckValue(v)); err != nil {
		return m, err
	}
	err = s.change(ctx, func(k *keys, doc *document) error {
		at, ok := doc.find(name)
		now := s.opts.Now().UTC().Truncate(time.Millisecond)
		e := entry{CreatedAt: now, Origin: secret.FromAPI}
		if ok {
			e = doc.Secrets[at]
		}
		e.UpdatedAt = now
		if e.CreatedAt.IsZero() {
			e.CreatedAt = now
		}
		if p.Origin != "" {
			e.Origin = p.Origin
		}
		if p.ProxyOnly != nil {
			e.ProxyOnly = *p.ProxyOnly
		}
		if p.AgentReadable != nil {
			e.AgentReadable = p.AgentReadable
		}
		k.seal(at, &e, v)
		doc.Secrets[at] = e
		m = e.meta(at)
		return nil
	})
	return m, err
}

// Delete removes a secret for good.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := secret.CheckName(name); err != nil {
		return err
	}
	return s.change(ctx, func(_ *keys, doc *document) error {
		at, ok := doc.find(name)
		if !ok {
			return notFound(name)
		}
		delete(doc.Secrets, at)
		return nil
	})
}

func notFound(name string) error { return fmt.Errorf("%w: %s", secret.ErrNotFound, name) }

// warn tells of a damaged entry once.
func (s *Store) warn(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.warned[name] {
		s.warned[name] = true
		s.opts.Logger.Warn("an entry of the secret store is damaged and counts as not there: store it again", "file", s.opts.File, "secret", name, "err", err)
	}
}

// keys are what the key file gives: one cipher for values, one key for seals.
type keys struct {
	aead cipher.AEAD
	mac  []byte
}
