package file

import (
	"os"
	"sync/atomic"
)

// disk is a disk that can fail. Its functions decide, one call at a time, what
// happens; nil means that all goes well.
type disk struct {
	noSync bool // Sync does nothing, which is quick

	write    func(b []byte) (n int, err error) // n bytes are written, then err if there is one
	sync     func() error
	truncate func() error
	create   func() error

	syncs, reads, writes atomic.Int64
}

func (d *disk) open(name string, flag int, perm os.FileMode) (File, error) {
	if flag&os.O_CREATE != 0 && d.create != nil {
		if err := d.create(); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

type diskFile struct {
	*os.File
	d *disk
}

func (f *diskFile) Write(b []byte) (int, error) {
	f.d.writes.Add(1)
	if f.d.write != nil {
		n, err := f.d.write(b)
		if err != nil {
			n, _ = f.File.Write(b[:n])
			return n, err
		}
	}
	return f.File.Write(b)
}

func (f *diskFile) ReadAt(b []byte, off int64) (int, error) {
	f.d.reads.Add(1)
	return f.File.ReadAt(b, off)
}

func (f *diskFile) Sync() error {
	f.d.syncs.Add(1)
	if f.d.sync != nil {
		if err := f.d.sync(); err != nil {
			return err
		}
	}
	if f.d.noSync {
		return nil
	}
	return f.File.Sync()
}

func (f *diskFile) Truncate(size int64) error {
	if f.d.truncate != nil {
		if err := f.d.truncate(); err != nil {
			return err
		}
	}
	return f.File.Truncate(size)
}
