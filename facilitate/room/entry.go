package room

import (
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
)

// A Kind says what an entry records.
type Kind string

// The kinds, by level. Room-level entries may hold nothing sealed.
const (
	KMessage   Kind = "message"   // room: a public line, also by Iris
	KEdit      Kind = "edit"      // room: new words for an own line
	KDelete    Kind = "delete"    // room: an own line taken back
	KReact     Kind = "react"     // room: Iris's reaction to a line
	KPin       Kind = "pin"       // room: Iris puts an item first
	KJoin      Kind = "join"      // room
	KLeave     Kind = "leave"     // room
	KOpen      Kind = "open"      // room: a person opens an item by form
	KSet       Kind = "set"       // room: a host sets a field by form
	KItems     Kind = "items"     // room: what the room-level beat wrote
	KStatement Kind = "statement" // room: released words
	KCaucus    Kind = "caucus"    // person: a line on the private line
	KCast      Kind = "cast"      // person: a contribution by form
	KRecord    Kind = "record"    // person: what the person-level beat wrote
	KAsk       Kind = "ask"       // person: a release was shown for consent
	KAnswer    Kind = "answer"    // person: consent, refusal or revocation
	KLower     Kind = "lower"     // person: a release became a statement
	KOptOut    Kind = "optout"    // person
	KChoice    Kind = "choice"    // self: notes and the choice
	KTick      Kind = "tick"      // self: a timer
	KPlan      Kind = "plan"      // self: a timer that Iris asked for; To is when, in Unix milliseconds
	KTell      Kind = "tell"      // self: words for whoever runs the room
	KPolicy    Kind = "policy"    // self: another policy applies
	KFailed    Kind = "failed"    // self: a beat or an act did not work
	KRead      Kind = "read"      // self: how far a beat has read
	KTurn      Kind = "turn"      // self: a turn ended; To is the last event it had seen
	KReceipt   Kind = "receipt"   // self: an effect was delivered
	KGone      Kind = "gone"      // self: a person was erased
)

// An Entry is one step of a room. Owner is set at the level of a person.
type Entry struct {
	Seq     uint64
	Kind    Kind
	Level   flow.Rank
	Owner   principal.ID
	At      int64    // Unix milliseconds; from the engine's clock
	Parents []uint64 // entries this one was made from
	Body    open.Box[Body]
}

// A Body is the content of an entry; which fields are set follows from Kind.
type Body struct {
	Key       string            `json:"key,omitempty"` // idempotency key of the event
	Author    principal.ID      `json:"author,omitempty"`
	Message   *Message          `json:"message,omitempty"`
	Person    *principal.Person `json:"person,omitempty"`
	Item      string            `json:"item,omitempty"`
	Field     string            `json:"field,omitempty"`
	Text      string            `json:"text,omitempty"`
	Options   []string          `json:"options,omitempty"`
	Line      *Line             `json:"line,omitempty"`
	Value     map[string]any    `json:"value,omitempty"`
	Items     *RoomDelta        `json:"items,omitempty"`
	Record    *PersonDelta      `json:"record,omitempty"`
	Self      *SelfDelta        `json:"self,omitempty"`
	Release   string            `json:"release,omitempty"`
	Answer    string            `json:"answer,omitempty"` // grant, decline, revoke or expire
	Statement *Statement        `json:"statement,omitempty"`
	Bits      float64           `json:"bits,omitempty"`
	Effect    string            `json:"effect,omitempty"` // id of an effect
	Tool      string            `json:"tool,omitempty"`
	Intent    string            `json:"intent,omitempty"`
	To        uint64            `json:"to,omitempty"`
	Tick      string            `json:"tick,omitempty"`
	Poll      string            `json:"poll,omitempty"` // item whose vote a line of Iris opens
}

// A RoomDelta is what a room-level beat may write.
type RoomDelta struct {
	Items   []ItemPatch `json:"items,omitempty"`
	Summary string      `json:"summary,omitempty"`
	From    uint64      `json:"from,omitempty"` // lines it was new to, stamped by the engine
	To      uint64      `json:"to,omitempty"`
}

// An ItemPatch changes one item, or opens it.
type ItemPatch struct {
	ID     string                `json:"id"`
	Fields map[string]FieldPatch `json:"fields,omitempty"`
	Ops    map[string][]ListOp   `json:"ops,omitempty"`
}

// A FieldPatch sets a field, or clears it.
type FieldPatch struct {
	Text     string   `json:"text,omitempty"`
	Clear    bool     `json:"clear,omitempty"`
	Evidence []uint64 `json:"evidence,omitempty"`
}

// A ListOp adds, rewords or withdraws an option.
type ListOp struct {
	Op       string   `json:"op"`
	Label    string   `json:"label"`
	New      string   `json:"new,omitempty"`
	By       string   `json:"by,omitempty"`
	Evidence []uint64 `json:"evidence,omitempty"`
}

// A PersonDelta is what a person-level beat may write, about its person only.
type PersonDelta struct {
	Interest    string         `json:"interest,omitempty"`
	Position    string         `json:"position,omitempty"`
	Beliefs     string         `json:"beliefs,omitempty"`
	Arc         string         `json:"arc,omitempty"`
	Confidence  string         `json:"confidence,omitempty"`
	WatchingFor string         `json:"watchingFor,omitempty"`
	HelpNext    string         `json:"helpNext,omitempty"`
	Regards     []Regard       `json:"regards,omitempty"`
	Shift       *Shift         `json:"shift,omitempty"`
	Item        string         `json:"item,omitempty"`
	Value       map[string]any `json:"value,omitempty"`
	Wording     string         `json:"wording,omitempty"`
	Attribution string         `json:"attribution,omitempty"`
	ReadTo      uint64         `json:"readTo,omitempty"`
	ReadLine    uint64         `json:"readLine,omitempty"`
}

// A SelfDelta is what a self-level beat may write.
type SelfDelta struct {
	Notes  []Note `json:"notes,omitempty"`
	Choice Choice `json:"choice"`
}

// A Note is Iris's own remark on an item.
type Note struct {
	Item      string `json:"item"`
	Heartbeat string `json:"heartbeat,omitempty"`
	Read      string `json:"read,omitempty"`
}

// None is the tool of a choice to hold.
const None = "none"

// A Choice is what Iris does next. All of it but Rationale is of a closed
// vocabulary, because it is the only way from self to a lower level; Rationale
// never leaves self.
type Choice struct {
	Tool      string       `json:"tool"`
	Target    principal.ID `json:"target,omitempty"`
	Intent    string       `json:"intent,omitempty"`
	Focus     string       `json:"focus,omitempty"`
	Release   string       `json:"release,omitempty"` // owner/id
	Rationale string       `json:"rationale,omitempty"`
}

// A Diag says that something of an entry was dropped or changed, and why. Its
// Note is the engine's own words and quotes nobody.
type Diag struct {
	Where, Note string
}

// Find returns the release named by "owner/id".
func (s State) Find(ref string) (release.Release, bool) {
	for id, box := range s.files {
		for _, r := range open.Open(box).Releases {
			if string(id)+"/"+r.ID == ref {
				return r, true
			}
		}
	}
	return release.Release{}, false
}

// Sources returns the entries of the public lines after line from, and of what
// the board and the statements came from last: what a beat at the level of the
// room has read.
func (s State) Sources(from uint64) (out []uint64) {
	if s.board > 0 {
		out = append(out, s.board)
	}
	for _, st := range s.Statements {
		out = append(out, st.entry)
	}
	for _, m := range s.Log.Since(from) {
		out = append(out, m.entry)
	}
	return out
}

// Granted lists the releases that may be carried now, as "owner/id", sorted.
func (s State) Granted() (out []string) {
	ticks := open.Open(s.inner).Ticks
	for _, p := range s.People.All() {
		for _, r := range open.Open(s.files[p.ID]).Releases {
			if r.Ready(s.Others(p.ID), ticks) {
				out = append(out, string(p.ID)+"/"+r.ID)
			}
		}
	}
	return out
}

// Seen reports whether an event with this key was applied lately.
func (s State) Seen(key string) bool {
	if key == "" {
		return false
	}
	for _, gen := range open.Open(s.inner).seen {
		for _, k := range gen {
			if k == key {
				return true
			}
		}
	}
	return false
}

// remember keeps the last 768 to 1024 keys.
func (in *Inner) remember(key string) {
	if key == "" {
		return
	}
	if len(in.seen[0]) == 256 {
		in.seen = [4][]string{nil, in.seen[0], in.seen[1], in.seen[2]}
	}
	gen := make([]string, len(in.seen[0])+1)
	copy(gen, in.seen[0])
	gen[len(gen)-1] = key
	in.seen[0] = gen
}
