package delivery

import (
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// firstWords is the line of a placeholder before there is any progress.
func firstWords(speaker string, a *turn.Accepted) string {
	if speaker != "" {
		return "→ " + speaker + " is working"
	}
	if a.Origin == turn.FromSchedule || a.Origin == turn.FromEvent {
		if rest, ok := strings.CutPrefix(a.Message.Text, "[EVENT:"); ok {
			if name, _, ok := strings.Cut(rest, ":"); ok && name != "" {
				return "Starting event: " + path.Base(name)
			}
		}
	}
	return "Thinking"
}

// progress is the line that an event puts under a placeholder; empty: none.
func progress(speaker string, ev *turn.Event) string {
	var text string
	switch {
	case ev.Kind == turn.Status:
		text = ev.Label
	case ev.Kind == turn.ToolUse && ev.Tool != nil && ev.Tool.Phase == turn.Start:
		if text = ev.Tool.Label; text == "" {
			text = ev.Tool.Name
		}
		text = "→ " + text
	}
	if text = oneLine(text, maxProgress); text == "" {
		return ""
	}
	if speaker != "" {
		return "→ " + speaker + ": " + strings.TrimPrefix(text, "→ ")
	}
	return text
}

// maxProgress and maxReason keep a line a line.
const (
	maxProgress = 200
	maxReason   = 600
)

func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// lateAfter is how old a message may be when it comes in before its reply says
// so; lateTime is when somebody wrote one that is older, zero for all others.
const lateAfter = 5 * time.Minute

func lateTime(a *turn.Accepted, came time.Time) time.Time {
	if said := a.Message.At; a.Origin == turn.FromChat && !said.IsZero() && came.Sub(said) > lateAfter {
		return said
	}
	return time.Time{}
}

// lateWords is the line above a reply that comes late.
func lateWords(late time.Duration) string {
	n, unit := int(late.Minutes()), "minutes"
	switch {
	case late >= 48*time.Hour:
		n, unit = int(late.Hours()/24), "days"
	case late >= 2*time.Hour:
		n, unit = int(late.Hours()), "hours"
	}
	return fmt.Sprintf("_Late: this answers what was said %d %s ago._", n, unit)
}

// ending is what people see of the end of a turn. late is how old its message
// was, 0 if it was new.
func ending(speaker string, late time.Duration, ev *turn.Event) transport.View {
	v := outcome(speaker, ev)
	if late > 0 {
		v.Text = strings.TrimSuffix(lateWords(late)+"\n\n"+v.Text, "\n\n")
	}
	return v
}

func outcome(speaker string, ev *turn.Event) transport.View {
	v := transport.View{Show: transport.ShowReply, Text: ev.Text}
	switch {
	case ev.Kind == turn.Failed:
		why := oneLine(ev.Error, maxReason)
		if ev.Code != "" {
			why += fmt.Sprintf(" (%s)", ev.Code)
		}
		if v.Note = "Sorry, something went wrong: " + why; speaker != "" {
			v.Note = "⚠️ Couldn't reach " + speaker + ": " + why
		}
	case ev.Stopped:
		v.Note = "Stopped"
	case strings.TrimSpace(ev.Text) == "":
		v.Text, v.Note = "", "(no response)"
	}
	return v
}

// detail is a tool call as people see it who asked for details.
func detail(t *turn.Tool) transport.View {
	sign := "✓"
	if t.IsError {
		sign = "✗"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s %s**: %s (%.1fs)\n", sign, t.Name, oneLine(t.Label, maxProgress), float64(t.DurationMS)/1000)
	if len(t.Args) > 0 {
		b.WriteString(fenced(string(t.Args)))
	}
	if t.Result != "" {
		b.WriteString("**Result:**\n" + fenced(t.Result))
	}
	return transport.View{Show: transport.ShowDetail, Text: b.String()}
}

// maxDetail bounds what is shown of a call's input and output.
const maxDetail = 2900

func fenced(s string) string {
	if len(s) > maxDetail {
		cut := maxDetail
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "\n…"
	}
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimSuffix(s, "\n") + "\n" + fence + "\n"
}

// outcomeWords is the line of a question that is over.
func outcomeWords(outcome, by string) string {
	var text string
	switch outcome {
	case "approved":
		text = "Approved, once"
	case outcomeAlways:
		text = "Approved for this session"
	case "declined":
		text = "Declined"
	case "expired":
		return "Nobody answered in time"
	case "withdrawn":
		return "Withdrawn"
	default:
		text = "Answered"
	}
	if by != "" {
		text += " by " + oneLine(by, maxProgress)
	}
	return text
}

// outcomeAlways is an approval that holds for the like.
const outcomeAlways = "always"

// verdict is how a question ended and through whom, when, and what they picked.
func verdict(a *turn.Ask, at time.Time) (outcome, by string) {
	outcome = a.Outcome
	if outcome == "approved" && a.Picked == "always" {
		outcome = outcomeAlways
	}
	if a.By == "" {
		return outcome, ""
	}
	by = a.By + " at " + at.Format("15:04 MST")
	if a.Picked != "" && outcome != outcomeAlways {
		by += ": " + a.Picked
	}
	return outcome, by
}

// A draft is the text a turn has said so far, cut to its end.
type draft struct{ whole, piece string }

// maxDraft is what fits a placeholder on every platform.
const maxDraft = 2000

func (d *draft) add(ev *turn.Event) {
	switch {
	case ev.Void:
		d.piece = ""
	case ev.Partial:
		d.piece = tailOf(d.piece + ev.Text)
	default:
		if d.piece = ""; d.whole != "" && ev.Text != "" {
			d.whole += "\n\n"
		}
		d.whole = tailOf(d.whole + ev.Text)
	}
}

func (d *draft) text() string {
	if d.whole == "" || d.piece == "" {
		return d.whole + d.piece
	}
	return tailOf(d.whole + "\n\n" + d.piece)
}

func tailOf(s string) string {
	if len(s) <= maxDraft {
		return s
	}
	cut := len(s) - maxDraft
	for cut < len(s) && !utf8.RuneStart(s[cut]) {
		cut++
	}
	return s[cut:]
}
