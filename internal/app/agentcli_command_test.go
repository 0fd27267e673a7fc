package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/transport"
)

// line has a text acted on as a command of a session.
func (h *cliHouse) line(session, text string) (message string, ok bool) {
	h.Helper()
	var out struct {
		Command bool
		Message string
	}
	if status := h.ask("POST", "/sessions/"+session+"/command", map[string]string{"text": text}, &out); status != 200 {
		h.Errorf("%s: status %d", text, status)
	}
	return out.Message, out.Command
}

// TestCommandsOfTheDesk has every command act on a conversation with an agent
// program, in the whole server.
func TestCommandsOfTheDesk(t *testing.T) {
	h := newCLIHouse(t, "IRIS_PROVIDER=rehearsal")
	for _, dir := range []string{"web/shop", "web/shopping", "other"} {
		if err := os.MkdirAll(filepath.Join(h.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.serve(func() {
		id, native := h.session("fake"), h.session("")
		says := func(text string, parts ...string) string {
			t.Helper()
			got, ok := h.line(id, text)
			for _, p := range parts {
				if !ok || !strings.Contains(got, p) {
					t.Errorf("%s: %q, %t, want %q in it", text, got, ok, p)
				}
			}
			return got
		}
		says("/help", "/resume", "/cc:NAME", "Fake Agent")
		says("/status", "Fake Agent", "none; the next message starts one", "mode: manual")
		says("/sessions", "no sessions")
		says("/resume", "no session")
		says("/nosuch", "no command `/nosuch`")
		if _, ok := h.line(id, "/nosuch do it"); ok {
			t.Error("a message with more words was a command")
		}
		if _, ok := h.line(native, "/status"); ok {
			t.Error("a conversation of the model has commands of agent programs")
		}

		if r := h.message(id, "hello"); r.Text != "echo: hello" {
			t.Fatalf("reply %+v", r)
		}
		says("/status", "running, pid ", "session: `")
		first := says("/sessions", "this conversation", "“hello”", "1 turns")
		_, rest, _ := strings.Cut(first, "`")
		old, _, _ := strings.Cut(rest, "`")
		says("/usage", "1 turns")
		says("/mode", "**manual**")
		says("/mode ACCEPTEDITS", "**acceptEdits** now")
		says("/status", "mode: acceptEdits")
		says("/mode wild", "the modes are")
		says("/model", "model")
		says("/model m-2", "`m-2` now")
		says("/restart", "has ended")
		says("/status", "none; the next message starts one")

		says("/switch", h.dir)
		says("/switch shop", "`"+filepath.Join(h.dir, "web/shop")+"` now") // the exact name wins
		says("/switch sho", "web/shop`", "web/shopping`")
		says("/switch nowhere", "no directory")
		says("/switch ../..", "no such directory")
		says("/switch web/shopping", "web/shopping` now")
		says("/switch -", "`"+h.dir+"` now")

		if r := h.message(id, "in a new session"); r.Text != "echo: in a new session" {
			t.Fatalf("reply %+v", r)
		}
		says("/resume", old, "“hello”")
		says("/resume "+old[:8], old)
		says("/status", "`"+old+"`")
		says("/resume 00000000", "no such session")
		says("/clear", "cleared")
		says("/status", "session: none yet")

		// What another conversation has open is not taken from it.
		other := h.session("fake")
		h.message(other, "mine")
		list, _ := h.line(other, "/sessions")
		_, rest, _ = strings.Cut(list, "`")
		theirs, _, _ := strings.Cut(rest, "`")
		says("/resume "+theirs, "another conversation has this session")

		if r := h.message(id, "/cc:review it"); r.Text != "echo: /review it" {
			t.Errorf("/cc: %+v", r)
		}
		if r := h.message(id, "/summary the risks"); !strings.Contains(r.Text, "hand-over") || !strings.Contains(r.Text, "the risks") {
			t.Errorf("/summary: %+v", r)
		}
	})
}

// TestOnlyApproversLoosenTheMode: who may not answer a question may not make the
// questions go away.
func TestOnlyApproversLoosenTheMode(t *testing.T) {
	h := newCLIHouse(t, "IRIS_PROVIDER=rehearsal")
	h.serve(func() {
		r := h.s.house.cli.Runner("fake")
		conv := chat.Address{Space: chat.Slack, ID: "C1"}
		act := func(may bool, mode string) error {
			_, err := (cliDesk{r: r, conv: conv, may: may}).act(t.Context(), transport.Mode, mode)
			return err
		}
		if err := act(false, "auto"); err == nil {
			t.Error("somebody who may not approve switched the questions off")
		}
		if err := act(true, "auto"); err != nil {
			t.Error(err)
		}
		if err := act(false, "manual"); err != nil {
			t.Errorf("asking more: %v", err)
		}
		if st, err := r.Status(conv); err != nil || st.Mode != agentcli.Manual {
			t.Errorf("Status = %+v, %v", st, err)
		}
	})
}

// TestCommandsAreLoggedByName: the log has the name of a command and nothing that
// came with it.
func TestCommandsAreLoggedByName(t *testing.T) {
	h := newCLIHouse(t, "IRIS_PROVIDER=rehearsal")
	var log bytes.Buffer
	h.log = &log
	h.serve(func() { h.line(h.session("fake"), "/resume CANARY-ARGUMENT") })
	if s := log.String(); !strings.Contains(s, "resume") || strings.Contains(s, "CANARY") {
		t.Errorf("the log:\n%s", s)
	}
}

func TestQuoted(t *testing.T) {
	if got := quoted("a  `b`\n*c* <!channel> " + strings.Repeat("x", 100)); strings.ContainsAny(got, "`*<>\n") || len([]rune(got)) > shownWords+3 {
		t.Errorf("quoted = %q", got)
	}
}
