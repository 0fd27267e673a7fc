// Package route decides what a message is: to be ignored, to be logged only, a
// command, or a turn of some conversation for some runner. It is pure: what is
// true at the moment comes in as a [Snapshot], the answer is a [Decision], and
// the engine acts on it. The package owns the rules of every transport (who
// counts as addressed, which words are commands, what @name means) so that they
// can be read and tested in one place; it knows no configuration and does no
// I/O.
package route

import (
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A Snapshot is what routing needs to know about the place a message came from.
type Snapshot struct {
	// Default is the runner of conversations that have none of their own.
	Default string
	// Runner is the runner of this session, project or room; empty: Default.
	Runner string
	// Conversation is the conversation the address belongs to, where that is
	// not the address itself (the private line of a room); zero: the address.
	Conversation chat.Address
	// Hears says that every line of a person is a turn, addressed or not, and
	// that "@name" calls nobody: a room hears all that is said in it.
	Hears bool
	// Agents are the names that "@name" may call, in the spelling of their
	// registry; each is also the name of a runner.
	Agents []string
	// Programs are the runners that are agent programs: their conversations have
	// the commands of [Words].
	Programs []string
	// Talks is the project that the conversation has been with, for the commands that
	// act on it; who it is for a message is decided by Projects each time.
	Talks string
	// Projects are those that a chat can reach, in the order of the configuration:
	// the first that takes a message answers it.
	Projects []Project
	// Channel is how a channel of Slack is used; nil: as a chat.
	Channel *Channel
	// Session finds the session that a thread belongs to; nil: there is none.
	Session func(thread string) (chat.Address, bool)
	// With names the runner that the session of a thread is with; nil or empty: its
	// channel's. A thread stays with the project that it began with.
	With func(thread string) string
}

// A Kind says what is to be done with a message.
type Kind string

// The kinds.
const (
	// Ignore: nothing is kept.
	Ignore Kind = "ignore"
	// Log: the message is kept as something that was said; nobody answers.
	Log Kind = "log"
	// Command: Verb and Argument act on the conversation.
	Command Kind = "command"
	// Run: Runner answers in Conversation.
	Run Kind = "run"
)

// A Decision is what is to be done with a message.
type Decision struct {
	Kind         Kind
	Conversation chat.Address
	Runner       string
	// Prompt, when not empty, is what the runner gets instead of the text.
	Prompt   string
	Verb     transport.Verb
	Argument string
}

// Decide routes one message.
//
// Outside of chat spaces (API sessions, the bridge, escalations) and for
// origins other than a person's message every text is a turn: nothing in it is
// a command, and only in a session "@name" at the start calls that agent. In a
// chat space, in this order: the words of a bot
// are logged; "@name" at the start calls that agent; a whole message that is a
// command is one when it is addressed to Iris, and the plain ones also bare at
// the top level; what is addressed to Iris is a turn; anything else is logged. In
// a room that hears, whatever is no command is a turn. What a channel of Slack is
// used for changes that; see [Mode].
func Decide(s transport.Submission, snap Snapshot) Decision {
	d := Decision{Kind: Run, Conversation: snap.Conversation, Runner: firstOf(s.Runner, snap.Runner, snap.Default)}
	if d.Conversation.IsZero() {
		d.Conversation = s.Address
	}
	if empty(s.Message) {
		d.Kind = Ignore
		return d
	}
	if s.Address.Space == chat.Slack && !snap.Hears {
		d.slack(s, snap)
	} else {
		d.route(s, snap)
	}
	d.forward(s, snap)
	if s.Stale && d.Kind == Run || (s.Stale || s.Late) && d.Kind == Command {
		d.Kind, d.Verb, d.Argument = Log, "", ""
	}
	return d
}

// route decides outside of Slack.
func (d *Decision) route(s transport.Submission, snap Snapshot) {
	if !chatty(s) {
		if s.Address.Space == chat.Session && person(s) && !snap.Hears {
			d.call(s, snap)
		}
		return
	}
	if s.Message.From.Bot {
		d.Kind = Log
		return
	}
	if s.Address.Space == chat.Telegram && !snap.Hears {
		if project, ok := snap.project(s); ok {
			d.whole(s, snap, project)
			return
		}
	}
	if !snap.Hears && d.call(s, snap) {
		return
	}
	addressed := s.Mention || s.Direct || s.Address.Space == chat.Web || s.Origin == turn.FromAPI
	if w, ok := d.said(s, snap); ok && (addressed || !s.Reply && bare(w.Verb)) {
		d.Kind, d.Verb, d.Argument = Command, w.Verb, w.Argument
		return
	}
	if !addressed && !snap.Hears {
		d.Kind = Log
	}
}

// call looks for an "@name" and turns to that agent.
func (d *Decision) call(s transport.Submission, snap Snapshot) bool {
	name, query, ok := Mention(s.Message.Text, snap.Agents)
	if !ok {
		return false
	}
	d.Runner = name
	if query != s.Message.Text && s.Message.Prompt == "" {
		d.Prompt = query
	}
	return true
}

// chatty reports that people talk there, so that their words may be commands.
func chatty(s transport.Submission) bool { return person(s) && !s.Address.Headless() }

// person reports that the message is what somebody says now.
func person(s transport.Submission) bool {
	switch s.Origin {
	case turn.FromChat, turn.FromAPI, "":
		return true
	}
	return false
}

// bare reports that the verb needs no mention at the top level of a channel.
func bare(v transport.Verb) bool {
	return v == transport.Stop || v == transport.Compact || v == transport.Reset
}

func empty(m chat.Message) bool {
	return strings.TrimSpace(m.Text) == "" && m.Prompt == "" && len(m.Files) == 0
}

func firstOf(names ...string) string {
	for _, n := range names {
		if n != "" {
			return n
		}
	}
	return ""
}
