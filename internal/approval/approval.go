// Package approval is where commands wait for a person. It owns the questions
// that are open, who may answer them (one place, [Options.Allowed], for words,
// buttons and the API alike), and the grants that come of a yes.
//
// A live question ([Book.Ask]) is put by somebody who waits for the answer inside
// of a turn. It lives in memory and ends with its turn.
//
// Questions about held commands are durable, one file each, and only they are: a question is a wish
// and grants nothing, whoever writes such a file. A grant lives in memory from
// the answer to the run, passes exactly one command, once, in one conversation,
// and only while the directory, the environment and the files that the command
// names are still what they were when the question was put; a restart in
// between asks again. That comparison sees the files of this machine: for a
// command that runs in a container it is the directory's name alone.
//
// The package does not judge commands (policy does), run them or speak to
// anybody. Its life of a command: [Book.Hold] puts a question or takes a grant;
// [Book.Word] and [Book.Pick] find the question that somebody answers, and the
// [Settlement] they return takes effect when the answer is on disk;
// [Book.Serve] ends what nobody answered.
package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// The defaults of Options.
const (
	DefaultAttended   = 30 * time.Minute
	DefaultUnattended = 72 * time.Hour
	// maxOpen bounds the questions of one conversation: more than anybody
	// reads, fewer than a model in a loop can make.
	maxOpen = 32
	// maxOver is how many questions are remembered after their end, to say what
	// became of them.
	maxOver = 256
)

// Options of a Book.
type Options struct {
	// Dir keeps the questions; it is made when needed. Required.
	Dir string
	// Allowed decides who may answer the questions of a conversation. It is
	// called with the person as the transport recorded them and must be quick.
	// nil: everybody but bots.
	Allowed func(conv chat.Address, p chat.Person) bool
	// Attended is how long a question waits where somebody is there, Unattended
	// where nobody is. 0: 30 minutes, 72 hours. A grant that is not used ends
	// after Attended.
	Attended, Unattended time.Duration
	// Expired tells people that nobody answered in time. It is called until it
	// returns nil, so it must recognise a question that it was given before, by
	// its ID. nil: nobody is told.
	Expired func(context.Context, Question) error
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: slog.DiscardHandler
}

// A Question is a command that waits for a person.
type Question struct {
	// ID is unique and ends with Hash.
	ID string `json:"id"`
	// Channel is the channel id of the conversation.
	Channel string `json:"channel"`
	Command string `json:"command"`
	Hash    string `json:"hash"` // sha256 of the command, in hex
	// Text is what people are asked, in one sentence or two.
	Text   string `json:"text"`
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"`
	Span   string `json:"span,omitempty"`
	// Dir is where the command would run, as the sandbox calls it.
	Dir       string      `json:"cwd,omitempty"`
	Requester chat.Person `json:"requester"`
	Turn      turn.ID     `json:"turn,omitempty"`
	Origin    turn.Origin `json:"origin,omitempty"`
	At        time.Time   `json:"at"`
	Until     time.Time   `json:"until"`
	// Scene is what the command would meet, to be compared when it runs.
	Scene Scene `json:"scene"`

	// What belongs to a live question: see LiveRequest. Waits marks one; it is never
	// on disk.
	Tool    string        `json:"tool,omitempty"`
	Options []turn.Option `json:"options,omitempty"`
	Many    bool          `json:"many,omitempty"`
	Always  bool          `json:"always,omitempty"`
	Waits   bool          `json:"-"`
}

// Conversation is the address that Channel names.
func (q Question) Conversation() (chat.Address, error) { return chat.Parse(q.Channel) }

// Ask is the question as an event carries it.
func (q Question) Ask() *turn.Ask {
	return &turn.Ask{ID: q.ID, Text: q.Text, Command: q.Command, Until: q.Until,
		Tool: q.Tool, Options: q.Options, Many: q.Many, Always: q.Always}
}

// A State says what became of a question.
type State string

// The states. All but Pending are final.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Declined State = "declined"
	// Answered: a question with options was answered.
	Answered State = "answered"
	Expired  State = "expired"
	// Withdrawn: what it asked about is gone, or has changed.
	Withdrawn State = "withdrawn"
)

// An OverError says that a question was settled, or that it never was. It is a
// transport.ErrUnknownAsk.
type OverError struct{ State State }

// Error is a sentence for people.
func (e *OverError) Error() string {
	switch e.State {
	case Approved, Declined, Answered:
		return "this question was answered already: " + string(e.State)
	case Expired:
		return "this question has expired; ask for it again"
	case Withdrawn:
		return "this question was withdrawn"
	}
	return "there is no such question; it may have been answered or have expired"
}

// Unwrap returns transport.ErrUnknownAsk.
func (e *OverError) Unwrap() error { return transport.ErrUnknownAsk }

// A Book keeps the open questions. It is safe for concurrent use.
type Book struct {
	opts Options
	log  *slog.Logger
	// woken tells Serve that there is another question; it holds one token.
	woken chan struct{}

	// mu guards the fields below. Files are written while it is held: a question
	// is asked a few times an hour.
	mu     sync.Mutex
	open   map[string]*entry
	grants map[key]grant
	over   []ended
}

// A key is what a question or a grant is about.
type key struct{ channel, hash string }

type entry struct {
	Question
	// taken marks a question whose answer is about to be recorded.
	taken bool
	live  *Live // whose asker waits; nil: a held command
}

// A grant passes one command once.
type grant struct {
	question Question
	by       string
	until    time.Time
}

type ended struct {
	id    string
	state State
}

// New reads the open questions. A file that cannot be read as one is left where
// it is, logged with its path, and asks nothing.
func New(opts Options) (*Book, error) {
	if opts.Dir == "" {
		return nil, errors.New("approval: Dir is required")
	}
	if opts.Attended == 0 {
		opts.Attended = DefaultAttended
	}
	if opts.Unattended == 0 {
		opts.Unattended = DefaultUnattended
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Allowed == nil {
		opts.Allowed = func(_ chat.Address, p chat.Person) bool { return !p.Bot }
	}
	b := &Book{opts: opts, log: opts.Logger, woken: make(chan struct{}, 1), open: map[string]*entry{}, grants: map[key]grant{}}
	return b, b.load()
}

// List returns the open questions, oldest first; those of one conversation
// unless conv is zero.
func (b *Book) List(conv chat.Address) []Question {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.opts.Now()
	var all []Question
	for _, e := range b.open {
		if (conv.IsZero() || e.Channel == conv.Channel()) && !e.taken && now.Before(e.Until) {
			all = append(all, e.Question)
		}
	}
	slices.SortFunc(all, func(x, y Question) int { return older(x, y) })
	return all
}

// State tells what became of a question, as far as this process knows.
func (b *Book) State(id string) (State, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.open[id]; e != nil {
		if b.opts.Now().Before(e.Until) {
			return Pending, true
		}
		return Expired, true
	}
	i := slices.IndexFunc(b.over, func(x ended) bool { return x.id == id })
	if i < 0 {
		return "", false
	}
	return b.over[i].state, true
}

// Withdraw takes back the questions and grants of a conversation whose context
// was cleared: whoever says yes afterwards means something else.
func (b *Book) Withdraw(conv chat.Address) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.open {
		if e.Channel == conv.Channel() && !e.taken {
			b.end(e.ID, Withdrawn)
		}
	}
	for k := range b.grants {
		if k.channel == conv.Channel() {
			delete(b.grants, k)
		}
	}
}

// end forgets an open question and remembers how it ended. mu must be held.
func (b *Book) end(id string, state State) { b.finish(id, Outcome{State: state}) }

// finish is end with what the asker of a live question is told. mu must be held.
func (b *Book) finish(id string, o Outcome) {
	state := o.State
	e := b.open[id]
	delete(b.open, id)
	if b.over = append(b.over, ended{id, state}); len(b.over) > maxOver {
		b.over = slices.Delete(b.over, 0, len(b.over)-maxOver)
	}
	if e != nil && e.live != nil {
		e.live.finish(o)
		return
	}
	if err := b.remove(id); err != nil && !errors.Is(err, os.ErrNotExist) {
		// It would be asked again after a restart, which does no harm.
		b.log.Error("remove a question", "file", b.path(id), "err", err)
	}
}

func older(x, y Question) int {
	if c := x.At.Compare(y.At); c != 0 {
		return c
	}
	if x.ID < y.ID {
		return -1
	}
	return 1
}

// Serve ends questions that nobody has answered in time, until ctx ends.
func (b *Book) Serve(ctx context.Context) error {
	for {
		wait := b.sweep(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-b.woken:
		case <-timer.C:
		}
		timer.Stop()
	}
}

const (
	// sweepEvery bounds the sleep of Serve, so that a clock that jumps is
	// noticed.
	sweepEvery = time.Minute
	// retryTelling is the pause after a notice could not be given.
	retryTelling = 5 * time.Second
)

// sweep ends what has expired and returns how long nothing will.
func (b *Book) sweep(ctx context.Context) time.Duration {
	now, wait := b.opts.Now(), sweepEvery
	var due []Question
	b.mu.Lock()
	for _, e := range b.open {
		switch left := e.Until.Sub(now); {
		case e.taken:
		case left <= 0:
			due = append(due, e.Question)
		default:
			wait = min(wait, left)
		}
	}
	for k, g := range b.grants {
		if !now.Before(g.until) {
			delete(b.grants, k)
		}
	}
	b.mu.Unlock()
	slices.SortFunc(due, older)
	for _, q := range due {
		if b.opts.Expired != nil && !q.Waits { // an asker that waits tells it
			if err := b.opts.Expired(ctx, q); err != nil {
				b.log.Error("tell that a question has expired", "question", q.ID, "conversation", q.Channel, "err", err)
				wait = min(wait, retryTelling)
				continue
			}
		}
		b.log.Info("question expired", "question", q.ID, "conversation", q.Channel, "turn", q.Turn)
		b.mu.Lock()
		if b.open[q.ID] != nil {
			b.end(q.ID, Expired)
		}
		b.mu.Unlock()
	}
	return wait
}

// wake makes Serve look again. It never waits.
func (b *Book) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// errFull reports a conversation with too many open questions.
var errFull = fmt.Errorf("%d commands wait for an answer in this conversation already", maxOpen)
