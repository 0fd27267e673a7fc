package facilitate

import (
	"context"
	"errors"
	"fmt"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
)

// ErrEvent is an event of an unknown type, or one that cannot be applied.
// Nothing was stored.
var ErrEvent = errors.New("facilitate: event")

// ErrClosed is what a closed agent answers.
var ErrClosed = errors.New("facilitate: closed")

// A Type is a type of event.
type Type string

// The types of events.
const (
	TMessage      Type = "message"
	TCaucus       Type = "caucus"
	TContribution Type = "contribution"
	TConsent      Type = "consent"
	TRevoke       Type = "revoke"
	TOpen         Type = "open"
	TSet          Type = "set"
	TJoin         Type = "join"
	TLeave        Type = "leave"
	TEdit         Type = "edit"
	TDelete       Type = "delete"
	TTick         Type = "tick"
	THook         Type = "hook"
	TOptOut       Type = "optout"
	TErase        Type = "erase"
)

// An Event is something that happened. The functions below make one of each
// type. Author is who did it as the platform vouches for it; it is taken here,
// before any model is asked, and nothing later changes it.
type Event struct {
	Type   Type
	Key    string // idempotency key: a repeat is acknowledged and ignored; empty never is one
	Author principal.ID

	Text     string // message, caucus, edit, hook payload, open label, set value, opt-out scope
	ReplyTo  uint64
	External string // the platform's id of a message
	Line     uint64 // edit, delete: number of the public line
	Item     string // contribution, open, set
	Field    string // set
	Options  []string
	Value    map[string]any // contribution
	Release  string         // consent, revoke: id as the question showed it
	Yes      bool           // consent
	Name     string         // tick, hook source, join
	Role     string         // join
}

// Message is a public line.
func Message(author principal.ID, text string) Event {
	return Event{Type: TMessage, Author: author, Text: text}
}

// Caucus is a line on the author's private line.
func Caucus(author principal.ID, text string) Event {
	return Event{Type: TCaucus, Author: author, Text: text}
}

// Contribution is a sealed contribution by the author's own hand.
func Contribution(author principal.ID, item string, value map[string]any) Event {
	return Event{Type: TContribution, Author: author, Item: item, Value: value}
}

// Consent answers the question for a release.
func Consent(author principal.ID, release string, yes bool) Event {
	return Event{Type: TConsent, Author: author, Release: release, Yes: yes}
}

// Revoke takes a release back before it is delivered.
func Revoke(author principal.ID, release string) Event {
	return Event{Type: TRevoke, Author: author, Release: release}
}

// OpenItem opens an item by form, with its options.
func OpenItem(author principal.ID, id, label string, options ...string) Event {
	return Event{Type: TOpen, Author: author, Item: id, Text: label, Options: options}
}

// Set sets a field by form; a host's, or anybody's where there is no host.
func Set(author principal.ID, item, field, value string) Event {
	return Event{Type: TSet, Author: author, Item: item, Field: field, Text: value}
}

// Join adds a person to the room.
func Join(p Participant) Event {
	return Event{Type: TJoin, Author: p.ID, Name: p.Name, Role: p.Role}
}

// Leave marks a person as away.
func Leave(author principal.ID) Event { return Event{Type: TLeave, Author: author} }

// Edit gives an own public line new words.
func Edit(author principal.ID, line uint64, text string) Event {
	return Event{Type: TEdit, Author: author, Line: line, Text: text}
}

// Delete takes an own public line back.
func Delete(author principal.ID, line uint64) Event {
	return Event{Type: TDelete, Author: author, Line: line}
}

// Tick is a timer; it also lets a consented statement be delivered.
func Tick(name string) Event { return Event{Type: TTick, Name: name} }

// Hook is a line from another program, shown as the system's.
func Hook(source, payload string) Event { return Event{Type: THook, Name: source, Text: payload} }

// OptOut keeps Iris from the author's private line ("caucus"), from a record
// about them ("record"), or both ("all").
func OptOut(author principal.ID, scope string) Event {
	return Event{Type: TOptOut, Author: author, Text: scope}
}

// Erase removes everything the author said and everything derived from it.
func Erase(author principal.ID) Event { return Event{Type: TErase, Author: author} }

// Last is the event that came last, without what is sealed.
type Last struct {
	Author  principal.ID
	Channel Type
}

// Ingest journals a public line by author and returns it as the room has it.
// It asks no model.
func (a *Agent) Ingest(ctx context.Context, author principal.ID, text string) (room.Message, error) {
	entries, err := a.take(ctx, Message(author, text))
	if err != nil || len(entries) == 0 {
		return room.Message{}, err
	}
	m := *open.Open(entries[0].Body).Message
	m.Seq = a.lineOf(entries[0].Seq)
	return m, nil
}

// IngestCaucus journals a line on the private line of author. It asks no model
// and is no public event. A whole message out of the closed list of phrases
// answers the one open question there is.
func (a *Agent) IngestCaucus(ctx context.Context, author principal.ID, text string) error {
	_, err := a.take(ctx, Caucus(author, text))
	return err
}

// AddCaucusReply appends a line of Iris to a private line without a turn, for
// a host that said something in her name.
func (a *Agent) AddCaucusReply(ctx context.Context, id principal.ID, text string) error {
	_, err := a.add(ctx, draft{kind: room.KCaucus, level: flow.RankPerson, owner: id, body: room.Body{Line: &room.Line{From: principal.Iris, Text: text}}})
	return err
}

// Take journals an event without a turn.
func (a *Agent) Take(ctx context.Context, ev Event) error {
	if ev.Type == TErase {
		return a.erase(ctx, ev.Author)
	}
	_, err := a.take(ctx, ev)
	return err
}

func (a *Agent) take(ctx context.Context, ev Event) ([]room.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Seen(ev.Key) {
		return nil, nil
	}
	ds, err := drafts(&a.state, ev)
	if err != nil {
		return nil, err
	}
	entries, err := a.addLocked(ctx, ds...)
	if err != nil {
		return nil, fmt.Errorf("%w %s by %q: %w", ErrEvent, ev.Type, ev.Author, err)
	}
	a.events = entries[0].Seq
	a.last, a.choice = &Last{ev.Author, ev.Type}, nil
	return entries, nil
}

// drafts turns an event into entries. It reads the state only to see which
// question a phrase answers.
func drafts(s *room.State, ev Event) ([]draft, error) {
	body := room.Body{Key: ev.Key, Author: ev.Author, Item: ev.Item, Release: ev.Release}
	public := func(k room.Kind) []draft { return []draft{{kind: k, level: flow.RankRoom, body: body}} }
	sealed := func(k room.Kind) []draft {
		return []draft{{kind: k, level: flow.RankPerson, owner: ev.Author, body: body}}
	}
	if ev.Type != TJoin && ev.Type != TTick && ev.Type != THook && !s.People.Has(ev.Author) {
		return nil, fmt.Errorf("%w %s by %q: %w", ErrEvent, ev.Type, ev.Author, principal.ErrUnknown)
	}
	switch ev.Type {
	case TMessage:
		body.Message = &room.Message{Author: ev.Author, Text: ev.Text, ReplyTo: ev.ReplyTo, External: ev.External}
		return public(room.KMessage), nil
	case THook:
		body.Message = &room.Message{Author: principal.System, Text: ev.Name + ": " + ev.Text}
		return public(room.KMessage), nil
	case TCaucus:
		body.Line = &room.Line{From: ev.Author, Text: ev.Text}
		return append(sealed(room.KCaucus), phrase(s, ev)...), nil
	case TContribution:
		body.Value = ev.Value
		if body.Value == nil {
			return nil, fmt.Errorf("%w: a contribution without a value", ErrEvent)
		}
		return sealed(room.KCast), nil
	case TConsent:
		if body.Answer = "decline"; ev.Yes {
			body.Answer = "grant"
		}
		return sealed(room.KAnswer), nil
	case TRevoke:
		body.Answer = "revoke"
		return sealed(room.KAnswer), nil
	case TOpen:
		body.Text, body.Options = ev.Text, ev.Options
		return public(room.KOpen), nil
	case TSet:
		body.Text, body.Field = ev.Text, ev.Field
		return public(room.KSet), nil
	case TJoin:
		body.Person = &principal.Person{ID: ev.Author, Name: ev.Name, Role: ev.Role}
		return public(room.KJoin), nil
	case TLeave:
		body.Person = &principal.Person{ID: ev.Author}
		return public(room.KLeave), nil
	case TEdit, TDelete:
		body.Message = &room.Message{Seq: ev.Line, Text: ev.Text}
		if ev.Type == TEdit {
			return public(room.KEdit), nil
		}
		return public(room.KDelete), nil
	case TTick:
		body.Tick = ev.Name
		return []draft{{kind: room.KTick, level: flow.RankSelf, body: body}}, nil
	case TOptOut:
		if ev.Text != "caucus" && ev.Text != "record" && ev.Text != "all" {
			return nil, fmt.Errorf("%w: opt out of %q", ErrEvent, ev.Text)
		}
		body.Text = ev.Text
		return sealed(room.KOptOut), nil
	}
	return nil, fmt.Errorf("%w: unknown type %q", ErrEvent, ev.Type)
}

// phrase is the answer that a private line gives to the one open question.
func phrase(s *room.State, ev Event) []draft {
	box, _ := s.File(ev.Author)
	f := open.Open(box)
	pending := f.Pending()
	said := release.Read(ev.Text)
	if len(pending) != 1 || said == release.None {
		return nil
	}
	answer := map[release.Answer]string{release.Yes: "grant", release.No: "decline"}[said]
	return []draft{{kind: room.KAnswer, level: flow.RankPerson, owner: ev.Author, body: room.Body{Release: pending[0].ID, Answer: answer}}}
}
