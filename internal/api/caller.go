package api

import (
	"net/http"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/turn"
)

// A kind of caller, as a set, so that a route can name several.
type access uint8

const (
	operator  access = 1 << iota // the operator's token
	agent                        // a token of agents.json
	turnToken                    // the token of a running turn
	page                         // a person behind the page's cookie
	open                         // anybody
)

// A caller is who sent a request, known from the token that matched.
type caller struct {
	kind access
	name string       // of an agent
	turn turn.ID      // of a turn token
	conv chat.Address // of a turn token
}

// bearer returns the token of the Authorization header. The scheme is compared
// without regard to case.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// identify finds out whose token a request carries. Headers such as
// X-Iris-Caller are not looked at.
func (s *Server) identify(r *http.Request) (caller, bool) {
	token, ok := bearer(r)
	if !ok || token == "" {
		return caller{}, false
	}
	if s.opts.Token.Equal(token) {
		return caller{kind: operator}, true
	}
	if s.opts.Tokens != nil {
		if id, conv, ok := s.opts.Tokens.verify(token); ok {
			t, err := s.opts.Engine.Turn(r.Context(), id)
			if err != nil || t.Status != engine.Running || t.Conversation != conv {
				return caller{}, false
			}
			return caller{kind: turnToken, turn: id, conv: conv}, true
		}
	}
	if s.opts.Agent != nil {
		if name, ok := s.opts.Agent(token); ok && name != "" {
			return caller{kind: agent, name: name}, true
		}
	}
	return caller{}, false
}
