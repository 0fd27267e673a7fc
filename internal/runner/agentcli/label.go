package agentcli

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// maxLabel bounds the line of a tool call in characters.
const maxLabel = 120

// shown are the fields of a tool's input that people see. Any other may hold what
// is not meant for them: of a tool that has none of these the name is all.
var shown = []string{"command", "file_path", "path", "query", "pattern", "url", "prompt", "description", "name"}

// label is a tool call in one line. A command may have commandMax characters.
func label(t Tool, commandMax int) string {
	name := clip(oneLine(t.Name), maxLabel)
	fields := textFields(t.Input)
	var detail string
	switch strings.ToLower(letters(t.Name)) {
	case "glob", "grep", "find", "search":
		detail = join(fields["pattern"], " in ", fields["path"])
	case "task", "agent":
		detail = join(fields["subagent_type"], ": ", fields["description"])
	case "todowrite":
		var in struct {
			Todos []json.RawMessage `json:"todos"`
		}
		if json.Unmarshal(t.Input, &in) == nil {
			detail = fmt.Sprintf("%d items", len(in.Todos))
		}
	default:
		for _, f := range shown {
			if detail = fields[f]; detail != "" {
				break
			}
		}
	}
	if detail == "" && t.Command != "" {
		detail = t.Command
	}
	if detail == "" && len(t.Paths) > 0 {
		detail = strings.Join(t.Paths, ", ")
	}
	limit := maxLabel
	if t.What == Execute {
		limit = max(limit, commandMax)
	}
	if detail = oneLine(detail); detail == "" {
		return name
	}
	return clip(name+": "+detail, limit)
}

func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, s)
}

func join(a, between, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + between + b
}

// textFields are the fields of a JSON object that are texts.
func textFields(input json.RawMessage) map[string]string {
	var all map[string]json.RawMessage
	if json.Unmarshal(input, &all) != nil {
		return nil
	}
	texts := map[string]string{}
	for name, raw := range all {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			texts[name] = s
		}
	}
	return texts
}

// maxField bounds what is shown of one field.
const maxField = 2000

// shownFields is the input of a tool without what people do not see.
func shownFields(input json.RawMessage) json.RawMessage {
	texts, kept := textFields(input), map[string]string{}
	for _, f := range shown {
		if s := texts[f]; s != "" {
			kept[f] = clip(s, maxField)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return data
}
