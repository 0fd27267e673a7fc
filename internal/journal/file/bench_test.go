package file

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

var benchData = json.RawMessage(`{"turn":"0198c0de-0000-7000-8000-000000000000","event":{"kind":"text","text":"` + strings.Repeat("word ", 40) + `"}}`)

func BenchmarkAppend(b *testing.B) {
	j := open(b, Options{Dir: b.TempDir()})
	ctx := context.Background()
	e := journal.Entry{Data: benchData}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := j.Append(ctx, "SESSION-1", journal.Any, e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendNoWrite is what Append costs beyond the write.
func BenchmarkAppendNoWrite(b *testing.B) {
	d := &disk{noSync: true}
	j := open(b, Options{Dir: b.TempDir(), SegmentBytes: 1 << 50, OpenFile: d.open})
	add(b, j, "SESSION-1", "1")
	j.active().f = nowhere{}
	ctx := context.Background()
	e := journal.Entry{Data: benchData}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := j.Append(ctx, "SESSION-1", journal.Any, e); err != nil {
			b.Fatal(err)
		}
	}
}

type nowhere struct{ closedFile }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Sync() error                 { return nil }

func BenchmarkAppendSync(b *testing.B) {
	for _, workers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			j := open(b, Options{Dir: b.TempDir()})
			ctx := context.Background()
			e := journal.Entry{Data: benchData}
			work := make(chan struct{})
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					stream := fmt.Sprint("SESSION-", w)
					for range work {
						if _, err := j.Append(ctx, stream, journal.Any, e); err != nil {
							b.Error(err)
						}
						if err := j.Sync(ctx); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
		})
	}
}

// BenchmarkOpen opens a journal with 1,000 streams and a full active segment.
func BenchmarkOpen(b *testing.B) {
	for name, end := range map[string]func(j *Journal){
		"killed": func(j *Journal) { j.closed = true; j.release() },
		"closed": func(j *Journal) { j.Close() },
	} {
		b.Run(name, func(b *testing.B) {
			o := Options{Dir: b.TempDir()}
			j := open(b, o)
			for i := 0; j.active() == nil || j.active().x.size < 16<<20-1000; i++ {
				e := journal.Entry{Data: benchData}
				if i%20 == 0 {
					e.Key = fmt.Sprint("key", i)
				}
				if _, err := j.Append(context.Background(), fmt.Sprint("SESSION-", i%1000), journal.Any, e); err != nil {
					b.Fatal(err)
				}
			}
			end(j)
			before := processorTime()
			defer func() { b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/op") }()
			for b.Loop() {
				j, err := New(o)
				if err != nil {
					b.Fatal(err)
				}
				j.closed = true
				j.release()
			}
		})
	}
}

// BenchmarkFollow appends one record and waits until 100 followers have it.
func BenchmarkFollow(b *testing.B) {
	j := open(b, Options{Dir: b.TempDir()})
	ctx, cancel := context.WithCancel(context.Background())
	var got, all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for _, err := range j.Follow(ctx, "A", 0) {
				if err != nil {
					b.Error(err)
				}
				got.Done()
			}
		})
	}
	e := journal.Entry{Data: benchData}
	b.ReportAllocs()
	for b.Loop() {
		got.Add(100)
		if _, err := j.Append(ctx, "A", journal.Any, e); err != nil {
			b.Fatal(err)
		}
		got.Wait()
	}
	cancel()
	all.Wait()
}

// processorTime is what the process has used: on a busy machine it tells more
// than the clock.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
