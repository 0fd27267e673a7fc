package route

import (
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// A Project is a runner that is reached from a chat only where, and by whom, the
// configuration says so. Deny is the default: a project without lists is reached by
// nobody.
type Project struct {
	Name string
	// Channels are ids of channels; of Telegram also chats, with or without "tg-".
	// Users restricts them to these people, if there are any, and opens private
	// chats to them.
	Channels, Users []string
}

// In reports that the project is open in a channel, to somebody.
func (p Project) In(a chat.Address) bool {
	return slices.Contains(p.Channels, a.ID) || slices.Contains(p.Channels, a.Channel())
}

// takes reports that the sender may reach the project there: channel and person,
// or a private chat of the person.
func (p Project) takes(s transport.Submission) bool {
	if p.In(s.Address) {
		return p.admits(s.Message.From)
	}
	return private(s) && slices.Contains(p.Users, s.Message.From.ID)
}

func (p Project) admits(who chat.Person) bool {
	return len(p.Users) == 0 || slices.Contains(p.Users, who.ID)
}

// private reports that nobody but the sender reads along.
func private(s transport.Submission) bool {
	switch s.Address.Space {
	case chat.Slack:
		return s.Direct && strings.HasPrefix(s.Address.ID, "D")
	case chat.Telegram:
		return s.Address.ID == s.Message.From.ID
	}
	return false
}

// project is the first that takes the message.
func (snap Snapshot) project(s transport.Submission) (Project, bool) {
	i := slices.IndexFunc(snap.Projects, func(p Project) bool { return p.takes(s) })
	if i < 0 {
		return Project{}, false
	}
	return snap.Projects[i], true
}

// named is the project that meta/channels.json gives a channel. The entry opens the
// channel; the project's people still are the only ones.
func (snap Snapshot) named(name string, s transport.Submission) (Project, bool) {
	for _, p := range snap.Projects {
		if strings.EqualFold(p.Name, name) {
			return p, p.admits(s.Message.From)
		}
	}
	// Not configured: the engine says that there is no such runner.
	return Project{Name: name}, true
}

// begun is the project that the message's thread is with.
func (snap Snapshot) begun(s transport.Submission) (Project, bool) {
	if snap.With == nil || s.Message.Thread == "" {
		return Project{}, false
	}
	name := snap.With(s.Message.Thread)
	i := slices.IndexFunc(snap.Projects, func(p Project) bool { return p.Name == name })
	if i < 0 {
		return Project{}, false
	}
	return snap.Projects[i], true
}

// agent decides where every thread in which Iris was mentioned is a conversation
// with an agent program. All else is not for her.
func (d *Decision) agent(s transport.Submission, snap Snapshot, ch Channel) {
	project, open := snap.project(s)
	if ch.Project != "" {
		project, open = snap.named(ch.Project, s)
	} else if p, ok := snap.begun(s); ok {
		project, open = p, p.takes(s)
	}
	var known bool
	d.Conversation, known = session(s, snap)
	d.Runner = project.Name
	addressed := s.Mention || asked(s)
	w, command := d.said(s, snap)
	switch {
	case !open, s.Message.From.Bot, !addressed && !(s.Reply && known):
		d.Kind = Ignore
	case command && len(s.Message.Files) == 0:
		d.Kind, d.Verb, d.Argument = Command, w.Verb, w.Argument
	}
}

// whole decides where the whole chat is a conversation with an agent program.
func (d *Decision) whole(s transport.Submission, snap Snapshot, project Project) {
	d.Runner = project.Name
	if s.Message.From.Bot {
		d.Kind = Ignore
		return
	}
	if w, ok := d.said(s, snap); ok && len(s.Message.Files) == 0 {
		d.Kind, d.Verb, d.Argument = Command, w.Verb, w.Argument
	}
}
