package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// Rooms are the facilitated rooms. What they return is written as JSON; what they
// refuse should come from [Refusal].
type Rooms interface {
	List(ctx context.Context) (any, error)
	// Create makes a room from its description in JSON.
	Create(ctx context.Context, spec json.RawMessage) (any, error)
	// View returns a room as a viewer may see it: "" for everybody, the id of a
	// participant, or "self" for Iris's own side.
	View(ctx context.Context, room, viewer string) (any, error)
	// Event takes an event and returns the turn that reacts to it, empty if one
	// that waits already will. key, when not empty, makes a repeat change nothing.
	Event(ctx context.Context, room, key string, event json.RawMessage) (turn.ID, error)
	// Step moves the stepper of a room.
	Step(ctx context.Context, room string, order json.RawMessage) (any, error)
}

// Refusal is an answer with that status and sentence.
func Refusal(status int, text string) error { return &problem{Status: status, Text: text} }

func (s *Server) rooms() (Rooms, error) {
	if s.opts.Rooms == nil {
		return nil, missing("there are no rooms here")
	}
	return s.opts.Rooms, nil
}

func (s *Server) roomList(w http.ResponseWriter, r *http.Request, _ caller) error {
	all, err := s.rooms()
	if err != nil {
		return err
	}
	list, err := all.List(r.Context())
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"rooms": list})
	return nil
}

// withBody reads a JSON object and writes what run makes of it.
func (s *Server) withBody(w http.ResponseWriter, r *http.Request, status int, run func(Rooms, json.RawMessage) (any, error)) error {
	all, err := s.rooms()
	if err != nil {
		return err
	}
	body, err := decode[map[string]json.RawMessage](s, w, r)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	out, err := run(all, raw)
	if err != nil {
		return err
	}
	answer(w, status, out)
	return nil
}

func (s *Server) roomCreate(w http.ResponseWriter, r *http.Request, _ caller) error {
	return s.withBody(w, r, http.StatusCreated, func(all Rooms, spec json.RawMessage) (any, error) {
		return all.Create(r.Context(), spec)
	})
}

// roomView shows a room at the level that as names; what a level may see is up
// to the room's store, not to whoever draws it.
func (s *Server) roomView(w http.ResponseWriter, r *http.Request, _ caller) error {
	all, err := s.rooms()
	if err != nil {
		return err
	}
	v, err := all.View(r.Context(), r.PathValue("room"), r.URL.Query().Get("as"))
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, v)
	return nil
}

// roomEvent takes an event and waits for what comes of it. The words of a private
// reaction are not in the answer: they are on that person's line.
func (s *Server) roomEvent(w http.ResponseWriter, r *http.Request, _ caller) error {
	return s.withBody(w, r, http.StatusOK, func(all Rooms, event json.RawMessage) (any, error) {
		out := struct {
			Turn turn.ID `json:"turn,omitempty"`
			// Text is what Iris said to the room.
			Text string `json:"text,omitempty"`
		}{}
		id, err := all.Event(context.WithoutCancel(r.Context()), r.PathValue("room"), r.Header.Get("Idempotency-Key"), event)
		if err != nil || id == "" || prefersAsync(r.Header.Values("Prefer")) {
			out.Turn = id
			return out, err
		}
		out.Turn = id
		ctx, cancel := context.WithTimeout(r.Context(), s.opts.Timeout)
		defer cancel()
		defer context.AfterFunc(s.leaving, cancel)()
		end, err := s.opts.Engine.Wait(ctx, id)
		switch {
		case errors.Is(err, transport.ErrUnknownTurn):
			return out, nil
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return out, &problem{Status: http.StatusGatewayTimeout, Text: "the event is taken; the room has not reacted yet", Code: turn.CodeTimeout, Turn: id}
		case err != nil:
			return out, err
		case end.Kind == turn.Failed:
			return out, failure(end)
		}
		out.Text = end.Text
		return out, nil
	})
}

func (s *Server) roomStep(w http.ResponseWriter, r *http.Request, _ caller) error {
	return s.withBody(w, r, http.StatusOK, func(all Rooms, order json.RawMessage) (any, error) {
		state, err := all.Step(r.Context(), r.PathValue("room"), order)
		return map[string]any{"steps": state}, err
	})
}
