package facilitate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/view"
)

// ErrStepper is a step that is not possible, or a saved stepper that does not
// fit the room.
var ErrStepper = errors.New("facilitate: stepper")

// A Phase is what the next step of a [Stepper] is.
type Phase string

// The phases.
const (
	PhaseMessage Phase = "msg"
	PhaseReflect Phase = "reflect"
	PhaseAct     Phase = "act"
)

// A Step is one state a [Stepper] went through.
type Step struct {
	Label   string // "start", or what happened
	Phase   Phase  // of the step after it
	Changed []string
	Act     *Act
}

// A Stepper drives a room by hand, for debugging and demos: one event, one
// reflection or one act at a time, back and forth, with branches. It works on
// entries of its own; nothing reaches the journal or a port before [Stepper.Commit],
// so going back never has to unsay anything. It is not safe for concurrent use,
// and events the agent takes meanwhile make Commit fail.
type Stepper struct {
	a      *Agent
	queue  []Event
	nodes  []node
	tips   map[string]int // branch → its last node
	branch string
	cursor int
}

type node struct {
	step    Step
	parent  int
	entries []room.Entry
	effects []effect
	state   room.State
	tail    journal.Tail
	next    int // place in the queue
	acts    int // of this turn
}

// Stepper returns a stepper at the room's present state that plays queue.
func (a *Agent) Stepper(queue ...Event) *Stepper {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &Stepper{
		a: a, queue: queue, branch: "main", tips: map[string]int{"main": 0},
		nodes: []node{{step: Step{Label: "start", Phase: PhaseMessage}, parent: -1, state: a.state, tail: a.tail}},
	}
}

// bench is the track of one step.
type bench struct {
	s       *Stepper
	state   room.State
	entries []room.Entry
	effects []effect
}

func (b *bench) now() room.State { return b.state }

func (b *bench) add(_ context.Context, ds ...draft) ([]room.Entry, error) {
	entries, states, _, err := settle(b.state, b.s.a.cfg.Clock().UnixMilli(), ds)
	if err != nil {
		return nil, err
	}
	if len(states) > 0 {
		b.state = states[len(states)-1]
	}
	b.entries = append(b.entries, entries...)
	return entries, nil
}

func (b *bench) deliver(_ context.Context, e effect) { b.effects = append(b.effects, e) }

// Next goes one step on. Where there is a step to redo it is taken again
// without asking anybody; else the step is computed. inject is an event to take
// now instead of the queue's next; where a redo exists it begins a new branch,
// and the old one is kept under its name. At the end of the queue it returns
// false.
func (s *Stepper) Next(ctx context.Context, inject ...Event) (Step, bool, error) {
	if len(inject) == 0 && s.CanRedo() {
		s.cursor = s.toward()
		return s.nodes[s.cursor].step, true, nil
	}
	s.a.turn.Lock()
	defer s.a.turn.Unlock()
	from := s.nodes[s.cursor]
	b := &bench{s: s, state: from.state}
	n := node{parent: s.cursor, next: from.next, acts: from.acts}
	var err error
	switch {
	case len(inject) > 0:
		n.step.Label, err = inject[0].label(), s.take(ctx, b, inject[0])
		n.step.Phase, n.acts = PhaseReflect, 0
	case from.step.Phase == PhaseMessage:
		if n.next >= len(s.queue) {
			return Step{}, false, nil
		}
		ev := s.queue[n.next]
		n.next++
		n.step.Label, err = ev.label(), s.take(ctx, b, ev)
		n.step.Phase, n.acts = PhaseReflect, 0
	case from.step.Phase == PhaseReflect:
		_, err = s.a.session(b).reflect(ctx)
		n.step.Label, n.step.Phase = "reflect", PhaseAct
	default:
		err = s.act(ctx, b, &n)
	}
	if err != nil {
		return Step{}, false, err
	}
	n.state, n.entries, n.effects = b.state, b.entries, b.effects
	n.step.Changed = changed(&from.state, &n.state)
	if n.tail, err = s.tail(ctx, from.tail, n.entries, nil); err != nil {
		return Step{}, false, err
	}
	s.push(n)
	return n.step, true, nil
}

func (e Event) label() string {
	who := string(e.Author)
	if who == "" {
		who = e.Name
	}
	return string(e.Type) + " by " + who
}

func (s *Stepper) take(ctx context.Context, b *bench, ev Event) error {
	ds, err := drafts(&b.state, ev)
	if err != nil {
		return err
	}
	if _, err = b.add(ctx, ds...); err != nil {
		return fmt.Errorf("%w %s by %q: %w", ErrEvent, ev.Type, ev.Author, err)
	}
	return nil
}

// act is decide and act as one step.
func (s *Stepper) act(ctx context.Context, b *bench, n *node) error {
	run := s.a.session(b)
	n.step.Label, n.step.Phase = "hold", PhaseMessage
	if resting(&b.state) {
		return nil
	}
	c, err := run.decide(ctx)
	if err != nil {
		return err
	}
	if c.Tool == room.None {
		acts, err := run.owed(ctx)
		if len(acts) > 0 {
			n.step.Act, n.step.Label = &acts[0], "carry"
		}
		return err
	}
	n.step.Label = c.Tool
	if n.step.Act, err = run.act(ctx, c); err != nil {
		return err
	}
	if n.acts++; n.step.Act != nil && n.acts < s.a.cfg.MaxSteps {
		n.step.Phase = PhaseAct
	}
	return nil
}

// push makes n the state at hand.
func (s *Stepper) push(n node) {
	if s.CanRedo() {
		s.branch = fmt.Sprintf("branch-%d", len(s.tips))
	}
	s.nodes = append(s.nodes, n)
	s.cursor = len(s.nodes) - 1
	s.tips[s.branch] = s.cursor
}

// path lists the nodes from the start to n.
func (s *Stepper) path(n int) (out []int) {
	for ; n >= 0; n = s.nodes[n].parent {
		out = append(out, n)
	}
	slices.Reverse(out)
	return out
}

// toward is the node after the cursor on the present branch.
func (s *Stepper) toward() int {
	p := s.path(s.tips[s.branch])
	return p[slices.Index(p, s.cursor)+1]
}

// CanRedo reports whether Next would take a step again.
func (s *Stepper) CanRedo() bool { return s.cursor != s.tips[s.branch] }

// CanPrev reports whether there is a step to go back.
func (s *Stepper) CanPrev() bool { return s.nodes[s.cursor].parent >= 0 }

// Prev goes one step back and reports whether there was one.
func (s *Stepper) Prev() bool {
	if !s.CanPrev() {
		return false
	}
	s.cursor = s.nodes[s.cursor].parent
	return true
}

// Goto goes to step n of the present branch; 0 is the start.
func (s *Stepper) Goto(n int) error {
	p := s.path(s.tips[s.branch])
	if n < 0 || n >= len(p) {
		return fmt.Errorf("%w: no step %d of %d", ErrStepper, n, len(p))
	}
	s.cursor = p[n]
	return nil
}

// Branches lists the branches, sorted; Switch goes to the end of one.
func (s *Stepper) Branches() []string {
	var out []string
	for b := range s.tips {
		out = append(out, b)
	}
	slices.Sort(out)
	return out
}

// Switch goes to the end of a branch.
func (s *Stepper) Switch(branch string) error {
	tip, ok := s.tips[branch]
	if !ok {
		return fmt.Errorf("%w: no branch %q", ErrStepper, branch)
	}
	s.branch, s.cursor = branch, tip
	return nil
}

// Branch is the name of the present branch.
func (s *Stepper) Branch() string { return s.branch }

// Cursor is the number of the present step on its branch.
func (s *Stepper) Cursor() int { return len(s.path(s.cursor)) - 1 }

// History returns the steps of the present branch.
func (s *Stepper) History() (out []Step) {
	for _, n := range s.path(s.tips[s.branch]) {
		out = append(out, s.nodes[n].step)
	}
	return out
}

// NextLabel says what Next would do: the label of a step to redo, else the
// phase.
func (s *Stepper) NextLabel() string {
	if s.CanRedo() {
		return s.nodes[s.toward()].step.Label
	}
	return string(s.nodes[s.cursor].step.Phase)
}

// Record keeps a turn that ran out of band: events are taken and a whole turn
// runs as one step with that label.
func (s *Stepper) Record(ctx context.Context, label string, events ...Event) (Step, error) {
	s.a.turn.Lock()
	defer s.a.turn.Unlock()
	from := s.nodes[s.cursor]
	b := &bench{s: s, state: from.state}
	for _, ev := range events {
		if err := s.take(ctx, b, ev); err != nil {
			return Step{}, err
		}
	}
	acts, err := s.a.session(b).run(ctx)
	if err != nil {
		return Step{}, err
	}
	n := node{step: Step{Label: label, Phase: PhaseMessage, Changed: changed(&from.state, &b.state)}, parent: s.cursor, next: from.next, state: b.state, entries: b.entries, effects: b.effects}
	if len(acts) > 0 {
		n.step.Act = &acts[len(acts)-1]
	}
	if n.tail, err = s.tail(ctx, from.tail, n.entries, nil); err != nil {
		return Step{}, err
	}
	s.push(n)
	return n.step, nil
}

// Context is what an audience would read at the present step.
func (s *Stepper) Context(w Audience) (string, error) {
	if err := s.a.admit(w); err != nil {
		return "", err
	}
	shadow := &Agent{cfg: s.a.cfg, state: s.nodes[s.cursor].state}
	return shadow.Context(w)
}

// Commit appends the steps up to the present one to the agent's journal and
// delivers their acts. The stepper starts again from there. It fails when the
// room has moved on since the stepper began.
func (s *Stepper) Commit(ctx context.Context) error {
	s.a.turn.Lock()
	defer s.a.turn.Unlock()
	var ds []draft
	var effects []effect
	for _, i := range s.path(s.cursor) {
		for _, e := range s.nodes[i].entries {
			ds = append(ds, draft{kind: e.Kind, level: e.Level, owner: e.Owner, parents: e.Parents, body: open.Open(e.Body)})
		}
		effects = append(effects, s.nodes[i].effects...)
	}
	s.a.mu.Lock()
	if s.a.state.Seq != s.nodes[0].state.Seq {
		s.a.mu.Unlock()
		return fmt.Errorf("%w: the room has moved on", ErrStepper)
	}
	last := s.nodes[0].state.Seq + uint64(len(ds))
	ds = append(ds, draft{kind: room.KTurn, level: flow.RankSelf, body: room.Body{To: last}})
	_, err := s.a.addLocked(ctx, ds...)
	if err == nil {
		s.a.events, s.a.turned = last, last
	}
	state, tail := s.a.state, s.a.tail
	s.a.mu.Unlock()
	if err != nil {
		return err
	}
	for _, e := range effects {
		s.a.deliver(ctx, e)
	}
	here := s.nodes[s.cursor]
	here.parent, here.entries, here.effects, here.state, here.tail = -1, nil, nil, state, tail
	here.step.Label = "start"
	s.nodes, s.cursor, s.branch, s.tips = []node{here}, 0, "main", map[string]int{"main": 0}
	return nil
}

// changed names what differs: log, canvas, item/<id>, user/<id>, caucus/<id>,
// introspection.
func changed(a, b *room.State) []string {
	var out []string
	if a.Log.Len() != b.Log.Len() {
		out = append(out, "log")
	}
	board := false
	for i, it := range b.Items {
		if i >= len(a.Items) || view.Item(a.Items[i], a.Surface) != view.Item(it, b.Surface) {
			out, board = append(out, "item/"+it.ID), true
		}
	}
	if board || len(a.Statements) != len(b.Statements) {
		out = append(out, "canvas")
	}
	for _, p := range b.People.All() {
		x, y := file(a, p.ID), file(b, p.ID)
		if x.Lines != y.Lines {
			out = append(out, "caucus/"+string(p.ID))
		}
		if x.Seq != y.Seq {
			out = append(out, "user/"+string(p.ID))
		}
	}
	if open.Open(a.Inner()).Count != open.Open(b.Inner()).Count {
		out = append(out, "introspection")
	}
	return out
}

func file(s *room.State, id principal.ID) room.File {
	box, _ := s.File(id)
	return open.Open(box)
}

// version of the saved form.
const version = 1

type savedStepper struct {
	Version int            `json:"version"`
	Surface string         `json:"surface"`
	Base    journal.Tail   `json:"base"`
	Branch  string         `json:"branch"`
	Cursor  int            `json:"cursor"`
	Tips    map[string]int `json:"tips"`
	Nodes   []savedNode    `json:"nodes"`
}

type savedNode struct {
	Label   string           `json:"label"`
	Phase   Phase            `json:"phase"`
	Changed []string         `json:"changed,omitempty"`
	Parent  int              `json:"parent"`
	Next    int              `json:"next"`
	Acts    int              `json:"acts,omitempty"`
	Records []journal.Record `json:"records,omitempty"`
}

// tail encodes entries behind a tail and hands the records to keep, if any.
func (s *Stepper) tail(ctx context.Context, t journal.Tail, entries []room.Entry, keep *[]journal.Record) (journal.Tail, error) {
	codec := journal.NewCodec(s.a.cfg.Store, s.a.cfg.ID)
	for _, e := range entries {
		r, next, err := codec.Encode(ctx, t, e)
		if err != nil {
			return t, err
		}
		if t = next; keep != nil {
			*keep = append(*keep, r)
		}
	}
	return t, nil
}

// Serialize saves the stepper with all its branches. Sealed entries are
// encrypted under the keys of the room's store, and every branch is chained.
func (s *Stepper) Serialize(ctx context.Context) ([]byte, error) {
	out := savedStepper{Version: version, Surface: s.a.cfg.Surface.Name, Base: s.nodes[0].tail, Branch: s.branch, Cursor: s.cursor, Tips: s.tips}
	tails := make([]journal.Tail, len(s.nodes))
	tails[0] = s.nodes[0].tail
	for i, n := range s.nodes {
		sn := savedNode{Label: n.step.Label, Phase: n.step.Phase, Changed: n.step.Changed, Parent: n.parent, Next: n.next, Acts: n.acts}
		if i > 0 {
			var err error
			if tails[i], err = s.tail(ctx, tails[n.parent], n.entries, &sn.Records); err != nil {
				return nil, err
			}
		}
		out.Nodes = append(out.Nodes, sn)
	}
	return json.Marshal(out)
}

// LoadStepper brings a saved stepper back, to play queue on. It refuses one of
// another version, surface or state of the room, and one whose chain is broken.
func (a *Agent) LoadStepper(ctx context.Context, data []byte, queue ...Event) (*Stepper, error) {
	var in savedStepper
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStepper, err)
	}
	s := a.Stepper(queue...)
	switch {
	case in.Version != version:
		return nil, fmt.Errorf("%w: version %d, want %d", ErrStepper, in.Version, version)
	case in.Surface != a.cfg.Surface.Name:
		return nil, fmt.Errorf("%w: surface %q, want %q", ErrStepper, in.Surface, a.cfg.Surface.Name)
	case in.Base != s.nodes[0].tail:
		return nil, fmt.Errorf("%w: saved at entry %d, the room is at %d", ErrStepper, in.Base.Seq, s.nodes[0].tail.Seq)
	case len(in.Nodes) == 0 || in.Cursor < 0 || in.Cursor >= len(in.Nodes):
		return nil, fmt.Errorf("%w: no such step", ErrStepper)
	}
	codec := journal.NewCodec(a.cfg.Store, a.cfg.ID)
	for i, sn := range in.Nodes {
		n := node{step: Step{Label: sn.Label, Phase: sn.Phase, Changed: sn.Changed}, parent: sn.Parent, next: sn.Next, acts: sn.Acts}
		if i == 0 {
			n.state, n.tail, n.parent = s.nodes[0].state, s.nodes[0].tail, -1
			s.nodes[0] = n
			continue
		}
		if sn.Parent < 0 || sn.Parent >= i {
			return nil, fmt.Errorf("%w: step %d comes from nowhere", ErrStepper, i)
		}
		n.state, n.tail = s.nodes[sn.Parent].state, s.nodes[sn.Parent].tail
		for _, r := range sn.Records {
			e, _, tail, err := codec.Decode(ctx, n.tail, r)
			if err != nil {
				return nil, fmt.Errorf("%w: step %d: %w", ErrStepper, i, err)
			}
			if n.state, _, err = n.state.Apply(e); err != nil {
				return nil, fmt.Errorf("%w: step %d: %w", ErrStepper, i, err)
			}
			n.tail, n.entries = tail, append(n.entries, e)
			if o, ok := effectOf(e); ok {
				n.effects = append(n.effects, o)
			}
		}
		s.nodes = append(s.nodes, n)
	}
	for name, tip := range in.Tips {
		if tip < 0 || tip >= len(s.nodes) {
			return nil, fmt.Errorf("%w: branch %q ends nowhere", ErrStepper, name)
		}
	}
	if tip, ok := in.Tips[in.Branch]; !ok || !slices.Contains(s.path(tip), in.Cursor) {
		return nil, fmt.Errorf("%w: the cursor is on no branch", ErrStepper)
	}
	s.tips, s.branch, s.cursor = in.Tips, in.Branch, in.Cursor
	return s, nil
}
