package deliverytest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal"
)

// ErrDead is what a dead process hears of everything.
var ErrDead = errors.New("the process is dead")

// A Disk is a journal in memory that outlives the process that writes it. Point,
// when set, is asked before and after everything that is written: once it
// returns false nothing has an effect any more, until Revive.
type Disk struct {
	*enginetest.Journal
	Point func() bool

	mu     sync.Mutex
	log    []appended
	synced int
}

type appended struct {
	stream  string
	entries []journal.Entry
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{Journal: enginetest.NewJournal()} }

func (d *Disk) alive() bool { return d.Point == nil || d.Point() }

// Append implements journal.Journal.
func (d *Disk) Append(ctx context.Context, stream string, expect int64, entries ...journal.Entry) (int64, error) {
	if !d.alive() {
		return 0, ErrDead
	}
	d.mu.Lock()
	seq, err := d.Journal.Append(ctx, stream, expect, entries...)
	if err == nil {
		kept := make([]journal.Entry, len(entries))
		for i, e := range entries {
			e.Data = bytes.Clone(e.Data)
			kept[i] = e
		}
		d.log = append(d.log, appended{stream, kept})
	}
	d.mu.Unlock()
	if !d.alive() {
		return 0, ErrDead
	}
	return seq, err
}

// Sync implements journal.Journal.
func (d *Disk) Sync(ctx context.Context) error {
	if !d.alive() {
		return ErrDead
	}
	d.mu.Lock()
	d.synced = len(d.log)
	d.mu.Unlock()
	return d.Journal.Sync(ctx)
}

// Revive is the disk as the next process finds it. power says that the machine
// lost power, and with it everything that was not synced.
func (d *Disk) Revive(power bool) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Journal.Close()
	kept := d.log
	if power {
		kept = kept[:d.synced]
	}
	next := NewDisk()
	next.Point = d.Point
	for _, a := range kept {
		if _, err := next.Journal.Append(context.Background(), a.stream, journal.Any, a.entries...); err != nil {
			panic(err) // it was taken before
		}
	}
	next.log, next.synced = kept, len(kept)
	return next
}
