// Package journal is the contract of an append-only log of records, the one
// truth about what was accepted and what became of it. Records belong to
// streams (one per conversation) and share one sequence of numbers. The
// implementation for one machine is journal/file; journaltest holds the suite.
//
// The contract owns nothing but bytes: what a record means is up to its writer.
// It is shaped so that a replicated log with per-subject fencing can stand
// behind it later.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// A Record is one entry as it is read back.
type Record struct {
	Seq    int64
	Stream string
	Time   time.Time
	Data   json.RawMessage // valid JSON; owned by the reader
	// More says that the next record of the walk is there already: who passes
	// records on may send them together. False promises nothing.
	More bool
}

// An Entry is one record to append.
type Entry struct {
	// Data is any valid JSON value without a newline.
	Data json.RawMessage
	// Key makes the append idempotent: if any stream holds an entry with this
	// key that is younger than the journal's key age (7 days by default), the
	// whole call appends nothing and fails with a *DuplicateError. Empty: none.
	Key string
	// Pin keeps the record, and what its stream appended after it, from being
	// dropped by retention until an entry with the same text in Unpin is
	// appended. Pins are what recovery reads. A name that is pinned already
	// stays where it is; an entry that unpins and pins the same name moves it.
	// Unpinning what is not pinned does nothing. Empty: none.
	Pin   string
	Unpin string
	// Quiet says that nobody waits for the entry: a follower that sleeps may be
	// left to find it with the next one that is not.
	Quiet bool
}

// A Pin is a pinned record.
type Pin struct {
	Name   string
	Stream string
	Seq    int64
}

// Any as the expected sequence number of Append means: whatever it is.
const Any int64 = -1

// A Journal keeps records.
//
// Implementations must
//   - give every appended entry a number greater than all before it, and the
//     entries of one call consecutive numbers, visible to readers all at once;
//   - lose at most what was not yet synced when the machine loses power, and
//     nothing when the process is killed; drop a torn tail when opened;
//   - after an error of the disk refuse every further Append and Sync with that
//     error, except that an Append for which there was no room leaves nothing
//     behind and may be tried again;
//   - never let a slow reader delay an append;
//   - be safe for concurrent use.
type Journal interface {
	// Append adds entries to a stream. expect is the number of the stream's
	// last record (0 for a stream without records), or Any; on a mismatch
	// nothing is appended and the error is ErrMoved; a taken key is reported
	// rather than a mismatch. When Append returns nil the entries are in the
	// kernel. last is the number of the last entry. The entries may be reused.
	Append(ctx context.Context, stream string, expect int64, entries ...Entry) (last int64, err error)
	// Sync returns when everything appended before the call is on disk.
	// Concurrent calls share one fsync.
	Sync(ctx context.Context) error
	// Last returns the number of the stream's last record, 0 if it has none.
	// A stream whose records were all dropped has none.
	Last(stream string) int64
	// Streams yields every stream that has records and its last number, as of
	// the call, in no order. It is how a copy finds out what it has missed.
	Streams() iter.Seq2[string, int64]
	// Read yields the stream's records after since, oldest first, up to those
	// that exist when it gets there. An error ends the sequence. When records
	// after since are no longer kept, the first error is ErrTruncated and the
	// sequence then goes on with the oldest record that is. (Of a stream whose
	// records were all dropped this is said only if since is above 0.) since
	// may be any number, also one of another stream.
	Read(ctx context.Context, stream string, since int64) iter.Seq2[Record, error]
	// Follow is Read that waits for more until ctx ends; it then stops without
	// an error. It ends with ErrClosed when the journal is closed.
	Follow(ctx context.Context, stream string, since int64) iter.Seq2[Record, error]
	// FollowAll is Follow over all streams that want accepts, in the order of
	// their numbers. Each time it has come to the end of what there is, it first
	// yields a mark: a Record without a Stream whose Seq is the number of the
	// last record that was looked at, wanted or not. A negative since, or one
	// that lies beyond the last record, is the last record. want is called often
	// and must be quick.
	FollowAll(ctx context.Context, since int64, want func(stream string) bool) iter.Seq2[Record, error]
	// Pins returns the open pins by rising number.
	Pins() []Pin
	// Lookup finds the record that holds key.
	Lookup(key string) (stream string, seq int64, ok bool)
}

// A DuplicateError reports a key that is already taken.
type DuplicateError struct {
	Key    string
	Stream string
	Seq    int64
}

// Error names the key.
func (e *DuplicateError) Error() string { return "journal: key " + e.Key + " is already taken" }

// Errors that callers test for.
var (
	// ErrMoved: another writer appended to the stream; read it again.
	ErrMoved = errors.New("journal: the stream has moved on")
	// ErrTruncated: retention dropped records the reader asked for.
	ErrTruncated = errors.New("journal: older records are no longer kept")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal: closed")
	// ErrCorrupt: a record in the middle of the journal cannot be read. The
	// text names the file and the offset; nothing was changed.
	ErrCorrupt = errors.New("journal: corrupt")
)
