package agentcli

import "errors"

// What an Agent answers.
var (
	// ErrGone: the process has ended, or does not listen any more.
	ErrGone = errors.New("the agent's process has ended")
	// ErrNoSession: the program does not know the session it was to go on with.
	ErrNoSession = errors.New("the agent does not know this session any more")
	// ErrNotOffered: the protocol has no such thing.
	ErrNotOffered = errors.New("this agent does not offer that")
)
