package veil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret/redact"
	"github.com/iris-operator/iris/internal/turn"
)

// Runner returns r with everything it says and saves redacted. Pieces of a text
// are held back as long as they may be the beginning of a value. begin, if not
// nil, is called before each turn. What r can do besides (Conversational) stays.
func (v *Veil) Runner(r runner.Runner, begin func(context.Context)) runner.Runner {
	w := &veiledRunner{r, v.r, begin}
	if c, ok := r.(runner.Conversational); ok {
		return &veiledConversational{w, c}
	}
	return w
}

type veiledRunner struct {
	next  runner.Runner
	r     *redact.Redactor
	begin func(context.Context)
}

// Run answers the turn.
func (w *veiledRunner) Run(ctx context.Context, req turn.Request, s turn.Sink) error {
	if w.begin != nil {
		w.begin(ctx)
	}
	sink := &sink{next: s, r: w.r, text: w.r.Stream(), thinking: w.r.Stream()}
	return w.clean(w.next.Run(ctx, req, sink))
}

// clean returns an error that says no value.
func (w *veiledRunner) clean(err error) error {
	if err == nil || !w.r.Found(err.Error()) {
		var known *runner.Error
		if !errors.As(err, &known) || known.Err == nil || !w.r.Found(known.Err.Error()) {
			return err
		}
	}
	e := &veiledError{text: w.r.String(err.Error()), is: err}
	var known *runner.Error
	if errors.As(err, &known) {
		return &runner.Error{Code: known.Code, Text: w.r.String(known.Text), Err: e}
	}
	return e
}

// A veiledError is an error under another text. It is what the first one is, and
// does not give it out.
type veiledError struct {
	text string
	is   error
}

// Error returns the text without values.
func (e *veiledError) Error() string { return e.text }

// Is compares with what the error was.
func (e *veiledError) Is(target error) bool { return errors.Is(e.is, target) }

type veiledConversational struct {
	*veiledRunner
	c runner.Conversational
}

// Compact shortens the context.
func (w *veiledConversational) Compact(ctx context.Context, conv chat.Address) (string, error) {
	text, err := w.c.Compact(ctx, conv)
	return w.r.String(text), w.clean(err)
}

// Reset forgets the context.
func (w *veiledConversational) Reset(ctx context.Context, conv chat.Address) error {
	return w.clean(w.c.Reset(ctx, conv))
}

// A sink redacts on the way to the next one.
type sink struct {
	next turn.Sink
	r    *redact.Redactor

	// mu guards the fields below. It is held while next is called, so that
	// pieces keep their order.
	mu             sync.Mutex
	text, thinking *redact.Stream
}

// Emit passes an event on. What is held back of a text goes out before any other
// event, and is dropped where the text is repeated whole or does not count.
func (s *sink) Emit(e turn.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Kind == turn.Text && e.Partial:
		return s.piece(s.text, e)
	case e.Kind == turn.Thinking && e.Text != "":
		return s.piece(s.thinking, e)
	case e.Kind == turn.Text || e.Terminal():
		s.text.Drop()
		s.thinking.Drop()
	case e.Kind != turn.Status:
		for _, held := range []struct {
			stream *redact.Stream
			e      turn.Event
		}{{s.thinking, turn.Event{Kind: turn.Thinking}}, {s.text, turn.Event{Kind: turn.Text, Partial: true}}} {
			if held.e.Text = held.stream.Flush(); held.e.Text != "" {
				if err := s.next.Emit(held.e); err != nil {
					return err
				}
			}
		}
	}
	return s.next.Emit(event(s.r, e))
}

// piece passes on as much of a text as may be shown.
func (s *sink) piece(stream *redact.Stream, e turn.Event) error {
	if e.Text = stream.Push(e.Text); e.Text == "" {
		return nil
	}
	return s.next.Emit(e)
}

// Checkpoint saves a state without values.
func (s *sink) Checkpoint(ctx context.Context, state any) error {
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode a state: %w", err)
	}
	return s.next.Checkpoint(ctx, json.RawMessage(s.r.JSON(data)))
}

// Record returns what the journal keeps of a record: what people wrote, notices
// and failures without values. The rest of a turn has come through its runner.
func (v *Veil) Record(rec turn.Record) turn.Record {
	switch {
	case rec.Accepted != nil:
		a := *rec.Accepted
		a.Message = v.message(a.Message)
		rec.Accepted = &a
	case rec.Heard != nil:
		m := v.message(*rec.Heard)
		rec.Heard = &m
	case rec.Notice != nil:
		n := *rec.Notice
		n.Text = v.r.String(n.Text)
		rec.Notice = &n
	case rec.Event != nil && rec.Event.Kind == turn.Failed:
		e := event(v.r, *rec.Event)
		rec.Event = &e
	}
	return rec
}

func (v *Veil) message(m chat.Message) chat.Message {
	m.Text, m.Prompt = v.r.String(m.Text), v.r.String(m.Prompt)
	for i, f := range m.Files {
		if v.r.Found(f.Original) {
			m.Files = append([]chat.File(nil), m.Files...)
			m.Files[i].Original = v.r.String(f.Original)
		}
	}
	return m
}

// event returns an event without values. Names of files on disk stay: they must
// lead there.
func event(r *redact.Redactor, e turn.Event) turn.Event {
	for _, s := range []*string{&e.Text, &e.Label, &e.Error, &e.Filename, &e.Title} {
		*s = r.String(*s)
	}
	if e.Tool != nil {
		t := *e.Tool
		t.Label, t.Result, t.Args = r.String(t.Label), r.String(t.Result), r.JSON(t.Args)
		e.Tool = &t
	}
	if e.Ask != nil {
		a := *e.Ask
		for _, s := range []*string{&a.Text, &a.Command, &a.Tool, &a.By, &a.Picked} {
			*s = r.String(*s)
		}
		a.Options = nil
		for _, o := range e.Ask.Options {
			a.Options = append(a.Options, turn.Option{Label: r.String(o.Label), About: r.String(o.About)})
		}
		e.Ask = &a
	}
	return e
}
