package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// ErrCheckpoint is a checkpoint that cannot be used. Replay the journal.
var ErrCheckpoint = errors.New("not a checkpoint of this room")

// A Checkpoint is the state of a room behind the record Seq, so that opening it
// need not replay what came before. It is worth nothing by itself: the journal is
// the truth, and a checkpoint that does not fit it is left aside. Every part is
// encrypted, a person's file under that person's key.
type Checkpoint struct {
	Seq   uint64 `json:"seq"`
	Hash  string `json:"hash"` // of the record Seq
	Parts []Part `json:"parts"`
}

// A Part is one sealed part of a checkpoint.
type Part struct {
	Name    string       `json:"name"` // "room", "self", "agent" or "p-<id>"
	Owner   principal.ID `json:"owner,omitempty"`
	Salt    []byte       `json:"salt"`
	Payload []byte       `json:"payload"`
}

// Checkpoint seals the state v behind tail. about is what else the state depends
// on; another about does not open it. agent is kept along at the level of self.
func (c *Codec) Checkpoint(ctx context.Context, tail Tail, about string, v room.Saved, agent open.Box[[]byte]) (Checkpoint, error) {
	out := Checkpoint{Seq: tail.Seq, Hash: tail.Hash}
	add := func(name string, owner principal.ID, data []byte) error {
		gcm, err := c.key(ctx, owner)
		if err != nil {
			return err
		}
		salt := make([]byte, 12)
		rand.Read(salt)
		out.Parts = append(out.Parts, Part{name, owner, salt, gcm.Seal(nil, salt, data, c.boundPart(out, about, name))})
		return nil
	}
	err := errors.Join(add("room", "", v.Public), add("self", "", open.Open(v.Inner)), add("agent", "", open.Open(agent)))
	var people []principal.ID
	for id := range v.Files {
		people = append(people, id)
	}
	slices.Sort(people)
	for _, id := range people {
		err = errors.Join(err, add("p-"+string(id), id, open.Open(v.Files[id])))
	}
	return out, err
}

// Restore opens a checkpoint. Whether it fits the journal is for the caller to
// see: the record Seq has its Hash.
func (c *Codec) Restore(ctx context.Context, about string, in Checkpoint) (v room.Saved, agent open.Box[[]byte], err error) {
	v.Files = map[principal.ID]open.Box[[]byte]{}
	for _, p := range in.Parts {
		gcm, err := c.key(ctx, p.Owner)
		if err != nil {
			return v, agent, err
		}
		if len(p.Salt) != gcm.NonceSize() {
			return v, agent, fmt.Errorf("part %s: %w", p.Name, ErrCheckpoint)
		}
		data, err := gcm.Open(nil, p.Salt, p.Payload, c.boundPart(in, about, p.Name))
		if err != nil {
			return v, agent, fmt.Errorf("part %s: %w", p.Name, ErrCheckpoint)
		}
		switch {
		case p.Owner != "":
			v.Files[p.Owner] = open.Seal(data)
		case p.Name == "room":
			v.Public = data
		case p.Name == "self":
			v.Inner = open.Seal(data)
		case p.Name == "agent":
			agent = open.Seal(data)
		}
	}
	return v, agent, nil
}

// boundPart ties a part to its place.
func (c *Codec) boundPart(in Checkpoint, about, name string) []byte {
	return fmt.Appendf(nil, "checkpoint\x00%d\x00%s\x00%d\x00%s\x00%s\x00%s", room.Form, c.room, in.Seq, in.Hash, about, name)
}
