package facilitate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/tool"
	"github.com/iris-operator/iris/facilitate/view"
)

// errOver is what a host answers after its tool has returned.
var errOver = errors.New("the act is over")

// errOverlap is a public text with words that were only said in private.
var errOverlap = errors.New("the text overlaps what is sealed")

// A hand is what all hosts have: the turn, until the tool has returned, and what
// came of the act.
type hand struct {
	s      *session
	choice room.Choice
	act    *Act
	err    error // of the store: ends the turn
}

// do keeps what the act is, and delivers what there is to deliver.
func (h *hand) do(ctx context.Context, act Act, ds ...draft) error {
	entries, err := h.s.track.add(ctx, ds...)
	if err != nil {
		h.err = err
		return err
	}
	act.Tool, act.Intent, act.Item, act.Effect = h.choice.Tool, h.choice.Intent, h.choice.Focus, ds[0].body.Effect
	h.act = &act
	if e, ok := effectOf(entries[0]); ok {
		h.s.track.deliver(ctx, e)
	}
	return nil
}

// A roomHost is what a tool on the room holds.
type roomHost struct {
	hand
	statement string
}

func (h *roomHost) Post(ctx context.Context, text flow.Text[flow.Room]) error {
	return h.say(ctx, text, "")
}

// say posts text, which opens the vote on the item poll where that is set.
func (h *roomHost) say(ctx context.Context, text flow.Text[flow.Room], poll string) error {
	switch {
	case h.s == nil:
		return errOver
	case text.Empty():
		return nil
	}
	st := h.s.track.now()
	words := flow.Reveal(text)
	if h.statement == "" && overlap(&st, words) {
		return errOverlap
	}
	return h.do(ctx, Act{Public: text}, draft{kind: room.KMessage, level: flow.RankRoom, parents: last(&st), body: room.Body{
		Message: &room.Message{Author: principal.Iris, Text: words}, Effect: h.s.effectID(st.Seq + 1), Tool: h.choice.Tool, Intent: h.choice.Intent,
		Item: h.choice.Focus, Release: h.statement, Poll: poll,
	}})
}

// last is the sources of an act on the room.
func last(st *room.State) []uint64 { return st.Sources(st.Log.Len() - min(st.Log.Len(), 1)) }

func (h *roomHost) React(ctx context.Context, emoji string) error {
	if h.s == nil {
		return errOver
	}
	known := slices.ContainsFunc(tool.React().Spec().Intents, func(i string) bool { return tool.Emoji(i) == emoji })
	st := h.s.track.now()
	recent := st.Log.Recent(1)
	if !known || len(recent) == 0 || recent[0].Author == principal.Iris {
		return nil
	}
	return h.do(ctx, Act{Public: flow.Public(emoji)}, draft{kind: room.KReact, level: flow.RankRoom, parents: last(&st), body: room.Body{
		To: recent[0].Seq, Text: emoji, Effect: h.s.effectID(st.Seq + 1), Tool: h.choice.Tool, Intent: h.choice.Intent,
	}})
}

func (h *roomHost) Board() tool.Board { return board{h} }

// A board is the board in the hand of a tool.
type board struct{ h *roomHost }

func (b board) Read() flow.Text[flow.Room] {
	if b.h.s == nil {
		return flow.Text[flow.Room]{}
	}
	st := b.h.s.track.now()
	lines := ""
	for _, it := range st.Items {
		if !it.Hidden && !it.Archived {
			lines += view.Item(it, st.Surface) + "\n"
		}
	}
	return flow.Public(lines)
}

func (b board) Pin(ctx context.Context) error {
	if b.h.s == nil {
		return errOver
	}
	st := b.h.s.track.now()
	if it := st.Item(b.h.choice.Focus); it == nil || it.Pinned || it.Hidden || it.Archived {
		return nil
	}
	return b.h.do(ctx, Act{}, draft{kind: room.KPin, level: flow.RankRoom, parents: last(&st), body: room.Body{
		Item: b.h.choice.Focus, Tool: b.h.choice.Tool, Intent: b.h.choice.Intent,
	}})
}

func (b board) OpenPoll(ctx context.Context, text flow.Text[flow.Room]) error {
	if b.h.s == nil {
		return errOver
	}
	st := b.h.s.track.now()
	if !st.Callable(st.Item(b.h.choice.Focus)) {
		return nil
	}
	return b.h.say(ctx, text, b.h.choice.Focus)
}

// A personHost is what a tool on one person holds.
type personHost struct {
	hand
	to      principal.ID
	release string
}

func (h *personHost) Send(ctx context.Context, text flow.Text[flow.Person]) error {
	switch {
	case h.s == nil:
		return errOver
	case text.Empty():
		return nil
	case text.Owner() != h.to:
		return fmt.Errorf("a text of %q on the line of %q", text.Owner(), h.to)
	}
	st := h.s.track.now()
	box, _ := st.File(h.to)
	parents := append(st.Sources(st.Log.Len()), open.Open(box).Seq)
	id := h.s.effectID(st.Seq + 1)
	ds := []draft{{kind: room.KCaucus, level: flow.RankPerson, owner: h.to, parents: parents, body: room.Body{
		Line:   &room.Line{From: principal.Iris, Text: open.Open(text.Sealed()).Text},
		Effect: id, Release: h.release, Tool: h.choice.Tool, Intent: h.choice.Intent,
	}}}
	if h.release != "" {
		ds = append(ds, draft{kind: room.KAsk, level: flow.RankPerson, owner: h.to, parents: []uint64{prior}, body: room.Body{Release: h.release}})
	}
	return h.do(ctx, Act{Target: h.to, Sealed: text}, ds...)
}

// A hostHost is what a tool on whoever runs the room holds.
type hostHost struct{ hand }

func (h *hostHost) Tell(ctx context.Context, text flow.Text[flow.Host]) error {
	switch {
	case h.s == nil:
		return errOver
	case text.Empty():
		return nil
	}
	st := h.s.track.now()
	words := open.Open(text.Sealed()).Text
	if overlap(&st, words) {
		return errOverlap
	}
	return h.do(ctx, Act{Host: text}, draft{kind: room.KTell, level: flow.RankSelf, parents: last(&st), body: room.Body{
		Text: words, Item: h.choice.Focus, Effect: h.s.effectID(st.Seq + 1), Tool: h.choice.Tool, Intent: h.choice.Intent,
	}})
}

// A selfHost is what a tool on Iris herself holds.
type selfHost struct{ hand }

func (h *selfHost) Plan(ctx context.Context, name string, after time.Duration) error {
	switch {
	case h.s == nil:
		return errOver
	case after <= 0 || !principal.Valid(name):
		return fmt.Errorf("plan %q after %v: not a plan", name, after)
	}
	st := h.s.track.now()
	return h.do(ctx, Act{}, draft{kind: room.KPlan, level: flow.RankSelf, parents: []uint64{open.Open(st.Inner()).Choice}, body: room.Body{
		Tick: name, To: uint64(h.s.cfg.Clock().Add(after).UnixMilli()), Tool: h.choice.Tool, Intent: h.choice.Intent,
	}})
}
