package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/turn"
)

// maxStatuses bounds the lines of one job, which are kept in memory while it
// runs. A run of 100 calls, the default budget, makes 100 of them.
const maxStatuses = 10_000

// A drawing makes the lines of one turn out of its records, in the order of the
// journal. The same records always make the same lines with the same numbers:
// that is what lets a log go on after a crash without a gap or a repeat.
type drawing struct {
	id   string // of the request
	turn turn.ID
	seq  int64
	asks []*turn.Ask
	// twins counts, by text, the statuses that wait for a tool call of the same
	// text (above 0), or the calls that wait for a status: a runner may tell
	// both of one call, and it is one line.
	twins map[string]int
}

// draw returns the line of a record. mine says that the record is of this turn,
// so that something happens; there may be no line all the same.
func (d *drawing) draw(r journal.Record) (l wire.Line, mine bool, err error) {
	data, ok := bytes.CutPrefix(r.Data, []byte(`{"turn":"`))
	if ok && !bytes.HasPrefix(data, []byte(d.turn)) {
		return l, false, nil
	}
	if ok && passing(data) {
		return l, true, nil
	}
	var rec turn.Record
	if err := json.Unmarshal(r.Data, &rec); err != nil {
		return l, false, fmt.Errorf("record %d of %s: %w", r.Seq, r.Stream, err)
	}
	if rec.Turn != d.turn {
		return l, false, nil
	}
	if rec.Event != nil {
		l = d.event(*rec.Event)
	}
	return l, true, nil
}

// passing recognises, without decoding them, the records that are most of a
// journal and make no line. data begins with the turn's id.
func passing(data []byte) bool {
	_, rest, ok := bytes.Cut(data, []byte(`",`))
	if !ok {
		return false
	}
	for _, p := range []string{`"event":{"kind":"text"`, `"event":{"kind":"thinking"`, `"checkpoint":`, `"begun":`} {
		if bytes.HasPrefix(rest, []byte(p)) {
			return true
		}
	}
	return false
}

func (d *drawing) event(e turn.Event) wire.Line {
	switch e.Kind {
	case turn.Status:
		return d.step(strings.TrimSpace(strings.Trim(strings.TrimSpace(e.Label), "_")), 1)
	case turn.ToolUse:
		if e.Tool == nil || e.Tool.Phase != turn.Start {
			break
		}
		if e.Tool.Label == "" {
			return d.step("→ running "+e.Tool.Name, -1)
		}
		return d.step("→ "+e.Tool.Label, -1)
	case turn.FileOut:
		return d.status("file: " + e.ShownName())
	case turn.AskFor:
		if e.Ask == nil {
			break
		}
		d.asks = append(d.asks, e.Ask)
		return d.status("waiting for approval: " + subject(e.Ask))
	case turn.Final, turn.Failed:
		return d.end(e)
	}
	return wire.Line{}
}

// step is the line of a status (side 1) or of the start of a tool call (side -1),
// unless its twin has been drawn.
func (d *drawing) step(text string, side int) wire.Line {
	if d.twins == nil {
		d.twins = map[string]int{}
	}
	told := d.twins[text]*side < 0
	if d.twins[text] += side; d.twins[text] == 0 {
		delete(d.twins, text)
	}
	if told {
		return wire.Line{}
	}
	return d.status(text)
}

func (d *drawing) status(text string) wire.Line {
	if text == "" || d.seq >= maxStatuses {
		return wire.Line{}
	}
	d.seq++
	return wire.Status(text, d.seq)
}

func (d *drawing) end(e turn.Event) wire.Line {
	d.seq++
	switch {
	case e.Kind == turn.Failed:
		return wire.Failure(code(e.Code), e.Error, d.id, d.seq)
	case e.Stopped && e.Text == "":
		return wire.Failure(wire.Failed, "run failed: stopped", d.id, d.seq)
	case e.Silent:
		return wire.Final("", d.id, d.seq)
	}
	return wire.Final(d.withAsks(e.Text), d.id, d.seq)
}

// withAsks adds the questions that the reply does not put itself: the caller is
// the only one who can answer them, and the reply is all it gets.
func (d *drawing) withAsks(text string) string {
	for _, a := range d.asks {
		if what := subject(a); !strings.Contains(text, what) {
			text = strings.TrimLeft(fmt.Sprintf("%s\n\nWaiting for approval until %s: `%s`. Answer yes or no under the same request id.",
				text, a.Until.UTC().Format("2006-01-02 15:04 MST"), what), "\n")
		}
	}
	return text
}

func subject(a *turn.Ask) string {
	if a.Command != "" {
		return a.Command
	}
	return a.Text
}

// code is what the wire calls a failure.
func code(c turn.Code) wire.Code {
	if w := wire.Code(c); w.Known() {
		return w
	}
	return wire.Failed
}
