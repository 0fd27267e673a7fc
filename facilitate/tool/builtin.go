package tool

import (
	"context"
	"time"

	"github.com/iris-operator/iris/facilitate/flow"
)

// Post says something in the room. Its name is "post".
func Post() RoomTool { return post{} }

// Caucus says something to one person. Its name is "caucus".
func Caucus() PersonTool { return caucus{} }

// React marks the newest line of a person. Its name is "react".
func React() RoomTool { return react{} }

// Nudge reminds a person of an open question once enough time has passed. Its
// name is "nudge".
func Nudge() PersonTool { return nudge{} }

// Pin puts an item before the others on the board. Its name is "pin".
func Pin() RoomTool { return pin{} }

// OpenPoll opens the vote on an item whose options people proposed. Its name is
// "open_poll".
func OpenPoll() RoomTool { return openPoll{} }

// Schedule wakes Iris later, so that she may look at the room again. Its name is
// "schedule".
func Schedule() SelfTool { return schedule{} }

// Escalate asks whoever runs the room for help, in words made from what the room
// sees. Its name is "escalate".
func Escalate() HostTool { return escalate{} }

// All returns the tools that ship, in a fixed order.
func All() []any {
	return []any{Post(), Caucus(), React(), Nudge(), Pin(), OpenPoll(), Schedule(), Escalate()}
}

type post struct{}

func (post) Spec() Spec {
	return Spec{Name: "post", Description: "say one thing to everybody", Intents: RoomIntents()}
}

func (post) Run(ctx context.Context, h RoomHost, _ string, text flow.Text[flow.Room]) error {
	return h.Post(ctx, text)
}

type caucus struct{}

func (caucus) Spec() Spec {
	return Spec{Name: "caucus", Description: "say one thing to one person in private", Intents: []string{DiscoverSpecific, ReflectBack, AskConsent, CoachWording, Receipt, AnswerDirect}}
}

func (caucus) Run(ctx context.Context, h PersonHost, _ string, text flow.Text[flow.Person]) error {
	return h.Send(ctx, text)
}

type react struct{}

func (react) Spec() Spec {
	return Spec{Name: "react", Description: "mark the newest line, without words", Intents: []string{"ack", "seen", "celebrate"}, Silent: true}
}

// Emoji is what each intent of the react tool shows.
func Emoji(intent string) string {
	switch intent {
	case "ack":
		return "👍"
	case "seen":
		return "👀"
	case "celebrate":
		return "🎉"
	}
	return ""
}

func (react) Run(ctx context.Context, h RoomHost, intent string, _ flow.Text[flow.Room]) error {
	return h.React(ctx, Emoji(intent))
}

type nudge struct{}

func (nudge) Spec() Spec {
	return Spec{Name: "nudge", Description: "remind one person in private of your open question", Intents: []string{NudgeIntent}}
}

func (nudge) Run(ctx context.Context, h PersonHost, _ string, text flow.Text[flow.Person]) error {
	return h.Send(ctx, text)
}

type pin struct{}

func (pin) Spec() Spec {
	return Spec{Name: "pin", Description: "put one item first on the board", Intents: []string{"pin"}, Silent: true, OnItem: true}
}

func (pin) Run(ctx context.Context, h RoomHost, _ string, _ flow.Text[flow.Room]) error {
	return h.Board().Pin(ctx)
}

type openPoll struct{}

func (openPoll) Spec() Spec {
	return Spec{Name: "open_poll", Description: "open the vote on one item with the options that people proposed", Intents: []string{"open_poll"}, OnItem: true}
}

func (openPoll) Run(ctx context.Context, h RoomHost, _ string, text flow.Text[flow.Room]) error {
	return h.Board().OpenPoll(ctx, text)
}

type schedule struct{}

func (schedule) Spec() Spec {
	return Spec{Name: "schedule", Description: "look at the room again later: soon is 10 minutes, later an hour, tomorrow a day", Intents: []string{Soon, Later, Tomorrow}, Silent: true}
}

// After is how long each intent of the schedule tool waits; 0 for another word.
func After(intent string) time.Duration {
	switch intent {
	case Soon:
		return 10 * time.Minute
	case Later:
		return time.Hour
	case Tomorrow:
		return 24 * time.Hour
	}
	return 0
}

func (schedule) Run(ctx context.Context, h SelfHost, intent string) error {
	if After(intent) == 0 {
		return nil
	}
	return h.Plan(ctx, intent, After(intent))
}

type escalate struct{}

func (escalate) Spec() Spec {
	return Spec{Name: "escalate", Description: "ask whoever runs the room for help", Intents: []string{Stuck, Conflict, Safety, NeedsHost}}
}

func (escalate) Run(ctx context.Context, h HostHost, _ string, text flow.Text[flow.Host]) error {
	return h.Tell(ctx, text)
}
