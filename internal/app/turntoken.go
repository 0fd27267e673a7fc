package app

import (
	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

// turnToken is what a command of a turn proves itself with. A command that prints
// it shows a mark.
func (s *server) turnToken(tokens *api.Tokens, r turn.Request) secret.Value {
	t := tokens.Mint(r)
	s.secrets.redact.Add(t)
	return t
}

// dropTurnToken makes room for the tokens of turns that run: one of a turn that
// has ended opens nothing.
func (s *server) dropTurnToken(tokens *api.Tokens, t engine.TurnInfo) {
	s.secrets.redact.Drop(tokens.Mint(turn.Request{ID: t.Turn, Conversation: t.Conversation}))
}
