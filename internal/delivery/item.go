package delivery

import (
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// An item is something to be shown: a turn with its placeholder and its reply,
// or a message of its own. What is sent of it is read from the outbox when it is
// needed, so that ten thousand waiting items are small.
//
// All fields are guarded by Courier.mu. Those marked (w) are written only by the
// chat's one call at a time, which may read them without it.
type item struct {
	name string
	conv chat.Address
	opening
	since time.Time // when there was something to send
	dead  bool      // it was delivered before, or is over

	planned int64 // number of the line with the plan, 0 if there is none yet
	closing int64 // of the line with what a question becomes

	holder string // (w) id of the placeholder
	noHold bool   // (w) there will be none
	next   int    // (w) the part to be sent, from 1
	first  string // (w) id of part 1
	tried  *try   // (w) a part of which nobody knows whether it arrived
	// failures counts failed calls since the last success. (w)
	failures int
	// shaky says that an edit of the placeholder may still arrive. (w)
	shaky     bool
	confirmAt time.Time // (w) when the reply is put there again

	others, heard bool // something else was sent, or said, since the placeholder

	// The progress of a turn.
	status   string
	text     draft
	dirty    bool
	mute     bool      // (w) the platform does not take edits
	shown    string    // (w) what the placeholder says
	statusAt time.Time // (w) of the last edit
}

// mark names a part of the item on the platform.
func (it *item) mark(k int) transport.Mark {
	n := strconv.Itoa(k)
	if it.Kind == kindTurn {
		return transport.Mark{Turn: it.Turn, Part: n}
	}
	_, own, ok := strings.Cut(it.name, "/")
	if !ok {
		own = it.name
	}
	return transport.Mark{Turn: it.Turn, Part: own + "/" + n}
}

// nameOf is the name of an item that belongs to a turn, or to none.
func nameOf(id turn.ID, k kind, seq int64) string {
	own := string(k) + "." + strconv.FormatInt(seq, 10)
	if id == "" {
		return own
	}
	return string(id) + "/" + own
}

// A stage is what is done with an item next.
type stage int

const (
	stageHold  stage = iota // its placeholder is put up
	stageSend               // its plan is sent
	stageClose              // its question is taken away
)

// An entry is an item waiting in its lane.
type entry struct {
	*item
	stage stage
	order int64
}

// rank says what goes first between conversations of one chat: replies.
func (e entry) rank() int {
	switch {
	case e.stage == stageSend && e.Kind == kindTurn:
		return 0
	case e.Kind == kindFile:
		return 2
	case e.Kind == kindDetail:
		return 3
	}
	return 1
}

// A lane is what one conversation still has to get, in order. Guarded by
// Courier.mu.
type lane struct {
	entries   []entry
	notBefore time.Time
	strikes   int
}

// maxLane bounds the entries of a lane that are not replies.
const maxLane = 2000

// A room is a chat of the platform: one call at a time. Guarded by Courier.mu.
type room struct {
	place   transport.Place // of the chat; for its pace
	lanes   map[chat.Address]*lane
	live    map[*item]struct{} // turns with a placeholder
	bucket  bucket
	limits  int // answers "too many calls" in a row
	until   time.Time
	working bool
	queued  bool
	timer   *time.Timer
}

// A bucket lets burst calls through at once and then one per gap. The zero
// value is full.
type bucket struct {
	gap   time.Duration
	burst int
	// full is when the bucket is full again.
	full time.Time
}

// at is when the next call may be made, if spare calls are to remain possible.
func (b *bucket) at(spare int) time.Time {
	spare = min(spare, b.burst-1)
	return b.full.Add(-b.gap * time.Duration(b.burst-1-spare))
}

// take counts a call.
func (b *bucket) take(now time.Time) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(b.gap)
}
