package facilitate

import (
	"maps"
	"slices"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// Own is the private side of one person: what that person may see of it, and
// the operator. Thread holds at most the newest 200 lines.
type Own struct {
	ID       principal.ID
	Thread   []room.Line
	Releases []OwnRelease
	// Contributions are their sealed values by item; nothing where the policy
	// mirrors nothing.
	Contributions map[string]map[string]any
	OptOut        []string // scopes, sorted
}

// An OwnRelease is a wording that was made for the room and how far it is. Asked
// waits for the person's answer; granted can still be revoked.
type OwnRelease struct{ ID, Wording, Attribution, State string }

// Own returns the private side of id for w, which is that person or the
// operator; anybody else is [ErrAudience].
func (a *Agent) Own(w Audience, id principal.ID) (Own, error) {
	if err := a.admit(w); err != nil {
		return Own{}, err
	}
	if w.rank != flow.RankSelf && (w.rank != flow.RankPerson || w.id != id) {
		return Own{}, ErrAudience
	}
	s := a.snapshot()
	box, ok := s.File(id)
	if !ok {
		return Own{}, ErrAudience
	}
	a.mu.Lock()
	mirror := a.policy.Mirror
	a.mu.Unlock()
	f := open.Open(box)
	out := Own{ID: id, Thread: slices.Clone(f.Thread), Contributions: map[string]map[string]any{}, OptOut: slices.Sorted(maps.Keys(f.OptOut))}
	for _, r := range f.Releases {
		if r.AskedSeq == 0 && w.rank == flow.RankPerson {
			continue // not shown to them yet
		}
		out.Releases = append(out.Releases, OwnRelease{r.ID, open.Open(r.Wording.Sealed()).Text, string(r.Attribution), string(r.State)})
	}
	if mirror != policy.MirrorNone || w.rank == flow.RankSelf {
		for item, c := range f.Casts {
			out.Contributions[item] = maps.Clone(map[string]any(c.Value))
		}
	}
	return out, nil
}
