package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// hall is a set of rooms with one in it; its events are turns of the script.
type hall struct{ inbox transport.Inbox }

func (h hall) List(context.Context) (any, error) {
	return []map[string]any{{"id": "dinner", "participants": []any{}}}, nil
}

func (h hall) Create(_ context.Context, spec json.RawMessage) (any, error) {
	if !strings.Contains(string(spec), "participants") {
		return nil, Refusal(http.StatusBadRequest, "it needs participants")
	}
	return spec, nil
}

func (h hall) View(_ context.Context, room, viewer string) (any, error) {
	if room != "dinner" {
		return nil, Refusal(http.StatusNotFound, "no such room")
	}
	list := []any{}
	return map[string]any{"room": map[string]any{}, "viewer": viewer, "people": list, "lines": list, "board": list, "statements": list}, nil
}

func (h hall) Event(ctx context.Context, _, key string, event json.RawMessage) (turn.ID, error) {
	var e struct{ Text string }
	if err := json.Unmarshal(event, &e); err != nil || e.Text == "" {
		return "", err
	}
	r, err := h.inbox.Submit(ctx, transport.Submission{Address: chat.Address{Space: chat.Session, ID: "room-dinner"}, Message: chat.Message{ID: key, Text: e.Text}, Origin: turn.FromAPI})
	return r.Turn, err
}

func (h hall) Step(context.Context, string, json.RawMessage) (any, error) { return nil, nil }

func TestRooms(t *testing.T) {
	h := openHouse(t, func(o *Options) { o.Rooms = hall{o.Engine} })
	if r := h.want(200, "GET", "/rooms", ""); !strings.Contains(r.raw, "dinner") {
		t.Errorf("rooms = %s", r.raw)
	}
	h.want(201, "POST", "/rooms", `{"id":"x","participants":[]}`)
	h.want(400, "POST", "/rooms", `{"id":"x"}`)
	h.want(400, "POST", "/rooms", `[]`)
	if r := h.want(200, "GET", "/rooms/dinner?as=cy", ""); r.str("viewer") != "cy" {
		t.Errorf("view = %s", r.raw)
	}
	h.want(404, "GET", "/rooms/nowhere", "")
	if r := h.want(200, "POST", "/rooms/dinner/events", `{"type":"message","text":"work"}`); r.str("turn") == "" || r.str("text") == "" {
		t.Errorf("event = %s", r.raw)
	}
	first := h.want(200, "POST", "/rooms/dinner/events", `{"text":"work"}`, "Idempotency-Key", "k1", "Prefer", "respond-async")
	again := h.want(200, "POST", "/rooms/dinner/events", `{"text":"work"}`, "Idempotency-Key", "k1")
	if first.str("turn") == "" || first.str("turn") != again.str("turn") {
		t.Errorf("a repeat = %s, %s", first.raw, again.raw)
	}
	h.want(200, "POST", "/rooms/dinner/events", `{"type":"tick"}`)
	h.want(500, "POST", "/rooms/dinner/events", `{"text":"broken"}`)
	h.want(200, "POST", "/rooms/dinner/steps", `{"op":"start"}`)
	for _, who := range []string{"agent-token", "nobody"} {
		if r := h.request("GET", "/rooms/dinner?as=self", "", "Authorization", "Bearer "+who); r.status != 401 && r.status != 403 {
			t.Errorf("%s may look into a room: %d", who, r.status)
		}
	}
	bare := openHouse(t, nil)
	bare.want(404, "GET", "/rooms", "")
	bare.want(404, "GET", "/rooms/dinner", "")
	bare.want(404, "POST", "/rooms", `{}`)
}
