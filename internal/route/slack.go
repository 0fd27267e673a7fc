package route

import (
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// Runners of relay channels. Both forward; only the first tells of failures, as
// its message was meant for Iris.
const (
	Relay      = "relay"
	RelayQuiet = "relay-quiet"
)

// slack decides for a channel of Slack, by its mode.
func (d *Decision) slack(s transport.Submission, snap Snapshot) {
	ch := Channel{Mode: Chat}
	if snap.Channel != nil {
		ch = *snap.Channel
	}
	if !person(s) {
		d.unasked(s, snap, ch)
		return
	}
	project, direct := Project{}, false
	if private(s) && !ch.Listed {
		project, direct = snap.project(s)
	}
	switch {
	case direct:
		d.whole(s, snap, project)
	case ch.Mode == Agent && s.Direct && ch.Project != "":
		if project, ok := snap.named(ch.Project, s); ok {
			d.whole(s, snap, project)
		} else {
			d.Kind = Ignore
		}
	case ch.Mode == Agent && !s.Direct:
		d.agent(s, snap, ch)
	case ch.Mode == Passthrough:
		d.relay(s, ch)
	case ch.Mode.sessions() && !s.Direct:
		d.sessions(s, snap, ch)
	default:
		d.chat(s, snap, ch)
	}
}

// asked reports that the message came from the API, which speaks to Iris alone.
func asked(s transport.Submission) bool { return s.Origin == turn.FromAPI }

// unasked decides about what no person says at this moment.
func (d *Decision) unasked(s transport.Submission, snap Snapshot, ch Channel) {
	switch {
	case s.Origin == turn.FromApproval:
		if ch.Mode.sessions() && s.Message.Thread != "" {
			d.Conversation, _ = session(s, snap)
		}
		if ch.Mode == Agent && ch.Project != "" {
			d.Runner = ch.Project
		} else if project, ok := snap.project(s); ok && !ch.Listed {
			d.Runner = project.Name
		}
	case ch.Mode == Passthrough:
		d.Kind = Ignore // there is nobody of ours to run it
	}
}

// relay forwards, whatever it says; not even commands are ours.
func (d *Decision) relay(s transport.Submission, ch Channel) {
	addressed := s.Mention || s.Direct || s.Origin == turn.FromAPI
	switch {
	case ch.URL == "", s.Message.From.Bot:
		d.Kind = Log
	case !s.Reply && !addressed && ch.MentionForTop:
		d.Kind = Ignore
	case addressed:
		d.Runner = Relay
	default:
		d.Runner = RelayQuiet
	}
}

// chat decides where the channel is one conversation.
func (d *Decision) chat(s transport.Submission, snap Snapshot, ch Channel) {
	addressed := s.Mention || s.Direct || s.Origin == turn.FromAPI
	leads := ch.Mode == Leads
	if s.Message.From.Bot {
		if !leads || s.Reply {
			d.Kind = Log
		}
		return
	}
	all := leads && !s.Reply
	if w, ok := d.said(s, snap); ok && (addressed || all && w.slash || !leads && !s.Reply && bare(w.Verb)) {
		d.Kind, d.Verb, d.Argument = Command, w.Verb, w.Argument
		return
	}
	if (!leads || addressed || all) && d.call(s, snap) {
		return
	}
	if !addressed && !all {
		d.Kind = Log
	}
}

// sessions decides where every thread is a conversation.
func (d *Decision) sessions(s transport.Submission, snap Snapshot, ch Channel) {
	var known bool
	d.Conversation, known = session(s, snap)
	addressed := s.Mention || s.Origin == turn.FromAPI
	api := ch.Mode == Thread
	w, command := d.said(s, snap)
	plain := bare(w.Verb) || w.slash && snap.program(d.Runner)
	switch {
	case s.Message.From.Bot:
		// What a bot opens a thread with is its first line; a person's first
		// reply opens the session.
		if d.Kind = Ignore; !s.Reply && !api {
			d.Kind, d.Conversation = Log, s.Address
		}
	case command && w.Verb == transport.Verbose && addressed, command && s.Reply && known && plain, command && addressed && !api:
		d.Kind, d.Verb, d.Argument = Command, w.Verb, w.Argument
		if !s.Reply || !known && w.Verb == transport.Verbose {
			d.Conversation = s.Address
		}
	case s.Reply && known:
		d.call(s, snap)
	case api:
		d.Kind = Ignore
	case !s.Reply && !addressed && ch.MentionForTop:
		d.Kind = Ignore
	default:
		d.call(s, snap)
	}
}

// session is the conversation of the thread a message is in, or opens; known
// says that it is there already.
func session(s transport.Submission, snap Snapshot) (conv chat.Address, known bool) {
	thread := firstOf(s.Message.Thread, s.Message.ID)
	if snap.Session != nil {
		if conv, known = snap.Session(thread); known {
			return conv, true
		}
	}
	return chat.ThreadSession(s.Address.ID, thread), false
}
