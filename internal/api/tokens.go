package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

// tokenPrefix tells a turn token from the others.
const tokenPrefix = "irt_"

// Tokens makes and checks the tokens that the child processes of a turn get as
// IRIS_TURN_TOKEN. A token is bound to its turn and conversation by a key that
// is made anew by each process, so nothing is stored; whether the turn still
// runs is asked of the engine when the token is used.
type Tokens struct{ key [32]byte }

// NewTokens returns Tokens with a fresh key.
func NewTokens() *Tokens {
	t := &Tokens{}
	rand.Read(t.key[:]) //nolint:errcheck // never fails: it ends the process instead
	return t
}

// Mint returns the token of a turn. Minting twice gives the same token.
func (t *Tokens) Mint(r turn.Request) secret.Value {
	body := string(r.ID) + "." + r.Conversation.Channel()
	return secret.New(tokenPrefix + body + "." + t.sign(body))
}

func (t *Tokens) sign(body string) string {
	mac := hmac.New(sha256.New, t.key[:])
	mac.Write([]byte(body))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// IsTurnToken reports whether a request claims to be of a command of a turn. It
// checks nothing.
func IsTurnToken(r *http.Request) bool {
	token, ok := bearer(r)
	return ok && strings.HasPrefix(token, tokenPrefix)
}

// verify returns what a token is bound to. It says nothing about whether the
// turn runs.
func (t *Tokens) verify(token string) (turn.ID, chat.Address, bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 || !hmac.Equal([]byte(t.sign(rest[:i])), []byte(rest[i+1:])) {
		return "", chat.Address{}, false
	}
	id, channel, _ := strings.Cut(rest[:i], ".")
	conv, err := chat.Parse(channel)
	return turn.ID(id), conv, err == nil
}
