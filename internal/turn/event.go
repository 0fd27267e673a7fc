package turn

import (
	"encoding/json"
	"path"
	"strings"
	"time"
)

// A Kind says what an event tells. The strings are those of the event stream.
type Kind string

// The kinds. Exactly one event of a turn is terminal: Final or Failed.
const (
	Started  Kind = "started"  // the runner has the turn
	Thinking Kind = "thinking" // reasoning text, when there is any
	Status   Kind = "status"   // one line of progress
	ToolUse  Kind = "tool"     // a tool call starts or ends
	Text     Kind = "text"     // a piece of text, or an intermediate text
	FileOut  Kind = "file"     // a file for the people who watch
	AskFor   Kind = "ask"      // a question was put to people
	Final    Kind = "final"    // the reply
	Failed   Kind = "error"    // there is no reply, and why
)

// An Event is one thing that happened in a turn. Its JSON form is what the
// event stream carries, so the names below are a contract.
type Event struct {
	Kind Kind `json:"kind"`
	Turn ID   `json:"turn,omitempty"`

	// Text is the reply (Final), a piece of text (Text), reasoning (Thinking)
	// or the text there was when the turn failed (Failed).
	Text string `json:"text,omitempty"`
	// Partial marks a Text event as a piece that continues the piece before
	// it. A Text event that is not Partial repeats, whole, the intermediate
	// text that the pieces since the last whole one added up to.
	Partial bool `json:"partial,omitempty"`
	// Void on a Text event says that the pieces since the last whole text do
	// not count: the model was asked again.
	Void bool `json:"void,omitempty"`
	// Label is the line of a Status event, without markup.
	Label string `json:"label,omitempty"`
	Tool  *Tool  `json:"event,omitempty"`
	// Filename, Title and Local belong to FileOut: the name to show, an
	// optional title, and the path relative to the workspace.
	Filename string `json:"filename,omitempty"`
	Title    string `json:"title,omitempty"`
	Local    string `json:"local,omitempty"`
	Ask      *Ask   `json:"ask,omitempty"`
	// Error and Code belong to Failed: one sentence for people, and one of the
	// Code constants.
	Error string `json:"error,omitempty"`
	Code  Code   `json:"code,omitempty"`
	// Silent marks a Final whose text is not to be posted anywhere.
	Silent bool `json:"silent,omitempty"`
	// Stopped marks a terminal event that a person's stop brought about; Text
	// is what there was until then.
	Stopped bool   `json:"stopped,omitempty"`
	Usage   *Usage `json:"usage,omitempty"`
}

// Terminal reports whether the event ends its turn.
func (e Event) Terminal() bool { return e.Kind == Final || e.Kind == Failed }

// ShownName is the name to show for a FileOut: the last part of Filename, or of
// Local if there is none. It holds no separator and is never empty.
func (e Event) ShownName() string {
	name := e.Filename
	if name == "" {
		name = e.Local
	}
	if name = path.Base(path.Clean("/" + strings.ReplaceAll(name, "\\", "/"))); name == "/" {
		return "file"
	}
	return name
}

// A Phase is the start or the end of a tool call.
type Phase string

// The phases of a tool call.
const (
	Start Phase = "start"
	End   Phase = "end"
)

// Tool describes a tool call. Start carries ID, Name, Label and Args; End adds
// Result, IsError and DurationMS.
type Tool struct {
	ID    string          `json:"id"`
	Name  string          `json:"toolName"`
	Label string          `json:"label,omitempty"`
	Args  json.RawMessage `json:"args,omitempty"`
	// Result is the text of the result, cut for display.
	Result     string `json:"result,omitempty"`
	IsError    bool   `json:"isError,omitempty"`
	DurationMS int64  `json:"durationMs,omitempty"`
	Phase      Phase  `json:"phase"`
}

// Ask is a question that only a person may answer.
type Ask struct {
	ID      string    `json:"id"`
	Text    string    `json:"text"`
	Command string    `json:"command,omitempty"`
	Until   time.Time `json:"until"`
	// Tool is the call that waits inside of its turn, when an agent program asks
	// for it ("Bash", "Write"), or "question" or "plan"; empty for a command of
	// Iris's own.
	Tool string `json:"tool,omitempty"`
	// Options make it a question with answers to pick from: people pick one, or
	// more if Many, or answer in their own words. Without them the answers are
	// yes and no.
	Options []Option `json:"options,omitempty"`
	Many    bool     `json:"many,omitempty"`
	// Always offers a third answer: yes, and the like for the rest of the session.
	Always bool `json:"always,omitempty"`
	// Outcome, when not empty, says that the question is over and how:
	// "approved", "declined", "answered", "expired" or "withdrawn". An event that carries it
	// closes the question of the same ID that was put before.
	Outcome string `json:"outcome,omitempty"`
	// By names who brought the outcome about, where it was a person; Picked is what
	// they chose.
	By     string `json:"by,omitempty"`
	Picked string `json:"picked,omitempty"`
}

// An Option is an answer to pick.
type Option struct {
	Label string `json:"label"`
	About string `json:"about,omitempty"`
}

// A Code says why a turn failed. The first group is also sent on the bridge.
type Code string

// The codes.
const (
	CodeFailed      Code = "failed"       // anything that has no code of its own
	CodeIdle        Code = "idle_timeout" // no progress for too long
	CodeMaxDuration Code = "max_duration" // ran into its ceiling
	CodeSuperseded  Code = "superseded"   // a newer request took its place
	CodeInterrupted Code = "interrupted"  // the process ended and the runner cannot resume

	CodeModel   Code = "model"   // the model answered with an error
	CodeTimeout Code = "timeout" // the model did not answer in time
	CodeBudget  Code = "budget"  // a configured limit was reached
	CodePanic   Code = "panic"   // a defect in a runner or tool
	CodeStopped Code = "stopped" // stopped before there was any text
)

// Usage is what a turn cost.
type Usage struct {
	Provider   string `json:"provider,omitempty"`
	Model      string `json:"model,omitempty"`
	Calls      int    `json:"calls,omitempty"`
	Input      int64  `json:"input,omitempty"`      // tokens, without those read from or written to a cache
	Output     int64  `json:"output,omitempty"`     // tokens
	CacheRead  int64  `json:"cacheRead,omitempty"`  // tokens
	CacheWrite int64  `json:"cacheWrite,omitempty"` // tokens
	// Cost is in US dollars, 0 when the price of the model is not known.
	Cost float64 `json:"cost,omitempty"`
	// Context is the number of tokens in the conversation after the turn,
	// Window the size of the model's context; 0 when not known.
	Context int64 `json:"context,omitempty"`
	Window  int64 `json:"window,omitempty"`
}
