package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/iris-operator/iris/internal/chat"
)

// Expect names the place of a file that is still on its way, so that its message
// can be kept before it has come. Equal arguments give the same file: stem must
// tell apart two files of one message. here says that it has come already.
func (s *Store) Expect(addr chat.Address, stem, name string) (f chat.File, here bool, err error) {
	dir, err := dirOf(addr)
	if err == nil {
		err = chat.CheckID(stem)
	}
	if err != nil {
		return f, false, err
	}
	f.Original = originalName(name)
	f.Local = path.Join(dir, attachments, stem+"_"+storedName(f.Original))
	_, err = s.root.Stat(f.Local)
	if errors.Is(err, fs.ErrNotExist) {
		return f, false, nil
	}
	return f, err == nil, err
}

// Fulfil stores what Expect has named; it is there whole or not at all, and on
// disk when Fulfil returns nil. limit and errors are those of AddFile.
func (s *Store) Fulfil(ctx context.Context, addr chat.Address, f chat.File, r io.Reader, limit int64) error {
	if limit <= 0 {
		limit = MaxFile
	}
	dir, err := dirOf(addr)
	if err != nil {
		return err
	}
	if dir = path.Join(dir, attachments); path.Dir(f.Local) != dir {
		return fmt.Errorf("%w: %s is not one of %s", ErrBadFile, shown(f.Local), addr)
	}
	if err := s.root.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	part := f.Local + ".part"
	w, err := s.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return fmt.Errorf("store %s: %w", shown(f.Original), err)
	}
	err = fill(ctx, w, r, limit)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.keepName(addr, f.Local, f.Original)
	}
	if err == nil {
		err = s.root.Rename(part, f.Local)
	}
	if err == nil {
		return s.syncPath(dir)
	}
	s.root.Remove(part)
	return fmt.Errorf("store %s: %w", shown(f.Original), err)
}
