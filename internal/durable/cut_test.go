package durable

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a directory whose power can be cut. What was written is lost unless
// it was synced, and so are names unless the directory was.
type machine struct {
	names, lasting map[string]*inode
	steps          []string
	fail           func(step string) error
}

type inode struct {
	m             *machine
	name          string
	text, lasting string
}

func newMachine(old string) *machine {
	m := &machine{names: map[string]*inode{}, lasting: map[string]*inode{}}
	if old != "" {
		m.names["f"] = &inode{m: m, name: "f", text: old, lasting: old}
		m.lasting["f"] = m.names["f"]
	}
	return m
}

func (m *machine) step(what string) error {
	m.steps = append(m.steps, what)
	if m.fail != nil {
		return m.fail(what)
	}
	return nil
}

// cut returns what f holds when the power goes now. Names may reach the disk
// earlier than they must: it returns every possible content.
func (m *machine) cut() []string {
	content := func(names map[string]*inode) string {
		if i := names["f"]; i != nil {
			return "is " + i.lasting
		}
		return "none"
	}
	return []string{content(m.lasting), content(m.names)}
}

func (m *machine) Create(name string, _ fs.FileMode) (file, error) {
	if err := m.step("create"); err != nil {
		return nil, err
	}
	m.names[name] = &inode{m: m, name: name}
	return m.names[name], nil
}

func (m *machine) Lstat(name string) (fs.FileInfo, error) {
	if i := m.names[name]; i != nil {
		return i.Stat()
	}
	return nil, fs.ErrNotExist
}

func (m *machine) Link(old, name string) error {
	if m.names[name] != nil {
		return fs.ErrExist
	}
	if err := m.step("link"); err != nil {
		return err
	}
	m.names[name] = m.names[old]
	return nil
}

func (m *machine) Rename(old, name string) error {
	if err := m.step("rename"); err != nil {
		return err
	}
	m.names[name] = m.names[old]
	delete(m.names, old)
	return nil
}

func (m *machine) Remove(name string) error {
	m.steps = append(m.steps, "remove")
	delete(m.names, name)
	return nil
}

func (m *machine) SyncDir() error {
	if err := m.step("sync directory"); err != nil {
		return err
	}
	m.lasting = maps.Clone(m.names)
	return nil
}

func (i *inode) Write(data []byte) (int, error) {
	if err := i.m.step("write"); err != nil {
		i.text += string(data[:len(data)/2])
		return len(data) / 2, err
	}
	i.text += string(data)
	return len(data), nil
}

func (i *inode) Sync() error {
	if err := i.m.step("sync"); err != nil {
		return err
	}
	i.lasting = i.text
	return nil
}

func (i *inode) Chmod(fs.FileMode) error    { return i.m.step("chmod") }
func (i *inode) Chown(int, int) error       { return i.m.step("chown") }
func (i *inode) Close() error               { return i.m.step("close") }
func (i *inode) Stat() (fs.FileInfo, error) { return info{i}, nil }

type info struct{ i *inode }

func (f info) Name() string     { return f.i.name }
func (info) Mode() fs.FileMode  { return 0o640 }
func (info) ModTime() time.Time { return time.Time{} }
func (info) IsDir() bool        { return false }
func (info) Sys() any           { return nil }
func (f info) Size() int64      { return int64(len(f.i.text)) }

func TestPowerCutAtEveryStep(t *testing.T) {
	for name, c := range map[string]struct {
		old, want string
		put       func(m *machine) error
	}{
		"replace": {"old", "is old", func(m *machine) error { return replace(m, "f", []byte("new text"), Exactly(0o600)) }},
		"new":     {"", "none", func(m *machine) error { return replace(m, "f", []byte("new text"), Exactly(0o600)) }},
		"create":  {"", "none", func(m *machine) error { return create(m, "f", []byte("new text"), Exactly(0o600)) }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(c.old)
			m.fail = func(step string) error {
				for _, got := range m.cut() {
					if got != c.want && got != "is new text" {
						t.Errorf("power cut before %s: f %s", step, got)
					}
				}
				return nil
			}
			if err := c.put(m); err != nil {
				t.Fatal(err)
			}
			for _, got := range m.cut() {
				if got != "is new text" {
					t.Errorf("power cut afterwards: f %s", got)
				}
			}
			if len(m.lasting) != 1 {
				t.Errorf("left on disk: %v", slices.Collect(maps.Keys(m.lasting)))
			}
		})
	}
}

// The order is the promise, so it is written down once more, in words.
func TestSyncBeforeRenameAndDirectoryAfter(t *testing.T) {
	m := newMachine("old")
	if err := replace(m, "f", []byte("new"), Exactly(0o600)); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(m.steps, ", "), "create, write, chmod, sync, close, rename, sync directory"; got != want {
		t.Errorf("replace: %s\nwant     %s", got, want)
	}
	m = newMachine("")
	if err := create(m, "f", []byte("new"), Exactly(0o600)); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(m.steps, ", "), "create, write, chmod, sync, close, link, remove, sync directory"; got != want {
		t.Errorf("create: %s\nwant    %s", got, want)
	}
}

func TestFullDiskLeavesTheOldFile(t *testing.T) {
	for _, code := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		for _, at := range []string{"create", "write", "chmod", "sync", "close", "rename"} {
			m := newMachine("old")
			m.fail = func(step string) error {
				if step == at {
					return code
				}
				return nil
			}
			if err := replace(m, "f", []byte("new"), Keep(0o600)); !errors.Is(err, code) {
				t.Errorf("%v at %s: %v", code, at, err)
			}
			if len(m.names) != 1 || m.names["f"].text != "old" {
				t.Errorf("%v at %s: %v, f holds %q", code, at, slices.Collect(maps.Keys(m.names)), m.names["f"].text)
			}
		}
	}
	m := newMachine("")
	m.fail = func(step string) error {
		if step == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := create(m, "f", []byte("new"), Keep(0o600)); !errors.Is(err, syscall.ENOSPC) || len(m.names) != 0 {
		t.Errorf("create on a full disk: %v, %d files", err, len(m.names))
	}
}

func TestFullDiskIsNoReasonToWriteInPlace(t *testing.T) {
	for code, beside := range map[error]bool{syscall.ENOSPC: false, syscall.EDQUOT: false, syscall.EACCES: true, syscall.EROFS: true} {
		m := newMachine("old")
		m.fail = func(string) error { return code }
		if err := replace(m, "f", []byte("new"), Keep(0o600)); errors.Is(err, ErrBeside) != beside || !errors.Is(err, code) {
			t.Errorf("%v: %v, want ErrBeside: %v", code, err, beside)
		}
	}
	for _, code := range []error{syscall.EBUSY, syscall.EXDEV} { // mounted on its own
		m := newMachine("old")
		m.fail = func(step string) error {
			if step == "rename" {
				return code
			}
			return nil
		}
		if err := replace(m, "f", []byte("new"), Keep(0o600)); !errors.Is(err, ErrBeside) || len(m.names) != 1 {
			t.Errorf("rename is %v: %v, %d files", code, err, len(m.names))
		}
	}
}

func TestDirectoryThatCannotBeSyncedIsTold(t *testing.T) {
	m := newMachine("old")
	m.fail = func(step string) error {
		if step == "sync directory" {
			return syscall.EIO
		}
		return nil
	}
	if err := replace(m, "f", []byte("new"), Keep(0o600)); !errors.Is(err, syscall.EIO) || m.names["f"].text != "new" {
		t.Errorf("replace: %v, f holds %q", err, m.names["f"].text)
	}
}
