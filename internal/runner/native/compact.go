package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/turn"
)

const (
	// defaultWindow stands in for a model that does not say.
	defaultWindow = 200_000
	// keepTokens is how much of the newest history a compaction leaves as it
	// is where the window allows.
	keepTokens = 20_000
	// passes bounds the compactions before one turn.
	passes = 3
	// summaryTokens bounds a summary; the prompt asks for far less.
	summaryTokens = 8192
	// What a summary is made from: results can be had again, so they are cut
	// hardest.
	summaryResult, summaryArgs, summaryText = 2000, 1000, 20_000
)

// errNothing: there is nothing that a summary would replace.
var errNothing = errors.New("nothing to summarise")

// errLonger: the model wrote more than it was given.
var errLonger = errors.New("the summary is not shorter than what it would replace")

// A compactor replaces the older part of a history by a summary. It is all or
// nothing: unless the summary is there, shorter than what it replaces, and
// saved, the history is not touched.
type compactor struct {
	n      *Native
	conv   chat.Address
	turn   string
	models []llm.Model
	spent  func(llm.Info, llm.Usage)
	save   func(context.Context, session.Entry) error
}

// keep is how many tokens of the newest history stay.
func (c *compactor) keep(info llm.Info) int64 {
	return min(keepTokens, int64(c.n.opts.CompactTo*float64(window(info))))
}

func window(info llm.Info) int64 {
	if info.Window > 0 {
		return info.Window
	}
	return defaultWindow
}

// compact returns how many tokens it summarised, about. Messages from bound on
// stay in any case.
func (c *compactor) compact(ctx context.Context, h *history, keep int64, bound int) (int64, error) {
	h.check()
	cut := min(h.cut(keep), bound)
	for cut > 0 && cut < len(h.msgs) && (h.meta[cut].entry == "" || has(h.msgs[cut], llm.ResultPart)) {
		cut--
	}
	if cut <= 0 || cut == 1 && h.meta[0].sum {
		return 0, errNothing
	}
	var old int64
	for _, m := range h.meta[:cut] {
		old += m.bytes
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.n.opts.CompactLimit, fmt.Errorf("no summary within %s", c.n.opts.CompactLimit))
	defer cancel()
	text, err := c.summarise(limited, h.msgs[:cut])
	if err != nil {
		return 0, err
	}
	if int64(len(text)) >= old {
		return 0, errLonger
	}
	body, err := json.Marshal(compacted{Summary: text, Tokens: old / 4})
	if err != nil {
		return 0, err
	}
	e := session.Entry{ID: uuid.Must(uuid.NewV7()).String(), At: c.n.opts.Now(), Turn: c.turn, Type: session.Compaction, Body: body}
	if cut < len(h.msgs) {
		e.Kept = h.meta[cut].entry
	}
	if err := c.save(ctx, e); err != nil {
		h.broken = true
		return 0, fmt.Errorf("the summary could not be saved: %w", err)
	}
	return old / 4, h.take(e, false)
}

// summarise asks for a summary, piece by piece where the text is longer than a
// model can read at once.
func (c *compactor) summarise(ctx context.Context, msgs []llm.Message) (string, error) {
	var summary string
	size := int(window(c.models[0].Info())*4) * 2 / 5
	for _, piece := range transcript(msgs, size) {
		var b strings.Builder
		if summary != "" {
			fmt.Fprintf(&b, "Summary of what came before:\n\n%s\n\n", summary)
		}
		fmt.Fprintf(&b, "The conversation to summarise:\n\n%s\nWrite the summary now.", piece)
		var err error
		if summary, err = c.askFor(ctx, b.String()); err != nil {
			return "", err
		}
		if len(summary) > size {
			return "", errLonger
		}
	}
	return summary, nil
}

// askFor goes through the models until one answers.
func (c *compactor) askFor(ctx context.Context, text string) (string, error) {
	var last error
	for _, m := range c.models {
		if err := c.n.affordDay(); err != nil {
			return "", err
		}
		info := m.Info()
		req := llm.Request{
			System:    strings.TrimSpace(summaryPrompt),
			Messages:  []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: text}}}},
			MaxTokens: summaryTokens,
			CacheKey:  c.conv.Channel() + "/summary",
		}
		if info.MaxOutput > 0 {
			req.MaxTokens = min(req.MaxTokens, info.MaxOutput)
		}
		answer, err := llm.Collect(m.Stream(ctx, req))
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			last = errors.New(reason(err))
			continue
		}
		var u llm.Usage
		if answer.Usage != nil {
			u = *answer.Usage
		}
		c.spent(info, u)
		summary := strings.TrimSpace(fence(textOf(answer), true))
		switch {
		case summary == "":
			last = errors.New("the model gave an empty summary")
		case answer.Stop == llm.StopLength:
			last = errors.New("the summary was cut off")
		default:
			return summary, nil
		}
	}
	return "", last
}

// transcript renders messages for reading, in pieces of at most size bytes or
// one message.
func transcript(msgs []llm.Message, size int) []string {
	var pieces []string
	var b strings.Builder
	for _, m := range msgs {
		text := render(m)
		if b.Len() > 0 && b.Len()+len(text) > size {
			pieces = append(pieces, b.String())
			b.Reset()
		}
		b.WriteString(text)
	}
	return append(pieces, b.String())
}

func render(m llm.Message) string {
	var b strings.Builder
	for _, p := range stripped(m).Parts {
		switch p.Kind {
		case llm.TextPart:
			who := "PEOPLE"
			if m.Role == llm.Assistant {
				who = "ASSISTANT"
			}
			fmt.Fprintf(&b, "%s: %s\n\n", who, shorten(p.Text, summaryText))
		case llm.CallPart:
			fmt.Fprintf(&b, "CALL %s %s\n\n", p.Call.Name, shorten(string(p.Call.Args), summaryArgs))
		case llm.ResultPart:
			fmt.Fprintf(&b, "RESULT of %s: %s\n\n", p.Result.Name, shorten(p.Result.Text, summaryResult))
		case llm.ImagePart:
			b.WriteString("[an image]\n\n")
		}
	}
	return b.String()
}

// shorten keeps the two ends of a text.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head := cutRunes(s, n*2/3)
	tail := strings.ToValidUTF8(s[len(s)-n/3:], "")
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", head, len(s)-len(head)-len(tail), tail)
}

func (r *run) compactor() *compactor {
	return &compactor{
		n: r.n, conv: r.req.Conversation, turn: string(r.req.ID), models: r.models[r.at:], spent: r.spent,
		save: func(ctx context.Context, e session.Entry) error {
			return r.sink.Checkpoint(ctx, session.Saved{Entries: []session.Entry{e}})
		},
	}
}

// estimate is the size of the next request in tokens, with extra bytes that are
// not in the history yet.
func (r *run) estimate(extra int64) int64 {
	fixed := int64(len(r.system))
	for _, s := range r.specs {
		fixed += int64(len(s.Name) + len(s.Description) + len(s.Schema))
	}
	est := (r.h.text + fixed + extra) / 4
	if r.h.used > 0 { // includes what is fixed
		est = max(est, r.h.used+(r.h.text-r.h.usedText+extra)/4)
	}
	return est
}

// compactBefore makes room before a turn whose message has extra bytes.
func (r *run) compactBefore(extra int64) error {
	win := window(r.info())
	est := r.estimate(extra)
	if float64(est) <= r.n.opts.CompactAt*float64(win) || !r.h.worthAnotherTry(est, win) || r.afford() != nil {
		return nil
	}
	if err := r.status("Auto-compacting context (~%d tokens)...", est); err != nil {
		return err
	}
	c := r.compactor()
	keep := c.keep(r.info())
	var failed error
	done := false
	for pass := range passes {
		_, err := c.compact(r.ctx, r.h, keep, len(r.h.msgs))
		if err != nil && !errors.Is(err, errNothing) {
			failed = err
			break
		}
		done = done || err == nil
		if float64(r.estimate(extra)) <= r.n.opts.CompactTo*float64(win) {
			break
		}
		if keep /= 4; pass == passes-2 {
			keep = 0
		}
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	switch {
	case done:
		return r.status("Context compacted")
	case failed == nil:
		failed = errNothing
	}
	return r.compactionFailed(failed, est)
}

func (r *run) compactionFailed(err error, est int64) error {
	r.h.failedAt = est
	r.n.opts.Logger.Warn("compaction failed", "turn", r.req.ID, "err", err)
	return r.status("Compaction failed: %s. The context is as it was.", oneLine(err.Error()))
}

// compactAfter makes room after an answer that filled much of the window. The
// answer itself stays: a restart must find it.
func (r *run) compactAfter() {
	win := window(r.info())
	used := r.h.used
	if float64(used) < r.n.opts.CompactAt*float64(win) || r.ctx.Err() != nil || !r.h.worthAnotherTry(used, win) || r.afford() != nil {
		return
	}
	c := r.compactor()
	tokens, err := c.compact(r.ctx, r.h, c.keep(r.info()), len(r.h.msgs)-1)
	switch {
	case errors.Is(err, errNothing) || r.ctx.Err() != nil:
	case err != nil:
		err = r.compactionFailed(err, used)
	default:
		err = r.emit(turn.Event{Kind: turn.Status, Label: fmt.Sprintf("Context auto-compacted (%d%% full — %d tokens summarised)", used*100/win, tokens)})
	}
	if err != nil && !errors.Is(err, errNothing) {
		r.n.opts.Logger.Warn("compaction after the turn", "turn", r.req.ID, "err", err)
	}
}

// compactNow compacts in the middle of a turn and reports whether it did.
func (r *run) compactNow(line string) bool {
	if r.status("%s", line) != nil {
		return false
	}
	c := r.compactor()
	// The provider counts otherwise than we do: a quarter of what was too
	// long fits, whatever its window is.
	keep := min(c.keep(r.info()), r.h.text/4/4)
	if _, err := c.compact(r.ctx, r.h, keep, len(r.h.msgs)); err != nil {
		if r.ctx.Err() == nil {
			err = r.compactionFailed(err, r.estimate(0))
		}
		if err != nil {
			r.n.opts.Logger.Warn("compaction within the turn", "turn", r.req.ID, "err", err)
		}
		return false
	}
	return true
}

// worthAnotherTry reports whether a compaction may be tried although one of a
// context of almost that size failed: each try keeps people waiting.
func (h *history) worthAnotherTry(est, window int64) bool {
	return h.failedAt == 0 || est > h.failedAt+h.failedAt/20 || est > window*95/100
}
