// Package session keeps conversations at rest: the log people read
// (log.jsonl), the history models read (context.jsonl), attachments, settings
// and the reset watermark of every conversation, and the records of sessions
// made through the API. It owns the layout of the workspace below the channel
// directories and meta/sessions.
//
// Log and context are projections of the turn journal: [Store.Project] brings
// one record over, [Store.CatchUp] whatever a crash left out. The package does
// not know what a history entry means; that is its runner's matter.
package session

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// A Line is one line of log.jsonl.
type Line struct {
	Date        time.Time   `json:"date"`
	TS          string      `json:"ts"` // the message's own id
	User        string      `json:"user"`
	UserName    string      `json:"userName,omitempty"`
	DisplayName string      `json:"displayName,omitempty"`
	Text        string      `json:"text"`
	Attachments []chat.File `json:"attachments"`
	IsBot       bool        `json:"isBot"`
	// Turn is the turn the message started, or the one a bot line answers;
	// empty for messages that were only heard.
	Turn string `json:"turn,omitempty"`
	// Failed is the code of a turn that ended without a reply.
	Failed string `json:"failed,omitempty"`
	// Seq is the journal record this line was made from.
	Seq int64 `json:"seq,omitempty"`
}

// An Entry is one line of context.jsonl after its header. Entries are written
// by a runner through turn.Sink.Checkpoint inside a Saved.
type Entry struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Turn string    `json:"turn,omitempty"`
	Type EntryType `json:"type"`
	// Messages are the ids of the chat messages the entry contains, so that
	// the log is never replayed into a history that already has them.
	Messages []string `json:"messages,omitempty"`
	// Body is the runner's own.
	Body json.RawMessage `json:"body,omitempty"`
	// Kept belongs to a compaction: the first entry that stays beside the
	// summary in Body; empty when none does.
	Kept string `json:"kept,omitempty"`
	// Seq and Log are set by the store: the journal record the entry came
	// with, and the offset in log.jsonl below which every line was part of the
	// history, or never will be, when the entry was written.
	Seq int64 `json:"seq,omitempty"`
	Log int64 `json:"log,omitempty"`
}

// An EntryType says how an entry counts.
type EntryType string

// The entry types.
const (
	// Said is a message of either side, tool results included.
	Said EntryType = "message"
	// Compaction replaces everything before it but what Kept keeps.
	Compaction EntryType = "compaction"
)

// Saved is the checkpoint state that Project understands.
type Saved struct {
	Entries []Entry `json:"entries"`
}

// Settings of one conversation (settings.json).
type Settings struct {
	VerboseTools *bool `json:"verboseTools,omitempty"`
}

// A Session is a conversation made through the API (meta/sessions/<id>.json).
type Session struct {
	ID           string         `json:"sessionId"`
	CreatedAt    time.Time      `json:"createdAt"`
	Integrations Integrations   `json:"integrations"`
	Metadata     map[string]any `json:"metadata"`
	// Runner answers the session's turns; empty is the default one.
	Runner string `json:"runner,omitempty"`
}

// Address is where the session is seen.
func (s Session) Address() chat.Address { return chat.Address{Space: chat.Session, ID: s.ID} }

// Integrations ties a session to places outside.
type Integrations struct {
	Slack SlackThread `json:"slack"`
	Email Email       `json:"email"`
}

// SlackThread is the origin pair, and the working pair where a session moved.
type SlackThread struct {
	OriginChannel   string `json:"originChannel"`
	OriginThreadTS  string `json:"originThreadTs"`
	WorkingChannel  string `json:"workingChannel,omitempty"`
	WorkingThreadTS string `json:"workingThreadTs,omitempty"`
}

// Email is the client's address, matched exactly.
type Email struct {
	ClientEmail string `json:"clientEmail,omitempty"`
}

// Errors that callers test for.
var (
	// ErrNotFound: no such session, file or entry.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt: a file cannot be read as what it should be. Its text names
	// the path; the file was not changed.
	ErrCorrupt = errors.New("corrupt file")
	// ErrBadFile: an attachment handle that may not be used; the text says why.
	ErrBadFile = errors.New("bad attachment")
	// ErrTooLarge: more bytes than allowed; nothing was kept.
	ErrTooLarge = errors.New("too large")
	// ErrChanged: the history was compacted or reset since the entry the
	// caller knows; load it again.
	ErrChanged = errors.New("history has changed")
	// ErrExists: a session of that id is already there.
	ErrExists = errors.New("already exists")
	// ErrFormat: the workspace was written by a newer version, or its format
	// cannot be told; nothing was changed.
	ErrFormat = errors.New("workspace format")
)
