package native

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/turn"
)

// A stream holds the pieces of the answer that is coming in. Pieces that arrive
// while the last event is being written go out together in the next.
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

// listen reads one answer and shows its pieces.
func (r *run) listen(m llm.Model, req llm.Request) (llm.Message, error) {
	r.stream.reset()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	for batch := range batches(m.Stream(ctx, req), cancel) {
		if batch.err != nil {
			return llm.Message{}, batch.err
		}
		for _, ev := range batch.events {
			if ev.Done != nil {
				return ev.Done.Message, nil
			}
			if err := r.show(ev); err != nil {
				return llm.Message{}, errSink{err}
			}
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

// A batch is what arrived together: pieces of one kind in a row are joined.
type batch struct {
	events []llm.Event
	err    error
}

// batches reads a stream in a goroutine of its own, so that a slow consumer gets
// fewer and larger events instead of falling behind. When the consumer stops,
// cancel is called; the goroutine has ended when the sequence has. What waits is
// bounded by the length of one answer.
func batches(events iter.Seq2[llm.Event, error], cancel func()) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		var (
			mu    sync.Mutex
			next  batch
			over  bool // the consumer has stopped
			ready = make(chan struct{}, 1)
			ended = make(chan struct{})
		)
		go func() {
			defer close(ended)
			defer func() {
				if p := recover(); p != nil {
					mu.Lock()
					next.err = fmt.Errorf("panic in a model: %v\n%s", p, debug.Stack())
					mu.Unlock()
				}
			}()
			for ev, err := range events {
				mu.Lock()
				if err != nil {
					next.err = err
				} else {
					next.events = join(next.events, ev)
				}
				stop := over || err != nil
				mu.Unlock()
				select {
				case ready <- struct{}{}:
				default:
				}
				if stop {
					return
				}
			}
		}()
		defer func() {
			mu.Lock()
			over = true
			mu.Unlock()
			cancel()
			<-ended
		}()
		take := func() batch {
			mu.Lock()
			defer mu.Unlock()
			b := next
			next = batch{}
			return b
		}
		// The pieces before an error come before it.
		pass := func(b batch) bool {
			if len(b.events) > 0 && !yield(batch{events: b.events}) {
				return false
			}
			return b.err == nil || yield(batch{err: b.err})
		}
		for {
			select {
			case <-ready:
				if !pass(take()) {
					return
				}
			case <-ended:
				pass(take())
				return
			}
		}
	}
}

func join(events []llm.Event, ev llm.Event) []llm.Event {
	if len(events) > 0 {
		last := &events[len(events)-1]
		switch {
		case ev.Text != "" && last.Text != "":
			last.Text += ev.Text
			return events
		case ev.Thinking != "" && last.Thinking != "":
			last.Thinking += ev.Thinking
			return events
		}
	}
	return append(events, ev)
}
