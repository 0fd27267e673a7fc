package microvm

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyImage makes a private copy of an image: shared blocks where the file
// system can (reflink), else the data without the holes. The copy belongs to
// uid and gid and is readable for nobody else.
func copyImage(to, from string, uid, gid int) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", from)
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := dst.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			err = fmt.Errorf("copy %s: %w", from, err)
			_ = os.Remove(to)
		}
	}()
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) != nil {
		if err := copySparse(dst, src, info.Size()); err != nil {
			return err
		}
	}
	if uid == os.Geteuid() && gid == os.Getegid() {
		return nil
	}
	return dst.Chown(uid, gid)
}

// copySparse copies the data and leaves the holes.
func copySparse(dst, src *os.File, size int64) error {
	if err := dst.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := src.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole is left
		}
		end := size
		if err == nil {
			end, err = src.Seek(data, unix.SEEK_HOLE)
		}
		if err != nil { // a file system that does not tell
			data, end = at, size
		}
		if _, err := src.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := dst.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(dst, src, end-data); err != nil {
			return err
		}
		at = end
	}
	return nil
}
