package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/transport"
)

// screen is the chats of all platforms for the rooms: private lines, ballots and
// boards. They take no way through the journal or the outbox, which keep no sealed
// text; the rooms' own ledger keeps what is there. Not all of a platform's pace is
// known here, so one call at a time is made for a room, and a refusal is waited out.
type screen struct{ h *house }

var _ facilitator.Screen = screen{}

// errNoPlace is an address on a platform that is not there.
var errNoPlace = errors.New("no platform shows this address")

// at finds the platform of an address.
func (s screen) at(to chat.Address) (transport.Platform, transport.Place, bool) {
	for _, p := range s.h.posts {
		if place, ok := p.out.Place(to, nil); ok {
			return p.out, place, true
		}
	}
	return nil, transport.Place{}, false
}

// Render implements facilitator.Screen.
func (s screen) Render(to chat.Address, v transport.View) ([]transport.Body, bool) {
	out, _, ok := s.at(to)
	if !ok {
		return nil, false
	}
	return out.Render(v), true
}

// Post implements facilitator.Screen.
func (s screen) Post(ctx context.Context, to chat.Address, m transport.Outgoing) (string, error) {
	out, place, ok := s.at(to)
	if !ok {
		return "", errNoPlace
	}
	return out.Post(ctx, place, m)
}

// Edit implements facilitator.Screen.
func (s screen) Edit(ctx context.Context, to chat.Address, id string, m transport.Outgoing) error {
	out, place, ok := s.at(to)
	if !ok {
		return errNoPlace
	}
	return out.Edit(ctx, place, id, m)
}

// Find implements facilitator.Screen.
func (s screen) Find(ctx context.Context, to chat.Address, m transport.Mark, since time.Time) (string, error) {
	out, place, ok := s.at(to)
	if !ok {
		return "", errNoPlace
	}
	return out.Find(ctx, place, m, since)
}

// Pin implements facilitator.Screen.
func (s screen) Pin(ctx context.Context, to chat.Address, id string) error {
	out, place, ok := s.at(to)
	pins, can := out.(transport.Pinner)
	if !ok || !can {
		return &transport.SendError{Fault: transport.Refused, Err: errors.New("this platform pins nothing")}
	}
	return pins.Pin(ctx, place, id)
}

// guest reports whether somebody takes part in the room that an address belongs
// to: in the room itself any participant, on a private line whose it is.
func (h *house) guest(conv chat.Address, user string) bool {
	spec, who, ok := h.rooms.Find(conv)
	if !ok {
		return false
	}
	for _, p := range spec.Participants {
		if p.User == user && p.User != "" && (who == "" || string(who) == p.ID) {
			return true
		}
	}
	return false
}

// pressed takes the buttons of rooms; everything else is an answer to a question
// of a runner.
func (h *house) pressed(next func(context.Context, transport.Answer) (transport.Reply, error)) func(context.Context, transport.Answer) (transport.Reply, error) {
	return func(ctx context.Context, a transport.Answer) (transport.Reply, error) {
		if strings.HasPrefix(a.Ask, facilitator.Pressed) {
			return h.rooms.Press(ctx, a)
		}
		return next(ctx, a)
	}
}
