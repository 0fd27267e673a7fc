package facilitate_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/mem"
)

// forgetful is a store without a past: it takes what is appended and keeps nothing
// of it, so that what is measured is the engine and not a growing heap.
type forgetful struct{ journal.Store }

func (forgetful) Append(context.Context, string, uint64, []journal.Record) error { return nil }
func (forgetful) Load(context.Context, string, uint64) iter.Seq2[journal.Record, error] {
	return func(func(journal.Record, error) bool) {}
}
func (forgetful) SaveCheckpoint(context.Context, string, journal.Checkpoint) error { return nil }

// times are what the turns of a room take, in processor time of all threads and on
// the wall: of each turn the best of five in the same place, which leaves out
// what other work on the machine does to it. The collector runs between them;
// the mean over many rooms has its work in.
type times struct{ cpu, wall []time.Duration }

func (t times) p(of []time.Duration, part int) time.Duration {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)*part/100]
}

// turns runs n turns in a room that has had so many lines.
func turns(tb testing.TB, a *facilitate.Agent, lines, n int) (out times) {
	tb.Helper()
	for i := int(a.Room().Log.Len()); i < lines; i++ {
		if _, err := a.Ingest(tb.Context(), "ana", fmt.Sprint("line number ", i, " of a long talk about the hall and the lake")); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := a.React(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for round := range 5 {
		runtime.GC()
		for i := range n {
			ev := facilitate.Message([]facilitate.ID{"ana", "ben", "cy"}[i%3], fmt.Sprint("we talk and talk of item ", i))
			cpu, begin := processor(), time.Now()
			if _, err := a.Run(tb.Context(), ev); err != nil {
				tb.Fatal(err)
			}
			took, wall := processor()-cpu, time.Since(begin)
			if round == 0 {
				out.cpu, out.wall = append(out.cpu, took), append(out.wall, wall)
			}
			out.cpu[i], out.wall[i] = min(out.cpu[i], took), min(out.wall[i], wall)
		}
	}
	return out
}

// TestTurnTime: G14. The 99th percentile of a turn is below a millisecond at
// 10,000 lines as at 100,000, and 64 rooms together make 2,000 turns a second on
// two processors. Time is that of the processor, which other work on the machine
// hardly changes; the benchmark has the wall's.
func TestTurnTime(t *testing.T) {
	if small || testing.Short() {
		t.Skip("measured without the race detector")
	}
	a := sit(t, facilitate.Config{Store: forgetful{mem.New()}})
	early := turns(t, a, 10_000, 300)
	late := turns(t, a, 100_000, 300)
	p50, p99 := early.p(early.cpu, 50), early.p(early.cpu, 99)
	l50, l99 := late.p(late.cpu, 50), late.p(late.cpu, 99)
	t.Logf("processor time of a turn at 10,000 lines: p50 %v, p99 %v; at 100,000: p50 %v, p99 %v; on the wall p99 %v and %v",
		p50, p99, l50, l99, early.p(early.wall, 99), late.p(late.wall, 99))
	if p99 > time.Millisecond || l99 > time.Millisecond {
		t.Errorf("p99 is %v and %v, want less than a millisecond", p99, l99)
	}
	if l50 > p50*3/2+50*time.Microsecond {
		t.Errorf("a turn costs %v at 10,000 lines and %v at 100,000", p50, l50)
	}
	cpu, n := manyRooms(t, 64, 40)
	each := cpu / time.Duration(n)
	t.Logf("%d turns over 64 rooms: %v of processor time each, which is %.0f turns a second on two processors", n, each, 2/each.Seconds())
	if each > time.Millisecond {
		t.Errorf("a turn takes %v: two processors make %.0f a second, want 2,000", each, 2/each.Seconds())
	}
}

// manyRooms runs turns in rooms at once and returns what they took.
func manyRooms(t *testing.T, rooms, each int) (cpu time.Duration, n int) {
	var all []*facilitate.Agent
	for i := range rooms {
		all = append(all, sit(t, facilitate.Config{ID: fmt.Sprint("r", i), Store: forgetful{mem.New()}}))
	}
	begin := processor()
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			for i := range each {
				if _, err := a.Run(t.Context(), facilitate.Message("ana", fmt.Sprint("a line among others, ", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return processor() - begin, rooms * each
}

// BenchmarkTurn measures one turn of the offline mind; 64 rooms in parallel.
func BenchmarkTurn(b *testing.B) {
	b.Run("one room", func(b *testing.B) {
		a, err := facilitate.New(b.Context(), facilitate.Config{Participants: people("ana", "ben", "cy", "di", "eve")})
		if err != nil {
			b.Fatal(err)
		}
		defer a.Close()
		var took []time.Duration
		cpu := processor()
		for i := 0; b.Loop(); i++ {
			begin := time.Now()
			if _, err := a.Run(b.Context(), facilitate.Message("ana", fmt.Sprint("line ", i))); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begin))
		}
		b.ReportMetric(float64((processor()-cpu).Microseconds())/float64(b.N), "cpu-µs/turn")
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	})
	b.Run("64 rooms", func(b *testing.B) {
		rooms := make(chan *facilitate.Agent, 64)
		for i := range 64 {
			a, err := facilitate.New(b.Context(), facilitate.Config{ID: fmt.Sprint("r", i), Participants: people("ana", "ben", "cy", "di", "eve")})
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close()
			rooms <- a
		}
		cpu := processor()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				a := <-rooms
				if _, err := a.Run(b.Context(), facilitate.Message("ana", "a line among others")); err != nil {
					b.Error(err)
				}
				rooms <- a
			}
		})
		b.ReportMetric(float64((processor()-cpu).Microseconds())/float64(b.N), "cpu-µs/turn")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
	})
}

// BenchmarkOpen opens a room of 100,000 lines from its checkpoint.
func BenchmarkOpen(b *testing.B) {
	cfg := facilitate.Config{Store: mem.New(), Secret: []byte("k"), Participants: people("ana", "ben", "cy", "di", "eve")}
	a, err := facilitate.New(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100_000 {
		if _, err := a.Ingest(b.Context(), "ana", fmt.Sprint("line number ", i, " of a long talk about the hall and the lake")); err != nil {
			b.Fatal(err)
		}
	}
	a.Close()
	for b.Loop() {
		if a, err = facilitate.New(b.Context(), cfg); err != nil || a.Room().Log.Len() != 100_000 {
			b.Fatal(err)
		}
		a.Close()
	}
}

// processor is the time this process has had a processor for, which a busy
// machine does not change much.
func processor() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
