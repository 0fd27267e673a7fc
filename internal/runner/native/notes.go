package native

import (
	"context"
	"errors"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/skill"
)

// NotesFrom returns an Options.Notes that reads a library. host is the
// workspace on this machine and inside the workspace as the tools see it; what
// can be read of the notes comes with the error about the rest.
func NotesFrom(l *skill.Library, host, inside string) func(context.Context, chat.Address) (Notes, error) {
	return func(_ context.Context, conv chat.Address) (n Notes, err error) {
		var errs [5]error
		n.Constitution, errs[0] = l.Constitution()
		n.Memory, errs[1] = l.GlobalMemory()
		n.ChannelMemory, errs[2] = l.ChannelMemory(conv)
		n.System, errs[3] = l.SystemLog()
		skills, err := l.Skills(conv)
		errs[4] = err
		for _, s := range skills {
			if s.Hidden {
				continue
			}
			at := s.Location
			if rest, ok := strings.CutPrefix(at, strings.TrimSuffix(host, "/")+"/"); ok {
				at = strings.TrimSuffix(inside, "/") + "/" + rest
			}
			n.Skills = append(n.Skills, Skill{Name: s.Name, Description: s.Description, Location: at})
		}
		return n, errors.Join(errs[:]...)
	}
}
