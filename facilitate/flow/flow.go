// Package flow labels text with who may see it: [Room], [Person] or [Self].
// The label is a type, so a sealed text where a public one is wanted does not
// compile. Labels rise freely ([ToPerson], [ToSelf]); the only way down is
// [Release], which needs the person's consent to exactly these words. [Host]
// stands beside them: whoever runs the room is told what the room may know
// ([ToHost]) and nothing that somebody said in private.
//
// A labelled text does not print, marshal, compare or log; [Reveal] exists for
// [Room] alone. Which person a [Person] text belongs to is checked at run time.
// The package does not keep a secret from code that uses unsafe, nor from a
// model: that a model writes at the level it reads is the work of [Complete]
// and of the split beats above it.
package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
)

// Room is the level of what everybody in the room sees.
type Room struct{}

// Person is the level of what one participant and Iris see.
type Person struct{}

// Self is the level of what only Iris and the operator see.
type Self struct{}

// Host is the level of what whoever runs the room is told, who may be one of
// the people in it. It is made of public words alone and shown to nobody else.
type Host struct{}

// A Level is one of the label types.
type Level interface{ Room | Person | Self | Host }

// A Rank is a [Level] at run time.
type Rank uint8

// The ranks. Of the first three a higher one sees more; RankHost is beside
// them, and no view is made at it.
const (
	RankRoom Rank = iota
	RankPerson
	RankSelf
	RankHost
)

// String is the rank's wire name.
func (r Rank) String() string {
	switch r {
	case RankRoom:
		return "room"
	case RankPerson:
		return "person"
	case RankSelf:
		return "self"
	case RankHost:
		return "host"
	}
	return "unknown"
}

// RankOf returns the rank of L.
func RankOf[L Level]() Rank {
	var l L
	switch any(l).(type) {
	case Room:
		return RankRoom
	case Person:
		return RankPerson
	case Host:
		return RankHost
	}
	return RankSelf
}

// A Text is words at level L. The zero Text is empty. The array without
// elements makes texts of two levels different types even for a conversion.
type Text[L Level] struct {
	_   [0]L
	box open.Box[open.Body]
}

// Public labels words that everybody may see.
func Public(s string) Text[Room] { return Text[Room]{box: open.Seal(open.Body{Text: s})} }

// Private labels words that belong to owner.
func Private(owner principal.ID, s string) Text[Person] {
	return Text[Person]{box: open.Seal(open.Body{Owner: string(owner), Text: s})}
}

// Inner labels words that only Iris may see.
func Inner(s string) Text[Self] { return Text[Self]{box: open.Seal(open.Body{Text: s})} }

// ToPerson raises a public text into what owner may see.
func ToPerson(owner principal.ID, t Text[Room]) Text[Person] {
	return Private(owner, open.Open(t.box).Text)
}

// ToSelf raises a text to what only Iris may see.
func ToSelf[L Room | Person](t Text[L]) Text[Self] {
	return Inner(open.Open(t.box).Text)
}

// ToHost raises a public text to what whoever runs the room is told.
func ToHost(t Text[Room]) Text[Host] { return Text[Host]{box: t.box} }

// Reveal returns the words of a public text.
func Reveal(t Text[Room]) string { return open.Open(t.box).Text }

// Owner is the person a [Person] text belongs to, else empty.
func (t Text[L]) Owner() principal.ID { return principal.ID(open.Open(t.box).Owner) }

// Empty reports whether there are no words.
func (t Text[L]) Empty() bool { return open.Open(t.box).Text == "" }

// Sealed is the box inside. Nobody outside this module's facilitate tree can
// open it.
func (t Text[L]) Sealed() open.Box[open.Body] { return t.box }

// Format prints the level and never the words.
func (t Text[L]) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// String names the level and never the words.
func (t Text[L]) String() string { return "[" + RankOf[L]().String() + " text]" }

// GoString is String.
func (t Text[L]) GoString() string { return t.String() }

// LogValue is String.
func (t Text[L]) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON refuses: what is written down goes through the journal, which
// encrypts.
func (t Text[L]) MarshalJSON() ([]byte, error) { return nil, open.ErrSealed }

// MarshalText refuses.
func (t Text[L]) MarshalText() ([]byte, error) { return nil, open.ErrSealed }

// GobEncode refuses.
func (t Text[L]) GobEncode() ([]byte, error) { return nil, open.ErrSealed }

// A Consent is a person's leave to say exact words to the room. Only the state
// machine of package release makes one; the zero Consent allows nothing.
type Consent = open.Grant

// ErrConsent is what [Release] answers when the consent is not by the owner of
// the text, or not to these words.
var ErrConsent = errors.New("no consent to these words")

// Release lowers t to the room. It is the only function that lowers a label.
func Release(c Consent, t Text[Person]) (Text[Room], error) {
	b := open.Open(t.box)
	if !c.Allows(b.Owner, Hash(b.Text)) {
		return Text[Room]{}, ErrConsent
	}
	return Public(b.Text), nil
}

// Hash is the fingerprint of a wording.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
