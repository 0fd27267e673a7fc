// Package journaltest is the suite that every [journal.Store] passes.
package journaltest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// Entry returns an entry of a kind that fits the level, carrying text.
func Entry(seq uint64, level flow.Rank, owner principal.ID, text string) room.Entry {
	kind := map[flow.Rank]room.Kind{flow.RankRoom: room.KMessage, flow.RankPerson: room.KCaucus, flow.RankSelf: room.KFailed}[level]
	return room.Entry{Seq: seq, Kind: kind, Level: level, Owner: owner, At: int64(seq), Body: open.Seal(room.Body{Text: text})}
}

// Write appends entries of the given texts to a room, levels in turn.
func Write(t *testing.T, s journal.Store, id string, texts ...string) []journal.Record {
	t.Helper()
	var tail journal.Tail
	for r, err := range s.Load(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		tail = journal.Tail{Seq: r.Seq, Hash: r.Hash}
	}
	c := journal.NewCodec(s, id)
	var recs []journal.Record
	from := tail.Seq
	for _, text := range texts {
		level, owner := flow.Rank(tail.Seq%3), principal.ID("")
		if level == flow.RankPerson {
			owner = "ana"
		}
		r, next, err := c.Encode(t.Context(), tail, Entry(tail.Seq+1, level, owner, text))
		if err != nil {
			t.Fatal(err)
		}
		recs, tail = append(recs, r), next
	}
	if err := s.Append(t.Context(), id, from, recs); err != nil {
		t.Fatal(err)
	}
	return recs
}

// Texts decodes a room; an erased entry is "-".
func Texts(t *testing.T, s journal.Store, id string) (out []string) {
	t.Helper()
	c, tail := journal.NewCodec(s, id), journal.Tail{}
	for r, err := range s.Load(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, ok, next, err := c.Decode(t.Context(), tail, r)
		if err != nil {
			t.Fatal(err)
		}
		tail = next
		if !ok {
			out = append(out, "-")
			continue
		}
		out = append(out, open.Open(e.Body).Text)
	}
	return out
}

// Run runs the suite. dump returns every byte the store keeps of a room.
func Run(t *testing.T, fresh func(t *testing.T) journal.Store, dump func(t *testing.T, s journal.Store, room string) []byte) {
	ctx := context.Background()
	t.Run("what is appended is loaded", func(t *testing.T) {
		s := fresh(t)
		Write(t, s, "r1", "a", "b", "c")
		Write(t, s, "r1", "d")
		Write(t, s, "r2", "z")
		if got := fmt.Sprint(Texts(t, s, "r1"), Texts(t, s, "r2")); got != "[a b c d] [z]" {
			t.Errorf("loaded %s", got)
		}
		n := 0
		for r := range s.Load(ctx, "r1", 2) {
			if n++; r.Seq != uint64(n)+2 {
				t.Errorf("from 2: %d", r.Seq)
			}
			if n == 1 {
				break
			}
		}
		for range s.Load(ctx, "r1", 99) {
			t.Error("records behind the end")
		}
	})
	t.Run("appends are fenced", func(t *testing.T) {
		s := fresh(t)
		recs := Write(t, s, "r1", "a", "b")
		for expected, bad := range map[uint64][]journal.Record{0: recs, 1: recs[1:], 2: recs[:1], 5: nil} {
			if err := s.Append(ctx, "r1", expected, bad); !errors.Is(err, journal.ErrConflict) {
				t.Errorf("behind %d: %v", expected, err)
			}
		}
		if got := Texts(t, s, "r1"); len(got) != 2 {
			t.Errorf("stored %v", got)
		}
	})
	t.Run("sealed payloads are not at rest in clear", func(t *testing.T) {
		s := fresh(t)
		Write(t, s, "r1", "PUBLIC-CANARY", "SEALED-CANARY", "INNER-CANARY")
		got := dump(t, s, "r1")
		if bytes.Contains(got, []byte("SEALED-CANARY")) || bytes.Contains(got, []byte("INNER-CANARY")) {
			t.Error("a sealed text is at rest in clear")
		}
		if len(got) == 0 {
			t.Error("the dump is empty, so it proves nothing")
		}
	})
	t.Run("a changed record is found", func(t *testing.T) {
		s := fresh(t)
		recs := Write(t, s, "r1", "a", "b", "c")
		for name, spoil := range map[string]func(*journal.Record){
			"payload": func(r *journal.Record) { r.Payload = append(bytes.Clone(r.Payload), 'x') },
			"kind":    func(r *journal.Record) { r.Kind = room.KTick }, "owner": func(r *journal.Record) { r.Owner = "ben" },
			"time": func(r *journal.Record) { r.At++ }, "parents": func(r *journal.Record) { r.Parents = []uint64{1} },
			"prev": func(r *journal.Record) { r.Prev = "x" }, "seq": func(r *journal.Record) { r.Seq = 9 }, "digest": func(r *journal.Record) { r.Digest = "" },
		} {
			r := recs[1]
			spoil(&r)
			if _, _, _, err := journal.NewCodec(s, "r1").Decode(ctx, journal.Tail{Seq: 1, Hash: recs[0].Hash}, r); !errors.Is(err, journal.ErrChain) {
				t.Errorf("another %s: %v", name, err)
			}
		}
		if _, _, _, err := journal.NewCodec(s, "r2").Decode(ctx, journal.Tail{Seq: 1, Hash: recs[0].Hash}, recs[1]); !errors.Is(err, journal.ErrChain) {
			t.Errorf("in another room: %v", err)
		}
	})
	t.Run("erasing leaves a whole chain and no residue", func(t *testing.T) {
		s := fresh(t)
		recs := Write(t, s, "r1", "a", "b", "c", "d", "e")
		before := dump(t, s, "r1")
		key, err := s.Key(ctx, "r1", "ana")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Erase(ctx, "r1", "ana", []uint64{1, 2, 5, 77}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(Texts(t, s, "r1")); got != "[- - c d -]" {
			t.Errorf("after: %s", got)
		}
		after := dump(t, s, "r1")
		for _, i := range []int{0, 1, 4} {
			at := []byte(base64.StdEncoding.EncodeToString(recs[i].Payload))
			if !bytes.Contains(before, at) || bytes.Contains(after, at) {
				t.Errorf("record %d: residue, or the dump does not show it", i+1)
			}
		}
		if bytes.Contains(after, key) {
			t.Error("the key is still there")
		}
		if again, _ := s.Key(ctx, "r1", "ana"); bytes.Equal(again, key) {
			t.Error("the key survived")
		}
		Write(t, s, "r1", "f")
		if got := Texts(t, s, "r1"); got[5] != "f" {
			t.Errorf("appending after: %v", got)
		}
	})
	t.Run("the last checkpoint is kept, and none after an erasure", func(t *testing.T) {
		s := fresh(t)
		if _, ok, err := s.Checkpoint(ctx, "r1"); ok || err != nil {
			t.Errorf("of an empty room: %v %v", ok, err)
		}
		recs := Write(t, s, "r1", "a", "b", "c", "d")
		for _, r := range recs[1:3] {
			c, err := journal.NewCodec(s, "r1").Checkpoint(ctx, journal.Tail{Seq: r.Seq, Hash: r.Hash}, "about", room.Saved{
				Public: []byte("PUBLIC-CANARY"), Inner: open.Seal([]byte("INNER-CANARY")), Files: map[principal.ID]open.Box[[]byte]{"ana": open.Seal([]byte("SEALED-CANARY"))},
			}, open.Seal([]byte("AGENT-CANARY")))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SaveCheckpoint(ctx, "r1", c); err != nil {
				t.Fatal(err)
			}
		}
		if bytes.Contains(dump(t, s, "r1"), []byte("CANARY")) {
			t.Error("a checkpoint is at rest in clear")
		}
		c, ok, err := s.Checkpoint(ctx, "r1")
		if err != nil || !ok || c.Seq != 3 || c.Hash != recs[2].Hash {
			t.Fatalf("%+v %v %v", c, ok, err)
		}
		v, agent, err := journal.NewCodec(s, "r1").Restore(ctx, "about", c)
		if err != nil || string(v.Public) != "PUBLIC-CANARY" || string(open.Open(v.Inner)) != "INNER-CANARY" || string(open.Open(v.Files["ana"])) != "SEALED-CANARY" || string(open.Open(agent)) != "AGENT-CANARY" {
			t.Errorf("%s %v", v.Public, err)
		}
		if _, _, err := journal.NewCodec(s, "r1").Restore(ctx, "something else", c); !errors.Is(err, journal.ErrCheckpoint) {
			t.Errorf("about something else: %v", err)
		}
		if _, _, err := journal.NewCodec(s, "r2").Restore(ctx, "about", c); !errors.Is(err, journal.ErrCheckpoint) {
			t.Errorf("in another room: %v", err)
		}
		if err := s.Erase(ctx, "r1", "ana", []uint64{2}); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.Checkpoint(ctx, "r1"); ok || err != nil {
			t.Errorf("after an erasure: %v %v", ok, err)
		}
	})
	t.Run("one holder per room", func(t *testing.T) {
		s := fresh(t)
		unlock, err := s.Lock(ctx, "r1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Lock(ctx, "r1"); !errors.Is(err, journal.ErrLocked) {
			t.Errorf("second: %v", err)
		}
		other, err := s.Lock(ctx, "r2")
		if err != nil {
			t.Errorf("another room: %v", err)
		} else {
			other()
		}
		unlock()
		unlock2, err := s.Lock(ctx, "r1")
		if err != nil {
			t.Fatalf("after unlock: %v", err)
		}
		unlock2()
	})
}
