package native

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

// Options are fixed by New. Zero means the default that is named.
type Options struct {
	// Archive holds the conversations. Required.
	Archive Archive
	// Models returns the models to ask, in order: a turn starts with the first
	// and visits each at most once. Called once per turn. Required. They come
	// without retries; New adds those.
	Models func(context.Context) ([]llm.Model, error)
	// Tools are offered in every conversation, in this order.
	Tools []tool.Tool
	// MoreTools are offered after Tools, in the order returned (MCP); nil: none.
	MoreTools func(ctx context.Context, conv chat.Address) []tool.Tool
	// Notes reads what the operator and Iris wrote down for a conversation;
	// nil: nothing. Called once per turn, so it should be cheap; see NotesFrom.
	Notes func(ctx context.Context, conv chat.Address) (Notes, error)
	// Profile says how to speak in a conversation; nil: by its space.
	Profile func(conv chat.Address) Profile
	// Directory lists the people and channels around a conversation; nil: none.
	Directory func(conv chat.Address) []Entry
	// Agents lists the sub-agents; nil: none, and no section about them.
	Agents func() []AgentInfo
	// MCPStatus returns one line per MCP server; nil: no section about them.
	MCPStatus func(ctx context.Context) []string

	// Sections returns further sections of the system prompt, each with its
	// heading; nil: none. They must not change from turn to turn without need.
	Sections func(conv chat.Address) []string

	// Workspace is the workspace as the tools see it. Required.
	Workspace string
	// Sandbox names where commands run ("host", "docker"); empty: host.
	Sandbox string
	// Dir is where commands start, as the tools see it; empty: Workspace.
	Dir string
	// Locate returns the path under which the tools of a conversation find a
	// file of the workspace, or an error when it is not there. nil: the path
	// on this machine.
	Locate func(ctx context.Context, conv chat.Address, local string) (string, error)
	// Await returns when a file of the workspace that may still be on its way is
	// there; its error says for people why it is not. It must end with ctx, which
	// lasts AwaitLimit (0: 10 s) for all files of a message. nil: none is.
	Await      func(ctx context.Context, local string) error
	AwaitLimit time.Duration
	// ReduceImage makes a picture small enough for a model. nil: as it is.
	ReduceImage func(ctx context.Context, mime string, data []byte) (newMime string, newData []byte, err error)
	// Waiting reports that a turn of the log still waits in the queue, so that
	// its message is not shown early. nil: turns whose id is later than that of
	// the running one.
	Waiting func(conv chat.Address, id turn.ID) bool

	// Retry and Silence are given to llm.WithRetry and llm.WithSilence. A zero
	// Silence means 90 s, a negative one no limit.
	Retry   llm.RetryOptions
	Silence time.Duration
	// Thinking is the budget in tokens asked of models that can reason; 0: off.
	Thinking int64
	// CompactAt is the fill of the window, as a fraction, that starts a
	// compaction, CompactTo the fill it aims at. 0: 0.7 and 0.1.
	CompactAt, CompactTo float64
	// CompactLimit ends a compaction that takes longer; 0: 2 min.
	CompactLimit time.Duration
	Budget       Budget
	// UsageDir holds the ledger of the day; empty: kept in memory only.
	UsageDir string
	// Save saves a state of a conversation outside of a turn; nil: Compact
	// refuses.
	Save func(ctx context.Context, conv chat.Address, state any) error

	// CacheBytes bounds the decoded histories kept in memory, CacheIdle how
	// long one stays unused. 0: 64 MiB and 30 min.
	CacheBytes int64
	CacheIdle  time.Duration

	// Location is the time zone of the people; nil: that of the machine.
	Location *time.Location
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Logger may be nil.
	Logger *slog.Logger
}

// An Archive keeps conversations. *session.Store is one.
type Archive interface {
	// Entries returns the history entries after the one with that id, all of
	// them for "". session.ErrChanged means that the entry is gone.
	Entries(ctx context.Context, conv chat.Address, after string) ([]session.Entry, error)
	// Unseen returns lines of people in the log that are not in seen and whose
	// turn is not skipped, by date.
	Unseen(ctx context.Context, conv chat.Address, seen map[string]bool, skip func(turn string) bool) ([]session.Line, error)
	// Reset clears the history; the log stays.
	Reset(ctx context.Context, conv chat.Address) error
	// Path returns where a file of the workspace lies on this machine.
	Path(local string) (string, error)
}

// Notes are what the operator and Iris wrote down.
type Notes struct {
	Constitution  string // the operator's rules
	Memory        string // MEMORY.md of the workspace
	ChannelMemory string // MEMORY.md of the conversation
	System        string // SYSTEM.md: changes to the machine
	Skills        []Skill
}

// A Skill is one line of the index the model sees.
type Skill struct {
	Name, Description, Location string
}

// A Profile is how to speak in a kind of place.
type Profile struct {
	// Identity and Formatting are paragraphs of the system prompt.
	Identity, Formatting string
	// AttachmentsTag names the block that lists files ("slack_attachments").
	AttachmentsTag string
}

// An Entry is a person or a channel in the directory.
type Entry struct {
	ID, Name, Display string
	Channel           bool
}

// AgentInfo describes a sub-agent to the model.
type AgentInfo struct {
	Name, Description, URL string
}

// Budget limits what turns may cost. Zero is no limit, but for CallsPerTurn,
// where it means 200 (a loop that has not come to an end by then will not) and a
// negative number means none.
//
// A limit is checked before each request to a model; the answer that crosses it
// is still used. Tokens are all tokens, those read from a cache included. A
// reached limit ends the turn with turn.CodeBudget and a sentence that names
// it; what was done until then stays in the history.
type Budget struct {
	CallsPerTurn  int
	TokensPerTurn int64
	CostPerTurn   float64 // US dollars
	TokensPerDay  int64
	CostPerDay    float64 // US dollars
}

func (o *Options) complete() error {
	switch {
	case o.Archive == nil:
		return errors.New("native: no archive")
	case o.Models == nil:
		return errors.New("native: no models")
	case o.Workspace == "":
		return errors.New("native: no workspace")
	case o.CompactAt < 0 || o.CompactAt > 1 || o.CompactTo < 0 || o.CompactTo > 1:
		return errors.New("native: compaction fractions are between 0 and 1")
	}
	zero(&o.Sandbox, "host")
	zero(&o.Dir, o.Workspace)
	zero(&o.Silence, 90*time.Second)
	zero(&o.CompactAt, 0.7)
	zero(&o.CompactTo, 0.1)
	zero(&o.CompactLimit, 2*time.Minute)
	zero(&o.CacheBytes, 64<<20)
	zero(&o.CacheIdle, 30*time.Minute)
	zero(&o.Budget.CallsPerTurn, 200)
	if o.CompactTo >= o.CompactAt {
		return errors.New("native: a compaction must aim below the fill that starts it")
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Profile == nil {
		o.Profile = DefaultProfile
	}
	return nil
}

func zero[T comparable](p *T, def T) {
	var none T
	if *p == none {
		*p = def
	}
}
