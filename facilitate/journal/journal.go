// Package journal writes the entries of a room down: in order, in a hash chain,
// and sealed ones encrypted under the key of their person. It owns the form of
// a [Record] and the contract of a [Store]; two stores lie below, and
// journaltest holds the suite that every store passes.
//
// What an entry means is package room's business. The chain shows tampering by
// whoever does not also rewrite all that follows; it is no signature.
package journal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// ErrConflict is an append that did not follow the last record: somebody else
// writes this room. Load again.
var ErrConflict = errors.New("the journal has moved on")

// ErrChain is a record that does not follow from the one before, or whose
// content is not what was written.
var ErrChain = errors.New("the chain of the journal is broken")

// ErrLocked is a room that another process or agent has open.
var ErrLocked = errors.New("the room is open elsewhere")

// A Record is an entry at rest. Payload is the body as JSON, encrypted unless
// the level is the room's. An erased record is Gone: it keeps its place and its
// digest, and has no payload or salt.
type Record struct {
	Seq     uint64       `json:"seq"`
	Kind    room.Kind    `json:"kind"`
	Level   flow.Rank    `json:"level"`
	Owner   principal.ID `json:"owner,omitempty"`
	At      int64        `json:"at,omitempty"`
	Parents []uint64     `json:"parents,omitempty"`
	Salt    []byte       `json:"salt,omitempty"`
	Payload []byte       `json:"payload,omitempty"`
	Digest  string       `json:"digest"` // of salt and payload
	Prev    string       `json:"prev,omitempty"`
	Hash    string       `json:"hash"`
	Gone    bool         `json:"gone,omitempty"`
}

// Compartment names the file a record belongs in: "room", "self" or "p-<id>".
func (r Record) Compartment() string {
	switch r.Level {
	case flow.RankRoom:
		return "room"
	case flow.RankPerson:
		return "p-" + string(r.Owner)
	}
	return "self"
}

// A Store keeps the records of rooms.
//
// Implementations must
//   - refuse an append whose first record does not have expected+1 as Seq, or
//     when expected is not the last Seq, with ErrConflict, storing nothing;
//   - have the records on stable storage when Append returns nil;
//   - yield from Load a prefix of what was appended, in order, without holes,
//     also after a crash in the middle of an append, which the next append
//     then continues;
//   - make the data key of an owner on first use, and keep one key for each
//     room and owner; the owner of what is Iris's own is empty;
//   - let Erase replace the named records by their tombstones and destroy the
//     owner's key, so that neither is found in the store afterwards;
//   - keep the last checkpoint of a room, whole or not at all; hand none out
//     rather than half a one; and drop it in Erase before anything else, since
//     its content is not told apart;
//   - give Lock to one holder per room at a time, with ErrLocked to others;
//   - be safe for concurrent use.
type Store interface {
	Append(ctx context.Context, room string, expected uint64, recs []Record) error
	Load(ctx context.Context, room string, from uint64) iter.Seq2[Record, error]
	Key(ctx context.Context, room string, owner principal.ID) ([]byte, error)
	Erase(ctx context.Context, room string, owner principal.ID, seqs []uint64) error
	SaveCheckpoint(ctx context.Context, room string, c Checkpoint) error
	Checkpoint(ctx context.Context, room string) (c Checkpoint, ok bool, err error)
	Lock(ctx context.Context, room string) (unlock func(), err error)
}

// A Tail is the end of a chain.
type Tail struct {
	Seq  uint64
	Hash string
}

// A Codec turns the entries of one room into records and back. It caches keys;
// make a new one after an erasure. It is not safe for concurrent use.
type Codec struct {
	store Store
	room  string
	gcm   map[principal.ID]cipher.AEAD
}

// NewCodec returns a codec for a room in s.
func NewCodec(s Store, room string) *Codec {
	return &Codec{store: s, room: room, gcm: map[principal.ID]cipher.AEAD{}}
}

// Encode returns the record of e behind tail. e.Seq must be tail.Seq+1.
func (c *Codec) Encode(ctx context.Context, tail Tail, e room.Entry) (Record, Tail, error) {
	if e.Seq != tail.Seq+1 {
		return Record{}, tail, fmt.Errorf("encode entry %d behind %d: %w", e.Seq, tail.Seq, ErrConflict)
	}
	r := Record{Seq: e.Seq, Kind: e.Kind, Level: e.Level, Owner: e.Owner, At: e.At, Parents: e.Parents, Prev: tail.Hash}
	body, err := json.Marshal(open.Open(e.Body))
	if err != nil {
		return Record{}, tail, fmt.Errorf("encode entry %d: %w", e.Seq, err)
	}
	r.Salt = make([]byte, 12)
	rand.Read(r.Salt)
	r.Payload = body
	if e.Level != flow.RankRoom {
		gcm, err := c.key(ctx, e.Owner)
		if err != nil {
			return Record{}, tail, err
		}
		r.Payload = gcm.Seal(nil, r.Salt, body, c.bound(r))
	}
	r.Digest = digest(r.Salt, r.Payload)
	r.Hash = r.hash()
	return r, Tail{r.Seq, r.Hash}, nil
}

// Decode checks that r follows tail and returns its entry; false for one that
// was erased.
func (c *Codec) Decode(ctx context.Context, tail Tail, r Record) (room.Entry, bool, Tail, error) {
	if r.Seq != tail.Seq+1 || r.Prev != tail.Hash || r.Hash != r.hash() {
		return room.Entry{}, false, tail, fmt.Errorf("record %d: %w", r.Seq, ErrChain)
	}
	next := Tail{r.Seq, r.Hash}
	if r.Gone {
		return room.Entry{}, false, next, nil
	}
	if r.Digest != digest(r.Salt, r.Payload) {
		return room.Entry{}, false, tail, fmt.Errorf("record %d: other content: %w", r.Seq, ErrChain)
	}
	body := r.Payload
	if r.Level != flow.RankRoom {
		gcm, err := c.key(ctx, r.Owner)
		if err != nil {
			return room.Entry{}, false, tail, err
		}
		if body, err = gcm.Open(nil, r.Salt, r.Payload, c.bound(r)); err != nil {
			return room.Entry{}, false, tail, fmt.Errorf("record %d: other key: %w", r.Seq, ErrChain)
		}
	}
	var b room.Body
	if err := json.Unmarshal(body, &b); err != nil {
		return room.Entry{}, false, tail, fmt.Errorf("record %d: %w: %w", r.Seq, err, ErrChain)
	}
	return room.Entry{Seq: r.Seq, Kind: r.Kind, Level: r.Level, Owner: r.Owner, At: r.At, Parents: r.Parents, Body: open.Seal(b)}, true, next, nil
}

// Tombstone returns r without anything of its content.
func (r Record) Tombstone() Record {
	r.Salt, r.Payload, r.Gone = nil, nil, true
	return r
}

func (c *Codec) key(ctx context.Context, owner principal.ID) (cipher.AEAD, error) {
	if g := c.gcm[owner]; g != nil {
		return g, nil
	}
	key, err := c.store.Key(ctx, c.room, owner)
	if err != nil {
		return nil, fmt.Errorf("key of %q in %s: %w", owner, c.room, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key of %q in %s: %w", owner, c.room, err)
	}
	g, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	c.gcm[owner] = g
	return g, nil
}

// bound ties a ciphertext to its place.
func (c *Codec) bound(r Record) []byte {
	return fmt.Appendf(nil, "%s\x00%d\x00%s\x00%d\x00%s", c.room, r.Seq, r.Kind, r.Level, r.Owner)
}

func digest(salt, payload []byte) string {
	h := sha256.New()
	h.Write(salt)
	h.Write(payload)
	return hex.EncodeToString(h.Sum(nil))
}

func (r Record) hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%s\x00%d\x00%s\x00%d\x00%v\x00%s", r.Prev, r.Seq, r.Kind, r.Level, r.Owner, r.At, r.Parents, r.Digest)
	return hex.EncodeToString(h.Sum(nil))
}
