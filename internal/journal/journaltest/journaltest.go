// Package journaltest is the suite that every implementation of
// journal.Journal passes. It knows the contract and nothing of where the
// records lie; what happens to files and processes is tested beside the
// implementation.
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

// A Journal is a journal that can be closed.
type Journal interface {
	journal.Journal
	Close() error
}

// An Opener is one store, empty at first.
type Opener struct {
	// Open opens the store. It is called again after Close and then finds
	// what was there.
	Open func() (Journal, error)
	// Advance moves the clock that the journal uses for records and ages.
	Advance func(d time.Duration)
	// Trim makes j drop at once all that is older than MaxAge and not kept
	// by a pin, but for at most the last Slack records.
	Trim func(j Journal) error

	KeyAge time.Duration // how long keys are taken
	MaxAge time.Duration // what Trim keeps
	Slack  int
}

// Run runs the suite. open returns a new store for every test.
func Run(t *testing.T, open func(t *testing.T) Opener) {
	for _, c := range []struct {
		name string
		test func(s *store)
	}{
		{"numbers rise over all streams", numbers},
		{"records come back as they were", roundTrip},
		{"data belongs to the reader", owned},
		{"bad entries are refused", refused},
		{"expect fences", expect},
		{"expect lets one of many writers win", race},
		{"keys are taken once", duplicates},
		{"keys expire", expiry},
		{"pins", pins},
		{"read from anywhere", readSince},
		{"read ends with its context", readCancelled},
		{"an append is seen whole", whole},
		{"follow waits", followWaits},
		{"follow finds what was quiet with the next entry", followQuiet},
		{"follow stops with its context", followCancelled},
		{"follow ends when the journal closes", followClosed},
		{"followers of a busy journal miss nothing", busy},
		{"a slow reader delays nobody", slowReader},
		{"follow all sees everything wanted in order", followAll},
		{"follow all starts anywhere", followAllSince},
		{"follow all stops, closes and tells of gaps", followAllEnds},
		{"sync", syncs},
		{"closed", closed},
		{"reopen", reopen},
		{"retention tells readers", truncated},
		{"retention keeps what is pinned", pinnedStays},
		{"retention forgets dead streams", forgotten},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &store{T: t, Opener: open(t)}
			s.open()
			defer func() { s.j.Close() }()
			c.test(s)
		})
	}
}

// store is one test's store with its open journal.
type store struct {
	*testing.T
	Opener
	j Journal
}

func (s *store) open() {
	s.Helper()
	j, err := s.Open()
	if err != nil {
		s.Fatalf("open: %v", err)
	}
	s.j = j
}

func (s *store) reopen() {
	s.Helper()
	if err := s.j.Close(); err != nil {
		s.Fatalf("close: %v", err)
	}
	s.open()
}

// add appends entries with any expectation and returns the last number.
func (s *store) add(stream string, entries ...journal.Entry) int64 {
	s.Helper()
	n, err := s.j.Append(s.Context(), stream, journal.Any, entries...)
	if err != nil {
		s.Fatalf("append to %s: %v", stream, err)
	}
	return n
}

// data makes an entry.
func data(format string, args ...any) journal.Entry {
	return journal.Entry{Data: json.RawMessage(fmt.Sprintf(format, args...))}
}

// collect reads a sequence to its end. An ErrTruncated is counted, any other
// error is returned.
func collect(seq iter.Seq2[journal.Record, error]) (recs []journal.Record, gaps int, err error) {
	for r, err := range seq {
		switch {
		case errors.Is(err, journal.ErrTruncated):
			gaps++
		case err != nil:
			return recs, gaps, err
		default:
			recs = append(recs, r)
		}
	}
	return recs, gaps, nil
}

// all reads a stream that must be whole.
func (s *store) all(stream string, since int64) []journal.Record {
	s.Helper()
	recs, gaps, err := collect(s.j.Read(s.Context(), stream, since))
	if err != nil || gaps > 0 {
		s.Fatalf("read %s since %d: %d gaps, error %v", stream, since, gaps, err)
	}
	return recs
}

// text is the data of records in one string.
func text(recs []journal.Record) string {
	out := ""
	for _, r := range recs {
		out += string(r.Data) + " "
	}
	return out
}

// patience bounds everything that waits for another goroutine.
const patience = 20 * time.Second

func (s *store) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.Context(), patience)
}
