package session

import (
	"errors"
	"fmt"
	"io/fs"
)

// size returns the size of a conversation's file and its handle, which the
// caller puts back; a missing file has none and size 0.
func (s *Store) size(c *conv, name string) (*handle, int64, error) {
	k := c.holds(name)
	if k.missing {
		return nil, 0, nil
	}
	if k.h == nil {
		h, size, err := s.files.get(c.file(name), false)
		if errors.Is(err, fs.ErrNotExist) {
			k.missing = true
			return nil, 0, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("open %s: %w", c.file(name), err)
		}
		k.h, k.size = h, size
	}
	s.files.hold(k.h)
	return k.h, k.size, nil
}

// write appends data, whole lines, in one call and keeps ext up to date. A
// torn last line is removed first. After an error the file is as it was, or
// the conversation is compared with the journal again before it is used.
func (s *Store) write(c *conv, name string, ext *extent, data []byte) error {
	k := c.holds(name)
	if k.h == nil {
		h, size, err := s.files.get(c.file(name), true)
		if err != nil {
			s.setCaughtUp(c.addr, false)
			return fmt.Errorf("open %s: %w", c.file(name), err)
		}
		k.h, k.size, k.missing = h, size, false
	}
	if err := s.writeTo(k.h, ext, data); err != nil {
		s.letGo(k)
		s.setCaughtUp(c.addr, false)
		c.log.loaded, c.ctx.loaded = false, false
		return fmt.Errorf("append to %s: %w", c.file(name), err)
	}
	k.size = ext.size
	if !s.files.wrote(k.h.path) {
		if err := k.h.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", c.file(name), err)
		}
	}
	return nil
}

func (s *Store) writeTo(h *handle, ext *extent, data []byte) error {
	if ext.end < ext.size {
		if err := h.Truncate(ext.end); err != nil {
			return err
		}
		ext.size = ext.end
	}
	if ext.open {
		data = append([]byte{'\n'}, data...)
	}
	n, err := h.Write(data)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, h.Truncate(ext.size))
		}
		return err
	}
	ext.size += int64(n)
	ext.end, ext.open = ext.size, false
	return nil
}
