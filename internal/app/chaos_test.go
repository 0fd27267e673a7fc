package app_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// worlds runs seeded worlds, several at once: they wait most of the time. Each has
// a server that is killed with -9. IRIS_CHAOS_RUNS says how many, IRIS_CHAOS_FROM
// which is the first.
func worlds(t *testing.T, world func(t *testing.T, seed uint64)) {
	if testing.Short() {
		t.Skip("kills servers for many seconds")
	}
	t.Parallel()
	number := func(name string, most int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n >= 0 {
			return n
		}
		return most
	}
	begun, first, runs := time.Now(), number("IRIS_CHAOS_FROM", 0), number("IRIS_CHAOS_RUNS", chaosRuns)
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for seed := first; seed < first+runs; seed++ {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(fmt.Sprint(seed), func(t *testing.T) { world(t, uint64(seed)) })
		})
	}
	all.Wait()
	t.Logf("%d worlds in %v", runs, time.Since(begun).Round(time.Second))
}

// A fuse is the moment at which a server dies: after so many calls of its
// platform, by seed, in the middle of one.
type fuse struct {
	mu    sync.Mutex
	rnd   *rand.Rand // for what happens inside of calls
	left  int        // calls until it burns, 0: never
	burnt chan struct{}
	calm  bool
	storm time.Time // until then, everything is too much
}

func newFuse(seed, kind uint64) *fuse { return &fuse{rnd: rand.New(rand.NewPCG(kind, seed))} }

// light sets the fuse and returns what is closed when it burns.
func (f *fuse) light(most int) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.burnt, f.left = make(chan struct{}), 1+f.rnd.IntN(most)
	return f.burnt
}

// burns counts a call. mu must be held.
func (f *fuse) burns() bool {
	if f.left == 0 {
		return false
	}
	if f.left--; f.left > 0 {
		return false
	}
	close(f.burnt)
	return true
}

// clear ends the bad weather.
func (f *fuse) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calm, f.left = true, 0
}

// within is until with another patience, for worlds with waits in them.
func within(t *testing.T, limit time.Duration, s *server, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); {
		select {
		case <-s.exited:
			t.Fatalf("the server ended by itself while waiting for %s: %v\n%s", what, s.err, s.stderr)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s\n%s", limit, what, tail(s.stderr.String()))
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// command is the kth thing that somebody asks for; tells knows how it went. One
// that was running at a kill is told as interrupted, and not run again.
func command(k int) string { return fmt.Sprintf("run `echo out-$((%d+1))`", 100+k) }

// tells reports that a text says how the kth command went.
func tells(text string, k int) bool {
	head := fmt.Sprintf("echo out-$((%d+1))", 100+k)
	i := strings.Index(text, head)
	return i >= 0 && (strings.Contains(text[i:], "says:") || strings.Contains(text[i:], "did not work:"))
}
