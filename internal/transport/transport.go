// Package transport is the contract of the ways in and out for people: the
// Inbox that every transport submits to, and what a transport offers to those
// that start it. slack, telegram, web and bridge are the ways there are;
// transporttest holds the suite. The Inbox is implemented by package engine.
package transport

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// A Transport carries messages between people and an Inbox.
type Transport interface {
	// Name is the word used in logs, metrics and readiness.
	Name() string
	// Serve runs until ctx ends and leaves nothing behind. ready is called
	// once, when the transport has its first working connection.
	Serve(ctx context.Context, ready func()) error
	// Ready returns nil when messages flow, else why not in one sentence.
	Ready() error
}

// An Inbox takes what people say.
//
// Submit returns after the message is on disk, so that the platform may be told
// then and not before; it is idempotent on (address, message id).
type Inbox interface {
	Submit(ctx context.Context, s Submission) (Receipt, error)
	// Command acts on a conversation at once, beside its lane.
	Command(ctx context.Context, c Command) (Reply, error)
	// Answer settles a question that was put to people.
	Answer(ctx context.Context, a Answer) (Reply, error)
	// Watch yields what happened in a conversation after since, then what
	// happens until ctx ends. since is the Seq of the last Seen; 0 yields all
	// that is kept, Now skips it. A running turn is always yielded from its
	// start unless since lies inside it. ErrTruncated comes first, once, when
	// something after since is no longer kept.
	Watch(ctx context.Context, conv chat.Address, since int64) iter.Seq2[Seen, error]
}

// Now as a position means: the running turn, if any, and what follows.
const Now int64 = -1

// A Submission is a message with what routing must know about it.
type Submission struct {
	Address chat.Address
	Message chat.Message
	Origin  turn.Origin
	// Turn is the turn's id if the submitter made one; empty: the engine does.
	Turn turn.ID
	// Runner overrides the runner of the conversation; empty: routing decides.
	Runner string
	// Mention, Direct and Reply tell how the message was addressed: by name, in
	// a private chat, inside a thread.
	Mention, Direct, Reply bool
	// Proven says that the transport knows who the author is (a login, a signed
	// platform event, the operator's token), so that the words may answer a
	// question that was put to people. A sender that anybody can imitate, as in
	// an e-mail, is not proven.
	Proven bool
	// Late says that the message was said while nobody listened: a command in it
	// is no longer meant. Stale, that it is too old to be answered at all: it is
	// kept as something that was said.
	Late, Stale bool
	// Supersedes ends what is open in the conversation, running or waiting, with
	// turn.CodeSuperseded once this message is accepted; it is then never
	// refused with ErrBusy. A message that was accepted before ends nothing.
	Supersedes bool
	// Accepted, when not nil, is called with the receipt when a new turn is on
	// disk and before it can run. It must be quick.
	Accepted func(Receipt)
}

// A Receipt says what became of a submission.
type Receipt struct {
	Outcome Outcome
	Turn    turn.ID // of the turn it started, or had started before
	Seq     int64   // of the record that accepted it
	// Duplicate reports that the message had been accepted before.
	Duplicate bool
	// Waiting is the number of turns before this one in its lane.
	Waiting int
	// Reply is what to tell the sender at once when the message was a command.
	Reply Reply
}

// An Outcome is a routing decision as its sender sees it.
type Outcome string

// The outcomes.
const (
	Ignored   Outcome = "ignored"
	Logged    Outcome = "logged"
	Commanded Outcome = "command"
	Accepted  Outcome = "accepted"
)

// A Verb is what a Command does.
type Verb string

// The verbs.
const (
	Stop    Verb = "stop"
	Compact Verb = "compact"
	Reset   Verb = "reset"
	Verbose Verb = "verbose"
	Help    Verb = "help"
	// What follows is for conversations with an agent program. Unknown is a word
	// that is no command; it is the Argument.
	Status   Verb = "status"
	Usage    Verb = "usage"
	Mode     Verb = "mode"
	Model    Verb = "model"
	Sessions Verb = "sessions"
	Resume   Verb = "resume"
	Switch   Verb = "switch"
	Restart  Verb = "restart"
	Unknown  Verb = "unknown"
	// Fail ends Command.Turn at once with Command.Code and the Argument as the
	// sentence for people. No word of a person means it: it is for transports
	// whose requests have limits.
	Fail Verb = "fail"
)

// A Command acts on a conversation.
type Command struct {
	Conversation chat.Address
	Verb         Verb
	Argument     string
	From         chat.Person
	// Turn limits Stop to one turn, running or waiting; empty means all.
	Turn turn.ID
	// Code belongs to Fail.
	Code turn.Code
}

// A Reply is one line for whoever gave a command or an answer.
type Reply struct {
	Text string
	// Running reports that a turn was running when the command came.
	Running bool
	// Turn is the turn that an answer started.
	Turn turn.ID
}

// An Answer settles a question.
type Answer struct {
	Ask          string // id of the question
	Conversation chat.Address
	From         chat.Person
	Yes          bool
	// Choice answers a turn.Ask with Options: a label, several joined by ", " or
	// the person's own words. With Yes it may be "always" where turn.Ask.Always
	// offers that.
	Choice string
	At     time.Time
	// Thread is where the platform shows the question, as in chat.Message.
	Thread string
}

// Seen is a record with its place in the journal.
//
// More says that another follows at once, so that who sends what is seen may
// send it together. The last of such a row may have an empty Record: then there
// is nothing to see, and nothing more to wait for.
type Seen struct {
	Seq    int64
	At     time.Time
	Record turn.Record
	More   bool
}

// Errors of an Inbox, with the reaction they ask for.
var (
	// ErrBusy: the conversation's queue is full; tell the sender, or ask again
	// after RetryAfter.
	ErrBusy = errors.New("too many messages are waiting")
	// ErrClosing: the process is ending; the message was not taken.
	ErrClosing = errors.New("the server is shutting down")
	// ErrUnknownRunner: nobody of that name answers turns.
	ErrUnknownRunner = errors.New("no such runner")
	// ErrUnknownAsk: the question does not exist, is settled or has expired.
	ErrUnknownAsk = errors.New("no such question")
	// ErrNotAllowed: this person may not do that.
	ErrNotAllowed = errors.New("not allowed")
	// ErrTruncated: older events are no longer kept.
	ErrTruncated = errors.New("older events are no longer kept")
	// ErrUnknownTurn: no turn of that id is known.
	ErrUnknownTurn = errors.New("no such turn")
)

// RetryAfter is what a sender is told to wait when a queue is full: about the
// time of a short turn.
const RetryAfter = 5 * time.Second
