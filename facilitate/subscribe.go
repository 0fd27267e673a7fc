package facilitate

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/view"
)

// ErrAudience is an audience nobody has, or one without its key.
var ErrAudience = errors.New("facilitate: no such audience")

// An Audience is who reads: everybody, one person, or the operator. Holding a
// person's audience is the right to read for that person; make it where the
// person is authenticated.
type Audience struct {
	rank flow.Rank
	id   principal.ID
	key  *OperatorKey
}

// ForRoom is everybody.
func ForRoom() Audience { return Audience{rank: flow.RankRoom} }

// ForPerson is one participant, who also sees what the room sees.
func ForPerson(id principal.ID) Audience { return Audience{rank: flow.RankPerson, id: id} }

// ForSelf is the operator, who sees everything. The key must be that of the
// agent's [Config].
func ForSelf(key *OperatorKey) Audience { return Audience{rank: flow.RankSelf, key: key} }

func (a *Agent) admit(w Audience) error {
	switch w.rank {
	case flow.RankRoom:
		return nil
	case flow.RankPerson:
		s := a.snapshot()
		if s.People.Has(w.id) {
			return nil
		}
	case flow.RankSelf:
		if w.key != nil && w.key == a.cfg.Operator {
			return nil
		}
	}
	return ErrAudience
}

// A Notice is something an audience may know. Seq counts within that audience,
// without gaps, so that it says nothing of what others see.
type Notice struct {
	Seq       uint64
	Type      string // message, message.edited, board, poll.closed, release, presence, react · caucus, consent.ask, receipt, own.contribution · reflect, choice, plan, escalation, beat.failed, repair, guard, delivered
	Level     flow.Rank
	Principal principal.ID
	Message   *room.Message
	Statement *room.Statement
	Line      *room.Line
	Person    *principal.Person
	Choice    *room.Choice
	Item      string // id, of board and contribution
	Text      string // board line, question's release, why a beat failed
	Bits      float64
}

// ring is how many notices an audience can lag behind before they are read
// from the journal again.
const ring = 512

// A stream is the notices of one audience. Those in last are shared with other
// streams, and numbered by their place.
type stream struct {
	n      uint64 // ever
	last   []*Notice
	asides []Notice
}

// A hub turns entries into notices. It has its own lock, under the agent's mu.
type hub struct {
	mu      sync.Mutex
	streams map[string]*stream // "room", "self", person ids with a "p-"
	more    chan struct{}      // closed and replaced at every notice; closed for good at the end
	ended   bool
	epoch   int // counts erasures; a subscription ends with its epoch
}

func newHub(s room.State) *hub {
	h := &hub{streams: map[string]*stream{"room": {}, "self": {}}, more: make(chan struct{})}
	for _, p := range s.People.All() {
		h.streams["p-"+string(p.ID)] = &stream{}
	}
	return h
}

func (w Audience) stream() string {
	switch w.rank {
	case flow.RankRoom:
		return "room"
	case flow.RankPerson:
		return "p-" + string(w.id)
	}
	return "self"
}

// put hands a notice to every audience that may see it.
func (h *hub) put(n Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	if n.Level == flow.RankPerson && h.streams["p-"+string(n.Principal)] == nil {
		h.streams["p-"+string(n.Principal)] = &stream{}
	}
	for name, st := range h.streams {
		if n.Level == flow.RankRoom || name == "self" || n.Level == flow.RankPerson && name == "p-"+string(n.Principal) {
			st.n++
			if len(st.last) >= 2*ring {
				kept := copy(st.last, st.last[ring:])
				clear(st.last[kept:])
				st.last = st.last[:kept]
			}
			st.last = append(st.last, &n)
		}
	}
	close(h.more)
	h.more = make(chan struct{})
}

// restore begins with the streams of s, which had so many notices before. What
// they were is in the journal.
func (h *hub) restore(s room.State, before map[string]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams = newHub(s).streams
	for name, n := range before {
		h.streams[name] = &stream{n: n}
	}
}

// counts returns how many notices each stream had.
func (h *hub) counts() map[string]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]uint64{}
	for name, st := range h.streams {
		out[name] = st.n
	}
	return out
}

// reset ends the subscriptions: what they read is to be numbered again.
func (h *hub) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch++
	close(h.more)
	h.more = make(chan struct{})
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.more)
	}
}

// since returns what is at hand after seq; lost when some of it is not, and a
// channel that closes when there is more.
func (h *hub) since(name string, seq uint64) (out []Notice, lost bool, more <-chan struct{}, epoch int, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.streams[name]
	if st == nil {
		return nil, false, h.more, h.epoch, h.ended
	}
	first := st.n - uint64(len(st.last))
	if seq < first {
		return nil, true, h.more, h.epoch, h.ended
	}
	for i, n := range st.last[min(seq, st.n)-first:] {
		out = append(out, *n)
		out[i].Seq = seq + uint64(i) + 1
	}
	return out, false, h.more, h.epoch, h.ended
}

// publish turns the step from one state to the next into notices.
func (h *hub) publish(before, after room.State, e room.Entry) {
	b := open.Open(e.Body)
	n := Notice{Level: e.Level, Principal: e.Owner}
	put := func(typ string) {
		n.Type = typ
		h.put(n)
	}
	switch e.Kind {
	case room.KMessage:
		m := after.Log.Recent(1)[0]
		n.Message = &m
		put("message")
	case room.KEdit, room.KDelete:
		if m, ok := after.Log.Get(b.Message.Seq); ok {
			n.Message = &m
			put("message.edited")
		}
	case room.KReact:
		n.Text, n.Message = b.Text, &room.Message{Seq: b.To}
		put("react")
	case room.KJoin, room.KLeave:
		if e.Kind == room.KJoin {
			h.join(b.Person.ID)
		}
		p, _ := after.People.Get(b.Person.ID)
		n.Person = &p
		put("presence")
	case room.KStatement:
		n.Statement = &room.Statement{ID: b.Statement.ID, Wording: b.Statement.Wording, By: b.Statement.By}
		put("release")
	case room.KCaucus:
		n.Line = b.Line
		put("caucus")
	case room.KAsk:
		n.Text = b.Release
		put("consent.ask")
	case room.KAnswer:
		n.Text = b.Answer + " " + b.Release
		put("receipt")
	case room.KCast:
		n.Item = b.Item
		put("own.contribution")
	case room.KRecord:
		n.Level = flow.RankSelf
		put("reflect")
	case room.KChoice:
		n.Choice, n.Bits, n.Text = &b.Self.Choice, b.Bits, b.Text
		put("choice")
	case room.KFailed:
		n.Item, n.Text = b.Field, b.Text
		put("beat.failed")
	case room.KPlan:
		n.Text = b.Tick
		put("plan")
	case room.KTell:
		n.Item, n.Text = b.Item, b.Text
		put("escalation")
	case room.KReceipt:
		n.Text = b.Effect
		put("delivered")
	}
	h.board(before, after)
}

func (h *hub) join(id principal.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name := "p-" + string(id); h.streams[name] == nil {
		r := h.streams["room"]
		h.streams[name] = &stream{n: r.n, last: slices.Clone(r.last)}
	}
}

// board tells of items whose public projection changed. A sealed contribution
// that changes nothing public makes no notice, so its moment does not show.
func (h *hub) board(before, after room.State) {
	for i, it := range after.Items {
		var old *room.Item
		if i < len(before.Items) {
			old = before.Items[i]
		}
		if it == old || it.Hidden {
			continue
		}
		line := view.Item(it, after.Surface)
		if old != nil && !old.Hidden && view.Item(old, after.Surface) == line && old.Archived == it.Archived {
			continue
		}
		h.put(Notice{Type: "board", Level: flow.RankRoom, Item: it.ID, Text: line})
		s := after.Surface
		if old != nil && s.Closes(it.Fields[s.Status]) && !s.Closes(old.Fields[s.Status]) {
			h.put(Notice{Type: "poll.closed", Level: flow.RankRoom, Item: it.ID, Text: line})
		}
	}
}

func (h *hub) diag(d room.Diag) {
	h.aside(Notice{Type: "repair", Level: flow.RankSelf, Item: d.Where, Text: d.Note})
}
func (h *hub) guard(why string) {
	h.aside(Notice{Type: "guard", Level: flow.RankSelf, Text: why})
}
func (h *hub) repair(l flow.Rank, what string) {
	h.aside(Notice{Type: "repair", Level: flow.RankSelf, Item: l.String(), Text: what})
}

// aside keeps notices without an entry: these are not numbered, so that a replay
// numbers the rest alike, and [Agent.Asides] hands them out once.
func (h *hub) aside(n Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if st := h.streams["self"]; !h.ended && len(st.asides) < ring {
		st.asides = append(st.asides, n)
	}
}

// Subscribe yields what w may know, after its notice number from, and then what
// comes, until ctx or the agent ends. A reader that breaks off and comes back
// with the last number it saw misses nothing; one that lags is served from the
// journal. Only w's own notices are ever looked at.
func (a *Agent) Subscribe(ctx context.Context, w Audience, from uint64) iter.Seq2[Notice, error] {
	return func(yield func(Notice, error) bool) {
		_, _, _, began, _ := a.hub.since("room", 0)
		for {
			if err := a.admit(w); err != nil {
				yield(Notice{}, err)
				return
			}
			out, lost, more, epoch, ended := a.hub.since(w.stream(), from)
			if epoch != began {
				return
			}
			if lost {
				var err error
				if out, err = a.reread(ctx, w, from); err != nil {
					yield(Notice{}, err)
					return
				}
			}
			for _, n := range out {
				if from = n.Seq; !yield(n, nil) {
					return
				}
			}
			if len(out) > 0 {
				continue
			}
			if ended {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

// reread makes the notices of w after from again, from the journal.
func (a *Agent) reread(ctx context.Context, w Audience, from uint64) (out []Notice, err error) {
	s, err := a.cfg.start()
	if err != nil {
		return nil, err
	}
	h := newHub(s)
	codec, tail := journal.NewCodec(a.cfg.Store, a.cfg.ID), journal.Tail{}
	for r, err := range a.cfg.Store.Load(ctx, a.cfg.ID, 0) {
		if err != nil {
			return nil, err
		}
		e, ok, t, err := codec.Decode(ctx, tail, r)
		if err != nil {
			return nil, err
		}
		tail = t
		next, _, applied := s.Apply(e)
		if !ok || applied != nil {
			s = s.Skip(r.Seq, r.Kind)
			continue
		}
		h.publish(s, next, e)
		s = next
		got, _, _, _, _ := h.since(w.stream(), from+uint64(len(out)))
		out = append(out, got...)
	}
	return out, nil
}

// Asides takes what beats and guards had to say since the last call. They are
// diagnostics for the operator and are not kept.
func (a *Agent) Asides(key *OperatorKey) ([]Notice, error) {
	if err := a.admit(ForSelf(key)); err != nil {
		return nil, err
	}
	a.hub.mu.Lock()
	defer a.hub.mu.Unlock()
	st := a.hub.streams["self"]
	out := st.asides
	st.asides = nil
	return out, nil
}
