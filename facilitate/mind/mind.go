// Package mind is who thinks: five beats, each with a view of one level in and
// a text of the same level out. The types keep the levels apart; a mind that
// answers nonsense costs a turn and no secret.
//
// Below lie the minds that ship: llm asks any model, offline decides by rules
// and needs none, script replays, adversary means harm.
package mind

import (
	"context"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
)

// A Mind answers beats. Each answer is JSON in the shape of package beat.
//
// Implementations must
//   - be safe for concurrent use: the beats of several people run at once;
//   - keep no memory from one beat to another that crosses levels or people;
//   - return soon after ctx ends.
type Mind interface {
	Room(ctx context.Context, b RoomBeat) (flow.Text[flow.Room], error)
	Person(ctx context.Context, b PersonBeat) (flow.Text[flow.Person], error)
	Self(ctx context.Context, b SelfBeat) (flow.Text[flow.Self], error)
	Say(ctx context.Context, b SayBeat) (flow.Text[flow.Room], error)
	Whisper(ctx context.Context, b WhisperBeat) (flow.Text[flow.Person], error)
}

// A RoomBeat asks for the board. Lines after From are new.
type RoomBeat struct {
	Prompt  flow.Prompt[flow.Room]
	Public  *room.Public
	Surface *surface.Surface
	From    uint64
	Policy  policy.Policy
}

// A PersonBeat asks about Who.
type PersonBeat struct {
	Prompt  flow.Prompt[flow.Person]
	Who     principal.ID
	File    open.Box[room.File]
	Public  *room.Public
	Surface *surface.Surface
	Policy  policy.Policy
}

// A SelfBeat asks for the choice. Public lines after From are new.
type SelfBeat struct {
	Prompt     flow.Prompt[flow.Self]
	State      *room.State
	Vocabulary beat.Vocabulary
	From       uint64
	Policy     policy.Policy
}

// A SayBeat asks for a message to the room.
type SayBeat struct {
	Prompt    flow.Prompt[flow.Room]
	Public    *room.Public
	Surface   *surface.Surface
	Intent    string
	Focus     *room.Item      // or nil
	Statement *room.Statement // to be carried, or nil
	Policy    policy.Policy
}

// A WhisperBeat asks for a message to Who.
type WhisperBeat struct {
	Prompt flow.Prompt[flow.Person]
	Who    principal.ID
	File   open.Box[room.File]
	Public *room.Public
	Intent string
	Policy policy.Policy
}
