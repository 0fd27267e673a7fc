package facilitate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/tool"
	"github.com/iris-operator/iris/facilitate/view"
)

// act does what was chosen. A nil act without an error is one that came to
// nothing; the turn ends with it.
func (s *session) act(ctx context.Context, c room.Choice) (*Act, error) {
	if c.Tool == room.None {
		return nil, nil
	}
	if t, ok := s.tools.Person(c.Tool); ok {
		return s.actPerson(ctx, t, c)
	}
	if t, ok := s.tools.Host(c.Tool); ok {
		return s.actHost(ctx, t, c)
	}
	if t, ok := s.tools.Self(c.Tool); ok {
		return s.actSelf(ctx, t, c)
	}
	t, ok := s.tools.Room(c.Tool)
	switch {
	case !ok:
		return nil, nil
	case c.Intent == tool.CarryRelease:
		return s.carry(ctx, c)
	}
	return s.actRoom(ctx, t, c, nil)
}

// ask renders the engine's instruction: closed words only.
func instruction(c room.Choice, about string) string {
	out := "\nIntent: " + c.Intent + "\n"
	if c.Focus != "" {
		out += "About item: " + c.Focus + "\n"
	}
	return out + about
}

// say asks for a public text. It reads the room and the closed words of the
// choice, nothing else.
func (s *session) say(ctx context.Context, c room.Choice, statement *room.Statement) (string, error) {
	st := s.track.now()
	pol := s.policy()
	about := ""
	if _, host := s.tools.Host(c.Tool); host {
		about = "This goes to whoever runs the room, and not to the room.\n"
	}
	if statement != nil {
		about = "Say exactly these words of statement " + statement.ID + ", with at most a short lead: " + statement.Wording + "\n"
	}
	p, err := flow.Ask(beat.System(pol.Text, beat.SayBeat), beat.ActSchema(), view.Room(&st.Public, st.Surface, s.view()), flow.Public(instruction(c, about)))
	if err != nil {
		return "", err
	}
	return think(ctx, s, p, func(ctx context.Context, p flow.Prompt[flow.Room]) (flow.Text[flow.Room], error) {
		return s.thinker().Say(ctx, mind.SayBeat{Prompt: p, Public: &st.Public, Surface: st.Surface, Intent: c.Intent, Focus: st.Item(c.Focus), Statement: statement, Policy: pol})
	}, beat.Act)
}

func (s *session) actRoom(ctx context.Context, t tool.RoomTool, c room.Choice, statement *room.Statement) (*Act, error) {
	began := s.track.now().Log.Len()
	text := ""
	if !t.Spec().Silent {
		var err error
		if text, err = s.say(ctx, c, statement); err != nil {
			return nil, s.beatFailed(ctx, "act.room", err)
		}
	}
	if st := s.track.now(); s.cfg.BargeIn && st.Log.Len() > began {
		s.hub.guard("somebody spoke meanwhile")
		return nil, nil
	}
	h := &roomHost{hand: hand{s: s, choice: c}}
	return s.ended(ctx, &h.hand, t.Run(ctx, h, c.Intent, flow.Public(text)))
}

// actHost tells whoever runs the room, in words written from what the room sees.
func (s *session) actHost(ctx context.Context, t tool.HostTool, c room.Choice) (*Act, error) {
	text := ""
	if !t.Spec().Silent {
		var err error
		if text, err = s.say(ctx, c, nil); err != nil {
			return nil, s.beatFailed(ctx, "act.host", err)
		}
	}
	h := &hostHost{hand{s: s, choice: c}}
	return s.ended(ctx, &h.hand, t.Run(ctx, h, c.Intent, flow.ToHost(flow.Public(text))))
}

func (s *session) actSelf(ctx context.Context, t tool.SelfTool, c room.Choice) (*Act, error) {
	h := &selfHost{hand{s: s, choice: c}}
	return s.ended(ctx, &h.hand, t.Run(ctx, h, c.Intent))
}

// ended takes a host away from its tool and reads what came of it.
func (s *session) ended(ctx context.Context, h *hand, err error) (*Act, error) {
	h.s = nil
	switch {
	case h.err != nil:
		return h.act, h.err
	case errors.Is(err, errOverlap):
		s.hub.guard("the text overlaps private words")
		return nil, nil
	case err != nil:
		return h.act, s.beatFailed(ctx, "tool."+h.choice.Tool, err)
	}
	return h.act, nil
}

// carry makes granted words a public statement and posts them. The statement
// comes first, so that whoever writes the post reads it at the room's level; a
// post that does not contain the exact words is replaced by a plain one.
func (s *session) carry(ctx context.Context, c room.Choice) (*Act, error) {
	st := s.track.now()
	owner, id, _ := strings.Cut(c.Release, "/")
	if owner != "" {
		if err := s.lower(ctx, &st, principal.ID(owner), id); err != nil {
			return nil, err
		}
		st = s.track.now()
	}
	var statement *room.Statement
	for i := range st.Statements {
		if x := &st.Statements[i]; !x.Posted && (owner != "" || x.ID == id) {
			statement = x
		}
	}
	if statement == nil {
		return nil, nil
	}
	text, err := s.say(ctx, c, statement)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || !strings.Contains(room.Norm(text), room.Norm(statement.Wording)) {
		text = "I was asked to bring this in: " + statement.Wording
		if statement.By != "" {
			text = st.People.Name(statement.By) + " asked me to say this: " + statement.Wording
		}
	}
	h := &roomHost{hand: hand{s: s, choice: c}, statement: statement.ID}
	if err := h.Post(ctx, flow.Public(text)); err != nil {
		return nil, err
	}
	return h.act, nil
}

// lower takes the granted words of owner down to the room.
func (s *session) lower(ctx context.Context, st *room.State, owner principal.ID, id string) error {
	r, ok := st.Find(string(owner) + "/" + id)
	if !ok {
		return fmt.Errorf("release %s: %w", id, release.ErrState)
	}
	public, err := flow.Release(r.Consent(), r.Wording)
	if err != nil {
		return err
	}
	statement := room.Statement{ID: fmt.Sprintf("s%d", len(st.Statements)+1), Wording: flow.Reveal(public)}
	for _, x := range st.Statements {
		if x.ID == statement.ID {
			statement.ID = fmt.Sprintf("s%d-%s", len(st.Statements)+1, flow.Hash(statement.Wording)[:6])
		}
	}
	if r.Attribution == release.Named {
		statement.By = owner
	}
	_, err = s.track.add(ctx,
		draft{kind: room.KLower, level: flow.RankPerson, owner: owner, parents: []uint64{r.AnswerSeq}, body: room.Body{Release: id, Text: statement.ID}},
		draft{kind: room.KStatement, level: flow.RankRoom, parents: []uint64{prior}, body: room.Body{Statement: &statement}})
	return err
}

func (s *session) actPerson(ctx context.Context, t tool.PersonTool, c room.Choice) (*Act, error) {
	st := s.track.now()
	h := &personHost{hand: hand{s: s, choice: c}, to: c.Target}
	var text flow.Text[flow.Person]
	if c.Intent == tool.AskConsent {
		r := s.proposed(&st, c.Target)
		if r == nil {
			return nil, nil
		}
		h.release = r.ID
		text = r.Question(st.People.Present())
	} else {
		words, err := s.whisper(ctx, &st, c)
		if err != nil {
			return nil, s.beatFailed(ctx, "act.person", err)
		}
		text = flow.Private(c.Target, words)
	}
	return s.ended(ctx, &h.hand, t.Run(ctx, h, c.Intent, text))
}

func (s *session) whisper(ctx context.Context, st *room.State, c room.Choice) (string, error) {
	pol := s.policy()
	box, _ := st.File(c.Target)
	p, err := flow.Ask(beat.System(pol.Text, beat.Whisper), beat.ActSchema(),
		view.Person(&st.Public, st.Surface, c.Target, box, s.view()), flow.Private(c.Target, instruction(c, "")))
	if err != nil {
		return "", err
	}
	return think(ctx, s, p, func(ctx context.Context, p flow.Prompt[flow.Person]) (flow.Text[flow.Person], error) {
		return s.thinker().Whisper(ctx, mind.WhisperBeat{Prompt: p, Who: c.Target, File: box, Public: &st.Public, Intent: c.Intent, Policy: pol})
	}, beat.Act)
}
