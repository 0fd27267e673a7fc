package journaltest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

func numbers(s *store) {
	if n := s.j.Last("A"); n != 0 {
		s.Errorf("Last of an unknown stream = %d, want 0", n)
	}
	a := s.add("A", data("1"))
	b := s.add("B", data("1"), data("2"), data("3"))
	c := s.add("A", data("2"))
	if a < 1 || b < a+3 || c <= b {
		s.Errorf("numbers %d, %d, %d do not rise", a, b, c)
	}
	recs := s.all("B", 0)
	if len(recs) != 3 || recs[0].Seq != b-2 || recs[1].Seq != b-1 || recs[2].Seq != b {
		s.Errorf("numbers of one append: %v, want %d, %d, %d", recs, b-2, b-1, b)
	}
	want := map[string]int64{"A": c, "B": b}
	if got := maps.Collect(s.j.Streams()); !maps.Equal(got, want) {
		s.Errorf("Streams = %v, want %v", got, want)
	}
	for name, n := range want {
		if got := s.j.Last(name); got != n {
			s.Errorf("Last(%s) = %d, want %d", name, got, n)
		}
	}
	for range s.j.Streams() {
		break // a caller may stop
	}
}

func roundTrip(s *store) {
	values := []string{
		`{}`, `null`, `"text"`, `-1.5e3`, ` [1, 2] `, `{"d":{"c":"deadbeef"}}`, `"\",\"c\":\"00000000\"}"`,
		`"ü\u0000\n"`, `"` + strings.Repeat("x", 300_000) + `"`,
	}
	names := []string{"SESSION-1", `a "quoted" \ name`, "tab\tnew\nline", "ünïcode-日本"}
	before := time.Time{}
	for _, reopened := range []bool{false, true} {
		for _, name := range names {
			if !reopened {
				for _, v := range values {
					s.add(name, journal.Entry{Data: []byte(v), Key: name + v[:min(len(v), 20)]})
				}
			}
			recs := s.all(name, 0)
			if len(recs) != len(values) {
				s.Fatalf("%q has %d records, want %d", name, len(recs), len(values))
			}
			for i, r := range recs {
				if string(r.Data) != values[i] || r.Stream != name {
					s.Errorf("record %d of %q = %q of %q, want %.40q", i, name, r.Data[:min(40, len(r.Data))], r.Stream, values[i])
				}
				if r.Time.IsZero() || r.Time.Before(before) {
					s.Errorf("record %d of %q: time %v after %v", i, name, r.Time, before)
				}
				before = r.Time
			}
		}
		before = time.Time{}
		s.reopen()
	}
}

func owned(s *store) {
	e := data(`{"a":1}`)
	s.add("A", e)
	copy(e.Data, "xxxxxxx")
	for range 2 {
		for _, r := range s.all("A", 0) {
			if string(r.Data) != `{"a":1}` {
				s.Fatalf("data = %s, want what was appended", r.Data)
			}
			copy(r.Data, "yyyyyyy")
			_ = append(r.Data, "zzzzzzzzzzzz"...)
		}
	}
	s.reopen()
	if got := text(s.all("A", 0)); got != `{"a":1} ` {
		s.Errorf("data after reopen = %s", got)
	}
}

func refused(s *store) {
	ok := data("1")
	for name, c := range map[string]struct {
		stream  string
		entries []journal.Entry
	}{
		"no entries":          {"A", nil},
		"no stream":           {"", []journal.Entry{ok}},
		"no data":             {"A", []journal.Entry{{}}},
		"not JSON":            {"A", []journal.Entry{data("{")}},
		"two values":          {"A", []journal.Entry{data("1 2")}},
		"newline":             {"A", []journal.Entry{data("{\n}")}},
		"second is bad":       {"A", []journal.Entry{ok, data("}")}},
		"stream not text":     {"A\xff", []journal.Entry{ok}},
		"key not text":        {"A", []journal.Entry{{Data: ok.Data, Key: "\xff"}}},
		"key twice":           {"A", []journal.Entry{{Data: ok.Data, Key: "k"}, {Data: ok.Data, Key: "k"}}},
		"very long stream":    {strings.Repeat("x", 1<<20), []journal.Entry{ok}},
		"unpin that is wrong": {"A", []journal.Entry{{Data: ok.Data, Unpin: "\xff"}}},
	} {
		if n, err := s.j.Append(s.Context(), c.stream, journal.Any, c.entries...); err == nil {
			s.Errorf("%s: appended as %d, want an error", name, n)
		}
	}
	if n := len(maps.Collect(s.j.Streams())); n != 0 {
		s.Errorf("%d streams after refused appends, want none", n)
	}
	ctx, cancel := s.ctx()
	cancel()
	if _, err := s.j.Append(ctx, "A", journal.Any, ok); !errors.Is(err, ctx.Err()) {
		s.Errorf("append with a context that ended: %v, want %v", err, ctx.Err())
	}
	s.add("A", ok)
}

func expect(s *store) {
	last := int64(0)
	for i := range 5 {
		n, err := s.j.Append(s.Context(), "A", last, data("%d", i))
		if err != nil {
			s.Fatalf("append expecting %d: %v", last, err)
		}
		s.add("B", data("0")) // other streams do not matter
		for _, wrong := range []int64{last, n + 1, 0} {
			if wrong == n {
				continue
			}
			if _, err := s.j.Append(s.Context(), "A", wrong, data(`"wrong"`)); !errors.Is(err, journal.ErrMoved) {
				s.Errorf("append expecting %d at %d: %v, want ErrMoved", wrong, n, err)
			}
		}
		last = n
	}
	if got := text(s.all("A", 0)); got != "0 1 2 3 4 " {
		s.Errorf("records = %s", got)
	}
	s.reopen()
	if _, err := s.j.Append(s.Context(), "A", last, data("5")); err != nil {
		s.Errorf("append expecting %d after reopen: %v", last, err)
	}
}

// race lets writers append with the number they last read. Every number is
// won by exactly one of them.
func race(s *store) {
	const writers, rounds = 8, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for won := 0; won < rounds; {
				n, err := s.j.Append(s.Context(), "A", s.j.Last("A"), data(`"%d-%d"`, w, won))
				switch {
				case err == nil && n > 0:
					won++
				case !errors.Is(err, journal.ErrMoved):
					s.Errorf("writer %d: %v, want ErrMoved", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, r := range s.all("A", 0) {
		seen[string(r.Data)] = true
	}
	if n := len(s.all("A", 0)); n != writers*rounds || len(seen) != n {
		s.Errorf("%d records, %d different, want %d", n, len(seen), writers*rounds)
	}
	// All with the same expectation: one wins.
	wins := make(chan int, writers)
	last := s.j.Last("A")
	for w := range writers {
		wg.Go(func() {
			if _, err := s.j.Append(s.Context(), "A", last, data("1")); err == nil {
				wins <- w
			}
		})
	}
	wg.Wait()
	if len(wins) != 1 {
		s.Errorf("%d writers won the same number, want 1", len(wins))
	}
}

func duplicates(s *store) {
	keyed := func(k string) journal.Entry { return journal.Entry{Data: []byte("1"), Key: k} }
	first := s.add("A", keyed("k1"))
	third := s.add("B", keyed("k2"), keyed("k3"))
	check := func(when string) {
		s.Helper()
		last := s.j.Last("A")
		for _, c := range []struct {
			key, stream string
			seq         int64
		}{{"k1", "A", first}, {"k2", "B", third - 1}, {"k3", "B", third}} {
			for _, expect := range []int64{journal.Any, last, last + 99} {
				_, err := s.j.Append(s.Context(), "A", expect, data("2"), keyed(c.key))
				var dup *journal.DuplicateError
				if !errors.As(err, &dup) || *dup != (journal.DuplicateError{Key: c.key, Stream: c.stream, Seq: c.seq}) {
					s.Errorf("%s: append of taken %s = %v, want a DuplicateError of %s %d", when, c.key, err, c.stream, c.seq)
				}
			}
			if stream, seq, ok := s.j.Lookup(c.key); !ok || stream != c.stream || seq != c.seq {
				s.Errorf("%s: Lookup(%s) = %s %d %v, want %s %d", when, c.key, stream, seq, ok, c.stream, c.seq)
			}
		}
		if got := s.j.Last("A"); got != last {
			s.Errorf("%s: a duplicate appended something: last %d, want %d", when, got, last)
		}
		if _, _, ok := s.j.Lookup("k4"); ok {
			s.Errorf("%s: Lookup finds a key nobody holds", when)
		}
	}
	check("at once")
	// A key of an append that lost is not taken.
	if _, err := s.j.Append(s.Context(), "A", first+50, keyed("lost")); !errors.Is(err, journal.ErrMoved) {
		s.Errorf("append = %v, want ErrMoved", err)
	}
	s.add("A", keyed("lost"))
	for i := range 500 {
		s.add("C", data(`"%d %s"`, i, strings.Repeat("x", 200)))
	}
	check("later")
	s.reopen()
	check("after reopen")

	// Of many who bring the same key one gets through.
	var wg sync.WaitGroup
	wins := make(chan int64, 16)
	for range 16 {
		wg.Go(func() {
			n, err := s.j.Append(s.Context(), "D", journal.Any, keyed("one"))
			var dup *journal.DuplicateError
			switch {
			case err == nil:
				wins <- n
			case !errors.As(err, &dup):
				s.Errorf("append = %v, want a DuplicateError", err)
			}
		})
	}
	wg.Wait()
	if len(wins) != 1 || len(s.all("D", 0)) != 1 {
		s.Errorf("%d appends with the same key, want 1", len(wins))
	}
}

func expiry(s *store) {
	e := journal.Entry{Data: []byte("1"), Key: "k"}
	s.add("A", e)
	s.Advance(s.KeyAge - time.Minute)
	var dup *journal.DuplicateError
	if _, err := s.j.Append(s.Context(), "A", journal.Any, e); !errors.As(err, &dup) {
		s.Errorf("append before the key expired = %v, want a DuplicateError", err)
	}
	s.Advance(2 * time.Minute)
	if _, _, ok := s.j.Lookup("k"); ok {
		s.Error("Lookup finds an expired key")
	}
	second := s.add("A", e)
	if _, seq, ok := s.j.Lookup("k"); !ok || seq != second {
		s.Errorf("Lookup = %d %v, want the new holder %d", seq, ok, second)
	}
	s.reopen()
	if _, seq, ok := s.j.Lookup("k"); !ok || seq != second {
		s.Errorf("Lookup after reopen = %d %v, want %d", seq, ok, second)
	}
	s.Advance(s.KeyAge + time.Minute)
	s.reopen()
	if _, _, ok := s.j.Lookup("k"); ok {
		s.Error("Lookup finds an expired key after reopen")
	}
}

func pins(s *store) {
	entry := func(pin, unpin string) journal.Entry {
		return journal.Entry{Data: []byte("1"), Pin: pin, Unpin: unpin}
	}
	names := func() string {
		s.Helper()
		var all []string
		last := int64(0)
		for _, p := range s.j.Pins() {
			if p.Seq < last {
				s.Errorf("pins are not in order: %v", s.j.Pins())
			}
			last = p.Seq
			all = append(all, fmt.Sprintf("%s@%s:%d", p.Name, p.Stream, p.Seq))
		}
		return strings.Join(all, " ")
	}
	check := func(when, want string) {
		s.Helper()
		if got := names(); got != want {
			s.Errorf("%s: pins %q, want %q", when, got, want)
		}
		s.reopen()
		if got := names(); got != want {
			s.Errorf("%s, reopened: pins %q, want %q", when, got, want)
		}
	}
	check("at first", "")
	a := s.add("A", entry("t1", ""))
	b := s.add("B", entry("t2", ""), entry("t3", ""))
	check("open", fmt.Sprintf("t1@A:%d t2@B:%d t3@B:%d", a, b-1, b))
	s.add("C", entry("t1", ""))
	check("pinned again", fmt.Sprintf("t1@A:%d t2@B:%d t3@B:%d", a, b-1, b))
	s.add("B", entry("", "t2"), entry("", "nobody"))
	check("closed", fmt.Sprintf("t1@A:%d t3@B:%d", a, b))
	m := s.add("A", entry("t1", "t1"))
	check("moved", fmt.Sprintf("t3@B:%d t1@A:%d", b, m))
	s.add("B", entry("t4", "t3"), entry("", "t4"))
	check("passing", fmt.Sprintf("t1@A:%d", m))
	s.add("A", entry("", "t1"))
	check("all closed", "")
	again := s.add("A", entry("t1", ""))
	check("opened once more", fmt.Sprintf("t1@A:%d", again))
	if cmp.Compare(again, m) <= 0 {
		s.Errorf("number %d after %d", again, m)
	}
}
