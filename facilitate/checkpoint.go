package facilitate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/room"
)

// A kept is what an agent holds beside the state.
type kept struct {
	Events  uint64            `json:"events"`
	Turned  uint64            `json:"turned"`
	Erased  bool              `json:"erased,omitempty"`
	Undone  *room.Choice      `json:"undone,omitempty"`
	Outbox  []keptEffect      `json:"outbox,omitempty"`
	Streams map[string]uint64 `json:"streams"`
}

type keptEffect struct {
	Seq    uint64        `json:"seq"`
	Room   *RoomEffect   `json:"room,omitempty"`
	Person *PersonEffect `json:"person,omitempty"`
	Host   *HostEffect   `json:"host,omitempty"`
}

// checkpoint keeps the state when at least so many entries came since the last
// time, and no choice waits for its act. One that cannot be kept costs the next
// start some time and nothing else. A turn makes about eight entries, so that
// with the usual number fewer than one turn in a hundred pays for one.
func (a *Agent) checkpoint(ctx context.Context, every int) {
	a.keep.Lock()
	defer a.keep.Unlock()
	a.mu.Lock()
	st, tail := a.state, a.tail
	due := !a.closed && a.broken == nil && tail.Seq >= a.kept+uint64(every) && open.Open(st.Inner()).Choice != tail.Seq
	k := kept{Events: a.events, Turned: a.turned, Erased: a.erased, Undone: a.undone, Streams: a.hub.counts()}
	for _, e := range a.outbox {
		k.Outbox = append(k.Outbox, keptEffect{e.seq, e.room, e.person, e.host})
	}
	a.mu.Unlock()
	if !due {
		return
	}
	if err := a.save(ctx, st, tail, k); err != nil {
		a.cfg.Logger.WarnContext(ctx, "checkpoint not kept", "room", a.cfg.ID, "error", err)
		return
	}
	a.mu.Lock()
	a.kept = tail.Seq
	a.mu.Unlock()
}

func (a *Agent) save(ctx context.Context, st room.State, tail journal.Tail, k kept) error {
	v, err := st.Save()
	if err != nil {
		return err
	}
	agent, err := json.Marshal(k)
	if err != nil {
		return err
	}
	c, err := journal.NewCodec(a.cfg.Store, a.cfg.ID).Checkpoint(ctx, tail, a.about(), v, open.Seal(agent))
	if err != nil {
		return err
	}
	return a.cfg.Store.SaveCheckpoint(ctx, a.cfg.ID, c)
}

// restore takes the last checkpoint, and reports whether there was one that
// opens. The journal then says whether it fits.
func (a *Agent) restore(ctx context.Context) bool {
	c, ok, err := a.cfg.Store.Checkpoint(ctx, a.cfg.ID)
	if err != nil || !ok {
		return false
	}
	v, box, err := a.codec.Restore(ctx, a.about(), c)
	if err != nil {
		return false // another configuration, or another form
	}
	start, err := a.cfg.start()
	if err != nil {
		return false
	}
	st, err := room.Restore(start, v)
	var k kept
	if err != nil || json.Unmarshal(open.Open(box), &k) != nil || st.Seq != c.Seq {
		return false
	}
	a.state, a.tail, a.kept = st, journal.Tail{Seq: c.Seq, Hash: c.Hash}, c.Seq
	a.events, a.turned, a.erased, a.undone, a.outbox = k.Events, k.Turned, k.Erased, k.Undone, nil
	for _, e := range k.Outbox {
		o := effect{seq: e.Seq, room: e.Room, person: e.Person, host: e.Host}
		switch {
		case a.cfg.Port == nil:
			continue
		case e.Room != nil:
			o.id = e.Room.ID
		case e.Person != nil:
			o.id = e.Person.ID
		case e.Host != nil:
			o.id = e.Host.ID
		}
		a.outbox = append(a.outbox, o)
	}
	a.hub.restore(st, k.Streams)
	return true
}

// about is a fingerprint of what the state depends on beside the journal: who sat
// down at the beginning, and how the surface is declared.
func (a *Agent) about() string {
	s := a.cfg.Surface
	data, err := json.Marshal(struct {
		Topic    string
		People   []Participant
		Surface  []any
		Declared []bool
	}{a.cfg.Topic, a.cfg.Participants, []any{
		s.Name, s.Shared, s.Status, s.Notes, s.Contribution, s.Statuses, s.Next, s.Closing, s.Reopens, s.Policy, s.OwnHand,
		s.Versioned, s.VersionIn, s.HiddenBelow, s.Voices, s.Keys, s.List, s.Outcome, s.Statement, s.Unanimous,
	}, []bool{s.Count != nil, s.Veto != nil, s.Supports != nil, s.Agrees != nil}})
	if err != nil { // plain values marshal
		return fmt.Sprint(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
