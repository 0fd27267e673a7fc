package delivery

import (
	"errors"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/transport"
)

// refused deals with a call that failed: it is made again, or something else is
// sent instead, or the item is given up.
func (r *run) refused(m *room, l *lane, e entry, p plan, fault *transport.SendError) error {
	it := e.item
	if r.failed(m, l, fault) {
		// A file that fails while other things arrive is at fault itself.
		hopeless := false
		r.set(func() {
			if it.File != nil && p.Parts[it.next-1].File && fault.Fault == transport.Unreachable && !fault.Maybe && r.why == nil {
				it.failures++
				hopeless = it.failures >= fileTries && it.tried == nil
			}
		})
		if !hopeless {
			return nil
		}
		fault = &transport.SendError{Fault: transport.Refused, Err: fault.Err}
	}
	if fault.Fault == transport.Gone {
		return r.giveUp(l, e, fault.Error())
	}
	other, ok := r.demote(it, p, fault)
	if !ok {
		return r.giveUp(l, e, fault.Error())
	}
	r.c.log.Warn("refused, sent differently", "conversation", it.conv, "item", it.name, "part", it.next, "err", fault)
	if it.Kind == kindSay {
		r.set(func() { it.Plan = &other })
		return nil
	}
	seq, err := r.put(it, line{Plan: &other})
	if err != nil {
		return err
	}
	r.set(func() { it.planned = seq })
	return nil
}

// demote is the plan after its next part was refused: the same text in smaller
// messages, then without formatting, then as a file with a line that says so,
// then a line alone. ok is false when nothing is left to try.
func (r *run) demote(it *item, p plan, fault *transport.SendError) (plan, bool) {
	k := it.next
	pt, rest := p.Parts[k-1], p.Parts[k:]
	view := transport.View{Show: p.Show, Text: pt.Body.Source, Note: pt.Body.Note, Ask: it.Ask, Limit: pt.Limit, Plain: pt.Plain}
	limit := pt.Limit
	if limit == 0 {
		limit = r.c.traits.MaxChars
	}
	var parts []part
	switch {
	case pt.Line:
		// What comes after it may still be taken.
		if len(rest) == 0 {
			return plan{}, false
		}
	case pt.File:
		said := fmt.Sprintf("Failed to post the reply (%s). See the runtime log for details.", reason(fault))
		if it.File != nil {
			said = fmt.Sprintf("The file %s could not be sent (%s).", it.File.Name, reason(fault))
		}
		parts = r.line(said)
	case it.Kind == kindDetail:
		return plan{}, false
	case fault.Fault == transport.TooLong && limit/2 >= r.c.traits.MaxChars/4:
		view.Limit = limit / 2
		parts = r.again(view)
	case fault.Fault != transport.TooLong && !pt.Plain:
		view.Plain = true
		parts = r.again(view)
	default:
		text := pt.Body.Source
		for _, x := range rest {
			text += x.Body.Source
		}
		if text = joined(text, pt, rest); r.c.traits.NoFiles || strings.TrimSpace(text) == "" {
			parts = r.line(fmt.Sprintf("Failed to post the reply (%s). See the runtime log for details.", reason(fault)))
		} else {
			parts = r.line(fmt.Sprintf("%s rejected this reply as a message (%s) — attached it as a file instead.", title(r.c.Name()), reason(fault)))
			parts = append(parts, part{File: true, Body: transport.Body{Source: text}})
		}
		rest = nil
	}
	sent := make([]part, k-1)
	return plan{Show: p.Show, At: p.At, Parts: append(append(sent, parts...), rest...)}, true
}

// joined is the text of a file: with the note, which has no other place.
func joined(text string, pt part, rest []part) string {
	note := pt.Body.Note
	for _, x := range rest {
		if x.Body.Note != "" {
			note = x.Body.Note
		}
	}
	if note != "" {
		text = strings.TrimRight(text, "\n") + "\n\n" + note + "\n"
	}
	return text
}

// again renders a part differently.
func (r *run) again(v transport.View) []part {
	bodies := r.c.render(v)
	parts := make([]part, len(bodies))
	for i, b := range bodies {
		parts[i] = part{Body: b, Limit: v.Limit, Plain: v.Plain}
	}
	return parts
}

// line is a sentence that stands in for what was refused.
func (r *run) line(text string) []part {
	bodies := r.c.render(transport.View{Show: transport.ShowNotice, Note: text})
	return []part{{Body: bodies[0], Line: true}}
}

// reason is what people read of a refusal.
func reason(e *transport.SendError) string {
	err := e.Err
	if err == nil {
		err = errors.New(string(e.Fault))
	}
	return oneLine(err.Error(), maxProgress)
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
