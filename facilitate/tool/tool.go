// Package tool is what Iris can do: each tool has one audience and gets a host
// that reaches that audience and nothing else. A [RoomTool] is handed a public
// text, a [PersonTool] a private one and the line to that one person; neither
// sees the agent. Guards, in the same package, say when to be quiet.
package tool

import (
	"context"
	"errors"
	"fmt"

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

// A Spec describes a tool. Silent tools need no text, so no model is asked.
type Spec struct {
	Name        string
	Description string
	Intents     []string // the closed set a choice picks from
	Silent      bool
}

// A RoomHost is what a tool on the room may do. Calls after the tool has
// returned do nothing and answer an error.
type RoomHost interface {
	// Post says text in the room. An empty text does nothing.
	Post(ctx context.Context, text flow.Text[flow.Room]) error
	// React puts one of [Emoji] on the newest line of a person.
	React(ctx context.Context, emoji string) error
}

// A PersonHost reaches one person.
type PersonHost interface {
	// Send says text to that person. An empty text does nothing.
	Send(ctx context.Context, text flow.Text[flow.Person]) error
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

// ErrName is a tool without a usable name, or with one that is taken.
var ErrName = errors.New("not a tool name")

// A Set is the tools of an agent.
type Set struct {
	room   map[string]RoomTool
	person map[string]PersonTool
	order  []string
}

// NewSet registers tools, each a [RoomTool] or a [PersonTool]. Names are as
// ids are, and "none" is taken.
func NewSet(tools ...any) (*Set, error) {
	s := &Set{room: map[string]RoomTool{}, person: map[string]PersonTool{}}
	for _, t := range tools {
		var spec Spec
		switch x := t.(type) {
		case RoomTool:
			spec = x.Spec()
			if s.room[spec.Name] == nil {
				s.room[spec.Name] = x
			} else {
				return nil, fmt.Errorf("%q twice: %w", spec.Name, ErrName)
			}
		case PersonTool:
			spec = x.Spec()
			if s.person[spec.Name] == nil {
				s.person[spec.Name] = x
			} else {
				return nil, fmt.Errorf("%q twice: %w", spec.Name, ErrName)
			}
		default:
			return nil, fmt.Errorf("%T is neither a RoomTool nor a PersonTool", t)
		}
		if !principal.Valid(spec.Name) || spec.Name == "none" || s.room[spec.Name] != nil && s.person[spec.Name] != nil {
			return nil, fmt.Errorf("%q: %w", spec.Name, ErrName)
		}
		s.order = append(s.order, spec.Name)
	}
	return s, nil
}

// Room returns the tool on the room of that name.
func (s *Set) Room(name string) (RoomTool, bool) { t, ok := s.room[name]; return t, ok }

// Person returns the tool on a person of that name.
func (s *Set) Person(name string) (PersonTool, bool) { t, ok := s.person[name]; return t, ok }

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
	return Spec{}, false
}
