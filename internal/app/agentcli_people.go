package app

import (
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
)

// mayAnswer decides who may answer the questions of a conversation, and loosen what
// is asked there: the approvers, if there is a list of them, and where a project
// answers its people alone, for everybody else who reads along could press a
// button too. Who comes with the operator's token or login is the operator.
func (s *server) mayAnswer(h *house) func(chat.Address, chat.Person) bool {
	approver := mayApprove(s.opts.Config.Approvers)
	return func(conv chat.Address, p chat.Person) bool {
		if !approver(conv, p) {
			return false
		}
		if p.ID == apiUser || p.ID == pageUser {
			return true
		}
		r := s.cliOf(h, conv)
		if r == nil {
			return true
		}
		for _, c := range s.opts.Config.Projects {
			if c.Name == r.Project().Name {
				return len(c.AllowUsers) == 0 || slices.Contains(c.AllowUsers, p.ID)
			}
		}
		return true
	}
}

// cliHidden keeps what was said in private, to a bot or by the operator, out of the
// lists of everybody else's conversations. The operator sees all.
func cliHidden(conv chat.Address, other string) bool {
	if _, _, thread := chat.ThreadOf(conv); !thread && conv.Space != chat.Slack && conv.Space != chat.Telegram {
		return false
	}
	a, err := chat.Parse(other)
	return err != nil || !manyRead(a)
}

// manyRead reports that several people read a conversation: a channel or group of a
// platform, and not a private chat or one of the operator's own.
func manyRead(a chat.Address) bool {
	channel, _, thread := chat.ThreadOf(a)
	switch {
	case thread:
		return !strings.HasPrefix(channel, "D")
	case a.Space == chat.Slack:
		return !strings.HasPrefix(a.ID, "D")
	}
	return a.Space == chat.Telegram && strings.HasPrefix(a.ID, "-")
}

// The ids of whoever calls the API with the operator's token, and of who uses the
// page. No platform has such ids.
const (
	apiUser  = "api"
	pageUser = "web"
)
