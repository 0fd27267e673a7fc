// Package bridge is the wire between Iris and her sub-agents: one HTTP call is
// one turn of the agent, with progress on the way and a reply that survives the
// connection. The package owns the words of it: the lines of the stream and of
// the job log, requests and job answers, codes, limits, ids and keys, and the
// throttle of forwarded progress. docs/bridge.md shows them in an example.
//
// It does no I/O and knows neither side: the server is transport/bridge, the
// client is runner/subagent.
package bridge

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// What both sides agree on.
const (
	// Path is where requests are posted, JobsPath what the id of a job follows.
	Path     = "/bridge"
	JobsPath = "/bridge/jobs/"
	// StreamType is the content type of a streamed answer, in Accept and in the
	// answer.
	StreamType = "application/x-ndjson"
	// Protocol is the version in the accepted line.
	Protocol = 1
	// NoResponse stands for the reply of a run that said nothing.
	NoResponse = "(no response)"
	// Header, with the value KnowsTurns, is in every answer of a server that
	// knows turns: a request with a turn may be posted to it again.
	Header     = "X-Iris-Bridge"
	KnowsTurns = "turns"
	// DefaultUser is who asks when a request names nobody.
	DefaultUser = "iris"
)

// Bounds. What is longer is refused, but for a status, which is cut.
const (
	// MaxStatus is the length of a status text in characters.
	MaxStatus = 200
	// MaxID is the length of a request id in bytes.
	MaxID = 128
	// MaxUser is the length of a user's name in bytes.
	MaxUser = 256
	// MaxBody is the size of a request: the bound of every body of the API.
	MaxBody = 10 << 20
	// MaxLine is the longest line, and MaxAnswer the longest answer that is no
	// stream, which a client reads: a reply of this size has left every use
	// behind.
	MaxLine   = 16 << 20
	MaxAnswer = 64 << 20
)

// The bodies of errors, beside the texts of [Code.Text].
const (
	SaidInvalidJSON = "invalid JSON"
	SaidNoText      = "text is required"
	SaidNotFound    = "not found"
	SaidUnknownJob  = "unknown job"
	SaidInvalidURL  = "invalid URL"
	SaidFailed      = "Bridge request failed."
	SaidNotWritten  = "Failed to write event."
	// SaidNotWhole refuses a body that was cut off on its way; whoever sent it
	// may send it again.
	SaidNotWhole = "the body did not come whole"
)

// A Code says why there is no reply.
type Code string

// The codes.
const (
	IdleTimeout      Code = "idle_timeout"       // no progress for too long
	MaxDuration      Code = "max_duration"       // ran into its ceiling
	Superseded       Code = "superseded"         // a newer request has the same id
	EventWriteFailed Code = "event_write_failed" // the request was not taken
	Failed           Code = "failed"             // anything else
	Interrupted      Code = "interrupted"        // the agent ended under it and could not go on
)

// Known reports whether c is one of the codes above.
func (c Code) Known() bool {
	switch c {
	case IdleTimeout, MaxDuration, Superseded, EventWriteFailed, Failed, Interrupted:
		return true
	}
	return false
}

// IdleText and MaxText are what is said when a limit was reached.
func IdleText(limit time.Duration) string { return "no progress for " + seconds(limit) }

// MaxText is what is said when the hard limit was reached.
func MaxText(limit time.Duration) string { return "exceeded the " + seconds(limit) + " limit" }

func seconds(d time.Duration) string {
	return fmt.Sprintf("%ds", int64(d.Round(time.Second)/time.Second))
}

// Limits bound a request. Zero means that there is no such limit.
type Limits struct {
	Idle time.Duration // without progress; heartbeats are none
	Max  time.Duration // in all
}

// Within returns the tighter of each of the limits and ceiling, where zero is
// infinite: what holds for a caller that waits for one JSON answer.
func (l Limits) Within(ceiling time.Duration) Limits {
	return Limits{tighter(l.Idle, ceiling), tighter(l.Max, ceiling)}
}

func tighter(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	}
	return min(a, b)
}

// Cut shortens the text of a status to MaxStatus characters.
func Cut(text string) string {
	if len(text) <= MaxStatus {
		return text
	}
	n := 0
	for i := range text {
		if n++; n > MaxStatus {
			return text[:i]
		}
	}
	return text
}

// WantsStream reports whether an Accept header asks for a stream.
func WantsStream(accept string) bool { return strings.Contains(strings.ToLower(accept), StreamType) }

// IsStream reports whether an answer of this content type is a stream.
func IsStream(contentType string) bool { return WantsStream(contentType) }

// Clean makes text valid UTF-8, which JSON needs.
func Clean(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
