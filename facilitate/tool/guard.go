package tool

import (
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/room"
)

// Guards keep Iris quiet. A zero field is its default, a negative one turns
// the guard off.
type Guards struct {
	MinGap          int           // public lines by people between two posts; 3
	MaxPostsPerHour int           // 12
	NudgeAfter      time.Duration // before an open question may be nudged; 24 h
	TellAfter       time.Duration // between two calls for whoever runs the room; 1 h
}

// Defaults returns g with its zero fields filled.
func (g Guards) Defaults() Guards {
	if g.MinGap == 0 {
		g.MinGap = 3
	}
	if g.MaxPostsPerHour == 0 {
		g.MaxPostsPerHour = 12
	}
	if g.NudgeAfter == 0 {
		g.NudgeAfter = 24 * time.Hour
	}
	if g.TellAfter == 0 {
		g.TellAfter = time.Hour
	}
	return g
}

// Check reports why the act of c must not happen now, or "". It reads the
// sealed state and its answer stays at self.
//
// A direct answer and a consented statement are exempt from the gap, as both
// were asked for, and so is what is done once to an item; nothing is exempt from the bound per hour but the statement.
func (g Guards) Check(s *room.State, set *Set, c room.Choice, now time.Time) string {
	g = g.Defaults()
	in := open.Open(s.Inner())
	if _, ok := set.Room(c.Tool); ok {
		if c.Intent == CarryRelease {
			return ""
		}
		recent := 0
		for _, at := range in.Posts {
			if at > now.Add(-time.Hour).UnixMilli() {
				recent++
			}
		}
		if g.MaxPostsPerHour > 0 && recent >= g.MaxPostsPerHour {
			return "too many posts within the hour"
		}
		if spec, _ := set.Spec(c.Tool); g.MinGap > 0 && in.LastPost > 0 && c.Intent != AnswerDirect && !spec.Silent && !spec.OnItem && s.Log.Len()-in.LastPost < uint64(g.MinGap) {
			return "too soon after the last post"
		}
		return ""
	}
	if _, ok := set.Host(c.Tool); ok && in.Told > 0 && now.UnixMilli()-in.Told < g.TellAfter.Milliseconds() {
		return "the host was called within the hour"
	}
	if _, ok := set.Self(c.Tool); ok && slices.ContainsFunc(in.Plans, func(p room.Plan) bool { return p.Name == c.Intent }) {
		return "that is planned already"
	}
	if _, ok := set.Person(c.Tool); !ok {
		return ""
	}
	box, ok := s.File(c.Target)
	if !ok {
		return "no such person"
	}
	f := open.Open(box)
	switch p, _ := s.People.Get(c.Target); {
	case p.Away:
		return "the person is away"
	case f.Out("caucus"):
		return "the person opted out of private lines"
	case f.Asked == 0:
		return ""
	case c.Intent == AskConsent && f.Asked < 2 && len(f.Pending()) == 0:
		return "" // the wording is shown once, also behind an open question
	case c.Intent == NudgeIntent && f.Asked < 2 && now.UnixMilli()-f.Thread[len(f.Thread)-1].At >= g.NudgeAfter.Milliseconds():
		return ""
	}
	return "one open question to a person"
}

// Acknowledges reports whether a line only thanks or agrees, so that nothing
// is to be decided about it.
func Acknowledges(text string) bool {
	if strings.Contains(text, "?") {
		return false
	}
	w := room.Words(text)
	if len(w) == 0 {
		return true
	}
	if len(w) > 4 {
		return false
	}
	for _, x := range w {
		if !strings.Contains(" ok okay k thanks thank you thx cheers great good nice cool fine sure yep yes yeah got it noted sounds perfect lol haha will do right danke super merci ", " "+x+" ") {
			return false
		}
	}
	return true
}
