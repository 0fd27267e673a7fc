package turn

import (
	"encoding/json"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// A Record is one line of the turn journal: exactly one of its pointer fields
// is set. The journal's stream is the channel id of the conversation.
type Record struct {
	Turn ID `json:"turn,omitempty"`
	// Accepted opens a turn.
	Accepted *Accepted `json:"accepted,omitempty"`
	// Begun is written each time a runner is given the turn.
	Begun *Begun `json:"begun,omitempty"`
	// Event is anything the turn told; a terminal one closes it.
	Event *Event `json:"event,omitempty"`
	// Checkpoint is a state saved by the runner.
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	// Heard is a message that was logged and starts no turn.
	Heard *chat.Message `json:"heard,omitempty"`
	// Notice is a line that Iris herself put into the conversation outside of
	// a turn ("Context cleared").
	Notice *Notice `json:"notice,omitempty"`
}

// Accepted is what was promised to the sender when the turn was opened.
type Accepted struct {
	Message chat.Message `json:"message"`
	Origin  Origin       `json:"origin"`
	Runner  string       `json:"runner"`
	// Answers is the id of the question that the message answers; the origin is
	// FromApproval then.
	Answers string `json:"answers,omitempty"`
	// Supersedes says that the turns of the conversation that were open before
	// this one end with CodeSuperseded.
	Supersedes bool `json:"supersedes,omitempty"`
}

// Begun marks an attempt.
type Begun struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
}

// Notice is a line outside of any turn.
type Notice struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
	// Reset marks the notice of a cleared context: nothing before it is given
	// to a model again.
	Reset bool `json:"reset,omitempty"`
}
