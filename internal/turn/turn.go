// Package turn holds the nouns of what goes out: a turn is one message being
// answered, a Request in and one stream of Events out with exactly one end.
// Every transport, the event stream, the web socket, the bridge and the journal
// draw the same events; whoever understands [Event] understands Iris.
//
// The package does no I/O. What is kept of a turn on disk is a [Record]; how
// records are kept is package journal, who makes turns is package engine, who
// answers them is package runner.
package turn

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/chat"
)

// An ID names a turn: a UUIDv7 in its canonical lower-case form, so that ids
// sort by the time they were made.
type ID string

// NewID returns a fresh id.
func NewID() ID { return ID(uuid.Must(uuid.NewV7()).String()) }

// ParseID accepts a canonical UUIDv7 and nothing else.
func ParseID(s string) (ID, error) {
	u, err := uuid.Parse(s)
	if err != nil || u.String() != s || u.Version() != 7 {
		return "", errors.New("turn id is not a UUIDv7")
	}
	return ID(s), nil
}

// An Origin says what caused a turn. Unattended origins have nobody who could
// answer a question while the turn runs.
type Origin string

// The origins.
const (
	FromChat       Origin = "chat"
	FromAPI        Origin = "api"
	FromBridge     Origin = "bridge"
	FromSchedule   Origin = "schedule"
	FromEvent      Origin = "event"
	FromEscalation Origin = "escalation"
	FromApproval   Origin = "approval"
)

// Unattended reports that nobody waits for the turn.
func (o Origin) Unattended() bool {
	return o == FromSchedule || o == FromEvent || o == FromEscalation
}

// A Request is a turn as its runner gets it.
type Request struct {
	ID           ID
	Conversation chat.Address
	Message      chat.Message
	Origin       Origin
	// Started is when the message was accepted.
	Started time.Time
	// Attempt is 1, and one more for every restart that interrupted the turn.
	Attempt int
	// Resume holds the states saved with Sink.Checkpoint before the process
	// ended, oldest first; empty on a first attempt and when nothing was
	// saved. A runner that finds states it cannot continue from returns
	// runner.ErrInterrupted.
	Resume []json.RawMessage
	// Text is what earlier attempts had already said as intermediate text.
	Text string
}

// A Sink takes what a runner has to say about its turn. It is safe for
// concurrent use and valid until Run returns.
type Sink interface {
	// Emit journals the event and shows it to everyone who watches. When it
	// returns nil the event is in the kernel; the start of a tool call, a
	// question and a terminal event, and with them everything before, are on
	// disk. After a terminal event, and after ctx of Run has ended with the
	// process, it returns an error and the runner should return.
	Emit(Event) error
	// Checkpoint saves what the runner needs to continue after a crash of the
	// process; a power cut can lose it as long as no event that Emit puts on
	// disk has followed. States are kept in order; all of them come back in
	// Request.Resume.
	Checkpoint(ctx context.Context, state any) error
}
