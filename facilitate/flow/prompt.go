package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
)

// A Prompt is what a model is asked at level L: a system text, a question and
// the JSON schema of the answer. Like a [Text] it does not print or marshal.
type Prompt[L Level] struct {
	_     [0]L
	owner principal.ID
	box   open.Box[ask]
}

type ask struct {
	system, text string
	schema       json.RawMessage
	maxTokens    int
}

// Ask starts a prompt at level L from texts of that level. For [Person] the
// texts must all belong to one person, or carry no words: a mix is an error.
// system and schema are the engine's own words and hold nothing of anybody.
func Ask[L Level](system string, schema json.RawMessage, parts ...Text[L]) (Prompt[L], error) {
	p := Prompt[L]{}
	var text string
	for _, t := range parts {
		b := open.Open(t.box)
		if o := principal.ID(b.Owner); o != "" {
			if p.owner != "" && p.owner != o {
				return Prompt[L]{}, fmt.Errorf("prompt for %q: a part belongs to somebody else", p.owner)
			}
			p.owner = o
		}
		text += b.Text
	}
	if RankOf[L]() == RankPerson && p.owner == "" {
		return Prompt[L]{}, fmt.Errorf("prompt at person level: no part belongs to a person")
	}
	p.box = open.Seal(ask{system: system, text: text, schema: schema})
	return p, nil
}

// Owner is the person of a [Person] prompt, else empty.
func (p Prompt[L]) Owner() principal.ID { return p.owner }

// Text is the question as a labelled text.
func (p Prompt[L]) Text() Text[L] {
	return Text[L]{box: open.Seal(open.Body{Owner: string(p.owner), Text: open.Open(p.box).text})}
}

// Limit returns the prompt with a bound on the answer's tokens.
func (p Prompt[L]) Limit(tokens int) Prompt[L] {
	a := open.Open(p.box)
	a.maxTokens = tokens
	p.box = open.Seal(a)
	return p
}

// Amend returns the prompt with the engine's note at its end, for a re-ask.
func (p Prompt[L]) Amend(note string) Prompt[L] {
	a := open.Open(p.box)
	a.text += "\n\n" + note + "\n"
	p.box = open.Seal(a)
	return p
}

// Format prints the level and never the words.
func (p Prompt[L]) Format(f fmt.State, _ rune) { io.WriteString(f, p.String()) }

// String names the level and never the words.
func (p Prompt[L]) String() string { return "[" + RankOf[L]().String() + " prompt]" }

// GoString is String.
func (p Prompt[L]) GoString() string { return p.String() }

// LogValue is String.
func (p Prompt[L]) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON refuses.
func (p Prompt[L]) MarshalJSON() ([]byte, error) { return nil, open.ErrSealed }

// MarshalText refuses.
func (p Prompt[L]) MarshalText() ([]byte, error) { return nil, open.ErrSealed }

// GobEncode refuses.
func (p Prompt[L]) GobEncode() ([]byte, error) { return nil, open.ErrSealed }

// A Request is what a [Model] receives. Model adapters see raw text by nature.
// An adapter that keeps a provider session keeps one for each pair of Level
// and Principal, and never shares it.
type Request struct {
	Level       Rank
	Principal   principal.ID
	System      string
	Prompt      string
	Schema      json.RawMessage
	MaxTokens   int
	Temperature float64
}

// Usage counts tokens.
type Usage struct{ In, Out int }

// A Response is a model's answer.
type Response struct {
	Text  string
	Usage Usage
}

// A Model answers a request. Any function can be one. It must be safe for
// concurrent use and return soon after ctx ends.
type Model func(ctx context.Context, r Request) (Response, error)

// Complete asks m and labels the answer with the level of the prompt.
func Complete[L Level](ctx context.Context, m Model, p Prompt[L]) (Text[L], Usage, error) {
	a := open.Open(p.box)
	res, err := m(ctx, Request{
		Level: RankOf[L](), Principal: p.owner,
		System: a.system, Prompt: a.text, Schema: a.schema, MaxTokens: a.maxTokens,
	})
	if err != nil {
		return Text[L]{}, res.Usage, err
	}
	return Text[L]{box: open.Seal(open.Body{Owner: string(p.owner), Text: res.Text})}, res.Usage, nil
}
