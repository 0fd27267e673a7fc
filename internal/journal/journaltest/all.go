package journaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

func notB(stream string) bool { return stream != "B" }

// followAll has writers of several streams and followers of all but one.
func followAll(s *store) {
	const records = 600
	ctx, cancel := s.ctx()
	defer cancel()
	var wg sync.WaitGroup
	for _, name := range []string{"A", "B", "C"} {
		wg.Go(func() {
			for n := range records / 2 {
				if _, err := s.j.Append(ctx, name, journal.Any, data(`"%s%d"`, name, 2*n), data(`"%s%d"`, name, 2*n+1)); err != nil {
					s.Errorf("append: %v", err)
					return
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			next := map[string]int{}
			var since int64
			for next["A"] < records || next["C"] < records {
				if ctx.Err() != nil {
					s.Errorf("time is up with %v", next)
					return
				}
				n := 0
				for r, err := range s.j.FollowAll(ctx, since, notB) {
					if err != nil || r.Seq < since || r.Stream != "" && r.Seq == since {
						s.Errorf("number %d after %d, error %v", r.Seq, since, err)
						return
					}
					since = r.Seq
					if r.Stream == "" {
						if next["A"] == records && next["C"] == records {
							break
						}
						continue
					}
					if want := fmt.Sprintf("%q", fmt.Sprintf("%s%d", r.Stream, next[r.Stream])); string(r.Data) != want {
						s.Errorf("record %d is %s, want %s", r.Seq, r.Data, want)
						return
					}
					next[r.Stream]++
					if n++; n == 250 {
						break // leaves and comes back
					}
				}
			}
		})
	}
	wg.Wait()
}

// upToMark walks until a mark.
func (s *store) upToMark(since int64) (recs []journal.Record, gaps int, mark int64) {
	s.Helper()
	ctx, cancel := s.ctx()
	defer cancel()
	for r, err := range s.j.FollowAll(ctx, since, notB) {
		switch {
		case errors.Is(err, journal.ErrTruncated):
			gaps++
		case err != nil:
			s.Fatalf("follow all since %d: %v", since, err)
		case r.Stream == "":
			return recs, gaps, r.Seq
		default:
			recs = append(recs, r)
		}
	}
	s.Fatalf("follow all since %d: no mark", since)
	return nil, 0, 0
}

func followAllSince(s *store) {
	if recs, _, mark := s.upToMark(0); len(recs) != 0 || mark != 0 {
		s.Errorf("an empty journal: %d records, mark %d", len(recs), mark)
	}
	var nums []int64
	var last int64
	for i := range 300 {
		nums = append(nums, s.add("A", data(`"%d %s"`, i, strings.Repeat("x", 50))))
		last = s.add("B", data("0"))
	}
	check := func(when string) {
		s.Helper()
		for _, at := range []int{0, 1, 150, 299} {
			recs, gaps, mark := s.upToMark(nums[at] - 1)
			if len(recs) != 300-at || recs[0].Seq != nums[at] || gaps != 0 || mark != last {
				s.Errorf("%s: since %d: %d records, %d gaps, mark %d; want %d, 0, %d", when, nums[at]-1, len(recs), gaps, mark, 300-at, last)
			}
		}
		for _, since := range []int64{-1, last, last + 1000} {
			if recs, _, mark := s.upToMark(since); len(recs) != 0 || mark != last {
				s.Errorf("%s: since %d: %d records, mark %d, want 0, %d", when, since, len(recs), mark, last)
			}
		}
	}
	check("at once")
	s.reopen()
	check("reopened")
}

func followAllEnds(s *store) {
	s.add("A", data("1"))
	ctx, cancel := context.WithCancel(s.Context())
	n := 0
	for _, err := range s.j.FollowAll(ctx, 0, notB) {
		if n++; err != nil {
			s.Errorf("ended with %v, want no error", err)
		}
		if n == 2 {
			cancel()
		}
	}
	cancel()
	for i := range 3 * s.Slack {
		s.add("A", data("%d", i))
	}
	s.Advance(s.MaxAge + time.Minute)
	if err := s.Trim(s.j); err != nil {
		s.Fatal(err)
	}
	if recs, gaps, _ := s.upToMark(0); gaps != 1 || len(recs) >= 3*s.Slack {
		s.Errorf("%d gaps and %d records after retention, want 1 gap", gaps, len(recs))
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var end error
		for r, err := range s.j.FollowAll(s.Context(), -1, notB) {
			if end = err; err == nil && r.Stream == "" {
				close(ready)
			}
		}
		ended <- end
	}()
	<-ready
	if err := s.j.Close(); err != nil {
		s.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, journal.ErrClosed) {
		s.Errorf("ended with %v, want ErrClosed", err)
	}
}
