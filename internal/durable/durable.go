// Package durable puts files on disk so that a crash or a power cut leaves the
// old content or the new one, never half of it, and so that what was confirmed
// is still there afterwards. It owns the order of the steps: content first, then
// the name, then the directory. It keeps two writers of one file from mixing
// their texts, and not from overwriting each other: locks are the caller's.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// ErrBeside says that nothing can be put beside the file, or that what is there
// cannot give way to it: a directory that may not be written, a file that is
// mounted on its own. Whoever may lose the file half way can write in place.
var ErrBeside = errors.New("cannot write beside the file")

// A Mode says who may use a file afterwards. The zero value is Keep(0).
type Mode struct {
	perm fs.FileMode
	kind kind
}

type kind int

const (
	keep kind = iota
	exact
	masked
)

// Keep leaves a file that is there its permissions and its owner. A new one gets
// perm, whatever the umask, and where root writes it the directory's owner. An
// owner that may not be given away stays ours.
func Keep(perm fs.FileMode) Mode { return Mode{perm, keep} }

// Exactly gives the file perm, whatever the umask and whatever was there.
func Exactly(perm fs.FileMode) Mode { return Mode{perm, exact} }

// Masked is Keep for files that people make: a new one gets perm less the umask,
// and is ours.
func Masked(perm fs.FileMode) Mode { return Mode{perm, masked} }

// Replace puts data at path, which may be new; its directory is there. When it
// returns nil the file survives a power cut. After an error the old file is
// there, whole; only when the directory could not be synced it is the new one
// already. A symbolic link at path is not followed: the file takes its place.
// Of several writers the last one wins.
func Replace(path string, data []byte, m Mode) error {
	return at(path, func(d disk, name string) error { return replace(d, name, data, m) })
}

// ReplaceIn is Replace for a path below root.
func ReplaceIn(root *os.Root, path string, data []byte, m Mode) error {
	return in(root, path, func(d disk, name string) error { return replace(d, name, data, m) })
}

// Create puts data at path if nothing is there, and is an fs.ErrExist otherwise:
// of several writers the first one wins. When it returns nil the file survives a
// power cut.
func Create(path string, data []byte, m Mode) error {
	return at(path, func(d disk, name string) error { return create(d, name, data, m) })
}

// CreateIn is Create for a path below root.
func CreateIn(root *os.Root, path string, data []byte, m Mode) error {
	return in(root, path, func(d disk, name string) error { return create(d, name, data, m) })
}

// Remove deletes a file. When it returns nil no power cut brings it back. A file
// that is not there is an fs.ErrNotExist.
func Remove(path string) error {
	return at(path, func(d disk, name string) error {
		if err := d.Remove(name); err != nil {
			return err
		}
		return d.SyncDir()
	})
}

// SyncDir makes the names in a directory survive a power cut.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(f), f.Close())
}

// Swap puts data at path like Replace, but syncs nothing: readers see the old
// content or the new one, a power cut may leave neither. It is for copies of
// what is durable elsewhere. The file, readable by its owner alone, is open for
// more and the caller's to close.
func Swap(path string, data []byte) (f *os.File, err error) {
	err = at(path, func(d disk, name string) error {
		t, err := beside(d, 0o600)
		if err != nil {
			return err
		}
		if _, err = t.Write(data); err == nil {
			err = d.Rename(t.name, name)
		}
		if err != nil {
			return errors.Join(err, t.Close(), d.Remove(t.name))
		}
		f = t.file.(*os.File)
		return nil
	})
	return f, err
}

// disk is one directory, in steps that a test can watch and cut.
type disk interface {
	Create(name string, perm fs.FileMode) (file, error) // fs.ErrExist where something is
	Lstat(name string) (fs.FileInfo, error)             // "." is the directory
	Link(old, name string) error
	Rename(old, name string) error
	Remove(name string) error
	SyncDir() error
}

type file interface {
	Write(data []byte) (int, error)
	Stat() (fs.FileInfo, error)
	Chown(uid, gid int) error
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
}

func replace(d disk, name string, data []byte, m Mode) error {
	old, err := d.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp, err := write(d, old, data, m)
	if err != nil {
		return err
	}
	if err := d.Rename(tmp, name); err != nil {
		_ = d.Remove(tmp)
		if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV) {
			return fmt.Errorf("%w: %w", ErrBeside, err)
		}
		return err
	}
	return d.SyncDir()
}

func create(d disk, name string, data []byte, m Mode) error {
	tmp, err := write(d, nil, data, m)
	if err != nil {
		return err
	}
	// A link fails where something is; a rename would replace it.
	if err := d.Link(tmp, name); err != nil {
		_ = d.Remove(tmp)
		return err
	}
	return errors.Join(d.Remove(tmp), d.SyncDir())
}

// write puts data into a new file beside the target, on disk, and returns its
// name. old is what the file will replace, or nil.
func write(d disk, old fs.FileInfo, data []byte, m Mode) (name string, err error) {
	perm := fs.FileMode(0o600) // there is no moment at which others can read it
	if m.kind == masked && old == nil {
		perm = m.perm
	}
	f, err := beside(d, perm)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = m.apply(d, f, old)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = d.Remove(f.name)
		return "", err
	}
	return f.name, nil
}

type temporary struct {
	file
	name string
}

// beside makes a file that hides from listings and that sweepers know.
func beside(d disk, perm fs.FileMode) (temporary, error) {
	for {
		name := fmt.Sprintf(".iris-%016x.tmp", rand.Uint64())
		f, err := d.Create(name, perm)
		switch {
		case err == nil:
			return temporary{f, name}, nil
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return temporary{}, err // writing in place would lose what is there
		case !errors.Is(err, fs.ErrExist):
			return temporary{}, fmt.Errorf("%w: %w", ErrBeside, err)
		}
	}
}

// special are the bits of a mode that Chmod can set besides the permissions.
const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// apply gives f what m says. The owner comes first: changing it takes bits away.
func (m Mode) apply(d disk, f file, old fs.FileInfo) error {
	perm := m.perm
	if old != nil && !old.Mode().IsRegular() {
		old = nil // a link: what it leads to is not what goes
	}
	like := old
	switch {
	case m.kind == exact:
		return f.Chmod(perm)
	case old != nil:
		perm = old.Mode() & (fs.ModePerm | special)
	case m.kind == masked:
		return nil
	case os.Geteuid() == 0:
		var err error
		if like, err = d.Lstat("."); err != nil {
			return err
		}
	}
	if like != nil {
		if err := adopt(f, like); err != nil {
			return err
		}
	}
	return f.Chmod(perm)
}

// adopt gives f the owner and the group that like has, where that is allowed.
func adopt(f file, like fs.FileInfo) error {
	have, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := have.Sys().(*syscall.Stat_t)
	want, ok2 := like.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	err = f.Chown(int(want.Uid), int(want.Gid))
	// EINVAL: an owner that this user namespace does not know.
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

func at(path string, do func(disk, string) error) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	return within(root, err, path, do)
}

func in(root *os.Root, path string, do func(disk, string) error) error {
	sub, err := root.OpenRoot(filepath.Dir(path))
	return within(sub, err, path, do)
}

func within(root *os.Root, err error, path string, do func(disk, string) error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBeside, err)
	}
	defer root.Close()
	if err := do(dir{root}, filepath.Base(path)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// dir is a directory of the machine. It is held open, so that one that is moved
// meanwhile is still the same.
type dir struct{ *os.Root }

func (d dir) Create(name string, perm fs.FileMode) (file, error) {
	f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, perm)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}
	return f, nil
}

func (d dir) SyncDir() error {
	f, err := d.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(syncDir(f), f.Close())
}

// syncDir syncs an open directory. Some file systems know nothing to do there
// and say so.
func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
