package transport

import (
	"errors"
	"fmt"
	"time"
)

// A Fault says why a call of a Platform failed, and so what is done next.
type Fault string

// The faults.
const (
	// Unreachable: the connection or the platform is broken for now; the call
	// is made again, later and later.
	Unreachable Fault = "unreachable"
	// Limited: too many calls; none is made before After is over.
	Limited Fault = "limited"
	// TooLong: the message is sent in smaller parts, in the end as a file.
	TooLong Fault = "too long"
	// BadFormat: the message is sent without formatting.
	BadFormat Fault = "bad format"
	// Refused: this will not be taken, now or later.
	Refused Fault = "refused"
	// Gone: the message is not there (Edit, Delete, Find), or the chat is not,
	// or Iris is not let in (Post, Upload).
	Gone Fault = "gone"
	// Unauthorized: the credentials are wrong; everything waits for new ones.
	Unauthorized Fault = "unauthorized"
)

// A SendError is how a Platform's calls fail.
type SendError struct {
	Fault Fault
	// After is what the platform asked to wait; 0: it did not say.
	After time.Duration
	// Everywhere says that After holds for all chats.
	Everywhere bool
	// Maybe says that the call may have had its effect: the answer was lost.
	Maybe bool
	// Err is what happened, with the platform's own word for it.
	Err error
}

// Error names the fault.
func (e *SendError) Error() string { return fmt.Sprintf("%s: %v", e.Fault, e.Err) }

// Unwrap returns Err.
func (e *SendError) Unwrap() error { return e.Err }

// AsSendError returns err as a *SendError. An error that is none tells nothing
// about what became of the call: Unreachable, and Maybe.
func AsSendError(err error) *SendError {
	var e *SendError
	if errors.As(err, &e) {
		return e
	}
	return &SendError{Fault: Unreachable, Maybe: true, Err: err}
}

// What Find says when it has no id.
var (
	// ErrNotThere: no message with this mark was sent; it may be sent.
	ErrNotThere = errors.New("no such message")
	// ErrCannotTell: the platform cannot be asked; a repeat is labelled as one.
	ErrCannotTell = errors.New("the platform does not tell what was sent")
)
