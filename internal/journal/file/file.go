// Package file keeps a [journal.Journal] in a directory: one write-ahead log
// in segments named by their first record, a line of JSON per record, read
// with cat and grep. It owns the directory while it is open, and an advisory
// lock keeps other processes out.
//
// An append is one write(2). Sync is one fsync, shared by all who wait for it.
// What was appended last is also kept in memory, bounded in bytes, and is what
// followers read; older records are found on disk through a small index per
// segment. Reading never takes part in appending, so a slow reader delays
// nobody.
//
// A torn end is dropped when the journal is opened. If it is more than the rest
// of one line, as after a power failure, a copy stays beside the segment as
// *.torn for people to look at.
//
// It does not know what a record means, does not encrypt, and is no protection
// from another program of the same user.
package file

import (
	"cmp"
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/lockfile"
)

// Options are the settings of a journal. Zero values mean the defaults.
type Options struct {
	// Dir holds the journal and nothing else. Required. It is made with mode
	// 0700 if it is missing.
	Dir string
	// SegmentBytes is the size at which a new segment is begun: 16 MiB.
	SegmentBytes int64
	// RecentBytes bounds the records kept in memory: 4 MiB.
	RecentBytes int64
	// KeyAge is how long a key stays taken: 7 days.
	KeyAge time.Duration
	// MaxAge and MaxBytes are what retention keeps: 7 days and 1 GiB.
	// Negative means no limit. A segment goes as a whole when all of it is
	// older than MaxAge, or when the journal is larger than MaxBytes; the one
	// being written and all from the oldest pinned record on stay.
	MaxAge   time.Duration
	MaxBytes int64
	// BeforeDrop is called before anything is dropped. If it fails nothing
	// is. It is where whoever copies records elsewhere makes the copies last.
	BeforeDrop func() error
	// TrimEvery is how often Serve applies retention: 1 hour.
	TrimEvery time.Duration
	// Clock gives the time of records and their age: time.Now.
	Clock func() time.Time
	// OpenFile opens and creates segments, and the directory to sync it:
	// os.OpenFile. Tests put a failing disk here.
	OpenFile func(name string, flag int, perm os.FileMode) (File, error)
	// Log hears of torn tails that were dropped, indexes that were not
	// usable and retention. nil: nobody.
	Log *slog.Logger
}

// Journal is a journal in a directory. Make it with New and Close it.
type Journal struct {
	opts Options // fixed by New
	lock *os.File

	// Lock order: trimming, wmu, mu. smu and a segment's fmu are leaves.

	trimming sync.Mutex // held by the one who applies retention
	wmu      sync.Mutex // held by the one who appends
	hashes   []hash     // of the keys of the append under way
	names    []byte     // its texts

	// mu guards the fields below and is held for moments only, never while
	// the disk is used. What Append changes is changed under wmu too, so the
	// appender may read it without mu.
	mu      sync.Mutex
	segs    []*segment // oldest first
	streams map[string]*stream
	pins    map[string]journal.Pin
	keys    keys
	recent  recent
	waits   waits
	last    int64
	broken  error // the disk failed
	closed  bool

	// synced is the last number known to be on disk.
	synced atomic.Int64
	smu    sync.Mutex
	round  chan struct{} // closed when the fsync under way ends; nil if none is
}

// A stream is what is kept in memory of every stream that has records.
type stream struct {
	name     string
	last     int64 // its last record
	first    int64 // no record on disk is older
	gone     int64 // the last record that retention dropped, 0 for none
	memFrom  int64 // every record after this one is in recent
	memFirst int64 // the first of those, 0 for none
}

var _ journal.Journal = (*Journal)(nil)

// ErrLocked is the error of New when another journal, in this process or
// another, has the directory open.
var ErrLocked = errors.New("journal: the directory is in use")

// New opens the journal in opts.Dir and makes it if there is none. A torn end
// is dropped; journal.ErrCorrupt means that nothing was changed.
func New(opts Options) (*Journal, error) {
	if opts.Dir == "" {
		return nil, errors.New("journal: no directory given")
	}
	opts.SegmentBytes = cmp.Or(opts.SegmentBytes, 16<<20)
	opts.RecentBytes = cmp.Or(opts.RecentBytes, 4<<20)
	opts.KeyAge = cmp.Or(opts.KeyAge, 7*24*time.Hour)
	opts.MaxAge = cmp.Or(opts.MaxAge, 7*24*time.Hour)
	opts.MaxBytes = cmp.Or(opts.MaxBytes, 1<<30)
	opts.TrimEvery = cmp.Or(opts.TrimEvery, time.Hour)
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.OpenFile == nil {
		opts.OpenFile = func(name string, flag int, perm os.FileMode) (File, error) { return os.OpenFile(name, flag, perm) }
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	j := &Journal{
		opts:    opts,
		streams: map[string]*stream{},
		pins:    map[string]journal.Pin{},
		keys:    keys{},
		recent:  recent{max: opts.RecentBytes},
		waits:   waits{},
	}
	if err := j.start(); err != nil {
		j.release()
		return nil, err
	}
	return j, nil
}

// Close syncs and closes the journal. Followers end with journal.ErrClosed and
// every later Append, Sync and Read fails with it. It waits for retention that is
// under way. Calling it again does nothing.
func (j *Journal) Close() error {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	j.wmu.Lock()
	defer j.wmu.Unlock()
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	broken := j.broken
	j.waits.wakeAll()
	j.mu.Unlock()

	j.smu.Lock()
	round := j.round
	j.smu.Unlock()
	if round != nil {
		<-round
	}
	var err error
	if a := j.active(); a != nil && broken == nil {
		if j.synced.Load() < j.last {
			err = a.f.Sync()
		}
		if err == nil && !a.indexed {
			err = a.x.write(a.path)
		}
	}
	return errors.Join(err, j.release())
}

// release closes all files and gives the lock back.
func (j *Journal) release() error {
	var errs []error
	for _, s := range j.segs {
		errs = append(errs, s.close())
	}
	if j.lock != nil {
		errs = append(errs, lockfile.Close(j.lock))
	}
	return errors.Join(errs...)
}

// active is the segment that is written, nil if there is none yet. The caller
// holds wmu or mu.
func (j *Journal) active() *segment {
	if len(j.segs) == 0 {
		return nil
	}
	return j.segs[len(j.segs)-1]
}

// Last returns the number of the stream's last record, 0 if it has none.
func (j *Journal) Last(stream string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.streams[stream]; s != nil {
		return s.last
	}
	return 0
}

// Streams yields every stream that has records, with its last number, as they
// are at the call, in no order.
func (j *Journal) Streams() iter.Seq2[string, int64] {
	type pair struct {
		name string
		last int64
	}
	j.mu.Lock()
	all := make([]pair, 0, len(j.streams))
	for name, s := range j.streams {
		all = append(all, pair{name, s.last})
	}
	j.mu.Unlock()
	return func(yield func(string, int64) bool) {
		for _, p := range all {
			if !yield(p.name, p.last) {
				return
			}
		}
	}
}

// Pins returns the open pins by rising number.
func (j *Journal) Pins() []journal.Pin {
	j.mu.Lock()
	all := slices.Collect(maps.Values(j.pins))
	j.mu.Unlock()
	slices.SortFunc(all, func(a, b journal.Pin) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Lookup finds the record that holds key.
func (j *Journal) Lookup(key string) (stream string, seq int64, ok bool) {
	oldest := j.oldest()
	j.mu.Lock()
	seq = j.keys.find(hashKey([]byte(key)), oldest)
	j.mu.Unlock()
	if seq == 0 {
		return "", 0, false
	}
	stream, err := j.streamOf(seq)
	if err != nil {
		j.opts.Log.Warn("journal: the holder of a key cannot be read", "key", key, "seq", seq, "err", err)
		return "", 0, false
	}
	return stream, seq, true
}

// oldest is the time in seconds from which keys are taken.
func (j *Journal) oldest() int64 { return j.opts.Clock().Add(-j.opts.KeyAge).Unix() }

// streamOf finds out whose record seq is.
func (j *Journal) streamOf(seq int64) (string, error) {
	j.mu.Lock()
	if j.recent.has(seq) {
		defer j.mu.Unlock()
		return j.recent.at(seq).s.name, nil
	}
	seg := j.holding(seq)
	if seg == nil {
		j.mu.Unlock()
		return "", journal.ErrTruncated
	}
	at, end := seg.x.seek(seq), seg.x.size
	j.mu.Unlock()
	f, err := seg.file()
	if err != nil {
		return "", err
	}
	for r := (lines{f: f, off: at, end: end}); ; {
		b, at, err := r.next()
		if err == io.EOF {
			return "", corrupt(seg.path, at, "a record is missing")
		}
		if err != nil {
			return "", err
		}
		if l, ok := parseLine(b); !ok {
			return "", corrupt(seg.path, at, "not a record")
		} else if l.seq == seq {
			return string(l.stream), nil
		}
	}
}

// holding returns the segment with record seq. The caller holds mu.
func (j *Journal) holding(seq int64) *segment {
	i, _ := slices.BinarySearchFunc(j.segs, seq, func(s *segment, seq int64) int { return cmp.Compare(s.x.last, seq) })
	if i == len(j.segs) || j.segs[i].x.first > seq {
		return nil
	}
	return j.segs[i]
}
