package tool

import (
	"context"

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
