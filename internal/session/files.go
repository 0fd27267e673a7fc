package session

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/iris-operator/iris/internal/durable"
)

// maxDirty bounds the list of files that wait for SyncAll. Above it the oldest
// promise is kept at once: the file that is written is synced right away.
const maxDirty = 4096

// A fileCache keeps a bounded number of files open for appending and remembers
// which were written since the last sync.
type fileCache struct {
	root *os.Root
	max  int

	// mu guards the fields below and handle.refs, handle.stale.
	mu    sync.Mutex
	open  map[string]*list.Element // of *handle
	order *list.List
	dirty map[string]struct{}
}

type handle struct {
	*os.File
	path  string
	refs  int
	stale bool // no longer in the cache; closed with the last ref
}

func newFileCache(root *os.Root, max int) *fileCache {
	return &fileCache{root: root, max: max, open: map[string]*list.Element{}, order: list.New(), dirty: map[string]struct{}{}}
}

// get opens a file for reading and appending and returns its size. Without
// create a missing file is fs.ErrNotExist; with it, its directory is made too.
// The caller calls put.
func (c *fileCache) get(p string, create bool) (*handle, int64, error) {
	c.mu.Lock()
	if e, ok := c.open[p]; ok {
		h := e.Value.(*handle)
		if size, ok := linked(h.File); ok {
			c.order.MoveToFront(e)
			h.refs++
			c.mu.Unlock()
			return h, size, nil
		}
		c.removeLocked(e)
	}
	c.mu.Unlock()

	flag := os.O_RDWR | os.O_APPEND
	if create {
		flag |= os.O_CREATE
	}
	f, err := c.root.OpenFile(p, flag, fileMode)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err = c.root.MkdirAll(path.Dir(p), dirMode); err == nil {
			f, err = c.root.OpenFile(p, flag, fileMode)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	size, ok := linked(f)
	if !ok {
		f.Close()
		return nil, 0, fs.ErrNotExist
	}
	h := &handle{File: f, path: p, refs: 1}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.open[p]; ok { // another caller was faster
		f.Close()
		h = e.Value.(*handle)
		h.refs++
		return h, size, nil
	}
	c.open[p] = c.order.PushFront(h)
	for e := c.order.Back(); e != nil && c.order.Len() > c.max; {
		prev := e.Prev()
		if e.Value.(*handle).refs == 0 {
			c.removeLocked(e)
		}
		e = prev
	}
	return h, size, nil
}

// linked returns the size of an open file and whether it still has a name:
// somebody may have removed the directory of a conversation.
func linked(f *os.File) (size int64, ok bool) {
	info, err := f.Stat()
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Size(), !ok || st.Nlink > 0
}

// hold takes part in the use of a file that the caller has.
func (c *fileCache) hold(h *handle) {
	c.mu.Lock()
	h.refs++
	c.mu.Unlock()
}

func (c *fileCache) put(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.refs--
	if h.stale && h.refs == 0 {
		h.Close()
	}
}

// drop forgets a file that was replaced.
func (c *fileCache) drop(p string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.open[p]; ok {
		c.removeLocked(e)
	}
}

func (c *fileCache) removeLocked(e *list.Element) {
	h := e.Value.(*handle)
	c.order.Remove(e)
	delete(c.open, h.path)
	h.stale = true
	if h.refs == 0 {
		h.Close()
	}
}

func (c *fileCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.removeLocked(c.order.Front())
	}
}

// wrote remembers that a file must be synced. It reports false when the list
// is full and the caller has to sync it itself.
func (c *fileCache) wrote(p string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.dirty[p]; !ok && len(c.dirty) >= maxDirty {
		return false
	}
	c.dirty[p] = struct{}{}
	return true
}

// take empties the list of files to sync.
func (c *fileCache) take() map[string]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.dirty
	c.dirty = map[string]struct{}{}
	return d
}

// SyncAll returns when everything that was written before the call is on disk,
// names included. What could not be synced stays on the list for the next
// call. It stops early when ctx ends.
func (s *Store) SyncAll(ctx context.Context) error {
	var errs []error
	dirs := map[string]struct{}{}
	for p := range s.files.take() {
		err := ctx.Err()
		if err == nil {
			err = s.syncPath(p)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.files.wrote(p)
			errs = append(errs, fmt.Errorf("sync %s: %w", p, err))
			continue
		}
		for d := path.Dir(p); ; d = path.Dir(d) {
			dirs[d] = struct{}{}
			if d == "." {
				break
			}
		}
	}
	for d := range dirs {
		if err := s.syncPath(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sync %s: %w", d, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) syncPath(p string) error {
	f, err := s.root.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// replace puts data in place of a file whose directory may not be there yet. The
// mode of an existing file is kept.
func (s *Store) replace(p string, data []byte) error {
	if err := s.root.MkdirAll(path.Dir(p), dirMode); err != nil {
		return err
	}
	return durable.ReplaceIn(s.root, p, data, durable.Keep(fileMode))
}
