// Package script is the mind that replays. Each beat has a list of answers; when
// it is used up, room and person beats change nothing and the choice is to
// hold. It makes demos and tests that say exactly what happens.
package script

import (
	"context"
	"sync"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// Answers are what a [Mind] replays, each list in order of the calls.
type Answers struct {
	Room    []string
	Person  map[principal.ID][]string
	Self    []string
	Say     []string
	Whisper map[principal.ID][]string
	Reflect []string // of compatibility mode
}

// A Mind implements [mind.Mind].
type Mind struct {
	// mu guards a.
	mu sync.Mutex
	a  Answers
}

var _ mind.Mind = (*Mind)(nil)

// New returns a mind that replays a. The caller must not change a afterwards.
func New(a Answers) *Mind { return &Mind{a: a} }

// Choose is the answer of a self beat that chooses c.
func Choose(c room.Choice) string { return beat.EncodeSelf(room.SelfDelta{Choice: c}) }

func (m *Mind) next(list *[]string, empty string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(*list) == 0 {
		return empty
	}
	s := (*list)[0]
	*list = (*list)[1:]
	return s
}

func (m *Mind) nextOf(lists map[principal.ID][]string, who principal.ID, empty string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(lists[who]) == 0 {
		return empty
	}
	s := lists[who][0]
	lists[who] = lists[who][1:]
	return s
}

// Room implements [mind.Mind].
func (m *Mind) Room(context.Context, mind.RoomBeat) (flow.Text[flow.Room], error) {
	return flow.Public(m.next(&m.a.Room, `{"items":[],"summary":null}`)), nil
}

// Person implements [mind.Mind].
func (m *Mind) Person(_ context.Context, b mind.PersonBeat) (flow.Text[flow.Person], error) {
	return flow.Private(b.Who, m.nextOf(m.a.Person, b.Who, `{"record":{}}`)), nil
}

// Self implements [mind.Mind].
func (m *Mind) Self(context.Context, mind.SelfBeat) (flow.Text[flow.Self], error) {
	return flow.Inner(m.next(&m.a.Self, Choose(room.Choice{Tool: room.None, Rationale: "the script is over"}))), nil
}

// Say implements [mind.Mind].
func (m *Mind) Say(_ context.Context, b mind.SayBeat) (flow.Text[flow.Room], error) {
	return flow.Public(m.next(&m.a.Say, beat.EncodeText("("+b.Intent+")"))), nil
}

// Whisper implements [mind.Mind].
func (m *Mind) Whisper(_ context.Context, b mind.WhisperBeat) (flow.Text[flow.Person], error) {
	return flow.Private(b.Who, m.nextOf(m.a.Whisper, b.Who, beat.EncodeText("("+b.Intent+")"))), nil
}

// Reflect answers the one beat of compatibility mode.
func (m *Mind) Reflect(context.Context, flow.Prompt[flow.Self], *room.State) (flow.Text[flow.Self], error) {
	return flow.Inner(m.next(&m.a.Reflect, `{"items":[]}`)), nil
}
