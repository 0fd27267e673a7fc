// Package room is the state of one room and how it changes: a pure function
// from a [State] and an [Entry] to the next State. Nothing here calls a model,
// reads a clock or does I/O, so the same entries always give the same state.
//
// The state is in three parts that match the labels of package flow. [Public]
// is what everybody sees, and views of the room are built from it alone. Each
// person's [File] and Iris's own [Inner] are boxed. What a model wrote is
// merged here and is not trusted: see the rules at [State.Apply].
package room

import (
	"maps"
	"slices"

	"github.com/iris-operator/iris/facilitate/disclose"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/surface"
)

// Bounds on what is kept. They also bound what a prompt can hold.
const (
	MaxOpenItems  = 24
	MaxLabel      = 120
	MaxField      = 400
	MaxOptions    = 16
	MaxLine       = 8000
	MaxFacet      = 400
	MaxShifts     = 50
	MaxThread     = 200
	MaxThoughts   = 50
	MaxRegards    = 12
	MaxStatements = 20
	MaxReleases   = 16
	MaxPlans      = 8
	MaxBoard      = 24_000 // bytes of all items on the board; a prompt always holds it whole
	MaxSummary    = 2_000
	keptClosed    = 8
)

// A Message is a public line. Seq counts public lines only, so that its value
// says nothing of what happens in private.
type Message struct {
	Seq      uint64       `json:"seq"`
	Author   principal.ID `json:"author"`
	Text     string       `json:"text"`
	At       int64        `json:"at,omitempty"` // Unix milliseconds
	ReplyTo  uint64       `json:"replyTo,omitempty"`
	External string       `json:"externalId,omitempty"`
	Edited   bool         `json:"edited,omitempty"`
	Deleted  bool         `json:"deleted,omitempty"`
	entry    uint64       // journal entry; no view shows it
}

// An Option is an element of a list field and who proposed it in public.
type Option struct {
	Label     string       `json:"label"`
	By        principal.ID `json:"by,omitempty"`
	Evidence  []uint64     `json:"evidence,omitempty"`
	Withdrawn bool         `json:"withdrawn,omitempty"`
}

// An Item is one thing on the board, without anything sealed.
type Item struct {
	ID       string
	Fields   map[string]string
	Lists    map[string][]Option
	Evidence map[string][]uint64
	Rev      int
	Opened   uint64            // public line it was opened at
	Voices   []principal.ID    // who spoke on it in public
	Eligible []principal.ID    // who may contribute; fixed by the first contribution
	Answered int               // how many contributed
	Version  string            // fingerprint of the versioned field
	Policy   disclose.Policy   // fixed at opening
	Result   map[string]string // what the policy lets the room know
	ByHand   bool              // opened by somebody's form
	Called   bool              // the vote on its options is open, and they are fixed
	Pinned   bool              // before the others on the board
	Hidden   bool              // below the support that shows it
	Archived bool
}

// Labels returns the live labels of a list field.
func (i *Item) Labels(list string) []string {
	var out []string
	for _, o := range i.Lists[list] {
		if !o.Withdrawn {
			out = append(out, o.Label)
		}
	}
	return out
}

func (i *Item) lists() map[string][]string {
	out := map[string][]string{}
	for name := range i.Lists {
		out[name] = i.Labels(name)
	}
	return out
}

// size is about how many bytes the item takes in a prompt.
func (i *Item) size() int {
	n := len(i.ID)
	for k, v := range i.Fields {
		n += len(k) + len(v) + 24
	}
	for k, v := range i.Lists {
		n += len(k)
		for _, o := range v {
			n += len(o.Label) + 24
		}
	}
	return n
}

func (i *Item) clone() *Item {
	c := *i
	c.Fields, c.Evidence, c.Result = maps.Clone(i.Fields), maps.Clone(i.Evidence), maps.Clone(i.Result)
	c.Lists = map[string][]Option{}
	for k, v := range i.Lists {
		c.Lists[k] = slices.Clone(v)
	}
	c.Voices, c.Eligible = slices.Clone(i.Voices), slices.Clone(i.Eligible)
	return &c
}

// A Statement is somebody's words after their consent. By is empty when it is
// unattributed.
type Statement struct {
	ID      string       `json:"id"`
	Wording string       `json:"wording"`
	By      principal.ID `json:"by,omitempty"`
	Posted  bool         `json:"posted,omitempty"`
	entry   uint64
}

// Public is the part of the state that everybody in the room may know. Its
// slices and maps must not be changed by readers.
type Public struct {
	ID, Topic  string
	Turn       int // public events
	People     principal.Roster
	Log        Log
	Spoken     map[principal.ID]int // public lines by author
	Items      []*Item
	Statements []Statement
	Summary    string // by a room-level beat, of lines that left the window
	SummaryTo  uint64
	Reactions  map[uint64][]string
	board      uint64 // entry that changed the board last
}

// Item returns the item of that id, or nil.
func (p *Public) Item(id string) *Item {
	for _, i := range p.Items {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// Others counts the public lines that neither id nor Iris wrote.
func (p *Public) Others(id principal.ID) int {
	n := 0
	for who, k := range p.Spoken {
		if who != id && who != principal.Iris && who != principal.System {
			n += k
		}
	}
	return n
}

// A Line is one message on a private line.
type Line struct {
	From principal.ID `json:"from"`
	Text string       `json:"text"`
	At   int64        `json:"at,omitempty"`
	Seq  uint64       `json:"seq,omitempty"`
}

// A Regard is how a person sees another.
type Regard struct {
	Toward principal.ID `json:"toward"`
	Note   string       `json:"note"`
}

// A Shift is an observed change of mind. Turn is stamped by the engine.
type Shift struct {
	Turn     int    `json:"turn,omitempty"`
	Observed string `json:"observed"`
	From     string `json:"from"`
	To       string `json:"to"`
}

// A Cast is a sealed contribution and the version it was given for.
type Cast struct {
	Value   surface.Value
	Version string
}

// A File is what Iris holds about one person. Mind is what she thinks they
// want, Confidence is about her, Plan is what she watches and how she helps.
type File struct {
	Prior                             string
	Interest, Position, Beliefs, Arc  string
	Regards                           []Regard
	Confidence, WatchingFor, HelpNext string
	Shifts                            []Shift
	ShiftCount                        int
	Thread                            []Line
	Lines                             int // ever on the thread
	Asked                             int // lines of Iris since the person's last
	Casts                             map[string]Cast
	Releases                          []release.Release
	ReleaseCount                      int
	OptOut                            map[string]bool // "caucus", "record" or "all"
	Seq                               uint64          // last entry about this person
	ReadTo                            uint64          // Seq the last person-level beat had read
	ReadLine                          uint64          // public line it had read
}

// Out reports whether the person opted out of scope.
func (f *File) Out(scope string) bool { return f.OptOut["all"] || f.OptOut[scope] }

// Pending returns the releases that wait for an answer.
func (f *File) Pending() (out []release.Release) {
	for _, r := range f.Releases {
		if r.Open() {
			out = append(out, r)
		}
	}
	return out
}

func (f File) clone() File {
	f.Casts, f.OptOut = maps.Clone(f.Casts), maps.Clone(f.OptOut)
	f.Releases, f.Regards = slices.Clone(f.Releases), slices.Clone(f.Regards)
	return f
}

// A Thought is one entry of Iris's introspection.
type Thought struct {
	Turn   int          `json:"turn"`
	Tool   string       `json:"tool"`
	Target principal.ID `json:"target,omitempty"`
	Note   string       `json:"note"`
}

// A Plan is a tick that Iris asked for: its name and when it is due, in Unix
// milliseconds.
type Plan struct {
	Name string `json:"name"`
	At   int64  `json:"at"`
}

// Inner is what only Iris and the operator see.
type Inner struct {
	Turn     int                          // events of any kind
	Notes    map[string]map[string]string // item → note → text
	Thoughts []Thought
	Count    int     // thoughts ever
	Bits     float64 // upper bound of what choices could have told the room
	LastPost uint64  // public line of her last post
	Posts    []int64 // times of posts within the hour
	Ticks    int
	Plans    []Plan // ticks that did not come yet
	Tick     string // name of the last tick
	Told     int64  // when the host was called last
	ReadTo   uint64 // public line the last self-level beat had read
	RoomTo   uint64 // public line the last room-level beat had read
	Choice   uint64 // entry of the last choice
	PublicTo int    // public events when it was made
	TickTo   int    // and timer ticks
	Policy   string // name of the policy last journaled
	seen     [4][]string
}

// A State is a room at one entry. It is a value: Apply returns the next one
// and never changes the old, and the two share what did not change.
type State struct {
	Public
	Surface *surface.Surface
	Seq     uint64
	files   map[principal.ID]open.Box[File]
	inner   open.Box[Inner]
}

// A Seat is a participant at construction. Prior is the first content of their
// sealed file.
type Seat struct {
	principal.Person
	Prior flow.Text[flow.Person]
}

// New returns the empty room. s must be valid; the ids are checked.
func New(id, topic string, s *surface.Surface, seats ...Seat) (State, error) {
	if err := s.Validate(); err != nil {
		return State{}, err
	}
	var people []principal.Person
	files := map[principal.ID]open.Box[File]{}
	for _, p := range seats {
		people = append(people, p.Person)
		f := blank()
		f.Prior = clip(open.Open(p.Prior.Sealed()).Text, MaxFacet)
		files[p.ID] = open.Seal(f)
	}
	roster, err := principal.NewRoster(people...)
	if err != nil {
		return State{}, err
	}
	return State{
		Public:  Public{ID: id, Topic: topic, People: roster, Spoken: map[principal.ID]int{}},
		Surface: s, files: files,
		inner: open.Seal(Inner{Notes: map[string]map[string]string{}}),
	}, nil
}

func blank() File {
	return File{Arc: "quiet", Confidence: "hunch", Casts: map[string]Cast{}, OptOut: map[string]bool{}}
}

// File returns the sealed file of id; false when id is not on the roster.
func (s State) File(id principal.ID) (open.Box[File], bool) {
	f, ok := s.files[id]
	return f, ok
}

// Inner returns what only Iris sees.
func (s State) Inner() open.Box[Inner] { return s.inner }

// withFile returns s with the file of id changed by f.
func (s State) withFile(id principal.ID, change func(*File)) State {
	f := open.Open(s.files[id]).clone()
	change(&f)
	f.Seq = s.Seq
	s.files = maps.Clone(s.files)
	s.files[id] = open.Seal(f)
	return s
}

func (s State) withInner(change func(*Inner)) State {
	in := open.Open(s.inner)
	change(&in)
	s.inner = open.Seal(in)
	return s
}

func (s State) withItem(it *Item) State {
	items := slices.Clone(s.Items)
	if i := slices.IndexFunc(items, func(o *Item) bool { return o.ID == it.ID }); i >= 0 {
		items[i] = it
	} else {
		items = append(items, it)
	}
	s.Items = items
	return s
}
