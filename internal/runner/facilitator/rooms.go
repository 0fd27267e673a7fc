// Package facilitator puts rooms behind conversations: the runner of a room is
// an agent of package facilitate. A room has one public address and a private
// line for each participant; all of them are one conversation with one lane.
//
// What is said on a private line is sealed before anything else keeps it
// ([Rooms.Seal]): it goes into the room's own store below Options.Dir, encrypted
// under that person's key, and what the journal of turns gets is that something
// happened, without a word and without a name. What Iris says on a private line
// never becomes an event of a turn either: it lies in the same store and is read
// through [Rooms.View] for that person, or shown through Options.Screen. Nothing
// but this package reads the store.
//
// It owns the rooms, their runner and their stepper; how a room thinks is package
// facilitate, who may look at which level is up to its caller.
package facilitator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/journal/file"
	"github.com/iris-operator/iris/facilitate/tool"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
)

// Options configures New. Dir and Submit are required.
type Options struct {
	// Dir keeps the rooms and their stores; made when missing.
	Dir string
	// Submit gives a submission to the engine.
	Submit func(context.Context, transport.Submission) (transport.Receipt, error)
	// Sync returns when all that turns have saved is on stable storage. It is called
	// before the room's store is told that a post is with its turn, so that no power
	// cut leaves it in neither. nil: the saving of a turn is enough.
	Sync func(context.Context) error
	// Model returns who thinks, nil for the rules of the offline mind. It is
	// asked at the start of each turn. nil: the offline mind.
	Model func(context.Context) flow.Model
	// Screen shows private lines, questions with buttons and the board where the
	// addresses of a room are on chat platforms. nil: whoever is there reads them
	// through View.
	Screen Screen
	// Tell reaches whoever runs the rooms, in words made from what the room sees.
	// nil: nobody is told.
	Tell func(ctx context.Context, room, text string) error
	// Taken reports whether a name belongs to another runner. nil: none does.
	Taken  func(name string) bool
	Logger *slog.Logger // nil: discards. It never gets sealed text
	// ShowEvery is the least time between two looks at what a room shows on a
	// platform, so that many turns are one edit of the board: 2 s.
	ShowEvery time.Duration
	// TickAfter is about how long after a private event a timer lets consented
	// words be said: 5 min, give or take a half.
	TickAfter time.Duration
}

// Rooms are the rooms of a workspace. They are safe for concurrent use.
type Rooms struct {
	opts  Options
	log   *slog.Logger
	store *file.Store

	// mu guards the fields below. It is not held while an agent works.
	mu     sync.Mutex
	all    map[string]*room
	closed bool
	timers sync.WaitGroup
	// life ends when the rooms are closed.
	life context.Context
	end  context.CancelFunc
}

// A room is a Spec with what is open of it.
type room struct {
	spec Spec
	// lane has a place for the one turn that may react: a session may be a second
	// way into the room, beside the lane of its own conversation.
	lane chan struct{}

	// opening is held while the agent is made. Lock order: opening, then mu.
	opening sync.Mutex
	// stepping is held while the stepper is used, which is for one at a time.
	// Never under mu.
	stepping sync.Mutex

	// mu guards the fields below.
	mu    sync.Mutex
	agent *facilitate.Agent
	key   *facilitate.OperatorKey
	turn  *port // of the running turn, or nil
	steps *facilitate.Stepper
	timer *time.Timer
	plan  *time.Timer // of the next tick that Iris asked for

	// screen has a place for the one who shows something on a platform, and holds
	// the field below. It is taken by a turn, never before one.
	screen chan struct{}
	shown  *ledger

	// These are under the mu of Rooms: whether somebody looks at what is shown,
	// whether to look again, when it was last, and how often it failed since.
	looking, again bool
	looked         time.Time
	failed         int
}

func newRoom(s Spec) *room {
	return &room{spec: s, lane: make(chan struct{}, 1), screen: make(chan struct{}, 1)}
}

// New reads which rooms there are. A room is opened when somebody comes.
func New(opts Options) (*Rooms, error) {
	if opts.Dir == "" || opts.Submit == nil {
		return nil, errors.New("facilitator: Dir and Submit are required")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.ShowEvery == 0 {
		opts.ShowEvery = 2 * time.Second
	}
	if opts.TickAfter == 0 {
		opts.TickAfter = 5 * time.Minute
	}
	store, err := file.New(file.Options{Dir: opts.Dir})
	if err != nil {
		return nil, err
	}
	r := &Rooms{opts: opts, log: opts.Logger, store: store, all: map[string]*room{}}
	r.life, r.end = context.WithCancel(context.Background())
	specs, err := read(r.list())
	if err != nil {
		return nil, err
	}
	for _, s := range specs {
		if s, err = s.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", r.list(), err)
		}
		r.all[s.ID] = newRoom(s)
	}
	return r, nil
}

func (r *Rooms) list() string { return list(r.opts.Dir) }

func list(dir string) string { return filepath.Join(dir, "rooms.json") }

// Names returns the names of the rooms in dir, for who does not serve them. A
// directory without rooms has none.
func Names(dir string) ([]string, error) {
	specs, err := read(list(dir))
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.ID
	}
	return names, err
}

// read returns the rooms on disk. A file that cannot be read is refused with its
// path, and never overwritten.
func read(path string) (specs []Spec, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &specs)
	}
	if err != nil {
		return nil, fmt.Errorf("rooms in %s: %w", path, err)
	}
	return specs, nil
}

// Create makes a room and keeps it.
func (r *Rooms) Create(s Spec) (Spec, error) {
	s, err := s.check()
	if err != nil {
		return s, err
	}
	if r.opts.Taken != nil && r.opts.Taken(s.ID) {
		return s, fmt.Errorf("%w: the name %s belongs to an agent", ErrSpec, s.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[s.ID] != nil {
		return s, fmt.Errorf("%w: there is a room %s already", ErrSpec, s.ID)
	}
	for _, x := range r.all {
		for _, c := range s.channels() {
			if slices.Contains(x.spec.channels(), c) {
				return s, fmt.Errorf("%w: channel %s belongs to the room %s", ErrSpec, c, x.spec.ID)
			}
		}
	}
	specs := append(r.specs(), s)
	data, err := json.MarshalIndent(specs, "", "  ")
	if err != nil {
		return s, err
	}
	if err := durable.Replace(r.list(), append(data, '\n'), durable.Keep(0o600)); err != nil {
		return s, fmt.Errorf("keep the room %s: %w", s.ID, err)
	}
	r.all[s.ID] = newRoom(s)
	return s, nil
}

func (s Spec) channels() []string {
	out := []string{s.Channel}
	for _, p := range s.Participants {
		out = append(out, p.Channel)
	}
	return out
}

// specs lists the rooms by id. mu is held.
func (r *Rooms) specs() []Spec {
	out := make([]Spec, 0, len(r.all)+1)
	for _, x := range r.all {
		out = append(out, x.spec)
	}
	slices.SortFunc(out, func(a, b Spec) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

// List returns the rooms, by id.
func (r *Rooms) List() []Spec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.specs()
}

// Find says which room an address belongs to, and whose private line it is;
// person is empty for the room itself.
func (r *Rooms) Find(a chat.Address) (s Spec, person facilitate.ID, ok bool) {
	channel := a.Channel()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		if x.spec.Channel == channel {
			return x.spec, "", true
		}
		for _, p := range x.spec.Participants {
			if p.Channel == channel {
				return x.spec, facilitate.ID(p.ID), true
			}
		}
	}
	return Spec{}, "", false
}

// Runner returns the runner of a room, which has the room's name.
func (r *Rooms) Runner(name string) (runner.Runner, bool) {
	x := r.room(name)
	if x == nil {
		return nil, false
	}
	return answerer{r, x}, true
}

func (r *Rooms) room(id string) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id]
}

// open returns a room with its agent.
func (r *Rooms) open(ctx context.Context, id string) (*room, *facilitate.Agent, error) {
	x := r.room(id)
	if x == nil {
		return nil, nil, fmt.Errorf("%.50q: %w", id, ErrUnknown)
	}
	x.opening.Lock()
	defer x.opening.Unlock()
	x.mu.Lock()
	a := x.agent
	x.mu.Unlock()
	if a != nil {
		return x, a, nil
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, nil, transport.ErrClosing
	}
	face, err := x.spec.surface()
	if err != nil {
		return nil, nil, err
	}
	pol, err := x.spec.policy()
	if err != nil {
		return nil, nil, err
	}
	key := facilitate.NewOperatorKey()
	a, err = facilitate.New(ctx, facilitate.Config{
		ID: id, Topic: x.spec.Topic, Participants: x.spec.people(), Surface: face, Policy: pol,
		Store: r.store, Port: &ways{r, x}, Operator: key, Logger: r.log, Tools: tool.All(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open the room %s: %w", id, err)
	}
	x.mu.Lock()
	x.agent, x.key = a, key
	x.mu.Unlock()
	return x, a, nil
}

// Close ends the rooms, after the engine.
func (r *Rooms) Close() error {
	r.mu.Lock()
	r.closed = true
	r.end()
	all := make([]*room, 0, len(r.all))
	for _, x := range r.all {
		all = append(all, x)
	}
	r.mu.Unlock()
	var errs []error
	for _, x := range all {
		x.opening.Lock()
		x.mu.Lock()
		a := x.agent
		if x.timer != nil && x.timer.Stop() {
			r.timers.Done()
		}
		if x.plan != nil && x.plan.Stop() {
			r.timers.Done()
		}
		x.timer, x.plan = nil, nil
		x.mu.Unlock()
		if a != nil {
			errs = append(errs, a.Close())
		}
		x.opening.Unlock()
	}
	r.timers.Wait()
	return errors.Join(errs...)
}
