package tray

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/chat"
)

// A dir is an out-tray that is open: whatever becomes of its name, this one is meant.
type dir struct {
	f    *os.File
	path string // for the log, and the name of its files
}

func (d *dir) close() { d.f.Close() }

const (
	openDir  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	openFile = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
)

// openTray opens the out-tray of a conversation step by step. Without create, one that
// is not there is nil and no error.
func openTray(workDir string, conv chat.Address, create bool) (*dir, error) {
	at, err := unix.Open(workDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", workDir, err)
	}
	path := workDir
	for i, name := range append(slices.Clone(below), session(conv)) {
		path = filepath.Join(path, name)
		next, made, err := step(at, name, create)
		unix.Close(at)
		switch {
		case errors.Is(err, unix.ENOENT) && !create:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("the out-tray %s: %w", path, err)
		}
		at = next
		if made && i == 0 {
			ignore(at)
		}
	}
	return &dir{f: os.NewFile(uintptr(at), path), path: path}, nil
}

// step opens a directory below another, or makes it. It must be a directory of ours
// that nobody else can write to; our own is made private.
func step(at int, name string, create bool) (fd int, made bool, err error) {
	if create {
		if err = unix.Mkdirat(at, name, 0o700); err == nil {
			made = true
		} else if !errors.Is(err, unix.EEXIST) {
			return -1, false, err
		}
	}
	if fd, err = unix.Openat(at, name, openDir, 0); err != nil {
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			err = errors.New("it is a link or no directory")
		}
		return -1, made, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		switch {
		case int(st.Uid) != os.Geteuid():
			err = errors.New("it belongs to another user")
		case st.Mode&0o077 != 0:
			err = unix.Fchmod(fd, 0o700)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, made, err
	}
	return fd, made, nil
}

// ignore keeps Git from seeing the directory; without, a person sees it as untracked.
func ignore(at int) {
	fd, err := unix.Openat(at, ".gitignore", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte("*\n")) // see above
	unix.Close(fd)
}

// names lists the entries by name.
func (d *dir) names() ([]string, error) {
	if _, err := d.f.Seek(0, 0); err != nil {
		return nil, err
	}
	names, err := d.f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read the out-tray %s: %w", d.path, err)
	}
	slices.Sort(names)
	return names, nil
}

func (d *dir) fd() int { return int(d.f.Fd()) }

// stat looks at an entry itself.
func (d *dir) stat(name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		err = errGone
	}
	return st, err
}

// judge says why an entry may not be sent; nil if it may.
func judge(st unix.Stat_t, max int64) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return &refusal{"it is a link"}
	case unix.S_IFDIR:
		return errMoving // directories stay where they are
	default:
		return &refusal{"it is no plain file"}
	}
	switch {
	case st.Nlink > 1:
		return &refusal{"it is another name of a file elsewhere"}
	case st.Nlink == 0:
		return errGone
	case int(st.Uid) != os.Geteuid():
		return &refusal{"it belongs to another user"}
	case st.Size > max:
		return &refusal{"it is larger than " + strconv.FormatInt(max>>20, 10) + " MiB"}
	}
	return nil
}

// same reports whether two looks were at the same file in the same state.
func same(a, b unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Nlink == b.Nlink && a.Mode == b.Mode
}

// open opens an entry that may be sent, and what is opened is what was judged.
func (d *dir) open(name string, max int64) (*os.File, unix.Stat_t, error) {
	before, err := d.stat(name)
	if err == nil {
		err = judge(before, max)
	}
	if err != nil {
		return nil, before, err
	}
	fd, err := unix.Openat(d.fd(), name, openFile, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, before, &refusal{"it is a link"}
	case errors.Is(err, unix.ENOENT):
		return nil, before, errGone
	case err != nil:
		return nil, before, err
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if err = judge(st, max); err == nil && !same(before, st) {
			err = errMoving
		}
	}
	if err != nil {
		f.Close()
		return nil, before, err
	}
	return f, st, nil
}

// rename gives an entry another name in the tray, if it is still the file st.
func (d *dir) rename(name, to string, st unix.Stat_t) error {
	now, err := d.stat(name)
	if err != nil {
		return err
	}
	if !same(now, st) {
		return errMoving
	}
	if err := unix.Renameat(d.fd(), name, d.fd(), to); err != nil {
		return err
	}
	// Whoever was faster has had another file renamed: it gets its name back.
	if now, err := d.stat(to); err != nil || !same(now, st) {
		if err == nil {
			err = unix.Renameat(d.fd(), to, d.fd(), name)
		}
		return errors.Join(errMoving, err)
	}
	return nil
}

// remove deletes an entry.
func (d *dir) remove(name string) error {
	if err := unix.Unlinkat(d.fd(), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// putAside moves an entry as it is into a directory that is not looked at.
func (d *dir) putAside(name string) error {
	at, _, err := step(d.fd(), aside, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	to := name
	for i := 1; ; i++ {
		err = unix.Renameat2(d.fd(), name, at, to, unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		to = name + "-" + strconv.Itoa(i)
	}
}
