// Package facilitate puts an agent into a group conversation. It hears the
// room, keeps a shared board and a sealed file per person, decides when to
// speak, to whom and how, and never decides for them. What somebody says in
// private reaches the room or another person in one way only: as exact words
// they consented to.
//
//	a, err := facilitate.New(ctx, facilitate.Config{
//		Topic:        "Where to eat on Friday",
//		Participants: []facilitate.Participant{{ID: "ana", Name: "Ana"}, {ID: "ben", Name: "Ben"}},
//	})
//	acts, err := a.Run(ctx, facilitate.Message("ana", "Where do we eat on Friday?"))
//
// Without a model the agent works by rules ([facilitate/mind/offline]); any
// function can be a model. A turn is: append the event, reflect, then decide
// and act until the choice is to hold.
//
// # How it keeps things apart
//
// There are three levels: the room, one person, and Iris herself. Each beat
// reads one level and writes the same one, and the levels are types (package
// flow), so a private text where a public one belongs does not compile. The
// choice of the next act is the only thing that goes from Iris to a lower
// level; it is of a closed vocabulary, and the bits it can carry are counted.
// What the room learns of sealed contributions follows a policy that is fixed
// before the first one (package disclose).
//
// A host gives the agent a [Port] to deliver through, a store that survives the
// process (journal/file), and reads along with [Agent.Subscribe]. What is out
// of reach: side channels of the platform (presence, typing, latency), what a
// model provider does with a prompt, and people who repeat what they heard.
package facilitate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/mem"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/mind/llm"
	"github.com/iris-operator/iris/facilitate/mind/offline"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/decisions"
	"github.com/iris-operator/iris/facilitate/tool"
	"github.com/iris-operator/iris/facilitate/view"
)

// ErrConfig is a [Config] that cannot work.
var ErrConfig = errors.New("facilitate: configuration")

// A Participant is a person at construction. Read is what Iris already knows
// of them; it becomes the first content of their sealed file.
type Participant struct {
	ID   principal.ID
	Name string
	Role string // "host" may close items
	Read string
}

// Config configures [New]. Only Participants is required.
type Config struct {
	ID           string // of the room, in the grammar of ids; "main"
	Topic        string
	Participants []Participant
	Policy       policy.Policy    // the facilitator preset
	Surface      *surface.Surface // decisions
	Mind         mind.Mind        // who thinks; else Model, else the offline mind
	Model        flow.Model
	Tools        []any         // of package tool; nil is post and caucus
	Store        journal.Store // memory
	Port         Port          // where acts are delivered; nil keeps them in the journal
	Guards       tool.Guards
	MaxSteps     int           // acts per turn; 6
	Tokens       int           // budget of one prompt; 12,000
	BeatTimeout  time.Duration // of one answer; 2 min
	MaxTokens    int           // of the whole room, prompts and answers; 0 is no bound
	Checkpoint   int           // entries between two checkpoints, so at most about that many are replayed by New; 2,048
	BargeIn      bool          // drop a post when a newer public line came meanwhile
	// Compat runs one reflection that sees everything and writes everything,
	// as the first design did. It leaks by construction and exists to show
	// that the tests find it; New refuses it together with a Port.
	Compat   bool
	Operator *OperatorKey // opens the agent's own level to its holder
	Secret   []byte       // keys the fences of prompts; random
	Clock    func() time.Time
	Logger   *slog.Logger // discards; never gets sealed text
}

// An OperatorKey is the capability to read what only Iris sees. Make one with
// [NewOperatorKey] and hand it to whoever runs the room, to nobody in it.
type OperatorKey struct{ _ byte }

// NewOperatorKey returns a key that no other key equals.
func NewOperatorKey() *OperatorKey { return new(OperatorKey) }

// An Agent is Iris in one room. Its methods are safe for concurrent use: events
// are journaled at once, turns run one at a time.
type Agent struct {
	// Fixed by New.
	cfg    Config
	tools  *tool.Set
	codec  *journal.Codec
	unlock func()
	hub    *hub
	// schemas of the surface, which does not change.
	schemas struct{ room, person json.RawMessage }
	// choices is the schema of the last vocabulary, which seldom changes.
	choices atomic.Pointer[choiceSchema]

	// turn is held for the length of a turn. Lock order: turn, then keep, then mu.
	turn sync.Mutex

	// keep is held while a checkpoint is made, so that none is kept of a state
	// that was erased meanwhile.
	keep sync.Mutex

	// mu guards the fields below. It is held while the store appends, so that
	// journal and state have one order, and never while a mind, a tool or a
	// port is called.
	mu     sync.Mutex
	state  room.State
	tail   journal.Tail
	mind   mind.Mind
	policy policy.Policy
	outbox []effect
	events uint64 // entry of the last event
	turned uint64 // last event that a finished turn had seen
	spent  int    // tokens
	last   *Last
	choice *room.Choice
	undone *room.Choice // chosen before a crash and not acted on
	kept   uint64       // entry of the last checkpoint
	erased bool         // entries behind the state were erased
	broken error
	closed bool
}

// New opens a room: it locks it in the store, reads its last checkpoint, replays
// what the journal has behind it and is ready
// for the next event. Effects that were not confirmed before are delivered
// with the next turn. Close releases the lock.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	tools, err := tool.NewSet(cfg.Tools...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if _, ok := cfg.Port.(HostPort); cfg.Port != nil && tools.Hosts() && !ok {
		return nil, fmt.Errorf("%w: a tool on the host needs a HostPort", ErrConfig)
	}
	start, err := cfg.start()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	unlock, err := cfg.Store.Lock(ctx, cfg.ID)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, tools: tools, codec: journal.NewCodec(cfg.Store, cfg.ID), unlock: unlock, hub: newHub(start),
		mind: cfg.Mind, policy: cfg.Policy,
	}
	a.schemas.room, a.schemas.person = beat.RoomSchema(cfg.Surface), beat.PersonSchema(cfg.Surface)
	if a.mind == nil && cfg.Model != nil {
		a.mind = a.ask(cfg.Model)
	} else if a.mind == nil {
		a.mind = offline.New()
	}
	if err := a.replay(ctx); err != nil {
		unlock()
		return nil, err
	}
	return a, nil
}

func (c *Config) defaults() error {
	if c.ID == "" {
		c.ID = "main"
	}
	if len(c.Participants) == 0 {
		return fmt.Errorf("%w: no participants", ErrConfig)
	}
	if c.Compat && c.Port != nil {
		return fmt.Errorf("%w: compatibility mode leaks and must not have a port", ErrConfig)
	}
	if c.Policy.Text == "" {
		p, err := policy.Preset("facilitator")
		if err != nil {
			return err
		}
		c.Policy = p
	}
	if c.Surface == nil {
		c.Surface = decisions.New()
	}
	if c.Tools == nil {
		c.Tools = []any{tool.Post(), tool.Caucus()}
	}
	if c.Store == nil {
		c.Store = mem.New()
	}
	if c.MaxSteps == 0 {
		c.MaxSteps = 6
	}
	if c.Checkpoint <= 0 {
		c.Checkpoint = 2048
	}
	if c.BeatTimeout == 0 {
		c.BeatTimeout = 2 * time.Minute
	}
	if len(c.Secret) == 0 {
		c.Secret = make([]byte, 32)
		rand.Read(c.Secret)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if !principal.Valid(c.ID) {
		return fmt.Errorf("%w: room id %q", ErrConfig, c.ID)
	}
	if c.Policy.K > 0 || c.Policy.NExact > 0 {
		s := *c.Surface
		if c.Policy.K > 0 {
			s.Policy.K = c.Policy.K
		}
		if c.Policy.NExact > 0 {
			s.Policy.NExact = c.Policy.NExact
		}
		c.Surface = &s
	}
	return nil
}

// start is the room before its first entry.
func (c *Config) start() (room.State, error) {
	var seats []room.Seat
	for _, p := range c.Participants {
		seats = append(seats, room.Seat{Person: principal.Person{ID: p.ID, Name: p.Name, Role: p.Role}, Prior: flow.Private(p.ID, p.Read)})
	}
	return room.New(c.ID, c.Topic, c.Surface, seats...)
}

// ask is the mind over a model, with its usage counted.
func (a *Agent) ask(m flow.Model) mind.Mind {
	return llm.New(llm.Options{Model: m, Usage: func(_ flow.Rank, u flow.Usage) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.spent += u.In + u.Out
	}})
}

// Close waits for the running turn, releases the room and ends all
// subscriptions. Events after it are refused.
func (a *Agent) Close() error {
	a.turn.Lock()
	defer a.turn.Unlock()
	a.checkpoint(context.Background(), min(a.cfg.Checkpoint, 64))
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.closed = true
		a.unlock()
		a.hub.close()
	}
	return nil
}

// SetPolicy replaces the policy from the next beat on. The change is
// journaled by name.
func (a *Agent) SetPolicy(ctx context.Context, p policy.Policy) error {
	if _, err := a.add(ctx, draft{kind: room.KPolicy, level: flow.RankSelf, body: room.Body{Text: p.Name}}); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.policy = p
	return nil
}

// SetModel replaces the model from the next beat on; nil is the offline mind.
func (a *Agent) SetModel(m flow.Model) {
	next := mind.Mind(offline.New())
	if m != nil {
		next = a.ask(m)
	}
	a.SetMind(next)
}

// SetMind replaces who thinks from the next beat on.
func (a *Agent) SetMind(m mind.Mind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mind = m
}

// IsLive reports whether a model other than the offline mind answers.
func (a *Agent) IsLive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, off := a.mind.(offline.Mind)
	return !off
}

// Spent counts the tokens models used in this process.
func (a *Agent) Spent() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spent
}

// snapshot is the state now; it does not change under the reader.
func (a *Agent) snapshot() room.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

func (a *Agent) view() view.Options {
	return view.Options{Tokens: a.cfg.Tokens, Secret: a.cfg.Secret}
}

// ID names a person; see package principal for its grammar.
type ID = principal.ID

// A Plan is a tick that Iris asked for: its name and when it is due.
type Plan = room.Plan

// A Statement is somebody's words after their consent.
type Statement = room.Statement
