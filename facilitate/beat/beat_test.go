package beat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

var decisions = builtin.Named("decisions")

// strict walks a schema and reports what strict providers refuse.
func strict(t *testing.T, where string, v any) {
	t.Helper()
	switch x := v.(type) {
	case map[string]any:
		if x["type"] == "object" {
			props, _ := x["properties"].(map[string]any)
			req, _ := x["required"].([]any)
			if x["additionalProperties"] != false {
				t.Errorf("%s is open", where)
			}
			if len(req) != len(props) {
				t.Errorf("%s requires %d of %d", where, len(req), len(props))
			}
		}
		for k, e := range x {
			strict(t, where+"."+k, e)
		}
	case []any:
		for _, e := range x {
			strict(t, where, e)
		}
	}
}

func TestSchemasAreClosedAndRequireEverything(t *testing.T) {
	check := func(name string, raw json.RawMessage) {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		strict(t, name, v)
	}
	for _, s := range builtin.All() {
		check(s.Name+" room", beat.RoomSchema(s))
		check(s.Name+" person", beat.PersonSchema(s))
	}
	check("self", beat.SelfSchema(beat.Vocabulary{Tools: []string{"post"}, People: []string{"ana"}}))
	check("act", beat.ActSchema())
	if got := string(beat.RoomSchema(builtin.Named("poll"))); strings.Contains(got, "winner") || strings.Contains(got, `"status"`) {
		t.Error("a model is asked for what it may not write")
	}
	if got := string(beat.PersonSchema(builtin.Named("poll"))); strings.Contains(got, "vote") {
		t.Error("a model is asked for a vote")
	}
}

func TestVocabularyIsClosed(t *testing.T) {
	v := beat.Vocabulary{Tools: []string{"post"}, People: []string{"ana"}, Intents: []string{"recap"}, Items: []string{"x"}, Releases: []string{"ana/r1"}}
	for _, c := range []struct {
		c  room.Choice
		ok bool
	}{
		{room.Choice{Tool: "none"}, true}, {room.Choice{Tool: "post", Target: "ana", Intent: "recap", Focus: "x", Release: "ana/r1"}, true},
		{room.Choice{}, false}, {room.Choice{Tool: "mail"}, false}, {room.Choice{Tool: "post", Target: "self"}, false}, {room.Choice{Tool: "post", Intent: "gossip"}, false},
		{room.Choice{Tool: "post", Focus: "y"}, false}, {room.Choice{Tool: "post", Release: "ben/r1"}, false},
	} {
		if got := v.Allows(c.c); (got == "") != c.ok {
			t.Errorf("Allows(%+v) = %q", c.c, got)
		}
	}
}

const (
	roomJSON   = `{"items":[{"id":"where","title":"Where to meet","status":"gathering","resolution":null,"optionsOps":[{"op":"add","label":"library","by":"ana","evidence":[3]}]}],"summary":"they look for a place"}`
	personJSON = `{"record":{"interest":"quiet","position":"library","beliefs":"bars are loud","arc":"softening","confidence":"forming","watchingFor":"a date","helpNext":"ask for a day","regards":[{"toward":"ben","note":"trusts"}],"shift":{"observed":"opened up","from":"no","to":"maybe"}},"contribution":{"item":"where","value":{"stance":"library"}},"proposal":{"wording":"not too loud","attribution":"unattributed"}}`
	selfJSON   = `{"notes":[{"item":"where","heartbeat":"slow","read":"tense"}],"choice":{"tool":"caucus","target":"ben","intent":"discover_specific","focus":"where","release":null,"rationale":"ben is silent"}}`
	actJSON    = `{"text":"Shall we hear ben?"}`
)

// drift are the ways answers go wrong that leave the data there.
var drift = []struct {
	name string
	f    func(string) string
}{
	{"as is", func(s string) string { return s }},
	{"fenced", func(s string) string { return "```json\n" + s + "\n```" }},
	{"fenced without end", func(s string) string { return "```json\n" + s }},
	{"prose before", func(s string) string { return "Here is the JSON you asked for:\n\n" + s }},
	{"prose after", func(s string) string { return s + "\n\nLet me know if you need anything else." }},
	{"prose with braces", func(s string) string { return "I use {curly} braces {} and [brackets].\n" + s + "\n{thanks}" }},
	{"prose with an apostrophe", func(s string) string { return "Here's what I'd say, it's {ana's} view: " + s }},
	{"twice", func(s string) string { return s + "\n" + s }},
	{"another object first", func(s string) string { return `{"thought":"let me see"}` + "\n" + s }},
	{"another object behind", func(s string) string { return s + `{"done":true}` }},
	{"trailing commas", func(s string) string {
		return strings.NewReplacer("}", ",}", "]", ",]").Replace(s)
	}},
	{"single quotes", func(s string) string { return strings.ReplaceAll(s, `"`, `'`) }},
	{"smart quotes", func(s string) string {
		var b strings.Builder
		open := true
		for _, r := range s {
			if r == '"' {
				if open {
					r = '“'
				} else {
					r = '”'
				}
				open = !open
			}
			b.WriteRune(r)
		}
		return b.String()
	}},
	{"bare keys", func(s string) string {
		for _, k := range []string{"items", "id", "title", "record", "interest", "choice", "tool", "target", "text", "notes", "item", "label", "proposal", "wording"} {
			s = strings.ReplaceAll(s, `"`+k+`":`, k+":")
		}
		return s
	}},
	{"python words", func(s string) string { return strings.ReplaceAll(s, "null", "None") }},
	{"undefined", func(s string) string { return strings.ReplaceAll(s, "null", "undefined") }},
	{"line comments", func(s string) string { return strings.Replace(s, "{", "{ // the answer\n", 1) }},
	{"block comments", func(s string) string { return strings.ReplaceAll(s, ":", ": /* here */ ") }},
	{"wrapped", func(s string) string { return `{"result":` + s + `}` }},
	{"wrapped in response", func(s string) string { return `{"response":` + s + `,"ok":true}` }},
	{"cut off at the end", func(s string) string { return s[:len(s)-1] }},
	{"cut off two", func(s string) string { return strings.TrimRight(s, "}]") }},
	{"byte order mark", func(s string) string { return "\ufeff" + s }},
	{"spread out", func(s string) string { return strings.NewReplacer(",", " ,\n\t", ":", " : ").Replace(s) }},
	{"semicolons", func(s string) string { return strings.ReplaceAll(s, `,"`, `;"`) }},
	{"equal signs", func(s string) string { return strings.ReplaceAll(s, `":`, `"=`) }},
	{"fat arrows", func(s string) string { return strings.ReplaceAll(s, `":`, `" => `) }},
	{"unknown keys", func(s string) string { return strings.Replace(s, "{", `{"mood":"fine","deep":{"a":[1,2]},`, 1) }},
	{"a key without a value", func(s string) string { return strings.Replace(s, "{", `{"mood":,`, 1) }},
	{"raw line ends", func(s string) string { return strings.ReplaceAll(s, " ", "\n") }},
	{"tabs", func(s string) string { return strings.ReplaceAll(s, " ", "\t") }},
	{"wrong types beside", func(s string) string {
		return strings.NewReplacer(`"summary":"they look for a place"`, `"summary":["x"]`, `"beliefs":"bars are loud"`, `"beliefs":[1]`, `"regards":[{"toward":"ben","note":"trusts"}]`, `"regards":{"ben":"trusts"}`, `"heartbeat":"slow"`, `"heartbeat":{}`).Replace(s)
	}},
	{"keyed", func(s string) string {
		return strings.NewReplacer(`"items":[{"id":"where",`, `"items":{"where":{`, `]}],"summary"`, `]}},"summary"`, `"regards":[{"toward":"ben","note":"trusts"}]`, `"regards":7`, `"notes":[{"item":"where","heartbeat":"slow","read":"tense"}]`, `"notes":{"where":{"heartbeat":"slow","read":"tense"}}`).Replace(s)
	}},
	{"numbers as text", func(s string) string { return strings.ReplaceAll(s, "[3]", `["#3"]`) }},
	{"one number", func(s string) string { return strings.ReplaceAll(s, "[3]", `3`) }},
	{"line references", func(s string) string { return strings.ReplaceAll(s, "[3]", `[{"line":3}]`) }},
	{"html", func(s string) string { return "<answer>" + s + "</answer>" }},
	{"thinking first", func(s string) string { return "<think>maybe {\"no\"} or [1, 2]</think>\n" + s }},
	{"yaml head", func(s string) string { return "---\n" + s + "\n---" }},
	{"label", func(s string) string { return "JSON: " + s + ";" }},
	{"xml fence", func(s string) string { return "```xml\n" + s + "\n```\ndone" }},
	{"spaces", func(s string) string { return strings.Repeat(" \n", 200) + s + strings.Repeat("\n", 200) }},
	{"quoted inside", func(s string) string {
		return strings.NewReplacer("they look", `they \"look\"`, "bars are", `bars \u0061re`, "ben is", `ben \tis`).Replace(s)
	}},
	{"bare inner quotes", func(s string) string {
		return strings.NewReplacer("they look for", `they "look" for`, "bars are loud", `bars "are" loud`, "ben is silent", `ben "is" silent`).Replace(s)
	}},
	{"escapes nobody needs", func(s string) string { return strings.ReplaceAll(s, " ", `\ `) }},
	{"crlf", func(s string) string { return strings.ReplaceAll(s, ",", ",\r\n") }},
	{"double commas", func(s string) string { return strings.ReplaceAll(s, ",", ",,") }},
	{"nulls for lists", func(s string) string { return strings.ReplaceAll(s, `"notes":[`, `"more":null,"notes":[`) }},
	{"a list around", func(s string) string { return "[" + s + "]" }},
	{"zero width", func(s string) string { return s + "\u200b" }},
	{"apology and retry", func(s string) string { return "{\"items\": [ oh wait\n\nSorry, again:\n" + s }},
}

func TestDriftIsRecovered(t *testing.T) {
	total, good := 0, 0
	try := func(kind, name, text string, ok func() error) {
		total++
		if err := ok(); err != nil {
			t.Logf("%s, %s: %v\n%s", kind, name, err, text)
			return
		}
		good++
	}
	has := func(ok bool, what any) error {
		if !ok {
			return fmt.Errorf("lost data: %+v", what)
		}
		return nil
	}
	for _, d := range drift {
		r, p, s, a := d.f(roomJSON), d.f(personJSON), d.f(selfJSON), d.f(actJSON)
		try("room", d.name, r, func() error {
			got, _, err := beat.Room(r, decisions)
			if err != nil {
				return err
			}
			return has(len(got.Items) == 1 && got.Items[0].ID == "where" && strings.Contains(got.Items[0].Fields["title"].Text, "Where") && len(got.Items[0].Ops["options"]) == 1 && cmp.Equal(got.Items[0].Ops["options"][0].Evidence, []uint64{3}), got)
		})
		try("person", d.name, p, func() error {
			got, _, err := beat.Person(p)
			if err != nil {
				return err
			}
			return has(got.Interest == "quiet" && got.Position == "library" && got.Item == "where" && strings.Contains(got.Wording, "loud"), got)
		})
		try("self", d.name, s, func() error {
			got, _, err := beat.Self(s)
			if err != nil {
				return err
			}
			return has(got.Choice.Tool == "caucus" && got.Choice.Target == "ben" && got.Choice.Release == "" && len(got.Notes) == 1 && got.Notes[0].Item == "where", got)
		})
		try("act", d.name, a, func() error {
			got, _, err := beat.Act(a)
			if err != nil {
				return err
			}
			return has(strings.Contains(got, "ben?"), got)
		})
	}
	if total < 200 {
		t.Fatalf("%d shapes", total)
	}
	if good*100 < total*98 {
		t.Errorf("%d of %d shapes recovered", good, total)
	}
	t.Logf("%d of %d shapes recovered", good, total)
}

func TestCompatibilityShapes(t *testing.T) {
	got, notes, err := beat.Room(`[{"id":"a","title":"A","options":["x",{"option":"y","who":"ben","evidence":2}],"resolution":{"text":"r","evidence":["line 4"]}}, "B", 7]`, decisions)
	if err != nil || len(notes) == 0 {
		t.Fatal(err)
	}
	want := []room.ItemPatch{
		{ID: "a", Fields: map[string]room.FieldPatch{"title": {Text: "A"}, "resolution": {Text: "r", Evidence: []uint64{4}}},
			Ops: map[string][]room.ListOp{"options": {{Op: "add", Label: "x"}, {Op: "add", Label: "y", By: "ben", Evidence: []uint64{2}}}}},
		{Fields: map[string]room.FieldPatch{"title": {Text: "B"}}},
	}
	if d := cmp.Diff(want, got.Items); d != "" {
		t.Error(d)
	}
	self, _, err := beat.Self(`{"tool":"post","target":"null","rationale":"r"}`)
	if err != nil || self.Choice.Tool != "post" || self.Choice.Target != "" {
		t.Errorf("%+v %v", self, err)
	}
}

func TestNothingUsableIsSaid(t *testing.T) {
	for _, s := range []string{"", "I cannot help with that.", "{}", "{}{}", "{{{{", "[1,2]", `"items"`, "items: none"} {
		if d, _, err := beat.Room(s, decisions); !errors.Is(err, beat.ErrShape) {
			t.Errorf("Room(%q) = %+v, %v", s, d, err)
		}
		if _, _, err := beat.Person(s); !errors.Is(err, beat.ErrShape) {
			t.Errorf("Person(%q): %v", s, err)
		}
		if _, _, err := beat.Self(s); !errors.Is(err, beat.ErrShape) {
			t.Errorf("Self(%q): %v", s, err)
		}
	}
	if _, _, err := beat.Self(`{"notes":[]}`); !errors.Is(err, beat.ErrShape) {
		t.Error("a choice without a tool")
	}
	for _, s := range []string{"", "{}", "[", `{"text":" "}`, "```"} {
		if got, _, err := beat.Act(s); !errors.Is(err, beat.ErrShape) {
			t.Errorf("Act(%q) = %q, %v", s, got, err)
		}
	}
}

func TestEncodersRoundTrip(t *testing.T) {
	r, _, _ := beat.Room(roomJSON, decisions)
	if got, _, err := beat.Room(beat.Encode(r, decisions), decisions); err != nil || !cmp.Equal(r, got) {
		t.Errorf("room: %v\n%s", err, cmp.Diff(r, got))
	}
	p, _, _ := beat.Person(personJSON)
	if got, _, err := beat.Person(beat.EncodePerson(p)); err != nil || !cmp.Equal(p, got) {
		t.Errorf("person: %v\n%s", err, cmp.Diff(p, got))
	}
	s, _, _ := beat.Self(selfJSON)
	if got, _, err := beat.Self(beat.EncodeSelf(s)); err != nil || !cmp.Equal(s, got) {
		t.Errorf("self: %v\n%s", err, cmp.Diff(s, got))
	}
	if got, _, err := beat.Act(beat.EncodeText("a \"b\"\n")); err != nil || got != "a \"b\"" {
		t.Errorf("act: %q %v", got, err)
	}
}

func TestTheReaderIsBounded(t *testing.T) {
	for _, s := range []string{strings.Repeat("{", 1<<18), strings.Repeat(`{"`, 1<<17), strings.Repeat(`{"a":`, 1<<16), strings.Repeat("[", 1<<20), strings.Repeat(`{'a':"`, 1<<16), strings.Repeat(`"{`, 1<<17)} {
		start := time.Now()
		beat.Read(s)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q… takes %v", s[:8], took)
		}
	}
	if got := beat.Read(strings.Repeat(`{"a":1}`, 50)); len(got) > 16 {
		t.Errorf("%d values", len(got))
	}
	if !slices.ContainsFunc(beat.Read(`x [{"a":1}] y`), func(v any) bool { _, ok := v.([]any); return ok }) {
		t.Error("an array in prose")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{roomJSON, personJSON, selfJSON, actJSON} {
		for _, d := range drift {
			f.Add(d.f(s))
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, surf := range builtin.All() {
			beat.Room(s, surf)
		}
		beat.Person(s)
		beat.Self(s)
		beat.Act(s)
	})
}
