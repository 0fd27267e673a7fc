package beat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
)

// ErrShape is an answer in which nothing of the wanted shape was found. Ask
// once more with its text, then go on without a change.
var ErrShape = errors.New("no answer of the wanted shape")

// A Repair says what a decoder changed or dropped. It quotes nobody.
type Repair string

type decoder struct{ log []Repair }

func (d *decoder) note(format string, args ...any) {
	if len(d.log) < 64 {
		d.log = append(d.log, Repair(fmt.Sprintf(format, args...)))
	}
}

// find reads text and returns the first object with one of keys. A top-level
// array is taken as the value of the first key.
func (d *decoder) find(text string, keys ...string) (dict, error) {
	vals := Read(text)
	for _, v := range vals {
		if a, ok := v.([]any); ok {
			for _, e := range a {
				if m, ok := e.(dict); ok {
					vals = append(vals, m)
				}
			}
		}
	}
	if len(vals) > 1 {
		d.note("%d values in the answer", len(vals))
	}
	for _, v := range vals {
		if m, ok := v.(dict); ok {
			if slices.ContainsFunc(keys, func(k string) bool { _, ok := m[k]; return ok }) {
				return m, nil
			}
			for _, k := range slices.Sorted(maps.Keys(m)) { // one wrapper deep
				if in, ok := m[k].(dict); ok && slices.ContainsFunc(keys, func(k string) bool { _, ok := in[k]; return ok }) {
					d.note("unwrapped the answer")
					return in, nil
				}
			}
		}
	}
	for _, v := range vals {
		if a, ok := v.([]any); ok && keys[0] == "items" && slices.ContainsFunc(a, func(e any) bool { _, ok := e.(dict); return ok }) {
			d.note("an array at the top")
			return dict{keys[0]: a}, nil
		}
	}
	return nil, fmt.Errorf("want a JSON object with %s: %w", strings.Join(keys, ", "), ErrShape)
}

func (d *decoder) str(v any, where string) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(x)
	case dict:
		for _, k := range []string{"text", "value", "label", "name"} {
			if s, ok := x[k].(string); ok {
				d.note("%s was an object", where)
				return s
			}
		}
	}
	d.note("%s has the wrong type", where)
	return ""
}

// list returns the elements of an array; of an object its values, with the key
// as id; of one object or string, that one.
func (d *decoder) list(v any, where, label string) (out []any) {
	switch x := v.(type) {
	case nil:
		return nil
	case []any:
		return x
	case dict:
		if _, ok := x[label]; ok {
			d.note("%s was one object", where)
			return []any{x}
		}
		d.note("%s was keyed", where)
		for _, k := range slices.Sorted(maps.Keys(x)) {
			switch e := x[k].(type) {
			case dict:
				e = maps.Clone(e)
				if _, ok := e["id"]; !ok {
					e["id"] = k
				}
				out = append(out, e)
			case string:
				out = append(out, dict{"id": k, label: e})
			default:
				d.note("an element of %s has the wrong type", where)
			}
		}
		return out
	case string:
		d.note("%s was one text", where)
		return []any{x}
	}
	d.note("%s has the wrong type", where)
	return nil
}

// seqs reads line numbers, also written as "#3", "line 3" or alone.
func (d *decoder) seqs(v any) (out []uint64) {
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			out = append(out, d.seqs(e)...)
		}
	case float64:
		if x >= 1 && x < 1<<53 {
			out = append(out, uint64(x))
		}
	case string:
		for _, w := range strings.FieldsFunc(x, func(r rune) bool { return r < '0' || r > '9' }) {
			if n, err := strconv.ParseUint(w, 10, 53); err == nil && n > 0 {
				out = append(out, n)
			}
		}
	case dict:
		for _, k := range []string{"seq", "line", "id"} {
			if e, ok := x[k]; ok {
				return d.seqs(e)
			}
		}
	}
	return out[:min(len(out), 16)]
}

// Room decodes the answer of a room-level beat.
func Room(text string, s *surface.Surface) (room.RoomDelta, []Repair, error) {
	d := &decoder{}
	m, err := d.find(text, "items", "summary")
	if err != nil {
		return room.RoomDelta{}, d.log, err
	}
	out := room.RoomDelta{Summary: d.str(m["summary"], "summary")}
	for _, v := range d.list(m["items"], "items", s.Label()) {
		switch x := v.(type) {
		case dict:
			out.Items = append(out.Items, d.item(x, s))
		case string:
			d.note("an item was a text")
			out.Items = append(out.Items, room.ItemPatch{Fields: map[string]room.FieldPatch{s.Label(): {Text: x}}})
		default:
			d.note("an item has the wrong type")
		}
	}
	return out, d.log, nil
}

func (d *decoder) item(x dict, s *surface.Surface) room.ItemPatch {
	p := room.ItemPatch{ID: d.str(x["id"], "id"), Fields: map[string]room.FieldPatch{}, Ops: map[string][]room.ListOp{}}
	for _, f := range s.Shared {
		v, has := x[f.Name]
		switch {
		case f.List:
			for _, key := range []string{f.Name + "Ops", "optionOps", f.Name} {
				if raw, ok := x[key]; ok && raw != nil {
					p.Ops[f.Name] = append(p.Ops[f.Name], d.ops(raw, key)...)
				}
			}
		case !has:
		case v == nil:
			if f.OnlyIn != "" {
				p.Fields[f.Name] = room.FieldPatch{Clear: true}
			}
		default:
			fp := room.FieldPatch{Text: d.str(v, f.Name)}
			if o, ok := v.(dict); ok {
				fp.Evidence = d.seqs(o["evidence"])
			}
			if fp.Text != "" {
				p.Fields[f.Name] = fp
			}
		}
	}
	return p
}

func (d *decoder) ops(raw any, where string) (out []room.ListOp) {
	for _, v := range d.list(raw, where, "label") {
		switch x := v.(type) {
		case string:
			out = append(out, room.ListOp{Op: "add", Label: x})
		case dict:
			op := room.ListOp{Op: d.str(x["op"], "op"), New: d.str(x["new"], "new"), Evidence: d.seqs(x["evidence"])}
			for _, k := range []string{"label", "option", "text", "name", "course"} {
				if s, ok := x[k].(string); ok {
					op.Label = s
					break
				}
			}
			for _, k := range []string{"by", "who", "author"} {
				if s, ok := x[k].(string); ok {
					op.By = s
					break
				}
			}
			if op.Op == "" {
				op.Op = "add"
			}
			out = append(out, op)
		default:
			d.note("an element of %s has the wrong type", where)
		}
	}
	return out
}

// Person decodes the answer of a person-level beat.
func Person(text string) (room.PersonDelta, []Repair, error) {
	d := &decoder{}
	m, err := d.find(text, "record", "contribution", "proposal", "interest", "position")
	if err != nil {
		return room.PersonDelta{}, d.log, err
	}
	rec, ok := m["record"].(dict)
	if !ok {
		if m["record"] != nil {
			d.note("the record has the wrong type")
		}
		rec = m // compatibility: the record at the top
	}
	out := room.PersonDelta{
		Interest: d.str(rec["interest"], "interest"), Position: d.str(rec["position"], "position"), Beliefs: d.str(rec["beliefs"], "beliefs"),
		Arc: d.str(rec["arc"], "arc"), Confidence: d.str(rec["confidence"], "confidence"),
		WatchingFor: d.str(rec["watchingFor"], "watchingFor"), HelpNext: d.str(rec["helpNext"], "helpNext"),
	}
	for _, v := range d.list(rec["regards"], "regards", "toward") {
		if r, ok := v.(dict); ok {
			toward := d.str(r["toward"], "toward")
			if toward == "" {
				toward = d.str(r["id"], "toward")
			}
			out.Regards = append(out.Regards, room.Regard{Toward: principal.ID(toward), Note: d.str(r["note"], "note")})
		}
	}
	switch sh := rec["shift"].(type) {
	case dict:
		out.Shift = &room.Shift{Observed: d.str(sh["observed"], "observed"), From: d.str(sh["from"], "from"), To: d.str(sh["to"], "to")}
	case string:
		d.note("the shift was a text")
		out.Shift = &room.Shift{Observed: sh}
	}
	if c, ok := m["contribution"].(dict); ok {
		out.Item = d.str(c["item"], "item")
		if out.Value, ok = c["value"].(dict); !ok {
			d.note("a contribution without a value")
			out.Value, out.Item = nil, ""
		}
	}
	switch p := m["proposal"].(type) {
	case dict:
		out.Wording, out.Attribution = d.str(p["wording"], "wording"), d.str(p["attribution"], "attribution")
	case string:
		d.note("the proposal was a text")
		out.Wording = p
	}
	return out, d.log, nil
}

// Self decodes the answer of a self-level beat.
func Self(text string) (room.SelfDelta, []Repair, error) {
	d := &decoder{}
	m, err := d.find(text, "choice", "tool", "notes")
	if err != nil {
		return room.SelfDelta{}, d.log, err
	}
	c, ok := m["choice"].(dict)
	if !ok {
		c = m // compatibility: tool, target and rationale at the top
	}
	tool := d.str(c["tool"], "tool")
	if tool == "" {
		return room.SelfDelta{}, d.log, fmt.Errorf("the choice names no tool: %w", ErrShape)
	}
	out := room.SelfDelta{Choice: room.Choice{
		Tool: strings.TrimSpace(tool), Target: principal.ID(null(d.str(c["target"], "target"))), Intent: null(d.str(c["intent"], "intent")),
		Focus: null(d.str(c["focus"], "focus")), Release: null(d.str(c["release"], "release")), Rationale: d.str(c["rationale"], "rationale"),
	}}
	for _, v := range d.list(m["notes"], "notes", "item") {
		if n, ok := v.(dict); ok {
			item := d.str(n["item"], "item")
			if item == "" {
				item = d.str(n["id"], "item")
			}
			out.Notes = append(out.Notes, room.Note{Item: item, Heartbeat: d.str(n["heartbeat"], "heartbeat"), Read: d.str(n["read"], "read")})
		}
	}
	return out, d.log, nil
}

// null turns the words models write for null into nothing.
func null(s string) string {
	switch s = strings.TrimSpace(s); strings.ToLower(s) {
	case "null", "none", "nil", "n/a", "-":
		return ""
	}
	return s
}

// Act decodes one text. An answer that is no JSON at all is the text itself.
func Act(text string) (string, []Repair, error) {
	d := &decoder{}
	if m, err := d.find(text, "text"); err == nil {
		if s, ok := m["text"].(string); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s), d.log, nil
		}
	}
	plain := strings.TrimSpace(text)
	if plain == "" || strings.ContainsAny(plain[:1], "{[`") {
		return "", d.log, fmt.Errorf(`want {"text": …}: %w`, ErrShape)
	}
	d.note("the text came without JSON")
	return plain, d.log, nil
}

// Encode writes a room delta as a model would. Minds that do not speak JSON
// themselves use it.
func Encode(d room.RoomDelta, s *surface.Surface) string {
	var items []any
	for _, p := range d.Items {
		x := dict{"id": p.ID}
		for _, f := range s.Shared {
			if ops := p.Ops[f.Name]; len(ops) > 0 {
				x[f.Name+"Ops"] = ops
			}
			fp, ok := p.Fields[f.Name]
			switch {
			case !ok:
			case fp.Clear:
				x[f.Name] = nil
			case f.Name == s.Label() || f.Name == s.Status:
				x[f.Name] = fp.Text
			default:
				x[f.Name] = dict{"text": fp.Text, "evidence": fp.Evidence}
			}
		}
		items = append(items, x)
	}
	out, _ := json.Marshal(dict{"items": items, "summary": d.Summary})
	return string(out)
}

// EncodePerson writes a person delta as a model would.
func EncodePerson(d room.PersonDelta) string {
	x := dict{"record": dict{
		"interest": d.Interest, "position": d.Position, "beliefs": d.Beliefs, "arc": d.Arc, "confidence": d.Confidence,
		"watchingFor": d.WatchingFor, "helpNext": d.HelpNext, "regards": d.Regards, "shift": d.Shift,
	}}
	if d.Item != "" {
		x["contribution"] = dict{"item": d.Item, "value": d.Value}
	}
	if d.Wording != "" {
		x["proposal"] = dict{"wording": d.Wording, "attribution": d.Attribution}
	}
	out, _ := json.Marshal(x)
	return string(out)
}

// EncodeSelf writes a self delta as a model would.
func EncodeSelf(d room.SelfDelta) string {
	out, _ := json.Marshal(d)
	return string(out)
}

// EncodeText writes the answer of an act.
func EncodeText(s string) string {
	out, _ := json.Marshal(dict{"text": s})
	return string(out)
}
