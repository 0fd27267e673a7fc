// Package policy judges shell commands and paths before they are used. It is a
// seat belt that keeps accidents from happening, not a wall: whoever controls
// the shell finds a way around any matcher. The wall is the sandbox and the uid.
//
// The package is pure: it parses and evaluates, it never runs, opens or looks
// up anything, and it is safe for concurrent use. What is done with a verdict
// (refuse, ask, record) is up to the tools and to package approval.
package policy

// A Decision says what may happen. Deny beats Confirm beats Allow.
type Decision string

// The decisions.
const (
	Allow   Decision = "allow"
	Confirm Decision = "confirm" // only with the consent of a person
	Deny    Decision = "deny"    // never
)

// A Verdict is a decision with its reason.
type Verdict struct {
	Decision Decision `json:"verdict"`
	// Rule names the rule that decided, empty for Allow.
	Rule string `json:"rule,omitempty"`
	// Span is the part of the command, or the path, that the rule is about.
	Span string `json:"span,omitempty"`
	// Reason is one sentence without a full stop that completes
	// "refused because …".
	Reason string `json:"reason,omitempty"`
}

// An Access is what is done with a path.
type Access string

// The accesses.
const (
	Read  Access = "read"
	Write Access = "write"
)
