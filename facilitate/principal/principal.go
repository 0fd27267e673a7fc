// Package principal names the people of a room: their ids and the roster. It
// holds what everyone in the room may know about a person; what Iris thinks of
// them is sealed in their file and lives in package room.
package principal

import (
	"errors"
	"fmt"
	"slices"
)

// An ID names a person. Its form is checked by [Check].
type ID string

// Iris is the author of what the agent says. No person may use it.
const Iris ID = "iris"

// System is the author of lines that came from a hook or a timer.
const System ID = "system"

// ErrID is what a malformed or reserved id is.
var ErrID = errors.New("not a participant id")

// ErrUnknown is what an id outside the roster is.
var ErrUnknown = errors.New("not on the roster")

// reserved ids mean an audience or the agent somewhere else.
var reserved = []ID{Iris, System, "self", "room", "all", ""}

// grammar is what ids look like; follows checks it.
const grammar = `^[a-z0-9][a-z0-9_.-]{0,63}$`

// follows is by hand: a compiled expression costs every start of a program a
// millisecond.
func follows(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '_' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// Check reports whether id may name a person.
func Check(id ID) error {
	if slices.Contains(reserved, id) {
		return fmt.Errorf("%q: reserved: %w", id, ErrID)
	}
	if !follows(string(id)) {
		return fmt.Errorf("%q: want %s: %w", id, grammar, ErrID)
	}
	return nil
}

// Valid reports whether s follows the grammar that ids of people and items
// share. Reserved words follow it too.
func Valid(s string) bool { return follows(s) }

// A Person is what the room knows of a participant. Away is set by leaving.
type Person struct {
	ID   ID     `json:"id"`
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	Away bool   `json:"away,omitempty"`
}

// Host reports whether the person may close items and set what only hosts set.
func (p Person) Host() bool { return p.Role == "host" }

// A Roster is the people of a room in the order they came. It is a value: the
// methods that change it return a new one.
type Roster struct{ people []Person }

// NewRoster checks the ids and refuses doubles.
func NewRoster(people ...Person) (Roster, error) {
	var r Roster
	for _, p := range people {
		if r.Has(p.ID) {
			return Roster{}, fmt.Errorf("%q twice: %w", p.ID, ErrID)
		}
		var err error
		if r, err = r.Join(p); err != nil {
			return Roster{}, err
		}
	}
	return r, nil
}

// Join adds p, or brings back and renames somebody who is on the roster.
func (r Roster) Join(p Person) (Roster, error) {
	if err := Check(p.ID); err != nil {
		return r, err
	}
	if p.Name == "" {
		p.Name = string(p.ID)
	}
	people := slices.Clone(r.people)
	if i := r.index(p.ID); i >= 0 {
		people[i] = p
	} else {
		people = append(people, p)
	}
	return Roster{people}, nil
}

// Leave marks id as away. Their lines and file stay.
func (r Roster) Leave(id ID) Roster {
	people := slices.Clone(r.people)
	if i := r.index(id); i >= 0 {
		people[i].Away = true
	}
	return Roster{people}
}

// Has reports whether id is on the roster, away or not.
func (r Roster) Has(id ID) bool { return r.index(id) >= 0 }

// Get returns the person, or false.
func (r Roster) Get(id ID) (Person, bool) {
	if i := r.index(id); i >= 0 {
		return r.people[i], true
	}
	return Person{}, false
}

// Name returns how to address id: the name, or the id when it is not on the
// roster.
func (r Roster) Name(id ID) string {
	if p, ok := r.Get(id); ok {
		return p.Name
	}
	return string(id)
}

// All returns everybody, in order. The slice must not be changed.
func (r Roster) All() []Person { return r.people }

// Present counts those who are not away.
func (r Roster) Present() int {
	n := 0
	for _, p := range r.people {
		if !p.Away {
			n++
		}
	}
	return n
}

// HasHost reports whether a host is on the roster.
func (r Roster) HasHost() bool { return slices.ContainsFunc(r.people, Person.Host) }

func (r Roster) index(id ID) int {
	return slices.IndexFunc(r.people, func(p Person) bool { return p.ID == id })
}
