// Package surface describes the shared artifact of a room: which fields an item
// has, who may write them, what each person contributes under seal and what of
// it shows. A [Surface] is data with a few pure functions; package room merges
// by it and package disclose decides what is published. Six surfaces lie below.
package surface

import (
	"fmt"
	"slices"

	"github.com/iris-operator/iris/facilitate/disclose"
)

// A Writer says who may set a field of an item.
type Writer uint8

// The writers.
const (
	// Agent fields come from the room-level beat.
	Agent Writer = iota
	// Proposer fields come from the room-level beat too, but only in the name
	// of the author of a cited public line.
	Proposer
	// Host fields come from an event of a host.
	Host
	// Derived fields are computed by the engine.
	Derived
	// Released fields take only the exact words of a released statement.
	Released
)

// A Field is a public field of an item.
type Field struct {
	Name     string
	Writer   Writer
	List     bool   // a list of options; else one text
	Evidence bool   // a change cites public lines that carry its words
	Freeze   bool   // fixed from the first contribution on
	OnlyIn   string // set only together with or in this status
}

// A Kind is the shape of one slot of a contribution.
type Kind uint8

// The kinds of slots.
const (
	Word   Kind = iota // one of Of
	Option             // the label of an option in the list field Ref
	Set                // several of them
	Number             // a whole number in [Min, Max]
	Text               // free words; sealed for good, never counted
	Flag               // true or false
)

// A Slot is one part of a sealed contribution.
type Slot struct {
	Name     string
	Kind     Kind
	Of       []string
	Ref      string
	Min, Max int
	Optional bool
}

// A Value is a validated contribution: string, int, bool or []string by slot.
type Value map[string]any

// Word returns the string under name, or "".
func (v Value) Word(name string) string { s, _ := v[name].(string); return s }

// Int returns the number under name, or 0.
func (v Value) Int(name string) int { n, _ := v[name].(int); return n }

// Set returns the strings under name, or nil.
func (v Value) Set(name string) []string { s, _ := v[name].([]string); return s }

// A Surface declares items. The functions in it must be pure and total; they
// see one value at a time, never whose it is, so what the room learns from
// them cannot depend on order, time or person. Any function may be nil.
type Surface struct {
	Name  string
	About string // one sentence for the prompt

	Shared       []Field // public fields; the first is the label
	Status       string  // name of the status field
	Notes        []string
	Contribution []Slot

	Statuses []string            // the first is the initial one
	Next     map[string][]string // legal changes
	Closing  []string            // statuses in which no contribution counts any more
	Reopens  bool                // a closing status may be left again

	Policy      disclose.Policy
	OwnHand     bool   // contributions come only from the person's own event, never from a model
	Versioned   string // a field; new words in it void the contributions so far
	VersionIn   string // the derived field that shows the version
	HiddenBelow bool   // an item shows only with K supporters or a named statement

	Voices    string               // result name for the count of people who spoke on an item in public
	Count     func(Value) []string // the keys a value adds to
	Keys      []string             // the keys, where they are not the options of List
	List      string               // the list field whose labels are the keys
	Veto      func(Value) []string // keys that cannot win
	Outcome   string               // result or derived field that names the leading key
	Supports  func(Value) bool     // counts towards the threshold statement
	Statement string               // "%d" is K: shown when K support
	Unanimous string               // a status that needs everybody present to agree
	Agrees    func(Value) bool
}

// Label is the name of the first shared field.
func (s *Surface) Label() string { return s.Shared[0].Name }

// Field returns the public field of that name.
func (s *Surface) Field(name string) (Field, bool) {
	i := slices.IndexFunc(s.Shared, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return s.Shared[i], true
}

// Closes reports whether no contribution counts any more in status.
func (s *Surface) Closes(status string) bool { return slices.Contains(s.Closing, status) }

// Legal reports whether an item may go from one status to another. Staying is
// legal.
func (s *Surface) Legal(from, to string) bool {
	if !slices.Contains(s.Statuses, to) {
		return false
	}
	if from == "" || from == to {
		return true
	}
	if s.Closes(from) && !s.Closes(to) && !s.Reopens {
		return false
	}
	return slices.Contains(s.Next[from], to)
}

// Ballot is the slot that holds a vote on the options of List, or "".
func (s *Surface) Ballot() string {
	if s.Count == nil || s.List == "" {
		return ""
	}
	for _, c := range s.Contribution {
		if c.Kind == Option && c.Ref == s.List {
			return c.Name
		}
	}
	return ""
}

// Validate reports what is wrong with the declaration.
func (s *Surface) Validate() error {
	if s == nil || s.Name == "" || len(s.Shared) == 0 || len(s.Statuses) == 0 {
		return fmt.Errorf("surface: name, a shared field and a status are required")
	}
	if _, ok := s.Field(s.Status); !ok || s.Shared[0].List {
		return fmt.Errorf("surface %s: status field %q is not declared, or the label is a list", s.Name, s.Status)
	}
	seen := map[string]bool{"id": true}
	for _, f := range s.Shared {
		if seen[f.Name] || f.Name == "" {
			return fmt.Errorf("surface %s: field %q is empty or declared twice", s.Name, f.Name)
		}
		seen[f.Name] = true
	}
	for from, tos := range s.Next {
		for _, st := range append([]string{from}, tos...) {
			if !slices.Contains(s.Statuses, st) {
				return fmt.Errorf("surface %s: %q is not a status", s.Name, st)
			}
		}
	}
	for _, st := range s.Closing {
		if !slices.Contains(s.Statuses, st) {
			return fmt.Errorf("surface %s: %q is not a status", s.Name, st)
		}
	}
	for _, c := range s.Contribution {
		if f, ok := s.Field(c.Ref); (c.Kind == Option || c.Kind == Set) && (!ok || !f.List) {
			return fmt.Errorf("surface %s: slot %q refers to %q, which is no list", s.Name, c.Name, c.Ref)
		}
	}
	return nil
}
