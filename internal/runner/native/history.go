package native

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/session"
)

// A history is the context of one conversation, decoded: what the next request
// to a model carries. It grows at its end only, so that a turn costs nothing for
// what lies before, and it is valid (see llm.Valid) whenever nothing is open.
// Messages are never changed after a request has carried them, but for the
// volatile block that strip takes off.
type history struct {
	msgs []llm.Message
	meta []meta // one for each message

	seen map[string]bool // ids of the chat messages inside
	last string          // id of the newest entry
	said string          // turn of the newest message entry

	calls []llm.Call // of the assistant message that waits for results
	fresh []int      // messages that carry a volatile block
	valid int        // messages that llm.Valid has seen

	text   int64 // bytes a model reads, images at a flat rate
	mem    int64 // bytes in memory, about
	images int   // messages with pictures

	// used is the fill in tokens that the provider last reported, 0 if it has
	// not since the context was changed; usedText is text at that moment.
	used, usedText int64
	since          time.Time // of the last compaction: fills reported before are of another context

	failedAt int64 // size at which a compaction failed, in tokens

	unsaved []session.Entry // in msgs, not yet in a checkpoint
	broken  bool            // a checkpoint failed: the archive knows better
}

type meta struct {
	entry string // the entry it begins with; empty: made up, nothing is cut here
	turn  string
	bytes int64 // as a model reads them
	sum   bool  // a summary
}

// imageBytes is what a picture counts as in estimates of text: about 1,600
// tokens, the most that providers charge for one of the size we send.
const imageBytes = 6400

// perMessage is what a message takes in memory beside its content.
const perMessage = 400

// compacted is the body of a compaction entry.
type compacted struct {
	Summary string `json:"summary"`
	Tokens  int64  `json:"tokens"`
}

func newHistory() *history { return &history{seen: map[string]bool{}} }

// clean reports whether everything inside is also in the archive.
func (h *history) clean() bool { return !h.broken && len(h.unsaved) == 0 }

func (h *history) memory() int64 { return h.mem }

// takeAll adds entries in the order the archive gives them: a compaction, what
// it kept, what came after. It goes on after an entry that cannot be read.
func (h *history) takeAll(entries []session.Entry, turn string) (failed error) {
	for _, e := range entries {
		if err := h.take(e, e.Turn != turn); err != nil {
			failed = fmt.Errorf("entry %s: %w", e.ID, err)
		}
	}
	return failed
}

func (h *history) note(e session.Entry) {
	for _, id := range e.Messages {
		h.seen[id] = true
	}
	h.last = e.ID
}

// take adds what an entry says. strip takes off a volatile block. An entry that
// cannot be read is left out, with an error.
func (h *history) take(e session.Entry, strip bool) error {
	h.note(e)
	if e.Type == session.Compaction {
		var c compacted
		if err := json.Unmarshal(e.Body, &c); err != nil {
			return err
		}
		h.compact(e, c)
		return nil
	}
	var m llm.Message
	if err := json.Unmarshal(e.Body, &m); err != nil {
		return err
	}
	h.said = e.Turn
	if strip {
		m = stripped(m)
	}
	h.add(e, m)
	return nil
}

// add appends a message; calls that it leaves without a result get one.
func (h *history) add(e session.Entry, m llm.Message) {
	if results := has(m, llm.ResultPart); results {
		h.answer(e, m)
		return
	}
	m.Parts = solidParts(m)
	if len(m.Parts) == 0 {
		return
	}
	h.settle()
	if m.Role == llm.Assistant {
		for _, p := range m.Parts {
			if p.Kind == llm.CallPart {
				h.calls = append(h.calls, *p.Call)
			}
		}
	}
	h.push(m, meta{entry: e.ID, turn: e.Turn})
	if m.Role == llm.Assistant && m.Usage != nil && m.Stop != llm.StopAborted && (h.since.IsZero() || e.At.After(h.since)) {
		h.used, h.usedText = m.Usage.Total(), h.text
	}
}

// answer adds results to the message that answers the open calls, in the order
// of the calls. Results that no call waits for are dropped.
func (h *history) answer(e session.Entry, m llm.Message) {
	for _, p := range m.Parts {
		if p.Kind != llm.ResultPart || p.Result == nil || !h.waiting(p.Result.ID) {
			continue
		}
		h.result(p, meta{entry: e.ID, turn: e.Turn})
	}
}

// result puts one result into place.
func (h *history) result(p llm.Part, about meta) {
	last := len(h.msgs) - 1
	if h.msgs[last].Role == llm.Assistant {
		h.push(llm.Message{Role: llm.User, Parts: []llm.Part{p}}, about)
	} else {
		parts := slices.Clone(h.msgs[last].Parts)
		at := slices.IndexFunc(parts, func(q llm.Part) bool { return h.order(q.Result.ID) > h.order(p.Result.ID) })
		if at < 0 {
			at = len(parts)
		}
		h.msgs[last].Parts = slices.Insert(parts, at, p)
		h.grow(last, partBytes(p), partMemory(p))
	}
	if len(h.msgs[len(h.msgs)-1].Parts) == len(h.calls) {
		h.calls = nil
	}
}

func (h *history) order(id string) int {
	return slices.IndexFunc(h.calls, func(c llm.Call) bool { return c.ID == id })
}

// waiting reports whether a call of that id has no result yet.
func (h *history) waiting(id string) bool {
	if h.order(id) < 0 {
		return false
	}
	last := h.msgs[len(h.msgs)-1]
	return last.Role == llm.Assistant || !slices.ContainsFunc(last.Parts, func(p llm.Part) bool { return p.Result.ID == id })
}

// settle gives the calls that have no result one that says that they were
// interrupted, and returns those calls.
func (h *history) settle() (lost []llm.Call) {
	for _, c := range slices.Clone(h.calls) {
		if !h.waiting(c.ID) {
			continue
		}
		lost = append(lost, c)
		h.result(llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: c.ID, Name: c.Name, Text: llm.Interrupted, IsError: true}}, meta{turn: h.said})
	}
	h.calls = nil
	return lost
}

// check makes sure that the history is a valid request. Only what was added
// since the last check is looked at.
func (h *history) check() {
	h.settle()
	from := min(h.valid, len(h.msgs))
	for from > 0 && (from == len(h.msgs) || h.msgs[from].Role != llm.User || has(h.msgs[from], llm.ResultPart)) {
		from--
	}
	if llm.Valid(h.msgs[from:]) != nil {
		fixed := llm.Repair(h.msgs)
		h.reset()
		for _, m := range fixed {
			h.push(m, meta{})
		}
	}
	h.valid = len(h.msgs)
}

// compact replaces all but what e keeps by a summary.
func (h *history) compact(e session.Entry, c compacted) {
	h.settle()
	kept := len(h.msgs)
	if e.Kept != "" {
		if i := slices.IndexFunc(h.meta, func(m meta) bool { return m.entry == e.Kept }); i >= 0 {
			kept = i
		}
	}
	msgs, about := h.msgs[kept:], h.meta[kept:]
	h.reset()
	h.since = e.At
	h.push(llm.Message{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: summarised + c.Summary}}}, meta{turn: e.Turn, sum: true})
	for i, m := range msgs {
		h.push(m, about[i])
	}
}

// reset empties the context. The slices are new: requests may share the old.
func (h *history) reset() {
	h.msgs, h.meta, h.fresh, h.calls = nil, nil, nil, nil
	h.text, h.mem, h.images, h.used, h.usedText, h.valid, h.failedAt = 0, 0, 0, 0, 0, 0, 0
}

func (h *history) push(m llm.Message, about meta) {
	i := len(h.msgs)
	h.msgs = append(h.msgs, m)
	about.bytes = 0
	h.meta = append(h.meta, about)
	var text, mem int64 = 16, perMessage
	pictures := false
	for _, p := range m.Parts {
		text += partBytes(p)
		mem += partMemory(p)
		pictures = pictures || p.Kind == llm.ImagePart || p.Result != nil && len(p.Result.Images) > 0
	}
	h.grow(i, text, mem)
	if pictures {
		h.images++
	}
	if m.Role == llm.User && strings.HasPrefix(m.Parts[0].Text, dynamicOpen) {
		h.fresh = append(h.fresh, i)
	}
}

func (h *history) grow(i int, text, mem int64) {
	h.meta[i].bytes += text
	h.text += text
	h.mem += mem
}

// strip takes the volatile block off the messages that still carry one, but for
// those of turn.
func (h *history) strip(turn string) {
	left := h.fresh[:0]
	for _, i := range h.fresh {
		if h.meta[i].turn == turn && turn != "" {
			left = append(left, i)
			continue
		}
		m := stripped(h.msgs[i])
		if m.Parts = solidParts(m); len(m.Parts) == 0 {
			m.Parts = []llm.Part{{Kind: llm.TextPart, Text: "(empty message)"}}
		}
		var text int64 = 16
		for _, p := range m.Parts {
			text += partBytes(p)
		}
		less := text - h.meta[i].bytes
		h.grow(i, less, less)
		h.usedText += less
		h.msgs[i] = m
	}
	h.fresh = left
}

// cut returns where the newest messages of about keep tokens begin: never
// between a call and its result.
func (h *history) cut(keep int64) int {
	best := len(h.msgs)
	var sum int64
	for i := len(h.msgs) - 1; i > 0; i-- {
		if sum += h.meta[i].bytes; sum > keep*4 {
			break
		}
		if h.meta[i].entry != "" && !has(h.msgs[i], llm.ResultPart) {
			best = i
		}
	}
	return best
}

func has(m llm.Message, kind llm.PartKind) bool {
	for i := range m.Parts {
		if m.Parts[i].Kind == kind {
			return true
		}
	}
	return false
}

// solidParts returns the parts of a message without those that say nothing. A
// message that is left with thinking alone has none.
func solidParts(m llm.Message) []llm.Part {
	parts := m.Parts
	empty := func(p llm.Part) bool {
		switch p.Kind {
		case llm.TextPart:
			return strings.TrimSpace(p.Text) == ""
		case llm.ThinkingPart:
			return p.Text == "" && p.Opaque == ""
		case llm.CallPart:
			return p.Call == nil
		}
		return false
	}
	if slices.ContainsFunc(parts, empty) {
		parts = slices.DeleteFunc(slices.Clone(parts), empty)
	}
	if !slices.ContainsFunc(parts, func(p llm.Part) bool { return p.Kind != llm.ThinkingPart }) {
		return nil
	}
	return parts
}

// partBytes is the size of a part as a model reads it.
func partBytes(p llm.Part) int64 {
	switch {
	case p.Call != nil:
		return int64(len(p.Call.Name)+len(p.Call.Args)) + 40
	case p.Result != nil:
		return int64(len(p.Result.Text)) + 40 + int64(len(p.Result.Images))*imageBytes
	case p.Kind == llm.ImagePart:
		return imageBytes
	}
	return int64(len(p.Text) + len(p.Opaque))
}

func partMemory(p llm.Part) int64 {
	n := partBytes(p) + int64(len(p.Data))
	if p.Result != nil {
		for _, i := range p.Result.Images {
			n += int64(len(i.Data))
		}
	}
	return n
}
