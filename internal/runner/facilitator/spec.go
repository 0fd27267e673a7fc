package facilitator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
	"github.com/iris-operator/iris/internal/chat"
)

// Errors of Rooms. What the SDK refuses is facilitate.ErrEvent, ErrConfig or
// ErrStepper.
var (
	// ErrUnknown is a room that does not exist, or a person who is not in it.
	ErrUnknown = errors.New("no such room or person")
	// ErrSpec is a room that cannot be made as it was described.
	ErrSpec = errors.New("room")
)

// A Spec describes a room. ID and Participants are required.
type Spec struct {
	// ID names the room, and the runner that answers in it.
	ID    string `json:"id"`
	Topic string `json:"topic"`
	// Surface is one of builtin's ("decisions"), Policy one of the presets
	// ("facilitator").
	Surface string `json:"surface,omitempty"`
	Policy  string `json:"policy,omitempty"`
	// Channel is the channel id of the room; empty: it has a session of its own.
	Channel      string     `json:"channel,omitempty"`
	Disclosure   Disclosure `json:"disclosure,omitzero"`
	Participants []Person   `json:"participants"`
}

// Disclosure is what the room learns of sealed contributions. It is fixed before
// the first one. 0 leaves the surface's own.
type Disclosure struct {
	// ExactFrom is how many voters it takes for exact counts to show at close.
	ExactFrom int `json:"exactFrom,omitempty"`
	// Support is how many it takes for a statement to show that shows by support.
	Support int `json:"support,omitempty"`
}

// A Person is a participant.
type Person struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	Role string `json:"role,omitempty"` // "host" may close items
	// User is the platform's id of the author; empty: ID.
	User string `json:"user,omitempty"`
	// Channel is the channel id of the private line; empty: one of its own.
	Channel string `json:"channel,omitempty"`
}

// maxID keeps the session of a private line, which holds two ids, within what a
// channel id may be.
const maxID = 40

func checkID(what, id string) error {
	if chat.CheckID(id) != nil || len(id) > maxID || principal.Check(principal.ID(id)) != nil {
		return fmt.Errorf("%w: %s %.50q: 1 to %d characters of a-z, 0-9, _ and -, none of the reserved words", ErrSpec, what, id, maxID)
	}
	return nil
}

// check returns the spec with its addresses filled in.
func (s Spec) check() (Spec, error) {
	if err := checkID("id", s.ID); err != nil {
		return s, err
	}
	if len(s.Participants) == 0 {
		return s, fmt.Errorf("%w: it needs participants", ErrSpec)
	}
	if _, err := s.surface(); err != nil {
		return s, err
	}
	if _, err := s.policy(); err != nil {
		return s, err
	}
	people := make([]Person, len(s.Participants))
	seen := map[string]bool{}
	address := func(channel *string, own string) error {
		if *channel == "" {
			*channel = chat.Address{Space: chat.Session, ID: own}.Channel()
		}
		if _, err := chat.Parse(*channel); err != nil {
			return fmt.Errorf("%w: %w", ErrSpec, err)
		}
		if seen[*channel] {
			return fmt.Errorf("%w: channel %s is used twice", ErrSpec, *channel)
		}
		seen[*channel] = true
		return nil
	}
	if err := address(&s.Channel, "room-"+s.ID); err != nil {
		return s, err
	}
	for i, p := range s.Participants {
		if err := checkID("participant", p.ID); err != nil {
			return s, err
		}
		if seen["id "+p.ID] {
			return s, fmt.Errorf("%w: participant %s is there twice", ErrSpec, p.ID)
		}
		seen["id "+p.ID] = true
		if p.Name == "" {
			p.Name = p.ID
		}
		if err := address(&p.Channel, "room-"+s.ID+"--"+p.ID); err != nil {
			return s, err
		}
		people[i] = p
	}
	s.Participants = people
	return s, nil
}

func (s Spec) surface() (*surface.Surface, error) {
	name := s.Surface
	if name == "" {
		name = "decisions"
	}
	if f := builtin.Named(name); f != nil {
		return f, nil
	}
	var known []string
	for _, f := range builtin.All() {
		known = append(known, f.Name)
	}
	return nil, fmt.Errorf("%w: no surface %.40q; there are %s", ErrSpec, name, strings.Join(known, ", "))
}

func (s Spec) policy() (policy.Policy, error) {
	name := s.Policy
	if name == "" {
		name = "facilitator"
	}
	p, err := policy.Preset(name)
	if err != nil {
		return p, fmt.Errorf("%w: no policy %.40q; there are %s", ErrSpec, name, strings.Join(policy.Names(), ", "))
	}
	if n := s.Disclosure.ExactFrom; n > 0 {
		p.NExact = n
	}
	if n := s.Disclosure.Support; n > 0 {
		p.K = n
	}
	return p, nil
}

func (s Spec) people() (out []facilitate.Participant) {
	for _, p := range s.Participants {
		out = append(out, facilitate.Participant{ID: facilitate.ID(p.ID), Name: p.Name, Role: p.Role})
	}
	return out
}

// author finds who a message is from.
func (s Spec) author(from chat.Person) (facilitate.ID, bool) {
	for _, p := range s.Participants {
		if p.User != "" && p.User == from.ID || p.User == "" && p.ID == from.ID {
			return facilitate.ID(p.ID), true
		}
	}
	return "", false
}

// Address is where the room is, in a Spec that Rooms returned.
func (s Spec) Address() chat.Address {
	a, _ := chat.Parse(s.Channel) // check has parsed it
	return a
}

// line returns the address of a private line.
func (s Spec) line(id facilitate.ID) (chat.Address, bool) {
	for _, p := range s.Participants {
		if p.ID == string(id) {
			a, err := chat.Parse(p.Channel)
			return a, err == nil
		}
	}
	return chat.Address{}, false
}
