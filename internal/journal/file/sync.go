package file

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Sync returns when everything appended before the call is on disk. The first
// caller runs the fsync; those who come meanwhile share the next one.
func (j *Journal) Sync(ctx context.Context) error {
	j.mu.Lock()
	want := j.last
	j.mu.Unlock()
	for {
		if err := j.usable(); err != nil {
			return err
		}
		j.smu.Lock()
		// Looked at under smu: a round ends with it raised.
		if j.synced.Load() >= want {
			j.smu.Unlock()
			return nil
		}
		round := j.round
		mine := round == nil
		if mine {
			round = make(chan struct{})
			j.round = round
		}
		j.smu.Unlock()
		if mine {
			err := j.fsync()
			j.smu.Lock()
			j.round = nil
			j.smu.Unlock()
			close(round)
			if err != nil {
				return err
			}
			continue
		}
		select {
		case <-round:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fsync puts all that is appended on disk. Sealed segments are already.
func (j *Journal) fsync() error {
	j.mu.Lock()
	a, last, closed := j.active(), j.last, j.closed
	j.mu.Unlock()
	if closed {
		return j.usable()
	}
	if err := a.f.Sync(); err != nil {
		return j.breaks(fmt.Errorf("sync %s: %w", a.path, err))
	}
	j.advance(last)
	return nil
}

// advance raises the synced number.
func (j *Journal) advance(to int64) {
	for {
		have := j.synced.Load()
		if have >= to || j.synced.CompareAndSwap(have, to) {
			return
		}
	}
}

// syncDir makes the names in the directory last.
func (j *Journal) syncDir() error {
	d, err := j.opts.OpenFile(j.opts.Dir, os.O_RDONLY, 0)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", j.opts.Dir, err)
	}
	return nil
}
