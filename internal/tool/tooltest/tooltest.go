// Package tooltest is the suite every tool passes.
package tooltest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

// A Subject is a tool and calls that show what it is like. Empty ones are not
// tried.
type Subject struct {
	Tool tool.Tool
	// Good is a call that works, as often as it is made.
	Good string
	// Big is a call whose result has to be cut.
	Big string
	// Long is a call that would take minutes.
	Long string
}

// Call makes a call as a turn in the conversation SESSION-tooltest would.
func Call(args string) tool.Call {
	return tool.Call{
		ID:   "call-1",
		Args: json.RawMessage(args),
		Request: turn.Request{
			ID:           turn.NewID(),
			Conversation: chat.Address{Space: chat.Session, ID: "tooltest"},
			Message:      chat.Message{ID: "1", From: chat.Person{ID: "U1"}},
			Origin:       turn.FromAPI,
			Started:      time.Now(),
			Attempt:      1,
		},
		Emit:   func(turn.Event) error { return nil },
		Images: true,
	}
}

// Run runs the suite.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Run("Spec", func(t *testing.T) { spec(t, open(t)) })
	t.Run("BadArguments", func(t *testing.T) { badArguments(t, open(t)) })
	t.Run("ContextDone", func(t *testing.T) { contextDone(t, open(t)) })
	t.Run("Bounded", func(t *testing.T) { bounded(t, open(t)) })
	t.Run("Concurrent", func(t *testing.T) { concurrent(t, open(t)) })
}

// schema is what the suite reads of a tool's schema.
type schema struct {
	Type       string
	Properties map[string]struct{ Type, Description string }
	Required   []string
}

func read(t *testing.T, s Subject) schema {
	t.Helper()
	var got schema
	if err := json.Unmarshal(s.Tool.Spec().Schema, &got); err != nil {
		t.Fatalf("schema: %v", err)
	}
	return got
}

func spec(t *testing.T, s Subject) {
	spec, schema := s.Tool.Spec(), read(t, s)
	if spec.Name == "" || len(spec.Name) > 128 || strings.Trim(spec.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		t.Errorf("name %q", spec.Name)
	}
	if strings.TrimSpace(spec.Description) == "" || !utf8.ValidString(spec.Description) {
		t.Errorf("description %q", spec.Description)
	}
	if schema.Type != "object" {
		t.Errorf("schema is of type %q", schema.Type)
	}
	for _, name := range schema.Required {
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("required %q has no property", name)
		}
	}
}

// badArguments leaves out each required argument and gives each a wrong type.
func badArguments(t *testing.T, s Subject) {
	schema := read(t, s)
	for _, args := range []string{"", "null", "[]", "{", `"text"`, "7"} {
		if r := s.Tool.Call(t.Context(), Call(args)); !r.IsError || r.Text == "" {
			t.Errorf("arguments %s: %+v, want an error with a text", args, r)
		}
	}
	good := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(s.Good), &good); err != nil {
		t.Fatalf("the good call: %v", err)
	}
	try := func(name string, value any) {
		t.Helper()
		args := map[string]any{}
		for k, v := range good {
			args[k] = v
		}
		delete(args, name)
		if value != nil {
			args[name] = value
		}
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Tool.Call(t.Context(), Call(string(text))); !r.IsError || !strings.Contains(r.Text, name) {
			t.Errorf("with %s = %v: %+v, want an error that names it", name, value, r)
		}
	}
	for _, name := range schema.Required {
		try(name, nil)
	}
	for name := range schema.Properties {
		try(name, map[string]any{"not": "that"})
	}
}

// contextDone calls with a context that has ended, and ends one during a call.
func contextDone(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := s.Tool.Call(ctx, Call(s.Good)); !r.IsError || !strings.Contains(strings.ToLower(r.Text), "aborted") {
		t.Errorf("after the end: %+v, want an error that says it was aborted", r)
	}
	if s.Long == "" {
		return
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	r := s.Tool.Call(ctx, Call(s.Long))
	if !r.IsError || !strings.Contains(strings.ToLower(r.Text), "aborted") || time.Since(began) > 20*time.Second {
		t.Errorf("aborted after %v: %+v", time.Since(began), r)
	}
}

func bounded(t *testing.T, s Subject) {
	for _, args := range []string{s.Good, s.Big} {
		if args == "" {
			continue
		}
		r := s.Tool.Call(t.Context(), Call(args))
		if len(r.Text) > tool.MaxBytes+2000 || strings.Count(r.Text, "\n") > tool.MaxLines+20 || !utf8.ValidString(r.Text) {
			t.Errorf("%.60s: %d bytes, %d lines, valid %v", args, len(r.Text), strings.Count(r.Text, "\n"), utf8.ValidString(r.Text))
		}
		if r.Text == "" || r.IsError {
			t.Errorf("%.60s: %+v", args, r)
		}
	}
}

func concurrent(t *testing.T, s Subject) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r := s.Tool.Call(t.Context(), Call(s.Good)); r.IsError {
				t.Errorf("%s: %+v", s.Good, r)
			}
		})
	}
	wg.Wait()
}
