package file

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/iris-operator/iris/internal/journal"
)

var one = journal.Entry{Data: json.RawMessage(`"new"`), Key: "k", Pin: "p"}

// TestNoSpace fills the disk in the middle of a write. What was written is
// taken back, and when there is room again the journal goes on.
func TestNoSpace(t *testing.T) {
	for _, code := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		d := &disk{}
		dir := t.TempDir()
		j := open(t, Options{Dir: dir, OpenFile: d.open})
		add(t, j, "A", `"old"`)
		size := func() int64 {
			info, err := os.Stat(segments(t, dir)[0])
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		before := size()
		for _, n := range []int{0, 1, 20} {
			d.write = func([]byte) (int, error) { return n, code }
			if _, err := j.Append(t.Context(), "A", 1, one); !errors.Is(err, code) {
				t.Errorf("append on a full disk = %v, want %v", err, code)
			}
			if now := size(); now != before {
				t.Errorf("after a short write of %d: %d bytes, want %d", n, now, before)
			}
		}
		if j.Last("A") != 1 || len(j.Pins()) != 0 {
			t.Errorf("a failed append left last %d, pins %v", j.Last("A"), j.Pins())
		}
		if err := j.Sync(t.Context()); err != nil {
			t.Errorf("sync: %v", err)
		}
		d.write = nil
		if n, err := j.Append(t.Context(), "A", 1, one); n != 2 || err != nil {
			t.Errorf("append when there is room again = %d, %v", n, err)
		}
		j.Close()
		j = open(t, Options{Dir: dir})
		want(t, j, "A", `"old"`, `"new"`)
		j.Close()
	}
}

// TestBroken lets the disk fail: every later Append and Sync fails with the
// same error, readers go on, and the next open has what was acknowledged.
func TestBroken(t *testing.T) {
	eio := syscall.EIO
	for name, fail := range map[string]func(d *disk, j *Journal) error{
		"write": func(d *disk, j *Journal) error {
			d.write = func([]byte) (int, error) { return 7, eio }
			_, err := j.Append(context.Background(), "A", journal.Any, one)
			return err
		},
		"no space and no way back": func(d *disk, j *Journal) error {
			d.write = func([]byte) (int, error) { return 7, syscall.ENOSPC }
			d.truncate = func() error { return eio }
			_, err := j.Append(context.Background(), "A", journal.Any, one)
			return err
		},
		"fsync": func(d *disk, j *Journal) error {
			d.sync = func() error { return eio }
			return j.Sync(context.Background())
		},
		"fsync of a segment that is full": func(d *disk, j *Journal) error {
			d.sync = func() error { return eio }
			j.opts.SegmentBytes = 1
			_, err := j.Append(context.Background(), "A", journal.Any, one)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{}
			dir := t.TempDir()
			j := open(t, Options{Dir: dir, OpenFile: d.open})
			add(t, j, "A", `"old"`)
			first := fail(d, j)
			if !errors.Is(first, eio) {
				t.Fatalf("the failing call returned %v, want %v", first, eio)
			}
			d.write, d.sync, d.truncate = nil, nil, nil
			if _, err := j.Append(t.Context(), "A", journal.Any, one); err == nil || err.Error() != first.Error() {
				t.Errorf("append = %v, want %v", err, first)
			}
			if err := j.Sync(t.Context()); err == nil || err.Error() != first.Error() {
				t.Errorf("sync = %v, want %v", err, first)
			}
			if _, err := j.Trim(); err == nil {
				t.Error("retention goes on")
			}
			want(t, j, "A", `"old"`)
			j.Close()
			j = open(t, Options{Dir: dir})
			want(t, j, "A", `"old"`)
		})
	}
}

// TestNoRoomForSegment cannot begin a segment: the append fails, a smaller one
// still goes to the old segment, and the next open finds all.
func TestNoRoomForSegment(t *testing.T) {
	d := &disk{}
	dir := t.TempDir()
	o := Options{Dir: dir, SegmentBytes: 180, OpenFile: d.open}
	j := open(t, o)
	add(t, j, "A", `"a"`)
	d.create = func() error { return syscall.ENOSPC }
	big := journal.Entry{Data: json.RawMessage(`"` + strings.Repeat("x", 75) + `"`)}
	if _, err := j.Append(t.Context(), "A", journal.Any, big); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("append = %v, want ENOSPC", err)
	}
	add(t, j, "B", `"b"`)
	d.create = nil
	if _, err := j.Append(t.Context(), "A", journal.Any, big); err != nil {
		t.Errorf("append when there is room again: %v", err)
	}
	want(t, j, "B", `"b"`)
	j.Close()
	j = open(t, o)
	want(t, j, "A", `"a"`, string(big.Data))
	want(t, j, "B", `"b"`)
	if n := len(segments(t, dir)); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
}

// TestSharedSync has 50 callers wait while an fsync is under way: one more
// serves them all.
func TestSharedSync(t *testing.T) { synctest.Test(t, sharedSync) }

func sharedSync(t *testing.T) {
	d := &disk{noSync: true}
	j := open(t, Options{Dir: t.TempDir(), OpenFile: d.open})
	add(t, j, "A", "0")
	leave := make(chan struct{})
	var once sync.Once
	d.sync = func() error {
		once.Do(func() { <-leave })
		return nil
	}
	before := d.syncs.Load()
	var wg sync.WaitGroup
	wg.Go(func() { j.Sync(context.Background()) })
	synctest.Wait() // it is in the fsync
	for range 50 {
		add(t, j, "A", "1")
		wg.Go(func() {
			if err := j.Sync(context.Background()); err != nil {
				t.Errorf("sync: %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("sync with a context that ended = %v", err)
	}
	synctest.Wait() // all of them wait
	close(leave)
	wg.Wait()
	if n := d.syncs.Load() - before; n != 2 {
		t.Errorf("%d fsyncs for 51 callers, want 2", n)
	}
	if err := j.Sync(t.Context()); err != nil || d.syncs.Load()-before != 2 {
		t.Errorf("sync with nothing new: %d fsyncs, error %v, want none more", d.syncs.Load()-before, err)
	}
}
