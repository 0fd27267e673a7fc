// Package rehearsal is a model without a provider: a small deterministic
// stand-in that is used when nothing is configured. It turns plain requests
// ("run df -h", "what is in this folder?", "write hello to notes.md") into real
// calls of the tools it is offered, reports their results, and says in every
// reply what it is. An install, a policy, an approval and a sub-agent can be
// tried, and tested, without an account.
//
// It is pure string work: no network, no clock, no state. The whole
// conversation is in the request, so a restart changes nothing. It understands
// a fixed set of sentences (package files ask.go, file.go, command.go and
// schedule.go) and admits when it does not understand one.
package rehearsal

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/llm"
)

// Name is the provider and the model that Info reports.
const Name = "rehearsal"

// defaultNotice ends every reply.
const defaultNotice = "(rehearsal: no model is configured, a small script is answering. " +
	"Set ANTHROPIC_API_KEY or OPENAI_API_KEY and start Iris again to talk to a real one.)"

// window is generous, so that nothing is compacted that costs nothing to keep.
const window = 200_000

// Options configures a Model.
type Options struct {
	// Notice is the line that ends every reply and says what is answering.
	// Empty means one that names the environment variables to set.
	Notice string
}

// A Model answers by itself. It is safe for concurrent use.
type Model struct{ notice string }

var _ llm.Model = (*Model)(nil)

// New returns a model. It cannot fail; the error is there because parts are
// built alike.
func New(opts Options) (*Model, error) {
	if strings.TrimSpace(opts.Notice) == "" {
		opts.Notice = defaultNotice
	}
	return &Model{notice: opts.Notice}, nil
}

// Info describes the stand-in. It takes no images and costs nothing.
func (m *Model) Info() llm.Info {
	return llm.Info{Provider: Name, Model: Name, Window: window, MaxOutput: 32_000}
}

// Stream answers in small pieces. It fails only when ctx ends.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		p := answer(req)
		text := strings.ToValidUTF8(p.say, "\uFFFD")
		if len(p.calls) == 0 {
			text = strings.TrimSpace(text + "\n\n" + m.notice)
		}
		for _, piece := range pieces(text) {
			if ctx.Err() != nil {
				yield(llm.Event{}, context.Cause(ctx))
				return
			}
			if !yield(llm.Event{Text: piece}, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(llm.Event{}, context.Cause(ctx))
			return
		}
		yield(llm.Event{Done: &llm.Done{Message: m.message(req, text, p.calls)}}, nil)
	}
}

func (m *Model) message(req llm.Request, text string, calls []llm.Call) llm.Message {
	msg := llm.Message{Role: llm.Assistant, Provider: Name, Model: Name, Stop: llm.StopEnd}
	if text != "" {
		msg.Parts = append(msg.Parts, llm.Part{Kind: llm.TextPart, Text: text})
	}
	out := len(text)
	for i, c := range calls {
		// The length of the history makes ids differ within a conversation.
		c.ID = fmt.Sprintf("rehearsal-%d-%d", len(req.Messages), i+1)
		msg.Parts = append(msg.Parts, llm.Part{Kind: llm.CallPart, Call: &c})
		msg.Stop = llm.StopTools
		out += len(c.Args)
	}
	msg.Usage = &llm.Usage{Input: tokens(size(req)), Output: tokens(out)}
	return msg
}

// tokens estimates: four bytes are about one token.
func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

func size(req llm.Request) int {
	n := len(req.System)
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, msg := range req.Messages {
		for _, p := range msg.Parts {
			n += len(p.Text)
			if p.Call != nil {
				n += len(p.Call.Args)
			}
			if p.Result != nil {
				n += len(p.Result.Text)
			}
		}
	}
	return n
}

// pieces cuts a text for streaming: at spaces, never inside a character, and
// into at most about sixty pieces, so that a long listing is no flood.
func pieces(text string) []string {
	least := max(12, len(text)/60)
	var all []string
	for len(text) > least {
		cut := least
		if i := strings.IndexAny(text[cut:], " \n"); i >= 0 && i < 4*least {
			cut += i + 1
		}
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		all = append(all, text[:cut])
		text = text[cut:]
	}
	if text != "" {
		all = append(all, text)
	}
	return all
}
