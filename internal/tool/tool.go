// Package tool is the contract of what a model may call. The packages below it
// are the tools there are: bash, file (read, write, edit, attach) and mcp.
// tooltest holds the suite.
//
// A tool never talks to a platform: what people should see of it goes through
// [Call.Emit], which belongs to one turn. Cutting of output is the same for all
// tools and lives here.
package tool

import (
	"context"
	"encoding/json"

	"github.com/iris-operator/iris/internal/turn"
)

// A Tool can be called by a model.
//
// Implementations must
//   - check their arguments and answer bad ones with a Result that says what is
//     wrong, so that the model can try again;
//   - return within a moment of ctx ending, with everything they started ended;
//     the Result then says that the call was aborted;
//   - bound the text they return (see Cut) and keep it valid UTF-8;
//   - be safe for concurrent use.
type Tool interface {
	// Spec is asked for once and kept; it must not change.
	Spec() Spec
	Call(ctx context.Context, call Call) Result
}

// Spec describes a tool to the model.
type Spec struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
}

// A Call is one use of a tool.
type Call struct {
	ID   string
	Args json.RawMessage
	// Request is the turn the call belongs to.
	Request turn.Request
	// Emit shows something to the people who watch the turn. It may be called
	// until Call returns.
	Emit func(turn.Event) error
	// Images reports whether the model that asked accepts images.
	Images bool
}

// A Result is what the model gets back.
type Result struct {
	Text    string
	Images  []Image
	IsError bool
	// Display is shown to people instead of Text when not empty (a diff).
	Display string
}

// An Image is a picture for the model.
type Image struct {
	Mime string
	Data []byte
}

// Fail returns a result that tells the model what went wrong.
func Fail(text string) Result { return Result{Text: text, IsError: true} }
