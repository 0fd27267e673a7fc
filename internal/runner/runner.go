// Package runner is the contract of whoever answers a turn. The packages below
// it are the answers there are: native (the model loop), agentcli (somebody
// else's agent), subagent (one of ours behind the bridge), relay (a webhook)
// and facilitator (a room). The engine calls them and never knows which is
// which. runnertest holds the suite that every runner passes.
package runner

import (
	"context"
	"errors"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// A Runner answers turns.
//
// Implementations must
//   - emit nothing after a terminal event, and return when they have emitted it;
//   - return an error instead of emitting turn.Failed when they can give no
//     reason of their own; the engine then ends the turn with the code of the
//     [*Error] in its chain, else with turn.CodeFailed;
//   - when ctx ends with [ErrStopped] as its cause: end what they started,
//     whole process trees included, and emit turn.Final with Stopped and the
//     text there is (or return; the engine then salvages the text it has seen);
//   - when ctx ends with [ErrLeaving] as its cause: save what they need with
//     Checkpoint if they can do so at once, and return ErrLeaving without a
//     terminal event; the turn is given back to them after the restart;
//   - be safe for concurrent use: one call per conversation at a time, any
//     number of conversations.
type Runner interface {
	Run(ctx context.Context, req turn.Request, sink turn.Sink) error
}

// A Conversational runner keeps a context per conversation that people can act
// on between turns. The engine holds the conversation's lane while it calls
// these, so none of them runs beside a turn of the same conversation.
type Conversational interface {
	Runner
	// Compact shortens the context and says in one line what it did.
	Compact(ctx context.Context, conv chat.Address) (string, error)
	// Reset forgets the context; the log of the conversation stays.
	Reset(ctx context.Context, conv chat.Address) error
}

// Causes and results that engine and runners agree on.
var (
	// ErrStopped is the cause of a context that a person stopped.
	ErrStopped = errors.New("stopped")
	// ErrLeaving is the cause of a context that ends because the process does.
	ErrLeaving = errors.New("the process is ending")
	// ErrSuperseded is the cause of a context whose turn a newer one replaced.
	ErrSuperseded = errors.New("superseded by a newer request")
	// ErrInterrupted is returned by a runner that cannot resume a turn; the
	// turn ends failed with turn.CodeInterrupted, visibly.
	ErrInterrupted = errors.New("interrupted by a restart")
)

// An Error ends a turn with a code and one sentence for people. Err, for the
// log, may be nil.
type Error struct {
	Code turn.Code
	Text string
	Err  error
}

// Error returns the sentence for people.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the error for the log.
func (e *Error) Unwrap() error { return e.Err }
