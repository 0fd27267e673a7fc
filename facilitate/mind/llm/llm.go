// Package llm is the mind that asks a model. It opens nothing itself: prompts
// go to the model at their level and answers come back at the same one.
package llm

import (
	"context"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/room"
)

// Options configures [New].
type Options struct {
	Model     flow.Model                          // required
	MaxTokens int                                 // per answer; 0 is 1,500
	Usage     func(level flow.Rank, u flow.Usage) // called after each answer; nil is fine
}

// A Mind implements [mind.Mind].
type Mind struct{ opts Options }

var _ mind.Mind = (*Mind)(nil)

// New returns a mind that asks opts.Model.
func New(opts Options) *Mind {
	if opts.MaxTokens == 0 {
		opts.MaxTokens = 1500
	}
	return &Mind{opts}
}

func ask[L flow.Level](ctx context.Context, m *Mind, p flow.Prompt[L]) (flow.Text[L], error) {
	t, u, err := flow.Complete(ctx, m.opts.Model, p.Limit(m.opts.MaxTokens))
	if m.opts.Usage != nil {
		m.opts.Usage(flow.RankOf[L](), u)
	}
	return t, err
}

// Room implements [mind.Mind].
func (m *Mind) Room(ctx context.Context, b mind.RoomBeat) (flow.Text[flow.Room], error) {
	return ask(ctx, m, b.Prompt)
}

// Person implements [mind.Mind].
func (m *Mind) Person(ctx context.Context, b mind.PersonBeat) (flow.Text[flow.Person], error) {
	return ask(ctx, m, b.Prompt)
}

// Self implements [mind.Mind].
func (m *Mind) Self(ctx context.Context, b mind.SelfBeat) (flow.Text[flow.Self], error) {
	return ask(ctx, m, b.Prompt)
}

// Say implements [mind.Mind].
func (m *Mind) Say(ctx context.Context, b mind.SayBeat) (flow.Text[flow.Room], error) {
	return ask(ctx, m, b.Prompt)
}

// Whisper implements [mind.Mind].
func (m *Mind) Whisper(ctx context.Context, b mind.WhisperBeat) (flow.Text[flow.Person], error) {
	return ask(ctx, m, b.Prompt)
}

// Reflect answers the one beat of compatibility mode, which sees everything.
func (m *Mind) Reflect(ctx context.Context, p flow.Prompt[flow.Self], _ *room.State) (flow.Text[flow.Self], error) {
	return ask(ctx, m, p)
}
