package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

func fill(t *testing.T, j *Journal, n int) {
	t.Helper()
	for range n {
		add(t, j, "filler", `"`+strings.Repeat("f", 80)+`"`)
	}
}

func TestMaxBytes(t *testing.T) {
	c := newClock()
	calls := 0
	var refuse error
	o := Options{
		Dir: t.TempDir(), SegmentBytes: 1000, MaxBytes: 5000, MaxAge: -1, Clock: c.now, OpenFile: (&disk{noSync: true}).open,
		BeforeDrop: func() error { calls++; return refuse },
	}
	j := open(t, o)
	key := journal.Entry{Data: []byte("1"), Key: "k"}
	if _, err := j.Append(t.Context(), "A", journal.Any, key); err != nil {
		t.Fatal(err)
	}
	if n, err := j.Trim(); n != 0 || err != nil || calls != 0 {
		t.Errorf("trim of a small journal = %d, %v, %d calls of BeforeDrop, want nothing", n, err, calls)
	}
	fill(t, j, 100)
	before := len(segments(t, o.Dir))
	refuse = errors.New("the copies are not on disk")
	if n, err := j.Trim(); n != 0 || !errors.Is(err, refuse) || len(segments(t, o.Dir)) != before {
		t.Errorf("trim when BeforeDrop fails = %d, %v, want nothing dropped", n, err)
	}
	refuse = nil
	n, err := j.Trim()
	if n == 0 || err != nil || calls != 2 {
		t.Errorf("trim = %d, %v, %d calls of BeforeDrop", n, err, calls)
	}
	var total int64
	left := segments(t, o.Dir)
	for _, path := range left {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > o.MaxBytes || total < o.MaxBytes-2*o.SegmentBytes || len(left) != before-n {
		t.Errorf("%d bytes in %d segments are left, want nearly %d", total, len(left), o.MaxBytes)
	}
	if _, _, ok := j.Lookup("k"); ok {
		t.Error("the key of a dropped record is taken")
	}
	if last, err := j.Append(t.Context(), "A", 0, key); err != nil || last != 102 {
		t.Errorf("append = %d, %v, want 102", last, err)
	}
}

// TestTrimWithoutIndex drops a segment whose index cannot be read.
func TestTrimWithoutIndex(t *testing.T) {
	c := newClock()
	o := Options{Dir: t.TempDir(), SegmentBytes: 500, Clock: c.now}
	j := open(t, o)
	add(t, j, "A", "1", "2")
	fill(t, j, 6)
	if err := os.Remove(indexPath(segments(t, o.Dir)[0])); err != nil {
		t.Fatal(err)
	}
	c.advance(8 * 24 * time.Hour)
	fill(t, j, 6)
	if n, err := j.Trim(); n == 0 || err != nil {
		t.Fatalf("trim = %d, %v", n, err)
	}
	if n := j.Last("A"); n != 0 {
		t.Errorf("Last = %d, want 0", n)
	}
}

// TestTrimUnderReader drops segments while a reader is within them.
func TestTrimUnderReader(t *testing.T) {
	c := newClock()
	o := Options{Dir: t.TempDir(), SegmentBytes: 1 << 20, RecentBytes: 1, Clock: c.now, OpenFile: (&disk{noSync: true}).open}
	j := open(t, o)
	big := `"` + strings.Repeat("x", 10_000) + `"`
	for range 400 {
		add(t, j, "A", big)
	}
	c.advance(8 * 24 * time.Hour)
	for range 10 {
		add(t, j, "A", big)
	}
	seen, gaps, last := 0, 0, int64(0)
	for r, err := range j.Read(t.Context(), "A", 0) {
		if errors.Is(err, journal.ErrTruncated) {
			gaps++
			continue
		}
		if err != nil || r.Seq <= last {
			t.Fatalf("record %d after %d, error %v", r.Seq, last, err)
		}
		last = r.Seq
		if seen++; seen == 1 {
			if n, err := j.Trim(); n < 3 || err != nil {
				t.Fatalf("trim = %d, %v", n, err)
			}
		}
	}
	if gaps != 1 || last != 410 || seen >= 410 {
		t.Errorf("%d records with %d gaps up to %d, want one gap and the end, 410", seen, gaps, last)
	}
}

// TestServe applies retention until its context ends.
func TestServe(t *testing.T) {
	c := newClock()
	dropped := make(chan struct{}, 100)
	fail := true
	o := Options{
		Dir: t.TempDir(), SegmentBytes: 500, Clock: c.now, TrimEvery: time.Millisecond,
		BeforeDrop: func() error {
			dropped <- struct{}{}
			if fail {
				fail = false
				return errors.New("once")
			}
			return nil
		},
	}
	j := open(t, o)
	fill(t, j, 12)
	c.advance(8 * 24 * time.Hour)
	fill(t, j, 6)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- j.Serve(ctx) }()
	<-dropped
	<-dropped // a failure does not end it
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if _, gaps, err := count(j, "filler"); gaps != 1 || err != nil {
		t.Errorf("%d gaps, error %v, want 1", gaps, err)
	}
}

func count(j *Journal, stream string) (n, gaps int, err error) {
	for _, err := range j.Read(context.Background(), stream, 0) {
		switch {
		case errors.Is(err, journal.ErrTruncated):
			gaps++
		case err != nil:
			return n, gaps, err
		default:
			n++
		}
	}
	return n, gaps, nil
}

func TestKeysShrink(t *testing.T) {
	k := keys{}
	for i := range 5000 {
		k[hashKey(fmt.Append(nil, i))] = hold(int64(i)<<20, int64(i)*1e6)
	}
	k = k.sweep(4000, 4500<<20)
	if len(k) != 500 {
		t.Errorf("%d keys are left, want 500", len(k))
	}
	if got := k.find(hashKey([]byte("4999")), 0); got != 4999<<20 {
		t.Errorf("find = %d, want %d", got, int64(4999)<<20)
	}
}
