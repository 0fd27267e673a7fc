package facilitator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/transport"
)

// A note is a message on a wall.
type note struct {
	id, text, mark string
	buttons        []transport.Button
	pinned, repeat bool
}

// press returns the value of a button.
func (n note) press(label string) string {
	for _, b := range n.buttons {
		if b.Label == label {
			return b.Value
		}
	}
	return ""
}

// A wall is a platform in memory, for addresses on Slack.
type wall struct {
	t *testing.T
	// blind says that it cannot tell what is there.
	blind bool
	// fault decides what becomes of a call; it may have had its effect.
	fault func(method, chat string) (err error, had bool)

	// mu guards the fields below.
	mu      sync.Mutex
	notes   map[string][]*note
	views   map[string]transport.View // by the text they became
	n       int
	calls   []string
	changed chan struct{}
}

func newWall(t *testing.T) *wall {
	return &wall{t: t, notes: map[string][]*note{}, views: map[string]transport.View{}, changed: make(chan struct{}, 1)}
}

var _ facilitator.Screen = (*wall)(nil)

func (w *wall) Render(to chat.Address, v transport.View) ([]transport.Body, bool) {
	if to.Space != chat.Slack {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	body := transport.Body{Text: v.Text, Note: v.Note}
	if v.Note != "" {
		body.Text += "\n_" + v.Note + "_"
	}
	for _, b := range v.Buttons {
		if len(b.Value) > 48 || b.Label == "" {
			w.t.Errorf("a button %+v", b)
		}
		body.Extra = append(body.Extra, b.Value+"="+b.Label+"\n"...)
	}
	return []transport.Body{body}, true
}

func buttons(extra []byte) (out []transport.Button) {
	for line := range strings.Lines(string(extra)) {
		value, label, _ := strings.Cut(strings.TrimSpace(line), "=")
		out = append(out, transport.Button{Label: label, Value: value})
	}
	return out
}

// call makes a call, with the fault there is for it.
func (w *wall) call(method string, to chat.Address, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}()
	w.calls = append(w.calls, method+" "+to.ID)
	if w.fault != nil {
		if err, had := w.fault(method, to.ID); err != nil {
			if had {
				do()
			}
			return err
		}
	}
	return do()
}

func (w *wall) find(to chat.Address, id string) (*note, error) {
	for _, n := range w.notes[to.ID] {
		if n.id == id {
			return n, nil
		}
	}
	return nil, &transport.SendError{Fault: transport.Gone, Err: errors.New("no such message")}
}

func (w *wall) Post(_ context.Context, to chat.Address, m transport.Outgoing) (id string, err error) {
	err = w.call("post", to, func() error {
		w.n++
		id = fmt.Sprint(w.n)
		w.notes[to.ID] = append(w.notes[to.ID], &note{id: id, text: m.Body.Text, mark: m.Mark.Part, buttons: buttons(m.Body.Extra), repeat: m.Repeat})
		return nil
	})
	return id, err
}

func (w *wall) Edit(_ context.Context, to chat.Address, id string, m transport.Outgoing) error {
	return w.call("edit", to, func() error {
		n, err := w.find(to, id)
		if err != nil {
			return err
		}
		n.text, n.buttons, n.repeat = m.Body.Text, buttons(m.Body.Extra), m.Repeat
		return nil
	})
}

func (w *wall) Find(_ context.Context, to chat.Address, m transport.Mark, _ time.Time) (id string, err error) {
	err = w.call("find", to, func() error {
		if w.blind {
			return transport.ErrCannotTell
		}
		for _, n := range w.notes[to.ID] {
			if n.mark == m.Part {
				id = n.id
				return nil
			}
		}
		return transport.ErrNotThere
	})
	return id, err
}

func (w *wall) Pin(_ context.Context, to chat.Address, id string) error {
	return w.call("pin", to, func() error {
		n, err := w.find(to, id)
		if err != nil {
			return err
		}
		n.pinned = true
		return nil
	})
}

// shown is what people see in a chat.
func (w *wall) shown(id string) (out []note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notes[id] {
		out = append(out, *n)
	}
	return out
}

// take removes a message, as a person may.
func (w *wall) take(id string, i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[id] = append(w.notes[id][:i:i], w.notes[id][i+1:]...)
}

// faults decides what becomes of calls from now on.
func (w *wall) faults(f func(method, chat string) (error, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// until waits until a chat looks as it should.
func (w *wall) until(what string, ok func() bool) {
	w.t.Helper()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-w.changed:
		case <-limit:
			w.mu.Lock()
			defer w.mu.Unlock()
			var all []string
			for id, notes := range w.notes {
				for _, n := range notes {
					all = append(all, fmt.Sprintf("%s: %+v", id, *n))
				}
			}
			w.t.Fatalf("never: %s; there is\n%s\ncalls %v", what, strings.Join(all, "\n"), w.calls)
		}
	}
}
