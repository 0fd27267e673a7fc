package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
)

// ReadFile reads a regular file; a directory, a pipe or a device is an error,
// since reading it would hang or never end. Files whose size the kernel does
// not tell (/proc) have the size of what was read.
func (h *Host) ReadFile(ctx context.Context, _ chat.Address, path string, offset, limit int64) ([]byte, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	// O_NONBLOCK: opening a pipe nobody writes to would wait.
	f, err := os.OpenFile(h.abs(path), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if err := regular(path, info); err != nil {
		return nil, 0, err
	}
	if limit <= 0 || offset < 0 {
		return nil, info.Size(), nil
	}
	size := info.Size()
	capacity := min(limit, max(size-offset, 0)+1)
	data := make([]byte, 0, capacity)
	r := io.NewSectionReader(f, offset, limit)
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return data, max(size, offset+int64(len(data))), nil
}

// WriteFile writes through symbolic links, to the file they lead to. It writes
// beside the file and renames, so that a reader sees the old or the new content
// and a crash leaves one of them. Where a rename would change more than the
// content (other hard links, another owner, a file mounted on its own, a
// directory that may not be written) it writes in place.
func (h *Host) WriteFile(ctx context.Context, conv chat.Address, path string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	target, err := h.Resolve(ctx, conv, h.abs(path))
	if err != nil {
		return err
	}
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil { // less the umask, as mkdir -p does
			return err
		}
		return durable.Replace(target, data, durable.Masked(0o666))
	}
	if err != nil {
		return err
	}
	if err := regular(path, info); err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Nlink == 1 && int(st.Uid) == os.Geteuid() {
		err := durable.Replace(target, data, durable.Masked(0))
		if !errors.Is(err, durable.ErrBeside) {
			return err
		}
	}
	return inPlace(target, data)
}

func inPlace(target string, data []byte) error {
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// maxLinks is how many symbolic links a path may go through, as in the kernel.
const maxLinks = 40

// Resolve follows links as sandbox.Resolver asks, dangling ones too.
func (h *Host) Resolve(_ context.Context, _ chat.Address, path string) (string, error) {
	path = h.abs(path)
	for range maxLinks {
		full, err := filepath.EvalSymlinks(path)
		if err == nil {
			return full, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		// Something on the way is missing: a dangling link, or a file or
		// directory that is still to be made.
		if to, err := os.Readlink(path); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			path = to
			continue
		}
		dir := filepath.Dir(path)
		if dir == path {
			return path, nil
		}
		parent, err := h.Resolve(context.Background(), chat.Address{}, dir)
		if err != nil {
			return "", err
		}
		return filepath.Join(parent, filepath.Base(path)), nil
	}
	return "", &fs.PathError{Op: "resolve", Path: path, Err: unix.ELOOP}
}

func (h *Host) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(h.opts.Dir, path)
}

func regular(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}
