package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummarize(t *testing.T) {
	keys := make([]string, 60)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%02d":%d`, i, i)
	}
	for name, c := range map[string]struct{ in, want string }{
		"array":          {`[1,2,3,4,5]`, `{"_arrayLength":5,"_sampleItems":[1,2,3],"_note":"the first 3 of 5 items"}`},
		"empty":          {`{"a":[],"b":{}}`, `{"a":[],"b":{}}`},
		"array of array": {`[ [1,2] , "x]" ]`, `{"_arrayLength":2,"_sampleItems":[{"_arrayLength":2,"_sampleItems":[1,2],"_note":"the first 2 of 2 items"},"x]"],"_note":"the first 2 of 2 items"}`},
		"long string":    {`{"s":"` + strings.Repeat("é", 250) + `"}`, `{"s":"` + strings.Repeat("é", 200) + `... (250 characters in total)"}`},
		"exact string":   {`{"s":"` + strings.Repeat("é", 200) + `"}`, `{"s":"` + strings.Repeat("é", 200) + `"}`},
		"escapes":        {`{"a\"b":"c\\","d":"\u00e9{["}`, `{"a\"b":"c\\","d":"\u00e9{["}`},
		"deep objects":   {`{"1":{"2":{"3":{"4":{"5":{"6":{"7":{"8":1,"9":2}}}}}}}}`, `{"1":{"2":{"3":{"4":{"5":{"6":{"7":"{Object(2 keys)}"}}}}}}}`},
		"deep array":     {`{"1":{"2":{"3":{"4":{"5":{"6":{"7":[1,[2],{"a":3}]}}}}}}}`, `{"1":{"2":{"3":{"4":{"5":{"6":{"7":"[Array(3)]"}}}}}}}`},
		"50 keys":        {"{" + strings.Join(keys[:50], ",") + "}", "{" + strings.Join(keys[:50], ",") + "}"},
		"60 keys":        {"{" + strings.Join(keys, ",") + "}", "{" + strings.Join(keys[:50], ",") + `,"_note":"the first 50 of 60 keys"}`},
		"51 keys":        {"{" + strings.Join(keys[:51], " , ") + " }", "{" + strings.Join(keys[:50], ",") + `,"_note":"the first 50 of 51 keys"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Summarize(c.in)
			if !ok {
				t.Fatal("not summarized")
			}
			var a, b any
			if err := json.Unmarshal([]byte(got), &a); err != nil {
				t.Fatalf("%v in %s", err, got)
			}
			if err := json.Unmarshal([]byte(c.want), &b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b, a); diff != "" {
				t.Errorf("-want +got:\n%s\n%s", diff, got)
			}
		})
	}
}

func TestSummarizeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "text": "hello", "string": `"x"`, "number": "12", "two values": "{}{}", "cut off": `{"a":[1,2`, "trailing": `[1] x`,
		"above 10 MiB": "[" + strings.Repeat(" ", 10<<20) + "]",
	} {
		if got, ok := Summarize(text); ok {
			t.Errorf("%s: summarized as %q", name, got)
		}
	}
}

// TestSummarizeIsBounded gives it a text whose summary explodes.
func TestSummarizeIsBounded(t *testing.T) {
	value := `"` + strings.Repeat("x", 150) + `"`
	for range 3 {
		parts := make([]string, 20)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"%d":%s`, i, value)
		}
		value = "{" + strings.Join(parts, ",") + "}"
	}
	got, ok := Summarize(value)
	if !ok || len(got) > MaxBytes || !json.Valid([]byte(got)) {
		t.Errorf("summary of %d bytes: %v, %d bytes", len(value), ok, len(got))
	}
}

func FuzzSummarize(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,3,4,{"b":"c"}]}`, `[[],{},"",null,true,1e9]`, ` [ "\"]" , -0.5 ] `, "{\"a\":\t[\n]}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := Summarize(text); ok && (!json.Valid([]byte(got)) || len(got) > MaxBytes) {
			t.Errorf("Summarize(%q) = %q", text, got)
		}
	})
}
