package facilitator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/transport"
)

// line brings the cards on a private line up to date: questions for consent, whose
// buttons go when they are answered, and ballots, one for each open vote.
func (r *Rooms) line(ctx context.Context, x *room, a *facilitate.Agent, l *ledger, p Person) error {
	who := facilitate.ID(p.ID)
	to, ok := x.spec.line(who)
	if !ok {
		return nil
	}
	if _, ok := r.opts.Screen.Render(to, transport.View{Show: transport.ShowNotice, Text: "?"}); !ok {
		return nil // not on a platform
	}
	own, err := a.Own(facilitate.ForPerson(who), who)
	if err != nil {
		return err
	}
	for _, s := range l.of(p.ID) {
		if s.Release == "" || s.Over || s.ID == "" {
			continue
		}
		v, over := consentCard(l, who, s.Release, own)
		if v == nil {
			continue // it still waits
		}
		if err := r.change(ctx, l, x, who, s, *v, over); err != nil {
			return err
		}
	}
	open := map[string]bool{}
	for _, c := range a.Canvas() {
		if !c.Vote {
			continue
		}
		open[c.ID] = true
		s, _ := l.get("ballot." + p.ID + "." + c.ID)
		s.Person, s.Item = p.ID, c.ID
		if away(a, who) && s.ID == "" {
			continue
		}
		if err := r.change(ctx, l, x, who, s, ballotCard(l, who, x.header(a), c, own), false); err != nil {
			return err
		}
	}
	for _, s := range l.of(p.ID) {
		if s.Item == "" || s.Over || open[s.Item] || s.ID == "" {
			continue
		}
		if err := r.change(ctx, l, x, who, s, transport.View{Text: "_The vote is over; its outcome is on the board._"}, true); err != nil {
			return err
		}
	}
	return nil
}

func away(a *facilitate.Agent, who facilitate.ID) bool {
	for _, p := range a.Participants() {
		if p.ID == who {
			return p.Away
		}
	}
	return true
}

// of lists the signs on somebody's line.
func (l *ledger) of(person string) (out []sign) {
	for _, s := range l.kept.Signs {
		if s.Person == person {
			out = append(out, s)
		}
	}
	return out
}

// change makes a card say v. One that is gone, and is over, stays gone.
func (r *Rooms) change(ctx context.Context, l *ledger, x *room, who facilitate.ID, s sign, v transport.View, over bool) error {
	to, _ := x.spec.line(who)
	v.Show = transport.ShowNotice
	bodies, ok := r.opts.Screen.Render(to, v)
	if !ok {
		return nil
	}
	if over && s.ID == "" {
		s.Over = true
		return l.put(s)
	}
	if over {
		err := r.opts.Screen.Edit(ctx, to, s.ID, transport.Outgoing{Body: bodies[0], Mark: transport.Mark{Part: "room." + s.Key}})
		if err != nil && !gone(err) {
			return err
		}
		s.Over, s.Print = true, ""
		return l.put(s)
	}
	_, err := r.show(ctx, l, to, s, bodies[0])
	return err
}

// consentCard is what becomes of a question for consent; nil while it waits.
func consentCard(l *ledger, who facilitate.ID, release string, own facilitate.Own) (v *transport.View, over bool) {
	for _, c := range own.Releases {
		if c.ID != release {
			continue
		}
		say := func(note string) *transport.View { return &transport.View{Text: "“" + c.Wording + "”", Note: note} }
		switch c.State {
		case "asked":
			return nil, false
		case "granted":
			v := say("You said yes. It is said when the moment no longer points at you.")
			v.Buttons = []transport.Button{{Label: "Take it back", Value: l.button(who, "revoke", release)}}
			return v, false
		case "delivered":
			return say("It was said."), true
		case "declined":
			return say("You said no. It stays here."), true
		case "revoked":
			return say("You took it back. It stays here."), true
		default:
			return say("It is over. It stays here."), true
		}
	}
	return &transport.View{Text: "_This question is over._"}, true
}

// ballotCard is an open vote on somebody's line.
func ballotCard(l *ledger, who facilitate.ID, h Header, c facilitate.Card, own facilitate.Own) transport.View {
	label := ""
	if len(h.Public) > 0 {
		label = c.Fields[h.Public[0]]
	}
	v := transport.View{Text: "**" + label + "**", Note: c.Result["notice"]}
	if vote, _ := own.Contributions[c.ID][c.Slot].(string); vote != "" {
		v.Text += "\n\nYour vote: **" + vote + "**. You can change it until the vote is closed."
	} else {
		v.Text += "\n\nNobody sees how you vote."
	}
	for _, o := range c.Options[h.Options][:min(len(c.Options[h.Options]), transport.MaxButtons)] {
		v.Buttons = append(v.Buttons, transport.Button{Label: o, Value: l.button(who, "vote", c.ID, o)})
	}
	return v
}

// Press takes a button of a room's. It is pressed on a private line, by the person
// whose line it is; another one is transport.ErrNotAllowed, and one that means
// nothing any more transport.ErrUnknownAsk.
func (r *Rooms) Press(ctx context.Context, p transport.Answer) (transport.Reply, error) {
	spec, who, ok := r.Find(p.Conversation)
	if !ok || who == "" || r.opts.Screen == nil {
		return transport.Reply{}, transport.ErrUnknownAsk
	}
	for _, m := range spec.Participants {
		if m.ID == string(who) && m.User != "" && m.User != p.From.ID {
			return transport.Reply{}, transport.ErrNotAllowed
		}
	}
	x, a, err := r.open(ctx, spec.ID)
	if err != nil {
		return transport.Reply{}, err
	}
	ev, ok, err := r.pressed(ctx, x, a, who, p.Ask)
	if err != nil {
		return transport.Reply{}, err
	}
	if !ok {
		return transport.Reply{}, transport.ErrUnknownAsk
	}
	if !p.At.IsZero() {
		ev.Key = digest(p.Ask, p.At.UTC().Format(time.RFC3339Nano))
	}
	id, err := r.Do(ctx, spec.ID, ev)
	if err != nil && strings.Contains(err.Error(), facilitate.ErrEvent.Error()) {
		err = fmt.Errorf("%w: %w", transport.ErrUnknownAsk, err)
	}
	return transport.Reply{Turn: id}, err
}

// pressed finds what a button stands for now.
func (r *Rooms) pressed(ctx context.Context, x *room, a *facilitate.Agent, who facilitate.ID, value string) (ev facilitate.Event, ok bool, err error) {
	release, err := x.hold(ctx)
	if err != nil {
		return ev, false, err
	}
	defer release()
	l, err := r.ledger(x)
	if err != nil {
		return ev, false, err
	}
	own, err := a.Own(facilitate.ForPerson(who), who)
	if err != nil {
		return ev, false, err
	}
	for _, c := range own.Releases {
		switch {
		case c.State == "asked" && value == l.button(who, "yes", c.ID):
			return facilitate.Consent(who, c.ID, true), true, nil
		case c.State == "asked" && value == l.button(who, "no", c.ID):
			return facilitate.Consent(who, c.ID, false), true, nil
		case c.State == "granted" && value == l.button(who, "revoke", c.ID):
			return facilitate.Revoke(who, c.ID), true, nil
		}
	}
	for _, c := range a.Canvas() {
		if !c.Vote {
			continue
		}
		for _, options := range c.Options {
			for _, o := range options {
				if value == l.button(who, "vote", c.ID, o) {
					return facilitate.Contribution(who, c.ID, map[string]any{c.Slot: o}), true, nil
				}
			}
		}
	}
	return ev, false, nil
}
