package native

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

const (
	// parallel bounds the calls of one answer that run side by side: models
	// rarely ask for more, and a machine does not thank for it.
	parallel = 8
	// shownResult bounds what people see of a result, as the log does.
	shownResult = 1000
	// shownLabel bounds a line of progress.
	shownLabel = 200
	// minResult is what a result may always say, however small the window.
	minResult = 4 << 10
)

// call runs the calls of an answer side by side. Each result is saved as soon as
// it is there, so that a crash forgets only what was running. cut says that the
// answer was cut off: its calls may be too, and none is run.
func (r *run) call(calls []llm.Call, cut bool) error {
	type finished struct {
		call llm.Call
		res  tool.Result
		ms   int64
	}
	done := make(chan finished, len(calls)) // sent to once per started call
	next, running := 0, 0
	var failed error
	limit := r.resultLimit(len(calls))
	for next < len(calls) || running > 0 {
		for failed == nil && next < len(calls) && running < parallel {
			c := calls[next]
			next++
			if r.ctx.Err() != nil || cut {
				failed = r.record(c, unstarted(cut), limit)
				continue
			}
			if failed = r.announce(c); failed != nil {
				break
			}
			running++
			go func() {
				start := r.n.opts.Now()
				res := r.invoke(c)
				done <- finished{c, res, since(start, r.n.opts.Now())}
			}()
		}
		if running == 0 {
			break
		}
		f := <-done
		running--
		if failed == nil {
			failed = r.conclude(f.call, f.res, f.ms, limit)
		}
	}
	if failed == nil && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	return failed
}

func unstarted(cut bool) tool.Result {
	if cut {
		return tool.Fail("Not run: your answer reached its longest output, so this call may be incomplete. Make it again, in smaller steps.")
	}
	return tool.Fail("Not run: the turn was stopped before this call began.")
}

// announce tells people that a call starts. When it returns, that is on disk.
func (r *run) announce(c llm.Call) error {
	l := label(c)
	r.n.opts.Logger.Info("tool starts", "turn", r.req.ID, "tool", c.Name)
	if err := r.status("→ %s", l); err != nil {
		return err
	}
	return r.emit(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: c.ID, Name: c.Name, Label: l, Args: c.Args, Phase: turn.Start}})
}

// conclude tells people that a call is over and keeps its result.
func (r *run) conclude(c llm.Call, res tool.Result, ms int64, limit int) error {
	r.n.opts.Logger.Info("tool ended", "turn", r.req.ID, "tool", c.Name, "ms", ms, "error", res.IsError)
	shown := res.Display
	if shown == "" {
		shown = res.Text
	}
	err := r.emit(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{
		ID: c.ID, Name: c.Name, Label: label(c), Args: c.Args, Phase: turn.End,
		Result: cutRunes(strings.ToValidUTF8(shown, "\uFFFD"), shownResult), IsError: res.IsError, DurationMS: ms,
	}})
	if err != nil {
		return err
	}
	return r.record(c, res, limit)
}

// record is the one place where a result enters a history. Whatever a tool
// returns, it is bounded and valid after this.
func (r *run) record(c llm.Call, res tool.Result, limit int) error {
	out := &llm.Result{ID: c.ID, Name: c.Name, Text: strings.ToValidUTF8(res.Text, "\uFFFD"), IsError: res.IsError}
	if len(out.Text) > limit {
		all := len(out.Text)
		out.Text = fmt.Sprintf("%s\n[the result was cut here: %d of its %d bytes are shown. Ask for a part of it]", cutRunes(out.Text, limit), limit, all)
	}
	for _, i := range res.Images {
		switch {
		case len(i.Data) == 0 || i.Mime == "":
		case len(i.Data) > maxImage || len(out.Images) == maxImages:
			out.Text += "\n[a picture was left out: too large, or too many]"
		default:
			out.Images = append(out.Images, llm.Part{Kind: llm.ImagePart, Mime: i.Mime, Data: i.Data})
		}
	}
	if strings.TrimSpace(out.Text) == "" && len(out.Images) == 0 {
		out.Text = "(no output)"
	}
	if err := r.add(llm.Message{Role: llm.User, Parts: []llm.Part{{Kind: llm.ResultPart, Result: out}}}); err != nil {
		return err
	}
	if r.ctx.Err() != nil {
		return nil // saved with the end of the turn
	}
	return r.save(r.ctx)
}

// resultLimit is what one of n results may add to the history: all together no
// more than half of the window, so that they cannot fill it by themselves.
func (r *run) resultLimit(n int) int {
	limit := maxText
	if w := r.info().Window; w > 0 {
		limit = min(limit, int(w*4/2)/n)
	}
	return max(limit, minResult)
}

// invoke runs one call. A panic in a tool is its result.
func (r *run) invoke(c llm.Call) (res tool.Result) {
	defer func() {
		if p := recover(); p != nil {
			r.n.opts.Logger.Error("panic in a tool", "turn", r.req.ID, "tool", c.Name, "panic", p, "stack", string(debug.Stack()))
			res = tool.Fail(fmt.Sprintf("The tool %s broke down (a defect, now in the log). Try another way.", c.Name))
		}
	}()
	t := r.tools[c.Name]
	if t == nil {
		return tool.Fail(r.unknown(c.Name))
	}
	return t.Call(r.ctx, tool.Call{ID: c.ID, Args: c.Args, Request: r.req, Emit: r.emitTool, Images: r.info().Images})
}

// emitTool keeps tools from ending the turn.
func (r *run) emitTool(e turn.Event) error {
	if e.Terminal() {
		return fmt.Errorf("a tool may not end a turn")
	}
	return r.emit(e)
}

func (r *run) unknown(name string) string {
	names := slices.Sorted(maps.Keys(r.tools))
	if len(names) == 0 {
		return fmt.Sprintf("There is no tool %q, and no other.", cutRunes(name, 100))
	}
	best := names[0]
	for _, n := range names[1:] {
		if distance(name, n) < distance(name, best) {
			best = n
		}
	}
	return fmt.Sprintf("There is no tool %q. Did you mean %q? The tools are: %s.", cutRunes(name, 100), best, strings.Join(names, ", "))
}

// distance is the number of edits between two names.
func distance(a, b string) int {
	a, b = cutRunes(a, 200), cutRunes(b, 200)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// label is the line of progress of a call: what the model says it is for, else
// the name of the tool.
func label(c llm.Call) string {
	var args struct {
		Label string `json:"label"`
	}
	if json.Unmarshal(c.Args, &args) != nil || strings.TrimSpace(args.Label) == "" {
		return cutRunes(c.Name, shownLabel)
	}
	return cutRunes(oneLine(strings.ToValidUTF8(args.Label, "\uFFFD")), shownLabel)
}
