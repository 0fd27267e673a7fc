package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

func readSince(s *store) {
	var nums []int64
	for i := range 300 {
		nums = append(nums, s.add("A", data(`"%d %s"`, i, strings.Repeat("x", 50))))
		s.add("B", data("0"))
	}
	check := func(when string) {
		s.Helper()
		for _, at := range []int{0, 1, 7, 150, 298, 299} {
			for _, since := range []int64{nums[at] - 1, nums[at]} {
				recs := s.all("A", since)
				want := nums[at:]
				if since == nums[at] {
					want = nums[at+1:]
				}
				if len(recs) != len(want) {
					s.Fatalf("%s: %d records since %d, want %d", when, len(recs), since, len(want))
				}
				for i, r := range recs {
					if r.Seq != want[i] {
						s.Fatalf("%s: record %d since %d is number %d, want %d", when, i, since, r.Seq, want[i])
					}
				}
			}
		}
		if n := len(s.all("A", -5)); n != len(nums) {
			s.Errorf("%s: %d records since -5, want all", when, n)
		}
		if n := len(s.all("A", 1<<40)); n != 0 {
			s.Errorf("%s: %d records since the far future", when, n)
		}
		if n := len(s.all("nobody", 0)); n != 0 {
			s.Errorf("%s: %d records of an unknown stream", when, n)
		}
	}
	check("at once")
	s.reopen()
	check("reopened")
	for range s.j.Read(s.Context(), "A", 0) {
		break // a reader may stop
	}
	// A sequence can be walked again, and then sees what came meanwhile.
	seq := s.j.Read(s.Context(), "B", nums[299])
	before, _, _ := collect(seq)
	s.add("B", data("1"))
	if after, _, err := collect(seq); err != nil || len(after) != len(before)+1 {
		s.Errorf("second walk: %d records, error %v, want %d", len(after), err, len(before)+1)
	}
}

func readCancelled(s *store) {
	s.add("A", data("1"), data("2"), data("3"))
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	n := 0
	var end error
	for _, err := range s.j.Read(ctx, "A", 0) {
		if end = err; err == nil {
			n++
			cancel()
		}
	}
	if n != 1 || !errors.Is(end, context.Canceled) {
		s.Errorf("%d records and then %v, want 1 and context.Canceled", n, end)
	}
}

// whole checks that nobody ever sees a part of an append as the end.
func whole(s *store) {
	const size, rounds = 5, 200
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				last := s.j.Last("A")
				if last%size != 0 {
					s.Errorf("Last = %d in the middle of an append", last)
					return
				}
				if recs, _, err := collect(s.j.Read(s.Context(), "A", max(0, last-size))); err != nil || len(recs)%size != 0 {
					s.Errorf("%d records, error %v: not whole appends", len(recs), err)
					return
				}
			}
		})
	}
	for range rounds {
		s.add("A", data("0"), data("1"), data("2"), data("3"), data("4"))
	}
	close(done)
	wg.Wait()
}

func followWaits(s *store) {
	ctx, cancel := s.ctx()
	defer cancel()
	s.add("A", data("1"))
	got := make(chan journal.Record)
	go func() {
		defer close(got)
		for r, err := range s.j.Follow(ctx, "A", 0) {
			if err != nil {
				s.Errorf("follow: %v", err)
				return
			}
			got <- r
		}
	}()
	for i := 1; i <= 50; i++ {
		if r := <-got; string(r.Data) != fmt.Sprint(i) {
			s.Fatalf("record %d = %s", i, r.Data)
		}
		s.add("B", data(`"not yours"`))
		s.add("A", data("%d", i+1))
	}
	<-got
	cancel()
	if r, open := <-got; open {
		s.Errorf("one record too many: %v", r)
	}
}

func followCancelled(s *store) {
	s.add("A", data("1"))
	for _, stream := range []string{"A", "nobody"} {
		ctx, cancel := context.WithCancel(s.Context())
		ended := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			var end error
			close(started)
			for _, err := range s.j.Follow(ctx, stream, 0) {
				end = errors.Join(end, err)
			}
			ended <- end
		}()
		<-started
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				s.Errorf("follow %s ended with %v, want no error", stream, err)
			}
		case <-time.After(patience):
			s.Fatalf("follow %s does not end with its context", stream)
		}
	}
}

func followQuiet(s *store) {
	s.add("A", data("0"))
	ctx, cancel := s.ctx()
	defer cancel()
	began := make(chan struct{})
	got := make(chan string, 4)
	go func() {
		defer close(got)
		for r, err := range s.j.Follow(ctx, "A", 0) {
			if err != nil {
				s.Errorf("follow: %v", err)
				return
			}
			got <- string(r.Data)
			switch string(r.Data) {
			case "0":
				close(began)
			case "3":
				return
			}
		}
	}()
	<-began
	quiet := data("1")
	quiet.Quiet = true
	s.add("A", quiet)
	quiet = data("2")
	quiet.Quiet = true
	s.add("A", quiet, data("3"))
	var all string
	for d := range got {
		all += d
	}
	if all != "0123" {
		s.Errorf("followed %q, want 0123", all)
	}
}

func followClosed(s *store) {
	s.add("A", data("1"))
	ended := make(chan error, 3)
	ready := make(chan struct{}, 3)
	for _, stream := range []string{"A", "A", "nobody"} {
		go func() {
			var end error
			if stream == "nobody" {
				ready <- struct{}{}
			}
			for _, err := range s.j.Follow(s.Context(), stream, 0) {
				if end = err; err == nil {
					ready <- struct{}{}
				}
			}
			ended <- end
		}()
	}
	for range 3 {
		<-ready
	}
	if err := s.j.Close(); err != nil {
		s.Fatalf("close: %v", err)
	}
	for range 3 {
		select {
		case err := <-ended:
			if !errors.Is(err, journal.ErrClosed) {
				s.Errorf("follow ended with %v, want ErrClosed", err)
			}
		case <-time.After(patience):
			s.Fatal("follow does not end when the journal closes")
		}
	}
}

// busy has writers, followers from the beginning and followers that come back
// with the number they saw last.
func busy(s *store) {
	const streams, records, followers = 4, 400, 3
	ctx, cancel := s.ctx()
	defer cancel()
	var wg sync.WaitGroup
	for i := range streams {
		name := fmt.Sprintf("S%d", i)
		wg.Go(func() {
			for n := 0; n < records; n += 2 {
				if _, err := s.j.Append(ctx, name, journal.Any, data("%d", n), data("%d", n+1)); err != nil {
					s.Errorf("append: %v", err)
					return
				}
				if n%50 == 0 {
					if err := s.j.Sync(ctx); err != nil {
						s.Errorf("sync: %v", err)
					}
				}
			}
		})
		for f := range followers {
			wg.Go(func() {
				since, next := int64(0), 0
				for next < records {
					for r, err := range s.j.Follow(ctx, name, since) {
						var got int
						if err != nil || json.Unmarshal(r.Data, &got) != nil || got != next || r.Seq <= since {
							s.Errorf("follower %d of %s: record %d is %s (number %d after %d), error %v", f, name, next, r.Data, r.Seq, since, err)
							return
						}
						since, next = r.Seq, next+1
						if next == records || f > 0 && next%(17*f) == 0 {
							break // leaves and comes back
						}
					}
					if ctx.Err() != nil {
						s.Errorf("follower %d of %s has %d records when the time is up", f, name, next)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

func slowReader(s *store) {
	s.add("A", data("0"))
	ctx, cancel := s.ctx()
	defer cancel()
	holding, release, done := make(chan struct{}), make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for _, err := range s.j.Follow(ctx, "A", 0) {
			if err != nil {
				s.Errorf("follow: %v", err)
				break
			}
			if n == 0 {
				close(holding)
				<-release
			}
			if n++; n == 2001 {
				break
			}
		}
		done <- n
	}()
	<-holding
	for i := range 2000 {
		s.add("A", data(`"%d %s"`, i, strings.Repeat("x", 100)))
	}
	if err := s.j.Sync(ctx); err != nil {
		s.Errorf("sync: %v", err)
	}
	close(release)
	if n := <-done; n != 2001 {
		s.Errorf("the slow reader saw %d records, want 2001", n)
	}
}
