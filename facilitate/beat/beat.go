// Package beat is the contract with a model: the JSON schemas of what it is
// asked for, and the decoder of what it answers. The schemas are closed and
// require every property, as strict providers want. The decoder is tolerant and
// bounded: it recovers what it can, drops the rest with a note, and never
// panics. What a decoded answer may change is package room's business.
package beat

import (
	"encoding/json"
	"slices"

	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
)

type dict = map[string]any

// object is a closed schema that requires all of its properties.
func object(props dict) dict {
	names := []string{}
	for k := range props {
		names = append(names, k)
	}
	slices.Sort(names)
	return dict{"type": "object", "properties": props, "required": names, "additionalProperties": false}
}

func array(of any) dict { return dict{"type": "array", "items": of} }

func enum(of ...string) dict { return dict{"type": "string", "enum": of} }

func nullable(s dict) dict { return dict{"anyOf": []any{s, dict{"type": "null"}}} }

var str = dict{"type": "string"}
var optional = dict{"type": []string{"string", "null"}}
var lines = array(dict{"type": "integer"})

func raw(s dict) json.RawMessage {
	out, _ := json.Marshal(s) // maps of strings marshal
	return out
}

// RoomSchema is the answer of a room-level beat on s.
func RoomSchema(s *surface.Surface) json.RawMessage {
	item := dict{"id": str}
	for _, f := range s.Shared {
		switch {
		case f.Writer == surface.Derived || f.Writer == surface.Host:
		case f.Name == s.Label():
			item[f.Name] = str
		case f.List:
			item[f.Name+"Ops"] = array(object(dict{"op": enum("add", "reword", "withdraw"), "label": str, "new": optional, "by": optional, "evidence": lines}))
		case f.Name == s.Status:
			item[f.Name] = dict{"anyOf": []any{enum(s.Statuses...), dict{"type": "null"}}}
		default:
			item[f.Name] = nullable(object(dict{"text": str, "evidence": lines}))
		}
	}
	return raw(object(dict{"items": array(object(item)), "summary": optional}))
}

// PersonSchema is the answer of a person-level beat on s.
func PersonSchema(s *surface.Surface) json.RawMessage {
	record := object(dict{
		"interest": optional, "position": optional, "beliefs": optional,
		"arc":         dict{"anyOf": []any{enum("digging in", "softening", "converging", "quiet"), dict{"type": "null"}}},
		"confidence":  dict{"anyOf": []any{enum("hunch", "forming", "confirmed"), dict{"type": "null"}}},
		"watchingFor": optional, "helpNext": optional,
		"regards": array(object(dict{"toward": str, "note": str})),
		"shift":   nullable(object(dict{"observed": str, "from": str, "to": str})),
	})
	contribution := dict{"type": "null"}
	if !s.OwnHand {
		contribution = nullable(object(dict{"item": str, "value": valueSchema(s)}))
	}
	return raw(object(dict{
		"record": record, "contribution": contribution,
		"proposal": nullable(object(dict{"wording": str, "attribution": enum("named", "unattributed")})),
	}))
}

func valueSchema(s *surface.Surface) dict {
	props := dict{}
	for _, c := range s.Contribution {
		var v dict
		switch c.Kind {
		case surface.Word:
			v = enum(c.Of...)
		case surface.Set:
			v = array(str)
		case surface.Number:
			v = dict{"type": "integer"}
		case surface.Flag:
			v = dict{"type": "boolean"}
		default:
			v = str
		}
		if c.Optional {
			v = nullable(v)
		}
		props[c.Name] = v
	}
	return object(props)
}

// A Vocabulary is what a choice may say, all of it closed.
type Vocabulary struct {
	Tools    []string // registered names, without none
	People   []string
	Intents  []string
	Items    []string // ids of visible open items
	Releases []string // granted and ready, as owner/id
}

// Equal reports whether v and w say the same, in the same order.
func (v Vocabulary) Equal(w Vocabulary) bool {
	return slices.Equal(v.Tools, w.Tools) && slices.Equal(v.People, w.People) && slices.Equal(v.Intents, w.Intents) && slices.Equal(v.Items, w.Items) && slices.Equal(v.Releases, w.Releases)
}

// Allows reports what of c is outside of v, or "".
func (v Vocabulary) Allows(c room.Choice) string {
	for _, f := range []struct {
		name, value string
		of          []string
	}{{"tool", c.Tool, append([]string{room.None}, v.Tools...)}, {"target", string(c.Target), v.People}, {"intent", c.Intent, v.Intents}, {"focus", c.Focus, v.Items}, {"release", c.Release, v.Releases}} {
		if f.value != "" && !slices.Contains(f.of, f.value) || f.value == "" && f.name == "tool" {
			return f.name + " is outside the vocabulary"
		}
	}
	return ""
}

func oneOf(of []string) dict {
	if len(of) == 0 {
		return dict{"type": "null"}
	}
	return dict{"anyOf": []any{enum(of...), dict{"type": "null"}}}
}

// SelfSchema is the answer of a self-level beat: notes and the choice.
func SelfSchema(v Vocabulary) json.RawMessage {
	return raw(object(dict{
		"notes": array(object(dict{"item": str, "heartbeat": optional, "read": optional})),
		"choice": object(dict{
			"tool": enum(append([]string{room.None}, v.Tools...)...), "target": oneOf(v.People), "intent": oneOf(v.Intents),
			"focus": oneOf(v.Items), "release": oneOf(v.Releases), "rationale": str,
		}),
	}))
}

// ActSchema is the answer of a beat that writes one text.
func ActSchema() json.RawMessage { return raw(object(dict{"text": str})) }
