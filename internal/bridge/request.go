package bridge

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
)

// A Request is the body of a POST.
type Request struct {
	Text string `json:"text,omitempty"`
	User string `json:"user,omitempty"`
	// RequestID is the key of the conversation: the same key continues it, and
	// takes the place of what still runs under it.
	RequestID string `json:"requestId,omitempty"`
	// Turn, a UUIDv7, makes the request idempotent: posted again it is answered
	// by the same turn. Empty: the server makes one.
	Turn string `json:"turn,omitempty"`
	// Stop asks to end the turn instead of starting one; there is no text then.
	// A server that does not know the word refuses the body, which has no text.
	Stop bool `json:"stop,omitempty"`
}

// Encode returns the body.
func (r Request) Encode() []byte { return bytes.TrimSpace(encode(r)) }

// Errors of ParseRequest; their texts are the bodies of the answers.
var (
	ErrInvalidJSON = errors.New(SaidInvalidJSON)
	ErrNoText      = errors.New(SaidNoText)
)

// ParseRequest reads a body. The id of the result is clean and never empty, its
// user is set. The text of an error is for the caller.
func ParseRequest(body []byte) (Request, error) {
	if !json.Valid(body) {
		return Request{}, ErrInvalidJSON
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return Request{}, ErrNoText // not an object
	}
	var r Request
	for _, f := range []struct {
		name string
		to   *string
	}{{"user", &r.User}, {"requestId", &r.RequestID}, {"turn", &r.Turn}} {
		if v, ok := raw[f.name]; ok && json.Unmarshal(v, f.to) != nil {
			return Request{}, fmt.Errorf("%s must be a string", f.name)
		}
	}
	if v, ok := raw["stop"]; ok && json.Unmarshal(v, &r.Stop) != nil {
		return Request{}, errors.New("stop must be true or false")
	}
	if json.Unmarshal(raw["text"], &r.Text) != nil || !r.Stop && strings.TrimSpace(r.Text) == "" {
		if !r.Stop || raw["text"] != nil {
			return Request{}, ErrNoText
		}
	}
	switch {
	case r.Stop && r.Turn == "":
		return Request{}, errors.New("turn is required to stop one")
	case len(r.User) > MaxUser:
		return Request{}, fmt.Errorf("user of %d bytes: at most %d", len(r.User), MaxUser)
	case r.User == "":
		r.User = DefaultUser
	}
	r.RequestID = CleanID(r.RequestID)
	return r, nil
}

// CleanID makes an id of at most MaxID characters of A-Z, a-z, 0-9, _ and - out
// of any text: others become a dash, and nothing becomes a new id.
func CleanID(id string) string {
	if id == "" {
		return NewID()
	}
	var b strings.Builder
	for _, c := range id {
		if b.Len() == MaxID {
			break
		}
		if c == '_' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			b.WriteByte(byte(c))
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

// NewID returns 16 random hexadecimal digits.
func NewID() string {
	var raw [8]byte
	rand.Read(raw[:]) //nolint:errcheck // never fails: it ends the process instead
	return hex.EncodeToString(raw[:])
}

// Key is the request id under which a conversation of ours talks to a sub-agent,
// so that the agent remembers what was said there. Different places have
// different keys. thread is the id of a thread that has no address of its own.
func Key(a chat.Address, thread string) string {
	key := a.Channel()
	switch a.Space {
	case chat.Slack:
		key = "slack-" + key
	case chat.Web:
		key = "web-" + key
	}
	if thread != "" {
		key += "-" + thread
	}
	return CleanID(key)
}
