package room

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/surface"
)

// Form is the version of what [State.Save] writes. It changes whenever the same
// entries give another state than before, so that a state saved under other
// rules is not taken for one of these.
const Form = 1

// A Saved is a state at rest, in the parts that are encrypted apart: what
// everybody may know, each person's file, and what is Iris's own.
type Saved struct {
	Public []byte
	Files  map[principal.ID]open.Box[[]byte]
	Inner  open.Box[[]byte]
}

type savedMessage struct {
	Message
	Entry uint64 `json:"entry"`
}

type savedStatement struct {
	Statement
	Entry uint64 `json:"entry"`
}

type savedPublic struct {
	Seq        uint64
	Turn       int
	People     []principal.Person
	Lines      uint64
	Old, Cur   []savedMessage
	Spoken     map[principal.ID]int
	Items      []*Item
	Statements []savedStatement
	Summary    string
	SummaryTo  uint64
	Reactions  map[uint64][]string
	Board      uint64
}

type savedRelease struct {
	release.Release
	Wording string // in place of the sealed one
}

// slot is one part of a contribution with its type.
type slot struct {
	Text *string  `json:"t,omitempty"`
	Num  *int     `json:"n,omitempty"`
	Flag *bool    `json:"f,omitempty"`
	Set  []string `json:"s,omitempty"`
	Is   bool     `json:"is,omitempty"` // a set, also an empty one
}

type savedCast struct {
	Value   map[string]slot
	Version string
}

type savedFile struct {
	File
	Casts    map[string]savedCast
	Releases []savedRelease
}

type savedInner struct {
	Inner
	Seen [4][]string
}

// Save writes the state down.
func (s State) Save() (Saved, error) {
	pub := savedPublic{
		Seq: s.Seq, Turn: s.Turn, People: s.People.All(), Lines: s.Log.n, Spoken: s.Spoken, Items: s.Items,
		Summary: s.Summary, SummaryTo: s.SummaryTo, Reactions: s.Reactions, Board: s.board,
		Old: saveLines(s.Log.old), Cur: saveLines(s.Log.now()),
	}
	for _, x := range s.Statements {
		pub.Statements = append(pub.Statements, savedStatement{x, x.entry})
	}
	out := Saved{Files: map[principal.ID]open.Box[[]byte]{}}
	var err error
	if out.Public, err = json.Marshal(pub); err != nil {
		return Saved{}, fmt.Errorf("save the state: %w", err)
	}
	for id, box := range s.files {
		data, err := json.Marshal(saveFile(open.Open(box)))
		if err != nil {
			return Saved{}, fmt.Errorf("save a file: %w", err)
		}
		out.Files[id] = open.Seal(data)
	}
	in := open.Open(s.inner)
	data, err := json.Marshal(savedInner{in, in.seen})
	if err != nil {
		return Saved{}, fmt.Errorf("save what is Iris's own: %w", err)
	}
	out.Inner = open.Seal(data)
	return out, nil
}

func saveLines(ms []Message) (out []savedMessage) {
	for _, m := range ms {
		out = append(out, savedMessage{m, m.entry})
	}
	return out
}

func saveFile(f File) savedFile {
	out := savedFile{File: f, Casts: map[string]savedCast{}}
	out.File.Casts, out.File.Releases = nil, nil
	for id, c := range f.Casts {
		v := map[string]slot{}
		for name, x := range c.Value {
			switch x := x.(type) {
			case string:
				v[name] = slot{Text: &x}
			case int:
				v[name] = slot{Num: &x}
			case bool:
				v[name] = slot{Flag: &x}
			case []string:
				v[name] = slot{Set: x, Is: true}
			}
		}
		out.Casts[id] = savedCast{v, c.Version}
	}
	for _, r := range f.Releases {
		words := open.Open(r.Wording.Sealed()).Text
		r.Wording = flow.Text[flow.Person]{}
		out.Releases = append(out.Releases, savedRelease{r, words})
	}
	return out
}

// Restore returns start, which is the room before its first entry, as it was
// when v was saved.
func Restore(start State, v Saved) (State, error) {
	var pub savedPublic
	if err := json.Unmarshal(v.Public, &pub); err != nil {
		return State{}, fmt.Errorf("restore the state: %w", err)
	}
	people, err := principal.NewRoster(pub.People...)
	if err != nil {
		return State{}, fmt.Errorf("restore the state: %w", err)
	}
	s := start
	s.Seq, s.Turn, s.People, s.Spoken, s.Items = pub.Seq, pub.Turn, people, pub.Spoken, pub.Items
	s.Summary, s.SummaryTo, s.Reactions, s.board = pub.Summary, pub.SummaryTo, pub.Reactions, pub.Board
	s.Log = Log{n: pub.Lines, old: loadLines(pub.Old), cur: len(pub.Cur)}
	if len(pub.Cur) > block {
		return State{}, fmt.Errorf("restore the state: %d lines in one block", len(pub.Cur))
	}
	if len(pub.Cur) > 0 {
		s.Log.gen = &generation{}
		copy(s.Log.gen.lines[:], loadLines(pub.Cur))
		s.Log.gen.used.Store(int64(len(pub.Cur)))
	}
	s.Statements = nil
	for _, x := range pub.Statements {
		x.Statement.entry = x.Entry
		s.Statements = append(s.Statements, x.Statement)
	}
	s.files = map[principal.ID]open.Box[File]{}
	for id, box := range v.Files {
		var f savedFile
		if err := json.Unmarshal(open.Open(box), &f); err != nil {
			return State{}, fmt.Errorf("restore a file: %w", err)
		}
		s.files[id] = open.Seal(f.load(id))
	}
	for _, p := range people.All() {
		if _, ok := s.files[p.ID]; !ok {
			return State{}, fmt.Errorf("restore the state: no file of %q", p.ID)
		}
	}
	var in savedInner
	if err := json.Unmarshal(open.Open(v.Inner), &in); err != nil {
		return State{}, fmt.Errorf("restore what is Iris's own: %w", err)
	}
	in.Inner.seen = in.Seen
	s.inner = open.Seal(in.Inner)
	return s, nil
}

func loadLines(in []savedMessage) []Message {
	var out []Message
	for _, m := range in {
		m.Message.entry = m.Entry
		out = append(out, m.Message)
	}
	return out
}

func (f savedFile) load(id principal.ID) File {
	out := f.File
	out.Casts = map[string]Cast{}
	for item, c := range f.Casts {
		v := surface.Value{}
		for name, x := range c.Value {
			switch {
			case x.Is:
				v[name] = slices.Concat([]string{}, x.Set)
			case x.Text != nil:
				v[name] = *x.Text
			case x.Num != nil:
				v[name] = *x.Num
			case x.Flag != nil:
				v[name] = *x.Flag
			}
		}
		out.Casts[item] = Cast{v, c.Version}
	}
	for _, r := range f.Releases {
		r.Release.Wording = flow.Private(id, r.Wording)
		out.Releases = append(out.Releases, r.Release)
	}
	if out.OptOut == nil {
		out.OptOut = map[string]bool{}
	}
	return out
}
