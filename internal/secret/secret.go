// Package secret holds credentials so that they cannot be printed by mistake.
// A [Value] shows "[secret]" wherever it is formatted, logged or marshalled;
// the text comes out through Reveal alone, so a leak needs that word.
//
// It is also the contract of where secrets come from, [Source]. The packages
// below are the sources (store, env, broker), what stands around them (gateway,
// drop) and what keeps values from getting out by accident (redact, veil). Who
// may have which secret is decided by their users.
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
)

const shown = "[secret]"

// A Value is a secret text. The zero value is the empty secret. Values are not
// comparable with ==; use Equal.
type Value struct {
	// A function, because fmt walks through pointers and unexported fields.
	open func() string
}

// New wraps a text.
func New(text string) Value {
	if text == "" {
		return Value{}
	}
	return Value{open: func() string { return text }}
}

// Reveal returns the text. Call it where the secret leaves for its one purpose.
func (v Value) Reveal() string {
	if v.open == nil {
		return ""
	}
	return v.open()
}

// IsZero reports whether the secret is empty.
func (v Value) IsZero() bool { return v.open == nil }

// Equal compares in constant time, whatever the lengths. An empty secret equals
// nothing, not even another empty one.
func (v Value) Equal(text string) bool {
	a, b := sha256.Sum256([]byte(v.Reveal())), sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && !v.IsZero()
}

// String returns "[secret]", or "" for the empty secret.
func (v Value) String() string {
	if v.IsZero() {
		return ""
	}
	return shown
}

// GoString returns what String does.
func (v Value) GoString() string { return v.String() }

// MarshalText writes what String returns, so JSON never holds the text.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText takes the text, so that configuration can be read into a Value.
func (v *Value) UnmarshalText(text []byte) error {
	*v = New(string(text))
	return nil
}

// LogValue keeps the text out of structured logs.
func (v Value) LogValue() slog.Value { return slog.StringValue(v.String()) }
