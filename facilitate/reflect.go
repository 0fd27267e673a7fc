package facilitate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/view"
)

var errShape = beat.ErrShape

// errBudget ends a beat when the room has used its tokens.
var errBudget = errors.New("the room has used its tokens")

// stale is how many public lines a record may lag behind before its person is
// looked at again without having said anything.
const stale = 40

// think asks once, and once more with what was wrong. The answer keeps the
// level of the prompt; decode sees it opened, because what it returns is
// merged at that level.
func think[L flow.Level, T any](ctx context.Context, s *session, p flow.Prompt[L], ask func(context.Context, flow.Prompt[L]) (flow.Text[L], error), decode func(string) (T, []beat.Repair, error)) (T, error) {
	var zero T
	for try := 0; ; try++ {
		s.mu.Lock()
		over := s.cfg.MaxTokens > 0 && s.spent >= s.cfg.MaxTokens
		s.mu.Unlock()
		if over {
			return zero, errBudget
		}
		bctx, cancel := context.WithTimeout(ctx, s.cfg.BeatTimeout)
		t, err := ask(bctx, p)
		cancel()
		if err != nil {
			return zero, err
		}
		v, repairs, err := decode(open.Open(t.Sealed()).Text)
		for _, r := range repairs {
			s.hub.repair(flow.RankOf[L](), string(r))
		}
		if err == nil || try == 1 {
			return v, err
		}
		p = p.Amend("Your last answer was not usable: " + err.Error() + ". Answer again, with the JSON object alone.")
	}
}

func (s *session) thinker() mind.Mind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mind
}

// reflect runs the room's beat and those of the people who said something, all
// at once, and merges what they wrote in one step.
func (s *session) reflect(ctx context.Context) (room.RoomDelta, error) {
	if s.cfg.Compat {
		return s.reflectCompat(ctx)
	}
	st := s.track.now()
	in := open.Open(st.Inner())
	who := s.due(&st, in.RoomTo)
	people := make([]draft, len(who))
	fails := make([]error, len(who)+1)
	var wg sync.WaitGroup
	for i, id := range who {
		wg.Go(func() { people[i], fails[i] = s.reflectPerson(ctx, &st, id) })
	}
	var board *draft
	if st.Log.Len() > in.RoomTo || fresh(&st) {
		wg.Go(func() {
			d, err := s.reflectRoom(ctx, &st, in.RoomTo)
			board, fails[len(who)] = &d, err
		})
	}
	wg.Wait()
	var ds []draft
	for i := range who {
		if fails[i] == nil {
			ds = append(ds, people[i])
		} else if err := s.beatFailed(ctx, "reflect.person", fails[i]); err != nil {
			return room.RoomDelta{}, err
		}
	}
	var out room.RoomDelta
	if err := fails[len(who)]; err != nil {
		if err := s.beatFailed(ctx, "reflect.room", err); err != nil {
			return out, err
		}
		ds = append(ds, draft{kind: room.KRead, level: flow.RankSelf, body: room.Body{To: st.Log.Len()}})
	} else if board != nil {
		ds = append(ds, *board)
		out = *board.body.Items
	}
	_, err := s.track.add(ctx, ds...)
	return out, err
}

// fresh reports whether a statement waits to be put on the board.
func fresh(s *room.State) bool {
	return slices.ContainsFunc(s.Statements, func(st room.Statement) bool { return !st.Posted })
}

// due lists whose record is to be looked at: those who said something, and
// those left behind for long.
func (s *session) due(st *room.State, from uint64) (out []principal.ID) {
	spoke := map[principal.ID]bool{}
	for _, m := range st.Log.Since(from) {
		spoke[m.Author] = true
	}
	for _, p := range st.People.All() {
		box, _ := st.File(p.ID)
		f := open.Open(box)
		if f.Out("record") {
			continue
		}
		unread := len(f.Thread) > 0 && slices.ContainsFunc(f.Thread, func(l room.Line) bool { return l.From == p.ID && l.Seq > f.ReadTo })
		if unread || spoke[p.ID] || !p.Away && f.ReadLine > 0 && st.Log.Len() > f.ReadLine+stale {
			out = append(out, p.ID)
		}
	}
	return out
}

func (s *session) reflectRoom(ctx context.Context, st *room.State, from uint64) (draft, error) {
	pol := s.policy()
	v := view.Room(&st.Public, st.Surface, s.view())
	p, err := flow.Ask(beat.System(pol.Text, beat.RoomBeat), s.schemas.room, v)
	if err != nil {
		return draft{}, err
	}
	d, err := think(ctx, s, p, func(ctx context.Context, p flow.Prompt[flow.Room]) (flow.Text[flow.Room], error) {
		return s.thinker().Room(ctx, mind.RoomBeat{Prompt: p, Public: &st.Public, Surface: st.Surface, From: from, Policy: pol})
	}, func(text string) (room.RoomDelta, []beat.Repair, error) { return beat.Room(text, st.Surface) })
	d.From, d.To = from, st.Log.Len()
	return draft{kind: room.KItems, level: flow.RankRoom, parents: st.Sources(from), body: room.Body{Items: &d}}, err
}

func (s *session) reflectPerson(ctx context.Context, st *room.State, id principal.ID) (draft, error) {
	pol := s.policy()
	box, _ := st.File(id)
	f := open.Open(box)
	p, err := flow.Ask(beat.System(pol.Text, beat.PersonBeat), s.schemas.person, view.Person(&st.Public, st.Surface, id, box, s.view()))
	if err != nil {
		return draft{}, err
	}
	d, err := think(ctx, s, p, func(ctx context.Context, p flow.Prompt[flow.Person]) (flow.Text[flow.Person], error) {
		return s.thinker().Person(ctx, mind.PersonBeat{Prompt: p, Who: id, File: box, Public: &st.Public, Surface: st.Surface, Policy: pol})
	}, beat.Person)
	d.ReadTo, d.ReadLine = st.Seq, st.Log.Len()
	parents := st.Sources(f.ReadLine)
	if f.Seq > 0 {
		parents = append(parents, f.Seq)
	}
	return draft{kind: room.KRecord, level: flow.RankPerson, owner: id, parents: parents, body: room.Body{Record: &d}}, err
}

// A reflector is a mind that can do the one reflection of compatibility mode.
type reflector interface {
	Reflect(ctx context.Context, p flow.Prompt[flow.Self], st *room.State) (flow.Text[flow.Self], error)
}

// reflectCompat asks one beat that sees everything and merges its answer at
// every level at once. This is the leak that split beats close.
func (s *session) reflectCompat(ctx context.Context) (room.RoomDelta, error) {
	m, ok := s.thinker().(reflector)
	if !ok {
		return room.RoomDelta{}, s.beatFailed(ctx, "reflect", errors.New("the mind has no single reflection"))
	}
	st := s.track.now()
	p, err := flow.Ask(beat.System(s.policy().Text, beat.RoomBeat), beat.RoomSchema(st.Surface), view.Self(&st, s.view()))
	if err != nil {
		return room.RoomDelta{}, err
	}
	var notes map[principal.ID]room.PersonDelta
	d, err := think(ctx, s, p, func(ctx context.Context, p flow.Prompt[flow.Self]) (flow.Text[flow.Self], error) {
		return m.Reflect(ctx, p, &st)
	}, func(text string) (room.RoomDelta, []beat.Repair, error) {
		d, r, err := beat.Room(text, st.Surface)
		notes = compatNotes(text)
		return d, r, err
	})
	if err != nil {
		return d, s.beatFailed(ctx, "reflect", err)
	}
	d.From, d.To = open.Open(st.Inner()).RoomTo, st.Log.Len()
	ds := []draft{{kind: room.KItems, level: flow.RankRoom, parents: []uint64{st.Seq}, body: room.Body{Items: &d}}}
	for _, who := range st.People.All() {
		if n, ok := notes[who.ID]; ok {
			n.ReadTo, n.ReadLine = st.Seq, st.Log.Len()
			ds = append(ds, draft{kind: room.KRecord, level: flow.RankPerson, owner: who.ID, parents: []uint64{st.Seq}, body: room.Body{Record: &n}})
		}
	}
	_, err = s.track.add(ctx, ds...)
	return d, err
}

// compatNotes reads privateNotes; ids that are nobody's are left to the merge.
func compatNotes(text string) map[principal.ID]room.PersonDelta {
	out := map[principal.ID]room.PersonDelta{}
	for _, v := range beat.Read(text) {
		m, _ := v.(map[string]any)
		list, _ := m["privateNotes"].([]any)
		for _, e := range list {
			n, ok := e.(map[string]any)
			if !ok {
				continue
			}
			id, _ := n["id"].(string)
			raw, err := json.Marshal(map[string]any{"record": n})
			if err != nil {
				continue
			}
			if d, _, err := beat.Person(string(raw)); err == nil {
				out[principal.ID(id)] = d
			}
		}
	}
	return out
}
