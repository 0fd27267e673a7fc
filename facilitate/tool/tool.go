// Package tool is what Iris can do: each tool has one audience and gets a host
// that reaches that audience and nothing else. A [RoomTool] is handed a public
// text, a [PersonTool] a private one and the line to that one person, a
// [HostTool] what may be told to whoever runs the room, and a [SelfTool] nothing
// but a timer of Iris's own; none sees the agent. Guards, in the same package,
// say when to be quiet.
package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/principal"
)

// The intents of acts on the room.
const (
	OpenQuestion   = "open_question"
	NameTension    = "name_tension"
	ListOptions    = "list_options"
	HoldSpace      = "hold_space"
	InviteQuiet    = "invite_quiet"
	ProposeProcess = "propose_process"
	CheckDecision  = "check_decision"
	CarryRelease   = "carry_release"
	Recap          = "recap"
	AnswerDirect   = "answer_direct"
)

// The intents of acts on one person. AnswerDirect is one of them too.
const (
	DiscoverSpecific = "discover_specific"
	ReflectBack      = "reflect_back"
	AskConsent       = "ask_consent"
	CoachWording     = "coach_wording"
	NudgeIntent      = "nudge"
	Receipt          = "receipt"
)

// RoomIntents lists what a post may mean.
func RoomIntents() []string {
	return []string{OpenQuestion, NameTension, ListOptions, HoldSpace, InviteQuiet, ProposeProcess, CheckDecision, CarryRelease, Recap, AnswerDirect}
}

// PersonIntents lists what a private line may mean.
func PersonIntents() []string {
	return []string{DiscoverSpecific, ReflectBack, AskConsent, CoachWording, NudgeIntent, Receipt, AnswerDirect}
}

// The intents of acts on whoever runs the room.
const (
	Stuck     = "stuck"
	Conflict  = "conflict"
	Safety    = "safety"
	NeedsHost = "needs_host"
)

// The intents of a timer of Iris's own.
const (
	Soon     = "soon"
	Later    = "later"
	Tomorrow = "tomorrow"
)

// A Spec describes a tool. Silent tools need no text, so no model is asked.
type Spec struct {
	Name        string
	Description string
	Intents     []string // the closed set a choice picks from
	Silent      bool
	// OnItem tools act on the item in focus; a choice without one is refused.
	OnItem bool
}

// A RoomHost is what a tool on the room may do. Calls after the tool has
// returned do nothing and answer an error.
type RoomHost interface {
	// Post says text in the room. An empty text does nothing.
	Post(ctx context.Context, text flow.Text[flow.Room]) error
	// React puts one of [Emoji] on the newest line of a person.
	React(ctx context.Context, emoji string) error
	// Board is the shared board, with the item in focus.
	Board() Board
}

// A Board is what a tool on the room may do with the board. It writes no words
// on it: those are the people's.
type Board interface {
	// Read returns the lines of the board as everybody sees it.
	Read() flow.Text[flow.Room]
	// Pin puts the item in focus before the others; one at a time is pinned.
	// An item that is pinned already is left as it is.
	Pin(ctx context.Context) error
	// OpenPoll says text in the room and opens the vote on the item in focus:
	// its options are fixed from now on. It does nothing where the surface has no
	// vote on options, the item has fewer than two, or the vote is open.
	OpenPoll(ctx context.Context, text flow.Text[flow.Room]) error
}

// A PersonHost reaches one person.
type PersonHost interface {
	// Send says text to that person. An empty text does nothing.
	Send(ctx context.Context, text flow.Text[flow.Person]) error
}

// A HostHost reaches whoever runs the room.
type HostHost interface {
	// Tell says text to the host. An empty text does nothing.
	Tell(ctx context.Context, text flow.Text[flow.Host]) error
}

// A SelfHost reaches Iris's own timer.
type SelfHost interface {
	// Plan asks for a tick of that name after some time. A plan of that name that
	// did not come yet is replaced.
	Plan(ctx context.Context, name string, after time.Duration) error
}

// A RoomTool acts on the room.
type RoomTool interface {
	Spec() Spec
	Run(ctx context.Context, h RoomHost, intent string, text flow.Text[flow.Room]) error
}

// A PersonTool acts on one person.
type PersonTool interface {
	Spec() Spec
	Run(ctx context.Context, h PersonHost, intent string, text flow.Text[flow.Person]) error
}

// A HostTool asks for the help of whoever runs the room. Its text was written
// from what the room sees.
type HostTool interface {
	Spec() Spec
	Run(ctx context.Context, h HostHost, intent string, text flow.Text[flow.Host]) error
}

// A SelfTool acts on Iris alone. It is never asked for a text.
type SelfTool interface {
	Spec() Spec
	Run(ctx context.Context, h SelfHost, intent string) error
}

// ErrName is a tool without a usable name, or with one that is taken.
var ErrName = errors.New("not a tool name")

// A Set is the tools of an agent.
type Set struct {
	room   map[string]RoomTool
	person map[string]PersonTool
	host   map[string]HostTool
	self   map[string]SelfTool
	order  []string
}

// NewSet registers tools, each a [RoomTool], [PersonTool], [HostTool] or
// [SelfTool]. Names are as ids are, and "none" is taken.
func NewSet(tools ...any) (*Set, error) {
	s := &Set{room: map[string]RoomTool{}, person: map[string]PersonTool{}, host: map[string]HostTool{}, self: map[string]SelfTool{}}
	for _, t := range tools {
		d, ok := t.(interface{ Spec() Spec })
		if !ok {
			return nil, fmt.Errorf("%T is no tool", t)
		}
		name := d.Spec().Name
		if _, taken := s.Spec(name); taken || !principal.Valid(name) || name == "none" {
			return nil, fmt.Errorf("%q: %w", name, ErrName)
		}
		switch x := t.(type) {
		case RoomTool:
			s.room[name] = x
		case PersonTool:
			s.person[name] = x
		case HostTool:
			s.host[name] = x
		case SelfTool:
			s.self[name] = x
		default:
			return nil, fmt.Errorf("%T has no Run of a tool", t)
		}
		s.order = append(s.order, name)
	}
	return s, nil
}

// Room returns the tool on the room of that name.
func (s *Set) Room(name string) (RoomTool, bool) { t, ok := s.room[name]; return t, ok }

// Person returns the tool on a person of that name.
func (s *Set) Person(name string) (PersonTool, bool) { t, ok := s.person[name]; return t, ok }

// Host returns the tool on whoever runs the room of that name.
func (s *Set) Host(name string) (HostTool, bool) { t, ok := s.host[name]; return t, ok }

// Self returns the tool on Iris herself of that name.
func (s *Set) Self(name string) (SelfTool, bool) { t, ok := s.self[name]; return t, ok }

// Hosts reports whether any tool reaches whoever runs the room.
func (s *Set) Hosts() bool { return len(s.host) > 0 }

// Names lists the tools in order of registration.
func (s *Set) Names() []string { return s.order }

// Spec returns the description of a tool.
func (s *Set) Spec(name string) (Spec, bool) {
	if t, ok := s.room[name]; ok {
		return t.Spec(), true
	}
	if t, ok := s.person[name]; ok {
		return t.Spec(), true
	}
	if t, ok := s.host[name]; ok {
		return t.Spec(), true
	}
	if t, ok := s.self[name]; ok {
		return t.Spec(), true
	}
	return Spec{}, false
}
