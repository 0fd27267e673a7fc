package agentcli_test

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/turn"
)

// resident is the memory of this process, its threads and pipes included.
func resident(t testing.TB) int {
	t.Helper()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Private_Dirty:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Skip("no figure")
	return 0
}

// TestHundredResidentProcesses measures what Iris herself needs for each: at most
// 300 KB, with a turn behind every one.
func TestHundredResidentProcesses(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs memory of its own")
	}
	const many, most = 100, 300 << 10
	s := newStage(t, nil)
	s.sayIn(number(1000), "hello") // what the first one needs is not counted
	before := resident(t)
	var all sync.WaitGroup
	lane := make(chan struct{}, 4) // so that a small machine can start them
	for n := range many {
		all.Go(func() {
			lane <- struct{}{}
			defer func() { <-lane }()
			if end, err := s.startIn(number(n), "hello").wait(); err != nil || end.Text != "echo: hello" {
				t.Errorf("conversation %d: %+v, %v", n, end, err)
			}
		})
	}
	all.Wait()
	if n := s.pool.Live(); n != many+1 {
		t.Fatalf("%d processes live, want %d", n, many+1)
	}
	each := (resident(t) - before) / many
	t.Logf("%d KiB for each resident process", each>>10)
	if each > most {
		t.Errorf("%d bytes for each resident process, want at most %d", each, most)
	}
}

// stamps notes when pieces of text arrive, and how old they are then.
type stamps struct {
	turn.Sink
	mu  sync.Mutex
	age []time.Duration
}

func (s *stamps) Emit(e turn.Event) error {
	now := time.Now().UnixNano()
	if said, err := strconv.ParseInt(e.Text, 10, 64); err == nil && e.Partial {
		s.mu.Lock()
		s.age = append(s.age, time.Duration(now-said))
		s.mu.Unlock()
	}
	return s.Sink.Emit(e)
}

// TestFirstTokenWithin20ms: from the program's write to the turn's event.
func TestFirstTokenWithin20ms(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector is slow")
	}
	s := newStage(t, nil)
	s.say("hello")
	seen := &stamps{}
	for range 21 {
		g := &going{Sink: newSink(t), t: t, stop: func(error) {}, done: make(chan error, 1), req: request("NOW")}
		seen.Sink = g.Sink
		g.done <- s.r.Run(t.Context(), g.req, seen)
		if _, err := g.wait(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(seen.age)
	if len(seen.age) != 21 {
		t.Fatalf("%d pieces came", len(seen.age))
	}
	middle := seen.age[len(seen.age)/2]
	t.Logf("median %s, slowest %s", middle, seen.age[len(seen.age)-1])
	if middle > 20*time.Millisecond {
		t.Errorf("the first piece of text takes %s", middle)
	}
}

func BenchmarkTurn(b *testing.B) {
	s := newStage(b, func(o *agentcli.Options) { o.Idle = -1 })
	s.say("hello")
	for b.Loop() {
		s.say("hello")
	}
}
