package llm

import "errors"

// errConsumer is why a joined stream is not read on. The adapter never shows
// it: Flush tells it that the consumer has stopped.
var errConsumer = errors.New("the consumer has stopped")

// maxHeld is how many bytes are put together at most: a stream that never pauses
// must not grow one piece for ever.
const maxHeld = 32 << 10

// A Joiner passes the pieces of an answer on, those that arrived together as
// one. Every piece costs a record on disk and an event to everyone who watches,
// and a fast model sends dozens in one packet. No piece is held back while the
// stream is waited for.
type Joiner struct {
	frames  *Frames
	yield   func(Event) bool
	total   int // bytes that were added
	held    Event
	stopped bool // the consumer wants no more, and must not be called
}

// Join returns a Joiner for the pieces of frames. yield is called by Add, Flush
// and frames.Next, and returns false when it wants no more.
func Join(frames *Frames, yield func(Event) bool) *Joiner {
	j := &Joiner{frames: frames, yield: yield}
	frames.idle = func() error {
		if !j.Flush() {
			return errConsumer
		}
		return nil
	}
	return j
}

// Add takes a piece of text or of thinking, or an event without either, which
// is nothing. It returns false when the consumer wants no more.
func (j *Joiner) Add(ev Event) bool {
	if ev.Text == "" && ev.Thinking == "" {
		return !j.stopped
	}
	if (ev.Text == "") != (j.held.Text == "") || (ev.Thinking == "") != (j.held.Thinking == "") {
		j.Flush()
	}
	j.held.Text += ev.Text
	j.held.Thinking += ev.Thinking
	if j.total += len(ev.Text) + len(ev.Thinking); j.total > maxAnswer {
		j.frames.failed = errAnswer
	}
	if len(j.held.Text)+len(j.held.Thinking) >= maxHeld {
		j.Flush()
	}
	return !j.stopped
}

// Flush passes on what is held; an adapter calls it when the stream has ended,
// however it did. It returns false when the consumer wants no more.
func (j *Joiner) Flush() bool {
	ev := j.held
	j.held = Event{}
	if !j.stopped && (ev.Text != "" || ev.Thinking != "") {
		j.stopped = !j.yield(ev)
	}
	return !j.stopped
}
