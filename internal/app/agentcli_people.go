package app

import (
	"slices"

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

// The ids of whoever calls the API with the operator's token, and of who uses the
// page. No platform has such ids.
const (
	apiUser  = "api"
	pageUser = "web"
)
