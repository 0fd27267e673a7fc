package terminal

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

func TestReplyTo(t *testing.T) {
	tool := &turn.Ask{Tool: "Bash", Always: true}
	plain := &turn.Ask{Tool: "Bash"}
	pick := &turn.Ask{Options: []turn.Option{{Label: "Red"}}}
	for _, c := range []struct {
		ask        *turn.Ask
		line       string
		yes        bool
		choice     string
		isAnAnswer bool
	}{
		{tool, "yes", true, "", true}, {tool, "Y", true, "", true}, {tool, "no", false, "", true}, {tool, "always", true, "always", true},
		{tool, "what does it do?", true, "what does it do?", false}, {plain, "always", true, "always", false},
		{pick, "1", true, "1", true}, {pick, "rather blue", true, "rather blue", true}, {pick, "no", false, "", true}, {pick, "yes", true, "yes", true},
	} {
		yes, choice, ok := replyTo(c.ask, c.line)
		if ok != c.isAnAnswer || ok && (yes != c.yes || choice != c.choice) {
			t.Errorf("replyTo(%+v, %q) = %t, %q, %t", c.ask, c.line, yes, choice, ok)
		}
	}
}

// TestQuestionsThatWait: a question inside of a turn shows its answers, is answered
// by what is typed, and tells how it ended.
func TestQuestionsThatWait(t *testing.T) {
	var notes bytes.Buffer
	s := &screen{out: &bytes.Buffer{}, notes: &notes, live: true}
	s.begin()
	s.draw(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "held", Text: "May I?"}})
	if s.asked() != nil {
		t.Error("a held command waits outside of its turn")
	}
	s.draw(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "1", Text: "Run it?", Command: "ls", Tool: "Bash", Always: true}})
	s.draw(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "2", Text: "Which?", Options: []turn.Option{{Label: "Red\x1b[2J", About: "warm"}, {Label: "Blue"}}}})
	if a := s.asked(); a == nil || a.ID != "1" {
		t.Errorf("asked = %+v", a)
	}
	s.draw(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "1", Outcome: "approved", By: "ann", Picked: "always"}})
	if a := s.asked(); a == nil || a.ID != "2" {
		t.Errorf("asked = %+v", a)
	}
	want := "? May I?\n? Run it?\n  ls\n  (yes, no, or always for this session)\n? Which?\n  1. Red[2J warm\n  2. Blue\n  (a number or your own words; no gives no answer)\n  approved by ann: always\n"
	if diff := cmp.Diff(want, notes.String()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if s.begin(); s.asked() != nil {
		t.Error("a question outlived its turn")
	}
}

func TestChoose(t *testing.T) {
	var got []map[string]string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b map[string]string
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil || r.URL.EscapedPath() != "/approvals/a%2Fb" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got = append(got, b)
		w.Write([]byte(`{"turn":"t"}`))
	}))
	defer srv.Close()
	c := &Client{URL: srv.URL, Token: secret.New("x"), HTTP: srv.Client()}
	for _, choice := range []string{"", "#2"} {
		if id, err := c.Choose(t.Context(), "a/b", true, choice); id != "t" || err != nil {
			t.Errorf("Choose = %q, %v", id, err)
		}
	}
	c.Choose(t.Context(), "a/b", false, "")
	want := []map[string]string{{"answer": "yes"}, {"answer": "yes", "choice": "#2"}, {"answer": "no"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}
