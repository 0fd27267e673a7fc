package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/rehearsal"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// openRooms makes the facilitated rooms.
func (s *server) openRooms(h *house) (err error) {
	h.rooms, err = facilitator.New(facilitator.Options{
		Dir: roomsDir(s.opts.Config),
		Submit: func(ctx context.Context, sub transport.Submission) (transport.Receipt, error) {
			return h.engine.Submit(ctx, sub)
		},
		Sync:  func(ctx context.Context) error { return h.journal.Sync(ctx) },
		Model: func(ctx context.Context) flow.Model { return s.roomModel(ctx, h) },
		Taken: func(name string) bool {
			taken := append([]string{nativeRunner}, h.agentNames()...)
			if h.cli != nil {
				taken = append(taken, h.cli.Names()...)
			}
			return slices.ContainsFunc(taken, func(other string) bool { return strings.EqualFold(other, name) })
		},
		Screen: screen{h},
		Tell: func(ctx context.Context, room, text string) error {
			h.desk.Tell(ctx, "The room "+room+" asks for you: "+text)
			return nil
		},
		Logger: s.log,
	})
	return err
}

// roomModel is the model that thinks for rooms; nil, the rules of the offline
// mind, where there is only the rehearsal.
func (s *server) roomModel(ctx context.Context, h *house) flow.Model {
	list, err := h.models.candidates(ctx)
	if err != nil || len(list) == 0 || list[0].Info().Provider == rehearsal.Name {
		return nil
	}
	cfg := s.opts.Config.Model
	m := llm.WithSilence(list[0], cfg.Timeout.Duration())
	return facilitator.Model(llm.WithRetry(m, llm.RetryOptions{Max: cfg.Retries, Base: cfg.Base.Duration()}))
}

// findRunner finds agents and rooms, which share one namespace; an agent that
// came later than a room of its name does not take it over.
func (h *house) findRunner(name string) (runner.Runner, bool) {
	if r, ok := h.rooms.Runner(name); ok {
		return r, true
	}
	return h.subagents.Runner(name)
}

// councils answers the API for the rooms.
type councils struct{ *facilitator.Rooms }

var _ api.Rooms = councils{}

// List implements api.Rooms.
func (c councils) List(context.Context) (any, error) { return c.Rooms.List(), nil }

// Create implements api.Rooms.
func (c councils) Create(_ context.Context, raw json.RawMessage) (any, error) {
	var spec facilitator.Spec
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, api.Refusal(http.StatusBadRequest, "invalid room: "+err.Error())
	}
	made, err := c.Rooms.Create(spec)
	return made, refusal(err)
}

// View implements api.Rooms.
func (c councils) View(ctx context.Context, room, viewer string) (any, error) {
	v, err := c.Rooms.View(ctx, room, viewer)
	return v, refusal(err)
}

// roomEvent is an event on the wire.
type roomEvent struct {
	Type    facilitate.Type `json:"type"`
	Author  facilitate.ID   `json:"author"`
	Text    string          `json:"text"`
	Line    uint64          `json:"line"`
	Item    string          `json:"item"`
	Field   string          `json:"field"`
	Options []string        `json:"options"`
	Value   map[string]any  `json:"value"`
	Release string          `json:"release"`
	Yes     bool            `json:"yes"`
	Name    string          `json:"name"`
	Role    string          `json:"role"`
}

func (e roomEvent) event() facilitate.Event {
	return facilitate.Event{Type: e.Type, Author: e.Author, Text: e.Text, Line: e.Line, Item: e.Item, Field: e.Field,
		Options: e.Options, Value: e.Value, Release: e.Release, Yes: e.Yes, Name: e.Name, Role: e.Role}
}

func readEvent(raw json.RawMessage) (facilitate.Event, error) {
	var e roomEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return facilitate.Event{}, api.Refusal(http.StatusBadRequest, "invalid event: "+err.Error())
	}
	return e.event(), nil
}

// Event implements api.Rooms.
func (c councils) Event(ctx context.Context, room, key string, raw json.RawMessage) (turn.ID, error) {
	ev, err := readEvent(raw)
	if err != nil {
		return "", err
	}
	ev.Key = key
	id, err := c.Do(ctx, room, ev)
	return id, refusal(err)
}

// Step implements api.Rooms.
func (c councils) Step(ctx context.Context, room string, raw json.RawMessage) (any, error) {
	var o struct {
		Op     string          `json:"op"`
		N      int             `json:"n"`
		Branch string          `json:"branch"`
		Event  json.RawMessage `json:"event"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, api.Refusal(http.StatusBadRequest, "invalid order: "+err.Error())
	}
	order := facilitator.Order{Op: o.Op, N: o.N, Branch: o.Branch}
	if len(o.Event) > 0 && string(o.Event) != "null" {
		ev, err := readEvent(o.Event)
		if err != nil {
			return nil, err
		}
		order.Event = &ev
	}
	state, err := c.Rooms.Step(ctx, room, order)
	return state, refusal(err)
}

// refusal gives what a room refuses its status. The sentences hold nothing
// sealed: they are about the request.
func refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, facilitator.ErrUnknown):
		return api.Refusal(http.StatusNotFound, err.Error())
	case errors.Is(err, facilitator.ErrSpec), errors.Is(err, facilitate.ErrEvent), errors.Is(err, facilitate.ErrConfig), errors.Is(err, facilitate.ErrStepper):
		return api.Refusal(http.StatusBadRequest, strings.TrimPrefix(err.Error(), "facilitate: "))
	}
	return err
}
