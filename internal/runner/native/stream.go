package native

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/turn"
)

// A stream holds the pieces of the answer that is coming in.
type stream struct {
	shown bool // people have seen pieces that a void would take back
	whole strings.Builder
	held  string // not shown: it is, or may become, [SILENT]
}

// text is what has come in.
func (s *stream) text() string { return s.whole.String() }

func (s *stream) reset() { *s = stream{} }

// piece takes a piece and returns what people may see now.
func (s *stream) piece(text string) string {
	s.whole.WriteString(text)
	if s.shown {
		return text
	}
	s.held += text
	t := strings.TrimLeft(s.held, " \t\r\n")
	if strings.HasPrefix(t, silent) || strings.HasPrefix(silent, t) {
		return ""
	}
	text, s.held = s.held, ""
	s.shown = true
	return text
}

// listen reads one answer and shows its pieces. Whoever shows them holds up the
// reading: what arrives meanwhile waits in the connection and comes as fewer and
// larger pieces.
func (r *run) listen(m llm.Model, req llm.Request) (llm.Message, error) {
	r.stream.reset()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	for ev, err := range guarded(m.Stream(ctx, req)) {
		if err != nil {
			return llm.Message{}, err
		}
		if ev.Done != nil {
			return ev.Done.Message, nil
		}
		if err := r.show(ev); err != nil {
			return llm.Message{}, errSink{err}
		}
	}
	return llm.Message{}, &llm.Error{Class: llm.ClassCut, Provider: r.info().Provider, Text: "the answer ended without its end"}
}

// errSink is a failure to show or save, as opposed to one of the model.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

func (r *run) show(ev llm.Event) error {
	switch {
	case ev.Retry != nil:
		if err := r.void(); err != nil {
			return err
		}
		return r.status("Retrying (%d/%d)...", ev.Retry.Attempt, ev.Retry.Max)
	case ev.Thinking != "":
		return r.emit(turn.Event{Kind: turn.Thinking, Text: ev.Thinking})
	}
	if text := r.stream.piece(ev.Text); text != "" {
		return r.emit(turn.Event{Kind: turn.Text, Text: text, Partial: true})
	}
	return nil
}

// void takes back the pieces of an answer that does not count.
func (r *run) void() error {
	shown := r.stream.shown
	r.stream.reset()
	if !shown {
		return nil
	}
	return r.emit(turn.Event{Kind: turn.Text, Void: true})
}

// guarded turns a panic of a model into an error; one of the consumer passes.
func guarded(events iter.Seq2[llm.Event, error]) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		outside := false // the consumer is at work
		over := false
		defer func() {
			if outside {
				return
			}
			if p := recover(); p != nil {
				err := fmt.Errorf("panic in a model: %v\n%s", p, debug.Stack())
				if !over {
					yield(llm.Event{}, err)
				}
			}
		}()
		for ev, err := range events {
			outside = true
			more := yield(ev, err)
			outside = false
			if !more {
				over = true
				return
			}
		}
	}
}
