package facilitate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// Erase removes what id said, in public and in private, and what was made from
// it: their file and its key, every thought that read it, statements in their
// words, and entries of Iris in which words are left that only they used. Lines
// of other people stay, also where they quote. Seat and name stay.
//
// The journal keeps its places and its chain. Running subscriptions end; a new
// one starts from 0.
func (a *Agent) Erase(ctx context.Context, id principal.ID) error { return a.erase(ctx, id) }

func (a *Agent) erase(ctx context.Context, id principal.ID) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	a.keep.Lock()
	defer a.keep.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.state.People.Has(id) {
		return fmt.Errorf("%w erase of %q: %w", ErrEvent, id, principal.ErrUnknown)
	}
	if a.closed {
		return ErrClosed
	}
	entries, err := a.entries(ctx)
	if err != nil {
		return err
	}
	if err := a.cfg.Store.Erase(ctx, a.cfg.ID, id, doomed(entries, id)); err != nil {
		return fmt.Errorf("erase %q: %w", id, err)
	}
	for i, p := range a.cfg.Participants {
		if p.ID == id {
			a.cfg.Participants = slices.Clone(a.cfg.Participants)
			a.cfg.Participants[i].Read = ""
		}
	}
	a.last = nil
	a.hub.reset()
	if err := a.replay(ctx); err != nil {
		a.broken = err
		return err
	}
	a.turned = a.events
	_, err = a.addLocked(ctx, draft{kind: room.KGone, level: flow.RankSelf, body: room.Body{Text: string(id)}})
	return err
}

// doomed lists the entries that go with id: their sources, what their closure
// reaches at self, statements and posts in their words, and what Iris wrote
// with words that nobody else used.
func doomed(entries []room.Entry, id principal.ID) (out []uint64) {
	tainted := map[uint64]bool{}
	own, others := map[string]bool{}, map[string]bool{}
	mark := func(into map[string]bool, b room.Body) {
		for _, s := range texts(b) {
			for _, w := range room.Words(s) {
				into[w] = true
			}
		}
	}
	for _, e := range entries {
		b := open.Open(e.Body)
		switch {
		case e.Owner == id:
			tainted[e.Seq] = true
			if e.Kind == room.KCaucus && b.Line.From != id {
				continue
			}
			mark(own, b)
		case b.Author == id && e.Level == flow.RankRoom && e.Kind != room.KJoin && e.Kind != room.KLeave,
			e.Kind == room.KMessage && b.Message.Author == id:
			tainted[e.Seq] = true
			mark(own, b)
		case e.Kind == room.KMessage && b.Message.Author != principal.Iris, e.Kind == room.KCaucus && b.Line.From != principal.Iris:
			mark(others, b)
		}
	}
	for _, e := range entries {
		b := open.Open(e.Body)
		reached := slices.ContainsFunc(e.Parents, func(p uint64) bool { return tainted[p] })
		switch {
		case tainted[e.Seq]:
		case e.Level == flow.RankSelf && reached && e.Kind != room.KReceipt, e.Kind == room.KStatement && reached:
			tainted[e.Seq] = true
		case e.Kind == room.KMessage && b.Message.Author != principal.Iris, e.Kind == room.KCaucus && b.Line.From != principal.Iris, e.Kind == room.KJoin, e.Kind == room.KLeave:
		default:
			tainted[e.Seq] = residue(b, own, others)
		}
	}
	for _, e := range entries {
		if tainted[e.Seq] {
			out = append(out, e.Seq)
		}
	}
	return out
}

// residue reports whether b holds a rare word that only the erased person used.
func residue(b room.Body, own, others map[string]bool) bool {
	for _, s := range texts(b) {
		for _, w := range room.Words(s) {
			if own[w] && !others[w] && (len(w) >= 6 || strings.ContainsAny(w, "0123456789")) {
				return true
			}
		}
	}
	return false
}

// texts lists every string in b that carries somebody's words.
func texts(b room.Body) (out []string) {
	out = append(out, b.Text)
	out = append(out, b.Options...)
	if b.Message != nil {
		out = append(out, b.Message.Text)
	}
	if b.Line != nil {
		out = append(out, b.Line.Text)
	}
	if b.Statement != nil {
		out = append(out, b.Statement.Wording)
	}
	for _, v := range b.Value {
		out = append(out, fmt.Sprint(v))
	}
	if d := b.Items; d != nil {
		out = append(out, d.Summary)
		for _, p := range d.Items {
			out = append(out, p.ID)
			for _, f := range p.Fields {
				out = append(out, f.Text)
			}
			for _, ops := range p.Ops {
				for _, o := range ops {
					out = append(out, o.Label, o.New)
				}
			}
		}
	}
	if d := b.Record; d != nil {
		out = append(out, d.Interest, d.Position, d.Beliefs, d.WatchingFor, d.HelpNext, d.Wording, fmt.Sprint(d.Value), fmt.Sprint(d.Regards))
		if d.Shift != nil {
			out = append(out, d.Shift.Observed, d.Shift.From, d.Shift.To)
		}
	}
	if d := b.Self; d != nil {
		out = append(out, d.Choice.Rationale, fmt.Sprint(d.Notes))
	}
	return out
}
