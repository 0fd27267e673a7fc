// Package release is consent: how words told in private come to be said in the
// room. A proposal names the exact wording; the person sees that wording, how
// it will be attributed and how large the crowd is; only their typed answer, or
// a whole message out of a closed list while exactly one question is open,
// grants it; and it can be taken back until it is delivered.
//
// The package is the state machine and the list of phrases. It asks nobody and
// posts nothing.
package release

import (
	"errors"
	"fmt"

	"github.com/iris-operator/iris/facilitate/disclose"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
)

// A State is where a release stands.
type State string

// The states. Granted may become delivered, revoked or expired; the last four
// are final.
const (
	Proposed  State = "proposed"
	Asked     State = "asked"
	Granted   State = "granted"
	Declined  State = "declined"
	Revoked   State = "revoked"
	Delivered State = "delivered"
	Expired   State = "expired"
)

// An Attribution says whether the room learns whose words they are.
type Attribution string

// The attributions. Anything else counts as Unattributed.
const (
	Named        Attribution = "named"
	Unattributed Attribution = "unattributed"
)

// MaxWording bounds the exact words, in bytes.
const MaxWording = 600

// ErrState is what a step that the present state does not allow is.
var ErrState = errors.New("the release does not stand there")

// A Release is one proposal to say somebody's words. It is a value; each step
// returns the next one.
type Release struct {
	ID          string // within the person's own file
	From        principal.ID
	Wording     flow.Text[flow.Person]
	Attribution Attribution
	State       State
	Hash        string // fixed by the proposal; consent is to this
	AskedSeq    uint64 // entry of the question
	AnswerSeq   uint64 // entry of the answer
	Others      int    // public lines of others when granted
	Ticks       int    // timer ticks when granted
	Statement   string // public id once delivered
}

// Propose starts a release of wording, which must belong to from.
func Propose(id string, from principal.ID, wording flow.Text[flow.Person], a Attribution) (Release, error) {
	b := open.Open(wording.Sealed())
	if b.Owner != string(from) || from == "" {
		return Release{}, fmt.Errorf("propose %s: the words are not those of %q", id, from)
	}
	if b.Text == "" || len(b.Text) > MaxWording {
		return Release{}, fmt.Errorf("propose %s: %d bytes, want 1 to %d", id, len(b.Text), MaxWording)
	}
	if a != Named {
		a = Unattributed
	}
	return Release{ID: id, From: from, Wording: wording, Attribution: a, State: Proposed, Hash: flow.Hash(b.Text)}, nil
}

// Ask records that the person was shown the wording in entry seq.
func (r Release) Ask(seq uint64) (Release, error) {
	if r.State != Proposed {
		return r, r.wrong("ask")
	}
	r.State, r.AskedSeq = Asked, seq
	return r, nil
}

// Grant records the person's yes in entry seq. others and ticks are the public
// lines by others and the timer ticks so far: delivery waits for one more.
func (r Release) Grant(seq uint64, others, ticks int) (Release, error) {
	if r.State != Asked {
		return r, r.wrong("grant")
	}
	r.State, r.AnswerSeq, r.Others, r.Ticks = Granted, seq, others, ticks
	return r, nil
}

// Decline records the person's no.
func (r Release) Decline(seq uint64) (Release, error) {
	if r.State != Asked && r.State != Proposed {
		return r, r.wrong("decline")
	}
	r.State, r.AnswerSeq = Declined, seq
	return r, nil
}

// Revoke takes a release back. It is possible until delivery.
func (r Release) Revoke(seq uint64) (Release, error) {
	switch r.State {
	case Proposed, Asked, Granted:
		r.State, r.AnswerSeq = Revoked, seq
		return r, nil
	}
	return r, r.wrong("revoke")
}

// Expire ends a release nobody answered or carried.
func (r Release) Expire() (Release, error) {
	switch r.State {
	case Proposed, Asked, Granted:
		r.State = Expired
		return r, nil
	}
	return r, r.wrong("expire")
}

// Deliver records that the words became the public statement of that id.
func (r Release) Deliver(statement string) (Release, error) {
	if r.State != Granted {
		return r, r.wrong("deliver")
	}
	r.State, r.Statement = Delivered, statement
	return r, nil
}

// Ready reports whether the words may be said now: granted, and the moment no
// longer points at the moment of consent.
func (r Release) Ready(others, ticks int) bool {
	return r.State == Granted && (others > r.Others || ticks > r.Ticks)
}

// Open reports whether r waits for an answer.
func (r Release) Open() bool { return r.State == Asked }

// Consent is the leave to lower the wording. It is the zero Consent, which
// allows nothing, unless r is granted.
func (r Release) Consent() flow.Consent {
	if r.State != Granted {
		return flow.Consent{}
	}
	return open.Consent(string(r.From), r.Hash)
}

func (r Release) wrong(step string) error {
	return fmt.Errorf("%s %s: is %s: %w", step, r.ID, r.State, ErrState)
}

// Question is the text that asks the owner of r, in a room of present people.
func (r Release) Question(present int) flow.Text[flow.Person] {
	how := "without your name"
	crowd := fmt.Sprintf("There are %d people in the room, so each reader has %d others to think of.", present, max(present-1, 0))
	if r.Attribution == Named {
		how, crowd = "with your name", fmt.Sprintf("All %d people in the room will read it.", present)
	} else if disclose.Guessable(present) {
		crowd = fmt.Sprintf("There are only %d people in the room: they may guess it is you.", present)
	}
	return flow.Private(r.From, fmt.Sprintf("May I say this to the room, %s?\n\n“%s”\n\n%s Answer “yes, share it” or “no” (%s). Nothing else counts as a yes, and you can take it back until it is said.",
		how, open.Open(r.Wording.Sealed()).Text, crowd, r.ID))
}
