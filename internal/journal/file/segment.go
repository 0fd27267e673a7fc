package file

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/iris-operator/iris/internal/journal"
)

// A File is what a segment is read and written through. *os.File is one.
type File interface {
	io.Writer
	io.ReaderAt
	Sync() error
	Truncate(size int64) error
	Close() error
}

const segmentExt = ".jsonl"

func segmentPath(dir string, first int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d", first)+segmentExt)
}

// A segment is one file of the log. The last of a journal is its active one.
type segment struct {
	path string
	open func(name string, flag int, perm os.FileMode) (File, error)

	// Guarded by Journal.mu. Of a sealed segment only the numbers, size,
	// newest and marks of the index are kept.
	x       index
	indexed bool // the index lies beside it

	// fmu guards f, which is opened for reading when it is first needed.
	fmu sync.Mutex
	f   File
}

// file returns the open file.
func (s *segment) file() (File, error) {
	s.fmu.Lock()
	defer s.fmu.Unlock()
	if s.f == nil {
		f, err := s.open(s.path, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		s.f = f
	}
	return s.f, nil
}

// close ends the use of the file. A read that is under way fails.
func (s *segment) close() error {
	s.fmu.Lock()
	defer s.fmu.Unlock()
	f := s.f
	s.f = closedFile{}
	if f == nil {
		return nil
	}
	return f.Close()
}

// closedFile is what a segment has after close, so that a late reader does not
// open it again.
type closedFile struct{}

func (closedFile) Write([]byte) (int, error)         { return 0, os.ErrClosed }
func (closedFile) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }
func (closedFile) Sync() error                       { return os.ErrClosed }
func (closedFile) Truncate(int64) error              { return os.ErrClosed }
func (closedFile) Close() error                      { return nil }

// lines reads the lines of a file piece by piece.
type lines struct {
	f        io.ReaderAt
	off, end int64  // what is still to be read
	buf      []byte // holds from..to, the bytes before off
	from, to int
}

// chunk is how much is read at a time.
const chunk = 128 << 10

// next returns the next line without its newline, valid until the following
// call, and where it begins. At the end it returns io.EOF, and with it what
// follows the last newline.
func (r *lines) next() (b []byte, at int64, err error) {
	searched := 0
	for {
		if i := bytes.IndexByte(r.buf[r.from+searched:r.to], '\n'); i >= 0 {
			i += searched
			b, at = r.buf[r.from:r.from+i], r.off-int64(r.to-r.from)
			r.from += i + 1
			return b, at, nil
		}
		searched = r.to - r.from
		if r.off >= r.end {
			return r.buf[r.from:r.to], r.off - int64(searched), io.EOF
		}
		if err := r.fill(); err != nil {
			return nil, r.off, err
		}
	}
}

func (r *lines) fill() error {
	if r.from > 0 {
		copy(r.buf, r.buf[r.from:r.to])
		r.from, r.to = 0, r.to-r.from
	}
	if r.to == len(r.buf) {
		grown := make([]byte, max(chunk, 2*len(r.buf)))
		copy(grown, r.buf[:r.to])
		r.buf = grown
	}
	n, err := r.f.ReadAt(r.buf[r.to:r.to+int(min(int64(len(r.buf)-r.to), r.end-r.off))], r.off)
	r.to, r.off = r.to+n, r.off+int64(n)
	if n == 0 && (err == nil || err == io.EOF) {
		return io.ErrUnexpectedEOF // the file is shorter than it was
	}
	if err != nil && err != io.EOF {
		return err
	}
	return nil
}

func corrupt(path string, off int64, what string) error {
	return fmt.Errorf("%w: %s at byte %d: %s", journal.ErrCorrupt, path, off, what)
}
