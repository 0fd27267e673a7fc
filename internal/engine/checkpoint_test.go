package engine_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/turn"
)

// A turn costs two syncs: one before it is accepted and one before its end is
// told. A state rides on the sync of the event that follows, and the archive
// gets it no sooner.
func TestCheckpointRidesOnTheNextSync(t *testing.T) {
	start := turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "1", Name: "bash", Phase: turn.Start}}
	j, a := enginetest.NewJournal(), &enginetest.Archive{}
	var syncs []int
	var archived []int
	look := func() {
		syncs = append(syncs, j.Syncs())
		archived = append(archived, len(a.Of(sess)))
	}
	e, stop := enginetest.Start(t, engine.Options{Journal: j, Archive: a, Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		look()
		_ = s.Checkpoint(ctx, 1)
		look()
		_ = s.Emit(start)
		look()
		_ = s.Checkpoint(ctx, 2)
		look()
		return s.Emit(turn.Event{Kind: turn.Final, Text: "done"})
	})})
	before := j.Syncs()
	end(t, e, say(t, e, sess, "m", "hi").Turn)
	look()
	stop()
	if diff := cmp.Diff([]int{before + 1, before + 1, before + 2, before + 2, before + 3}, syncs); diff != "" {
		t.Errorf("syncs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{1, 1, 2, 2, 4}, archived); diff != "" {
		t.Errorf("records in the archive (-want +got):\n%s", diff)
	}
}

// No event follows a state that is saved after the end: it is brought over at
// once.
func TestCheckpointAfterTheEndIsArchived(t *testing.T) {
	a := &enginetest.Archive{}
	done := make(chan int, 1)
	e, _ := enginetest.Start(t, engine.Options{Journal: enginetest.NewJournal(), Archive: a, Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		_ = s.Emit(turn.Event{Kind: turn.Final, Text: "done"})
		err := s.Checkpoint(ctx, 1)
		done <- len(a.Of(sess))
		return err
	})})
	end(t, e, say(t, e, sess, "m", "hi").Turn)
	if n := <-done; n != 3 {
		t.Errorf("%d records in the archive after a late state, want 3", n)
	}
}
