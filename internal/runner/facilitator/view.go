package facilitator

import (
	"context"
	"fmt"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/surface"
)

// Self is the name under which the operator looks at Iris's own side.
const Self = "self"

// A View is a room as somebody may see it: everybody (Viewer is empty), one
// participant, or the operator. It is made from what that audience may read and
// from nothing else.
type View struct {
	Room       Header   `json:"room"`
	Viewer     string   `json:"viewer"`
	People     []Member `json:"people"`
	Lines      []Line   `json:"lines"`
	Board      []Card   `json:"board"`
	Statements []string `json:"statements"`
	Private    *Private `json:"private,omitempty"` // of a participant
	Sealed     *Inside  `json:"sealed,omitempty"`  // of the operator
	Steps      *Steps   `json:"steps,omitempty"`   // of the operator, while a stepper is open
}

// A Header names a room.
type Header struct {
	ID      string `json:"id"`
	Topic   string `json:"topic"`
	Surface string `json:"surface"`
	Policy  string `json:"policy"`
	Channel string `json:"channel"`
	// Live reports that a model thinks, and not the rules of the offline mind.
	Live bool `json:"live"`
	// Slots are the values that a contribution to an item has.
	Slots []Slot `json:"slots,omitempty"`
	// Statuses are those of an item, in order; the last ones close it.
	Statuses []string `json:"statuses,omitempty"`
	// Options is the field that holds the options of an item, if there is one.
	Options string `json:"options,omitempty"`
	// Public are the fields that a card shows, the first is its label.
	Public []string `json:"fields"`
}

// A Slot is a value of a contribution.
type Slot struct {
	Name string `json:"name"`
	// Kind is word, option, set, number, text or flag. A word is one of Of, a
	// number lies between Min and Max.
	Kind string   `json:"kind"`
	Of   []string `json:"of,omitempty"`
	Min  int      `json:"min,omitempty"`
	Max  int      `json:"max,omitempty"`
}

func kindOf(k surface.Kind) string {
	switch k {
	case surface.Word:
		return "word"
	case surface.Option:
		return "option"
	case surface.Set:
		return "set"
	case surface.Number:
		return "number"
	case surface.Flag:
		return "flag"
	}
	return "text"
}

// A Member is a participant as everybody sees them.
type Member struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	Away bool   `json:"away,omitempty"`
}

// A Line is one message.
type Line struct {
	N       uint64 `json:"n,omitempty"` // its number in the room
	From    string `json:"from"`
	Text    string `json:"text"`
	At      int64  `json:"at,omitempty"` // Unix milliseconds
	Edited  bool   `json:"edited,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// A Card is an item of the board.
type Card struct {
	ID      string            `json:"id"`
	Fields  map[string]string `json:"fields"`
	Options []string          `json:"options,omitempty"`
	Result  map[string]string `json:"result,omitempty"`
	Closed  bool              `json:"closed,omitempty"`
}

// Private is the private side of the viewer.
type Private struct {
	Lines []Line `json:"lines"`
	// Consents wait for a yes or no.
	Consents []Consent `json:"consents"`
	// Granted may still be taken back.
	Granted       []Consent                 `json:"granted"`
	Contributions map[string]map[string]any `json:"contributions"`
	OptOut        []string                  `json:"optOut,omitempty"`
	Mirror        string                    `json:"mirror"` // what the policy lets them see of their record
}

// A Consent is a wording and how it would be said.
type Consent struct {
	ID          string `json:"id"`
	Wording     string `json:"wording"`
	Attribution string `json:"attribution"`
}

// Inside is Iris's own side: the pages of the operator's export by their path.
type Inside struct {
	Pages map[string]string `json:"pages"`
	// Bits is more than the room can have learned through Iris's choices.
	Bits   float64 `json:"bits"`
	Tokens int     `json:"tokens"`
}

// maxLines is how many lines a view holds.
const maxLines = 300

// View returns a room for a viewer: "" for everybody, the id of a participant, or
// Self. Whether the caller may be that viewer is the caller's to know.
func (r *Rooms) View(ctx context.Context, id, viewer string) (View, error) {
	x, a, err := r.open(ctx, id)
	if err != nil {
		return View{}, err
	}
	v := View{Room: x.header(a), Viewer: viewer, Lines: []Line{}, Board: []Card{}, Statements: []string{}}
	pub := a.Room()
	for _, p := range pub.People.All() {
		v.People = append(v.People, Member{string(p.ID), p.Name, p.Role, p.Away})
	}
	for _, m := range pub.Log.Recent(maxLines) {
		l := Line{N: m.Seq, From: string(m.Author), Text: m.Text, At: m.At, Edited: m.Edited, Deleted: m.Deleted}
		if m.Deleted {
			l.Text = ""
		}
		v.Lines = append(v.Lines, l)
	}
	face, err := x.spec.surface()
	if err != nil {
		return v, err
	}
	for _, c := range a.Canvas() {
		v.Board = append(v.Board, Card{c.ID, c.Fields, c.Options[v.Room.Options], c.Result, face.Closes(c.Fields[face.Status])})
	}
	for _, s := range pub.Statements {
		v.Statements = append(v.Statements, s.Wording)
	}
	switch viewer {
	case "":
		return v, nil
	case Self:
		v.Sealed, err = x.inside(ctx, a)
		v.Steps = x.stepState()
		return v, err
	}
	if !pub.People.Has(facilitate.ID(viewer)) {
		return View{}, fmt.Errorf("%.50q: %w", viewer, ErrUnknown)
	}
	v.Private, err = private(a, facilitate.ID(viewer))
	return v, err
}

func (x *room) header(a *facilitate.Agent) Header {
	h := Header{ID: x.spec.ID, Topic: x.spec.Topic, Channel: x.spec.Channel, Policy: x.spec.Policy, Live: a.IsLive()}
	if h.Policy == "" {
		h.Policy = "facilitator"
	}
	face, err := x.spec.surface()
	if err != nil {
		return h
	}
	h.Surface, h.Statuses = face.Name, face.Statuses
	for _, f := range face.Shared {
		if f.List && h.Options == "" {
			h.Options = f.Name
		} else {
			h.Public = append(h.Public, f.Name)
		}
	}
	for _, s := range face.Contribution {
		h.Slots = append(h.Slots, Slot{s.Name, kindOf(s.Kind), s.Of, s.Min, s.Max})
	}
	return h
}

func private(a *facilitate.Agent, id facilitate.ID) (*Private, error) {
	own, err := a.Own(facilitate.ForPerson(id), id)
	if err != nil {
		return nil, err
	}
	p := &Private{Lines: []Line{}, Consents: []Consent{}, Granted: []Consent{}, Contributions: own.Contributions, OptOut: own.OptOut}
	for _, l := range own.Thread {
		p.Lines = append(p.Lines, Line{From: string(l.From), Text: l.Text, At: l.At})
	}
	for _, c := range own.Releases {
		switch c.State {
		case "asked":
			p.Consents = append(p.Consents, Consent{c.ID, c.Wording, c.Attribution})
		case "granted":
			p.Granted = append(p.Granted, Consent{c.ID, c.Wording, c.Attribution})
		}
	}
	p.Mirror, err = a.SubjectView(id)
	return p, err
}

func (x *room) inside(ctx context.Context, a *facilitate.Agent) (*Inside, error) {
	x.mu.Lock()
	key := x.key
	x.mu.Unlock()
	pages, err := a.Export(facilitate.ForSelf(key))
	if err != nil {
		return nil, err
	}
	report, err := a.Audit(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Inside{Pages: pages, Bits: report.Total, Tokens: a.Spent()}, nil
}
