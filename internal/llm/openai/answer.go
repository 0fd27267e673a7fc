package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// errStopped says that the consumer wants no more.
var errStopped = errors.New("the consumer has stopped")

// A slot is a part of the answer while it grows.
type slot struct {
	index  int // where the wire says the part is
	kind   llm.PartKind
	text   []byte
	opaque string
	id     string
	name   string
	args   []byte
}

// answer is the message while it grows.
type answer struct {
	slots   []*slot
	usage   *llm.Usage
	stop    llm.StopReason
	refused bool
}

// find returns the newest slot of an index, nil if there is none.
func (a *answer) find(index int) *slot {
	for i := len(a.slots) - 1; i >= 0; i-- {
		if a.slots[i].index == index {
			return a.slots[i]
		}
	}
	return nil
}

func (a *answer) add(index int, kind llm.PartKind) *slot {
	s := &slot{index: index, kind: kind}
	a.slots = append(a.slots, s)
	return s
}

// message returns the finished answer.
func (a *answer) message(info llm.Info, names names) (llm.Message, error) {
	out := llm.Message{Role: llm.Assistant, Provider: info.Provider, Model: info.Model, Usage: a.usage, Stop: a.stop}
	if out.Stop == "" {
		out.Stop = llm.StopEnd
	}
	ids := map[string]bool{}
	for n, s := range a.slots {
		switch s.kind {
		case llm.TextPart:
			if text := string(s.text); strings.TrimSpace(text) != "" {
				out.Parts = append(out.Parts, llm.Part{Kind: llm.TextPart, Text: text})
			}
		case llm.ThinkingPart:
			if len(s.text) > 0 || s.opaque != "" {
				out.Parts = append(out.Parts, llm.Part{Kind: llm.ThinkingPart, Text: string(s.text), Opaque: s.opaque})
			}
		case llm.CallPart:
			call, err := s.call(n, names)
			if err != nil {
				return out, err
			}
			if ids[call.ID] {
				return out, broken("two tool calls with the id %s", call.ID)
			}
			ids[call.ID] = true
			out.Parts = append(out.Parts, llm.Part{Kind: llm.CallPart, Call: call})
			if out.Stop == llm.StopEnd {
				out.Stop = llm.StopTools
			}
		}
	}
	if a.refused {
		out.Stop = llm.StopRefused
	}
	return out, nil
}

// call returns a finished call. Some servers give no ids; they are counted.
func (s *slot) call(n int, names names) (*llm.Call, error) {
	if s.name == "" {
		return nil, broken("a tool call without a name")
	}
	if s.id == "" {
		s.id = "call_" + strconv.Itoa(n+1)
	}
	args := json.RawMessage(s.args)
	if len(strings.TrimSpace(string(args))) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if !llm.IsObject(args) {
		return nil, broken("the arguments of a call of %s are not one JSON object", s.name)
	}
	return &llm.Call{ID: s.id, Name: names.real(s.name), Args: args}, nil
}

// brokenError is an answer that breaks its own format.
type brokenError string

func (b brokenError) Error() string { return string(b) }

func broken(format string, args ...any) error {
	return brokenError(llm.OneLine(fmt.Sprintf(format, args...)))
}

// eventError is an error in a stream that began well: an error object, or an
// event that holds one.
type eventError struct{ body json.RawMessage }

func (e eventError) Error() string { return string(e.body) }

// given reports whether a raw field is there and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// count guards a token count of the wire.
func count(n int64) int64 { return max(n, 0) }
