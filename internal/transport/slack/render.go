package slack

import (
	"encoding/json"
	"strings"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/mrkdwn"
	"github.com/iris-operator/iris/internal/turn"
)

// plainFormat marks a body that Slack is to show as it is.
const plainFormat = "plain"

// Render implements transport.Platform.
func (s *Slack) Render(v transport.View) []transport.Body {
	limit := s.opts.MaxChars
	if v.Limit > 0 {
		limit = min(limit, v.Limit)
	}
	note := noteOf(v)
	// A repeat says so in a line of its own, and the note follows the last part.
	limit -= mrkdwn.Length(transport.RepeatLabel) + 1 + mrkdwn.Length(note) + 2
	format := ""
	pieces := mrkdwn.Render
	if v.Plain {
		format, pieces = plainFormat, mrkdwn.Plain
	}
	text := v.Text
	if v.Show == transport.ShowQuestion && v.Ask != nil {
		text = question(v)
	}
	var bodies []transport.Body
	for _, p := range pieces(text, limit) {
		bodies = append(bodies, transport.Body{Text: p.Text, Source: p.Source, Format: format})
	}
	if len(bodies) == 0 {
		bodies = []transport.Body{{Source: text, Format: format}}
	}
	last := &bodies[len(bodies)-1]
	if note != "" {
		last.Note = v.Note
		last.Text = strings.TrimPrefix(last.Text+"\n\n"+note, "\n\n")
	}
	if strings.TrimSpace(last.Text) == "" {
		last.Text = "_(empty)_"
	}
	if v.Ask != nil && v.Ask.Outcome == "" {
		last.Extra = buttons(last.Text, v.Ask)
	} else if len(v.Buttons) > 0 {
		last.Extra = pressButtons(last.Text, v.Buttons)
	}
	return bodies
}

// noteOf draws the note: emphasised, and for a placeholder with the dots that say
// that something goes on.
func noteOf(v transport.View) string {
	if v.Note == "" {
		return ""
	}
	note := strings.Join(strings.Fields(v.Note), " ")
	const most = 700
	if mrkdwn.Length(note) > most {
		note = string([]rune(note)[:most/2]) + "…"
	}
	note = mrkdwn.Escape(note)
	if !v.Plain {
		note = "_" + note + "_"
	}
	if v.Show == transport.ShowProgress {
		note += " ..."
	}
	return note
}

// question is what a person reads before the buttons.
func question(v transport.View) string {
	text := strings.TrimSpace(v.Text)
	if len(v.Ask.Options) > 0 && v.Ask.Outcome == "" && text == strings.TrimSpace(v.Ask.Text) {
		text = transport.AskText(v.Ask)
	}
	if c := strings.TrimSpace(v.Ask.Command); c != "" && !strings.Contains(text, c) {
		fence := "```"
		for strings.Contains(c, fence) {
			fence += "`"
		}
		text += "\n\n" + fence + "\n" + c + "\n" + fence
	}
	return text
}

// maxSection is what one section of Block Kit holds.
const maxSection = 2900

// buttonsInRow is what one block of actions holds well below its limit of 25.
const buttonsInRow = 5

// buttons are the blocks of a question: its text, which is mrkdwn already, and a
// button for every answer below. Their value is the question's id, which is random,
// and known only while the question is open in the process that put it.
func buttons(text string, ask *turn.Ask) []byte {
	type m = map[string]any
	var blocks []m
	for _, part := range sections(text) {
		blocks = append(blocks, m{"type": "section", "text": m{"type": "mrkdwn", "text": part}})
	}
	var row []m
	all := transport.AskButtons(ask)
	for i, b := range all {
		e := m{"type": "button", "action_id": pressPrefix + b.Word, "value": ask.ID, "text": m{"type": "plain_text", "text": b.Label}}
		switch {
		case !b.Yes:
			e["style"] = "danger"
		case i == 0 && len(ask.Options) == 0:
			e["style"] = "primary"
		}
		if row = append(row, e); len(row) == buttonsInRow || i == len(all)-1 {
			blocks = append(blocks, m{"type": "actions", "elements": row})
			row = nil
		}
	}
	data, err := json.Marshal(blocks)
	if err != nil {
		return nil // strings always marshal
	}
	return data
}

// sections cuts mrkdwn into what sections hold, at lines, and keeps fences whole.
func sections(text string) []string {
	var all []string
	var b strings.Builder
	in := false
	end := func() {
		if s := b.String(); strings.TrimSpace(s) != "" {
			if in {
				s += "\n```"
			}
			all = append(all, strings.Trim(s, "\n"))
		}
		b.Reset()
		if in {
			b.WriteString("```\n")
		}
	}
	for _, line := range strings.Split(text, "\n") {
		for {
			room := maxSection - mrkdwn.Length(b.String()) - 5
			if mrkdwn.Length(line) <= room {
				break
			}
			if strings.TrimSpace(strings.Trim(b.String(), "`\n")) != "" {
				end()
				continue
			}
			// A line longer than a section: at a place that is no entity's middle.
			r := []rune(line)
			cut := min(room, len(r))
			for i := cut - 1; i > cut-8 && i > 0; i-- {
				if r[i] == '&' {
					cut = i
				}
			}
			b.WriteString(string(r[:cut]))
			line = string(r[cut:])
			end()
		}
		b.WriteString(line + "\n")
		if strings.Count(line, "```")%2 == 1 {
			in = !in
		}
	}
	in = false
	end()
	return all
}
