// Package agentcli is what stands between a conversation and somebody else's
// agent program (Claude Code, an ACP agent, Pi). Its contract are a Driver, which
// knows one protocol, and an Agent, which speaks it with one process; the packages
// below it are the protocols there are and clitest holds the suite.
//
// A conversation has at most one resident process. The package owns its life
// (started by the first message, paused when idle, resumed, ended with all it
// started), which session of the program belongs to which conversation, what an
// agent may do without being asked about it (Mode), and how what the agent says
// becomes the events of a turn. It speaks no protocol, asks no person itself and
// shows nothing: questions go through Options, events to the turn's sink.
package agentcli

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// A Mode says what an agent may do without a person's word. What the policy
// refuses is refused in every mode, and a question to the person (Question, Plan)
// is put to the person in every mode.
type Mode string

// The modes.
const (
	// Manual asks about every tool call, reading included.
	Manual Mode = "manual"
	// AcceptEdits lets files inside the work directory be written without asking.
	AcceptEdits Mode = "acceptEdits"
	// Auto asks about nothing but what the policy holds.
	Auto Mode = "auto"
)

// A Driver knows one protocol. It is safe for concurrent use.
type Driver interface {
	// Launch says how the program is started for a conversation. It may write
	// files below Setup.Scratch, and nowhere else.
	Launch(Setup) (Launch, error)
	// Attach speaks the protocol with a process that was started so. It starts
	// nothing: Agent.Read does the reading.
	Attach(Setup, Pipes) (Agent, error)
}

// An Explainer is a Driver that knows what its program means by what it wrote to
// stderr before it ended, for ends that the protocol tells nothing about.
type Explainer interface {
	// Explain returns one sentence for people, empty if it knows none, and whether
	// the end says that Setup.Session is unknown to the program.
	Explain(stderr string) (failure string, noSession bool)
}

// A Setup is what a process is started for.
type Setup struct {
	// Bin is the program, a path or a name to be found on PATH.
	Bin string
	// WorkDir is where it works: absolute, and there.
	WorkDir string
	// Session is the program's own id of the session to go on with; empty: a new
	// one. Fresh is a UUID that a new session may use as its id, for programs that
	// let themselves be told.
	Session, Fresh string
	Mode           Mode
	// Model is in the program's own words; empty: its default.
	Model string
	// System is added to the program's own system prompt.
	System string
	// Readable are directories outside of WorkDir that it may read (attachments).
	Readable []string
	// Scratch is a directory of the conversation, 0700, for the driver's files.
	Scratch string
	// Args are further arguments that the operator configured.
	Args []string
}

// A Launch is a command line. Env is added to the allow-listed environment that
// every agent gets.
type Launch struct {
	Path string
	Args []string // its own name is not among them
	Env  []string
}

// Pipes are the ends of a process. The supervisor closes them; In is not safe for
// concurrent use and may fail with EPIPE at any time.
type Pipes struct {
	In  io.Writer
	Out io.Reader
}

// An Agent is one process as its protocol shows it. All methods but Read may be
// called concurrently, also while Read runs, and return an error that wraps
// ErrGone when the process does not listen any more.
type Agent interface {
	// Read understands what the program says until its output ends, and returns
	// nil then; an error says what could not be understood, and ends the process.
	// each gets the events in order, one at a time; it may take its time. Read is
	// called once, at once after Attach.
	Read(each func(Event)) error
	// Open does what must be done before the first prompt (handshake, login, new
	// or resumed session) and is called once, beside Read. ErrNoSession says that
	// Setup.Session is not known to the program (any more). Programs that tell
	// so only with the first prompt say it in the Result instead.
	Open(ctx context.Context) error
	// Send gives the program something to do. The Result whose Prompts hold its
	// ID answers it.
	Send(ctx context.Context, p Prompt) error
	// Answer settles an Ask. One that is over already is no error.
	Answer(ctx context.Context, a Answer) error
	// Interrupt ends the work at hand; its Result follows. Asks that are open are
	// withdrawn.
	Interrupt(ctx context.Context) error
	// SetModel changes the model from the next prompt on. Models lists them with
	// the current one; nil and "" where the program does not tell.
	SetModel(ctx context.Context, model string) error
	Models(ctx context.Context) (all []Model, current string, err error)
	// SetMode tells the program of a changed mode, where it has a word for it.
	SetMode(ctx context.Context, m Mode) error
}

// A Model is one that a program offers.
type Model struct{ ID, Name string }

// A Prompt is a message on its way to the program.
type Prompt struct {
	// ID is a UUID. Where the program knows ids, the same one is not run twice.
	ID     string
	Text   string
	Images []Image
	// Files are paths the program can read; drivers name them in the text unless
	// the protocol has a form for them.
	Files []string
}

// An Image is a picture in a prompt.
type Image struct {
	Mime string
	Data []byte
}

// A Kind says what an Event tells.
type Kind string

// The kinds.
const (
	// Session: the program's id of the session is ID. It may come more than once,
	// and change.
	Session Kind = "session"
	// TakenUp: the program has begun with the prompt ID.
	TakenUp Kind = "taken up"
	// Delta is a piece of the text at hand, Text the whole of it, which comes also
	// after its pieces: a consumer shows the one or the other. A Text that is empty
	// says that the pieces before it do not count (the model was asked again).
	Delta Kind = "delta"
	Text  Kind = "text"
	// Thought is reasoning, in pieces.
	Thought Kind = "thought"
	// ToolStart and ToolEnd are a tool call; each comes once per ID.
	ToolStart Kind = "tool start"
	ToolEnd   Kind = "tool end"
	// Permission, Question and Plan wait for an Answer with their ID.
	Permission Kind = "permission"
	Question   Kind = "question"
	Plan       Kind = "plan"
	// Withdrawn: the ask ID is over without an answer.
	Withdrawn Kind = "withdrawn"
	// Notice is one line for people in Text: a retry of the API, a compaction.
	Notice Kind = "notice"
	// Result ends the work on Prompts.
	Result Kind = "result"
)

// An Event is something that a program said.
type Event struct {
	Kind Kind
	ID   string
	Text string
	// Parent is the tool call of the sub-agent that this comes from; empty: the
	// agent itself.
	Parent string
	// Tool belongs to ToolStart, ToolEnd and Permission. Permission carries it
	// whole, also if ToolStart has not come yet.
	Tool Tool
	// Choices belong to Question: one group is one question.
	Choices []Choices
	// What a Result says. Prompts are the ids it answers; a program that does not
	// know ids answers all it was given. Failure, when not empty, says in one
	// sentence why there is no good answer; Reason is the program's own word for
	// it. Interrupted: because Interrupt asked for it. NoSession: because
	// Setup.Session is unknown.
	Prompts     []string
	Failure     string
	Reason      string
	Interrupted bool
	NoSession   bool
	Usage       *Usage
}

// Unasked stands among the Prompts of a Result for work that the program began by
// itself, such as a look at what a background command has printed.
const Unasked = "unasked"

// A Tool is a tool call as the program describes it.
type Tool struct {
	ID    string
	Name  string // the program's own word: "Bash", "bash", "mcp__x__y"
	Input json.RawMessage
	// What is what the call does, as far as the protocol or the name tells; it
	// decides what a Mode allows.
	What Deed
	// Command is the shell command of an Execute, Paths what a Read or an Edit
	// touches; as the program wrote them.
	Command string
	Paths   []string
	// Dir is where Command would run; empty: the work directory.
	Dir string
	// Outside: the program itself says that a path lies outside of its directories.
	Outside bool
	// Always: an Answer may have Always, the program then asks no more for the
	// like in this session.
	Always bool
	// Granted: the person gave such an Answer to the like before, and the program
	// asks all the same. The policy judges it, a person need not.
	Granted bool
	// What belongs to ToolEnd.
	Result string
	Failed bool
}

// A Deed is the kind of a tool call.
type Deed string

// The deeds.
const (
	Execute Deed = "execute" // a command
	Read    Deed = "read"    // files, a search
	Edit    Deed = "edit"    // files written, moved or deleted
	Fetch   Deed = "fetch"   // the network
	Other   Deed = "other"   // anything else, what is not known included
)

// Choices are the options of one question.
type Choices struct {
	Question string
	Header   string
	Options  []Option
	// Many: more than one may be picked. The person may always answer in their
	// own words.
	Many bool
}

// An Option is one of them.
type Option struct{ Label, About string }

// An Answer settles an Ask.
type Answer struct {
	ID    string
	Allow bool
	// Always also allows the like for the rest of the session (Tool.Always).
	Always bool
	// Input replaces the tool's input; nil: as it was asked.
	Input json.RawMessage
	// Reason is told to the model with a refusal. Stop also ends its work.
	Reason string
	Stop   bool
	// Picked answers a Question, by Choices.Question.
	Picked map[string]string
}

// Usage is what one Result cost; drivers turn running totals into differences.
type Usage struct {
	Model                                string
	Input, Output, CacheRead, CacheWrite int64 // tokens
	Cost                                 float64
	Took                                 time.Duration
	// Window is the size of the model's context, 0 when not known.
	Window int64
}

// A Compacting driver's program shortens its context when it is told so with a
// prompt.
type Compacting interface {
	// CompactPrompt is that prompt.
	CompactPrompt() string
}
