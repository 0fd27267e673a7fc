package file

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/journal/journaltest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writer(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// clock is a clock that moves when told.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// TestJournal runs the suite with segments and memory from tiny to default,
// so that every record is found in memory, in the active segment and in sealed
// ones.
func TestJournal(t *testing.T) {
	for name, o := range map[string]Options{
		"defaults":       {},
		"small segments": {SegmentBytes: 2 << 10, OpenFile: (&disk{noSync: true}).open},
		"tiny segments":  {SegmentBytes: 600, RecentBytes: 1, OpenFile: (&disk{noSync: true}).open},
		"little memory":  {SegmentBytes: 16 << 10, RecentBytes: 2 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			journaltest.Run(t, func(t *testing.T) journaltest.Opener {
				c := newClock()
				o := o
				o.Dir, o.Clock = filepath.Join(t.TempDir(), "journal"), c.now
				o.KeyAge, o.MaxAge = 48*time.Hour, 24*time.Hour
				slack := 16
				switch o.SegmentBytes {
				case 0:
					// Retention needs segments that end.
					o.SegmentBytes = 128 << 10
					slack = 800
				case 16 << 10:
					slack = 100
				}
				return journaltest.Opener{
					Open:    func() (journaltest.Journal, error) { return New(o) },
					Advance: c.advance,
					Trim:    func(j journaltest.Journal) error { _, err := j.(*Journal).Trim(); return err },
					KeyAge:  o.KeyAge, MaxAge: o.MaxAge, Slack: slack,
				}
			})
		})
	}
}

// open opens a journal that the test closes at its end.
func open(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := New(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// add appends entries of the given data to a stream.
func add(t testing.TB, j *Journal, stream string, data ...string) int64 {
	t.Helper()
	var entries []journal.Entry
	for _, d := range data {
		entries = append(entries, journal.Entry{Data: json.RawMessage(d)})
	}
	n, err := j.Append(context.Background(), stream, journal.Any, entries...)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return n
}

// read returns the data of a stream, and the first error.
func read(j *Journal, stream string) (all []string, err error) {
	for r, err := range j.Read(context.Background(), stream, 0) {
		if err != nil {
			return all, err
		}
		all = append(all, string(r.Data))
	}
	return all, nil
}

// want fails unless a stream holds exactly these records.
func want(t testing.TB, j *Journal, stream string, data ...string) {
	t.Helper()
	got, err := read(j, stream)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(data) {
		t.Errorf("%s holds %v, error %v; want %v", stream, got, err, data)
	}
}

func segments(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"+segmentExt))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
