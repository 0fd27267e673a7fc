// Package open holds the only key to sealed values. A [Box] can be carried
// anywhere, but its content comes out only through [Open], and only code below
// facilitate/ can import this package; a test in it lists who does. It keeps
// no secret from a program that uses unsafe, and none from a model, which has
// to read what it is asked about.
package open

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// ErrSealed is what every encoder gets from a [Box].
var ErrSealed = errors.New("sealed: refuses to be encoded")

// mark is what a box prints as, under every verb.
const mark = "[sealed]"

// A Box holds a T that does not print, marshal, compare or log. The zero Box
// holds the zero T. The value sits behind a function, because fmt and reflect
// walk through pointers in unexported fields but not through functions.
type Box[T any] struct{ get func() *T }

// Seal puts v into a box.
func Seal[T any](v T) Box[T] { return Box[T]{get: func() *T { return &v }} }

// Open returns what b holds. The caller is part of the trusted base.
func Open[T any](b Box[T]) T {
	if b.get == nil {
		var zero T
		return zero
	}
	return *b.get()
}

// Format prints the mark for every verb.
func (Box[T]) Format(f fmt.State, _ rune) { io.WriteString(f, mark) }

// String is the mark.
func (Box[T]) String() string { return mark }

// GoString is the mark.
func (Box[T]) GoString() string { return mark }

// LogValue is the mark.
func (Box[T]) LogValue() slog.Value { return slog.StringValue(mark) }

// MarshalJSON refuses.
func (Box[T]) MarshalJSON() ([]byte, error) { return nil, ErrSealed }

// MarshalText refuses.
func (Box[T]) MarshalText() ([]byte, error) { return nil, ErrSealed }

// GobEncode refuses.
func (Box[T]) GobEncode() ([]byte, error) { return nil, ErrSealed }

// A Body is a sealed text and whose it is. Owner is empty but at the level of
// one person.
type Body struct {
	Owner, Text string
}

// A Grant is a person's consent to exact words. Its zero value allows nothing.
type Grant struct{ owner, hash string }

// Consent makes the grant of owner for the words with this hash. Only the
// state machine of releases calls it, after an answer that counts.
func Consent(owner, hash string) Grant { return Grant{owner, hash} }

// Allows reports whether g is the consent of owner to the words with this hash.
func (g Grant) Allows(owner, hash string) bool {
	return g.owner != "" && g.owner == owner && g.hash != "" && g.hash == hash
}
