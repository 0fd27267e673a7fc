package journaltest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/journal"
)

func syncs(s *store) {
	if err := s.j.Sync(s.Context()); err != nil {
		s.Errorf("sync of an empty journal: %v", err)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				s.add("A", data("1"))
				if err := s.j.Sync(s.Context()); err != nil {
					s.Errorf("sync: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.all("A", 0)); n != 80 {
		s.Errorf("%d records, want 80", n)
	}
}

func closed(s *store) {
	s.add("A", data("1"))
	for range 2 {
		if err := s.j.Close(); err != nil {
			s.Fatalf("close: %v", err)
		}
	}
	if _, err := s.j.Append(s.Context(), "A", journal.Any, data("2")); !errors.Is(err, journal.ErrClosed) {
		s.Errorf("append = %v, want ErrClosed", err)
	}
	if err := s.j.Sync(s.Context()); !errors.Is(err, journal.ErrClosed) {
		s.Errorf("sync = %v, want ErrClosed", err)
	}
	if _, _, err := collect(s.j.Read(s.Context(), "A", 0)); !errors.Is(err, journal.ErrClosed) {
		s.Errorf("read = %v, want ErrClosed", err)
	}
	if _, _, err := collect(s.j.Follow(s.Context(), "A", 0)); !errors.Is(err, journal.ErrClosed) {
		s.Errorf("follow = %v, want ErrClosed", err)
	}
}

func reopen(s *store) {
	want := map[string]string{}
	last := int64(0)
	for round := range 6 {
		for i := range 40 {
			name := string(rune('A' + i%5))
			n := s.add(name, data(`"%d-%d"`, round, i), data(`"%s"`, strings.Repeat("y", i)))
			if n != last+2 {
				s.Fatalf("number %d after %d", n, last)
			}
			last = n
			want[name] += text([]journal.Record{{Data: data(`"%d-%d"`, round, i).Data}, {Data: data(`"%s"`, strings.Repeat("y", i)).Data}})
		}
		lasts := maps.Collect(s.j.Streams())
		s.reopen()
		if got := maps.Collect(s.j.Streams()); !maps.Equal(got, lasts) {
			s.Errorf("streams after reopen %v, want %v", got, lasts)
		}
		for name, all := range want {
			if got := text(s.all(name, 0)); got != all {
				s.Fatalf("round %d: %s = %s, want %s", round, name, got, all)
			}
		}
	}
}

// filler appends enough for everything before it to be droppable.
func (s *store) filler() {
	s.Helper()
	for range s.Slack {
		s.add("filler", data(`"%s"`, strings.Repeat("f", 100)))
	}
}

func (s *store) trim() {
	s.Helper()
	if err := s.Trim(s.j); err != nil {
		s.Fatalf("trim: %v", err)
	}
}

func truncated(s *store) {
	old := s.add("A", data(`"old"`), data(`"old too"`))
	s.filler()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	s.Advance(s.MaxAge + s.MaxAge/2)
	fresh := s.add("A", data(`"new"`))
	s.filler()
	s.trim()
	check := func(when string) {
		s.Helper()
		for since, gaps := range map[int64]int{0: 1, old - 1: 1, old: 0, fresh: 0} {
			recs, n, err := collect(s.j.Read(ctx, "A", since))
			want := `"new" `
			if since == fresh {
				want = ""
			}
			if err != nil || n != gaps || text(recs) != want {
				s.Errorf("%s: read since %d: %d gaps, %q, error %v; want %d gaps and %q", when, since, n, text(recs), err, gaps, want)
			}
		}
		for r, err := range s.j.Follow(ctx, "A", 0) {
			if errors.Is(err, journal.ErrTruncated) {
				continue
			}
			if err != nil || string(r.Data) != `"new"` {
				s.Errorf("%s: follow: %s, error %v", when, r.Data, err)
			}
			break
		}
		if got := s.j.Last("A"); got != fresh {
			s.Errorf("%s: Last = %d, want %d", when, got, fresh)
		}
	}
	check("at once")
	s.reopen()
	check("reopened")
}

func pinnedStays(s *store) {
	pin := s.add("A", journal.Entry{Data: []byte("1"), Pin: "turn"})
	s.filler()
	s.add("A", data("2"))
	s.filler()
	s.Advance(s.MaxAge * 2)
	s.filler()
	s.trim()
	if got := text(s.all("A", 0)); got != "1 2 " {
		s.Errorf("records of a pinned stream = %s, want both", got)
	}
	s.reopen()
	s.trim()
	if p := s.j.Pins(); len(p) != 1 || p[0].Seq != pin {
		s.Errorf("pins = %v", p)
	}
	s.add("A", journal.Entry{Data: []byte("3"), Unpin: "turn"})
	s.filler()
	s.trim()
	recs, gaps, err := collect(s.j.Read(s.Context(), "A", 0))
	if err != nil || gaps != 1 || text(recs) != "3 " {
		s.Errorf("after unpinning: %d gaps, %s, error %v, want 1 gap and 3", gaps, text(recs), err)
	}
}

func forgotten(s *store) {
	old := s.add("A", data("1"))
	s.filler()
	s.Advance(s.MaxAge * 2)
	s.filler()
	s.trim()
	for range 2 {
		if n := s.j.Last("A"); n != 0 {
			s.Errorf("Last of a stream that was dropped = %d, want 0", n)
		}
		if recs, gaps, err := collect(s.j.Read(s.Context(), "A", old)); err != nil || gaps != 1 || len(recs) != 0 {
			s.Errorf("read since %d: %d records, %d gaps, error %v, want one gap", old, len(recs), gaps, err)
		}
		if n := len(s.all("A", 0)); n != 0 {
			s.Errorf("%d records of a stream that was dropped", n)
		}
		s.reopen()
	}
	n, err := s.j.Append(s.Context(), "A", 0, data("2"))
	if err != nil || n <= old {
		s.Errorf("append to a stream that was dropped: %d, %v", n, err)
	}
	if got := text(s.all("A", 0)); got != "2 " {
		s.Errorf("records = %s, want 2", got)
	}
	s.reopen()
	if got := text(s.all("A", 0)); got != "2 " {
		s.Errorf("records after reopen = %s, want 2", got)
	}
}
