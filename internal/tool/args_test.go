package tool

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	a := ParseArguments(json.RawMessage(`{"s":"x","e":"","n":1.5,"w":-3,"z":null,"extra":[1]}`))
	n, hasN := a.Number("n")
	w, hasW := a.Whole("w")
	_, hasZ := a.Whole("z")
	if a.String("s") != "x" || a.Text("e") != "" || a.Optional("none") != "" || a.Optional("s") != "x" || n != 1.5 || !hasN || w != -3 || !hasW || hasZ {
		t.Errorf("n %v %v, w %v %v, z %v", n, hasN, w, hasW, hasZ)
	}
	if err := a.Err(); err != nil {
		t.Errorf("Err: %v", err)
	}
}

func TestArgumentsName(t *testing.T) {
	read := func(a *Arguments) {
		a.String("label")
		a.Optional("title")
		a.Whole("limit")
		a.Number("timeout")
	}
	for args, want := range map[string]string{
		``: `"label" is missing`, `[]`: "not a JSON object", `null`: "not a JSON object", `{`: "not a JSON object", `"x"`: "not a JSON object",
		`{"label":null}`: `"label" is missing`, `{"label":1}`: `"label" must be a string`, `{"label":" "}`: `"label" is empty`,
		`{"label":"a\u0000"}`:             `"label" holds a NUL`,
		`{"label":"a","title":{}}`:        `"title" must be a string`,
		`{"label":"a","limit":1.5}`:       `"limit" must be a whole number`,
		`{"label":"a","limit":1e300}`:     `"limit" must be a whole number`,
		`{"label":"a","timeout":"1"}`:     `"timeout" must be a number`,
		`{"label":"a","timeout":1e999}`:   `"timeout" must be a number`,
		`{"title":5,"timeout":"1"}`:       `"label" is missing`,
		`{"label":"a","limit":"ten"}`:     `"limit" must be a number`,
		`{"label":"a","timeout":[1,2,3]}`: `"timeout" must be a number`,
	} {
		a := ParseArguments(json.RawMessage(args))
		read(a)
		if err := a.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
}
