package facilitator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// An answerer is the runner of one room.
type answerer struct {
	rooms *Rooms
	room  *room
}

var _ runner.Runner = answerer{}

// posted is the state of a turn: a post that this turn shows. It is saved before
// the room's store is told that the post was delivered, so that a turn that is
// resumed still shows it, once.
type posted struct {
	Effect string `json:"effect"`
	Text   string `json:"text"`
}

// A port collects what a turn shows to the room.
type port struct {
	ctx  context.Context
	sink turn.Sink
	sync func(context.Context) error // or nil

	// mu guards the fields below.
	mu    sync.Mutex
	posts []posted
}

func (p *port) post(e facilitate.RoomEffect) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.posts, func(x posted) bool { return x.Effect == e.ID }) {
		return nil
	}
	x := posted{e.ID, e.Text}
	if x.Text == "" {
		x.Text = e.Emoji
	}
	if err := p.sink.Checkpoint(p.ctx, x); err != nil {
		return err
	}
	if p.sync != nil {
		if err := p.sync(p.ctx); err != nil {
			return err
		}
	}
	p.posts = append(p.posts, x)
	return nil
}

func (p *port) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, x := range p.posts {
		all = append(all, x.Text)
	}
	return strings.Join(all, "\n\n")
}

// ways implements facilitate.Port for a room: a post goes out with the turn that
// runs, a private line to whoever it is for.
type ways struct {
	rooms *Rooms
	room  *room
}

var errNoTurn = errors.New("no turn runs: it comes with the next")

// Room implements facilitate.Port.
func (w *ways) Room(_ context.Context, e facilitate.RoomEffect) error {
	w.room.mu.Lock()
	p := w.room.turn
	w.room.mu.Unlock()
	if p == nil {
		return errNoTurn
	}
	return p.post(e)
}

// Person implements facilitate.Port.
func (w *ways) Person(ctx context.Context, e facilitate.PersonEffect) error {
	to, ok := w.room.spec.line(e.To)
	if !ok || w.rooms.opts.Screen == nil || to.Space == chat.Session || to.Space == chat.Web {
		return nil // the room's store has it, and View shows it
	}
	return w.rooms.whisper(ctx, w.room, to, e)
}

// Host implements facilitate.HostPort.
func (w *ways) Host(ctx context.Context, e facilitate.HostEffect) error {
	if w.rooms.opts.Tell == nil {
		return nil
	}
	return w.rooms.opts.Tell(ctx, w.room.spec.ID, e.Text)
}

// Run implements runner.Runner: the room takes the message, if its store does not
// have it yet, and reacts. The reply is what Iris says to the room, which may be
// nothing.
func (a answerer) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	if ctx.Err() != nil {
		return a.cut(ctx, sink, "")
	}
	if err := sink.Emit(turn.Event{Kind: turn.Started}); err != nil {
		return err
	}
	p := &port{ctx: context.WithoutCancel(ctx), sink: sink, sync: a.rooms.opts.Sync}
	for _, raw := range req.Resume {
		var x posted
		if json.Unmarshal(raw, &x) == nil && x.Effect != "" {
			p.posts = append(p.posts, x)
		}
	}
	select {
	case a.room.lane <- struct{}{}:
		defer func() { <-a.room.lane }()
	case <-ctx.Done():
		return a.cut(ctx, sink, p.text())
	}
	_, agent, err := a.rooms.open(ctx, a.room.spec.ID)
	if err != nil {
		return a.broken(ctx, sink, p, err)
	}
	said, err := a.take(ctx, agent, req.Message)
	if err != nil {
		return a.broken(ctx, sink, p, err)
	}
	if said != "" {
		return sink.Emit(turn.Event{Kind: turn.Final, Text: said})
	}
	if a.rooms.opts.Model != nil {
		agent.SetModel(a.rooms.opts.Model(ctx))
	}
	a.room.mu.Lock()
	a.room.turn = p
	a.room.mu.Unlock()
	_, err = agent.React(ctx)
	a.room.mu.Lock()
	a.room.turn = nil
	a.room.mu.Unlock()
	a.rooms.arm(a.room, agent)
	a.rooms.refresh(a.room, 0)
	if err != nil {
		return a.broken(ctx, sink, p, err)
	}
	text := p.text()
	return sink.Emit(turn.Event{Kind: turn.Final, Text: text, Silent: text == ""})
}

// take gives a public message to the room. said is what its author is told when
// it is no event of the room.
func (a answerer) take(ctx context.Context, agent *facilitate.Agent, m chat.Message) (said string, err error) {
	if strings.HasPrefix(m.ID, sealedMark) || strings.HasPrefix(m.ID, plainMark) {
		return "", nil
	}
	author, ok := a.room.spec.author(m.From)
	if !ok {
		return "_This room is for its participants. Whoever runs it can add you._", nil
	}
	ev := words(agent, author, m.Text, false)
	ev.Key = messageKey(m.ID)
	if ev.Type == facilitate.TMessage {
		ev.External = m.ID
	}
	if ev.Type == facilitate.TEdit || ev.Type == facilitate.TDelete {
		pub := agent.Room()
		if l, ok := pub.Log.Get(ev.Line); !ok || l.Author != author {
			return fmt.Sprintf("_That does not work here: line %d is not yours._", ev.Line), nil
		}
	}
	err = agent.Take(ctx, ev)
	if errors.Is(err, facilitate.ErrEvent) {
		return fmt.Sprintf("_That does not work here: %s._", reason(err)), nil
	}
	return "", err
}

// reason is the last part of a refusal: the one that says why.
func reason(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return text
}

// broken ends a turn that could not be finished.
func (a answerer) broken(ctx context.Context, sink turn.Sink, p *port, err error) error {
	if ctx.Err() != nil {
		return a.cut(ctx, sink, p.text())
	}
	return &runner.Error{Code: turn.CodeFailed, Text: "the room could not react; its log says more", Err: err}
}

// cut ends a turn whose ctx is over.
func (a answerer) cut(ctx context.Context, sink turn.Sink, text string) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, runner.ErrStopped) {
		return sink.Emit(turn.Event{Kind: turn.Final, Text: text, Stopped: true})
	}
	return cause
}
