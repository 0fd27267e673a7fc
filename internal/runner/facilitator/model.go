package facilitator

import (
	"context"
	"errors"
	"strings"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/internal/llm"
)

// Model makes one of Iris's models think for a room. Every beat is a request of
// its own, so that nothing of one level is in the context of another; for the
// same reason no cache key is shared.
func Model(m llm.Model) flow.Model {
	return func(ctx context.Context, r flow.Request) (flow.Response, error) {
		req := llm.Request{
			System: r.System, MaxTokens: int64(r.MaxTokens),
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: r.Prompt}}}},
		}
		if len(r.Schema) > 0 {
			req.System += "\n\nAnswer with one JSON object that fits this schema, and nothing else:\n" + string(r.Schema)
		}
		for ev, err := range m.Stream(ctx, req) {
			if err != nil {
				return flow.Response{}, err
			}
			if ev.Done == nil {
				continue
			}
			var text strings.Builder
			for _, p := range ev.Done.Message.Parts {
				if p.Kind == llm.TextPart {
					text.WriteString(p.Text)
				}
			}
			out := flow.Response{Text: text.String()}
			if u := ev.Done.Message.Usage; u != nil {
				out.Usage = flow.Usage{In: int(u.Input + u.CacheRead + u.CacheWrite), Out: int(u.Output)}
			}
			return out, nil
		}
		return flow.Response{}, errors.New("the model's answer has no end")
	}
}
