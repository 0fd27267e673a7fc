package pi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

var update = flag.Bool("update", false, "write the golden files anew")

var recorded = regexp.MustCompile(`^ *\d+ (->|<-|e-|!!) (.*)$`)

// TestReplay plays the recorded conversations through the protocol: what was sent
// is sent again, what Pi said is heard, and the events are those on file.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/pi-*.txt")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got := replay(t, file)
			golden := strings.TrimSuffix(file, ".txt") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the events differ (go test -update writes them anew):\n%s", diff)
			}
		})
	}
}

func replay(t *testing.T, file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := newState()
	s.now = func() time.Time { return time.Unix(0, 0) }
	var b strings.Builder
	for _, row := range strings.Split(string(data), "\n") {
		m := recorded.FindStringSubmatch(row)
		if m == nil {
			continue
		}
		switch m[1] {
		case "->":
			resend(t, s, m[2])
			fmt.Fprintf(&b, "> %.100s\n", m[2])
		case "<-":
			l, err := parse([]byte(m[2]))
			if err == nil {
				s.hear(l)
			} else if err != errSkip {
				t.Errorf("%.200s: %v", m[2], err)
			}
		}
		settled := false
		for _, c := range s.out {
			if c, ok := c.(command); ok && c.ID == idSettle {
				settled = true
			}
		}
		draw(&b, s)
		if settled { // the client of the recording did not ask
			s.hear(line{Type: "response", ID: idSettle, Command: "get_state", Success: true, Data: json.RawMessage(`{}`)})
			draw(&b, s)
		}
	}
	return b.String()
}

// resend does what a client did.
func resend(t *testing.T, s *state, sent string) {
	var c struct {
		Type, ID, Message string
		Confirmed         bool
	}
	if err := json.Unmarshal([]byte(sent), &c); err != nil {
		return // the line that is not JSON
	}
	switch c.Type {
	case "prompt":
		s.prompt(agentcli.Prompt{ID: c.ID, Text: c.Message})
	case "abort":
		s.interrupt()
	case "extension_ui_response":
		q := s.asks[c.ID].question
		pick := "Yes"
		if !c.Confirmed {
			pick = no
		}
		s.answer(agentcli.Answer{ID: c.ID, Allow: true, Picked: map[string]string{q: pick}})
	}
}

// draw writes what the state has to say; pieces of a text one after another.
func draw(b *strings.Builder, s *state) {
	for _, e := range s.events {
		data, _ := json.Marshal(e.Tool)
		if e.Tool.Name == "" {
			data = nil
		}
		fmt.Fprintf(b, "  %s id=%q text=%.80q", e.Kind, e.ID, e.Text)
		if data != nil {
			fmt.Fprintf(b, " tool=%s", data)
		}
		if e.Choices != nil {
			fmt.Fprintf(b, " choices=%+v", e.Choices)
		}
		if e.Kind == agentcli.Result {
			fmt.Fprintf(b, " prompts=%q failure=%q reason=%q interrupted=%v usage=%+v", e.Prompts, e.Failure, e.Reason, e.Interrupted, e.Usage)
		}
		b.WriteByte('\n')
	}
	for _, c := range s.out {
		data, _ := json.Marshal(c)
		fmt.Fprintf(b, "  ! %.200s\n", data)
	}
	s.events, s.out = nil, nil
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want line
	}{
		"separators are letters":    {`{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"a` + "\u2028" + `b","partial":{`, line{Type: "message_update", Piece: piece{Type: "text_delta", Delta: "a\u2028b"}}},
		"the rest is not read":      {`{"type":"message_update","assistantMessageEvent":{"type":"text_end","contentIndex":0,"content":"whole","partial":`, line{Type: "message_update", Piece: piece{Type: "text_end", Content: "whole"}}},
		"another order":             {`{"message":{"a":1},"assistantMessageEvent":{"partial":{"x":[1]},"delta":"d","type":"text_delta"},"type":"message_update"}`, line{Type: "message_update", Piece: piece{Type: "text_delta", Delta: "d"}}},
		"a message that is a text":  {`{"type":"message_end","message":{"role":"user","content":"plain"}}`, line{Type: "message_end", Message: message{Role: "user", Content: parts{{"text", "plain"}}}}},
		"a question":                {`{"type":"extension_ui_request","id":"1","method":"confirm","title":"t","message":"m"}`, line{Type: "extension_ui_request", ID: "1", Method: "confirm", Title: "t", Ask: "m"}},
		"an end without its talk":   {`{"type":"agent_end","messages":[`, line{Type: "agent_end"}},
		"a carriage return is fine": {`{"type":"agent_start"}` + "\r\n", line{Type: "agent_start"}},
	} {
		got, err := parse([]byte(c.line))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(line{}, part{}, piece{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, in := range map[string]string{"no JSON": "garbage", "no object": `[1]`, "cut": `{"type":"response","id":`, "nothing": "", "a list for a type": `{"type":[]}`} {
		if l, err := parse([]byte(in)); err == nil || err == errSkip {
			t.Errorf("%s is read as %+v, %v", name, l, err)
		}
	}
	for _, in := range []string{`{"type":"turn_end","message":7}`, `{"type":"new_in_some_version"}`, `{}`, `{"type":"message_update"}`} {
		if l, err := parse([]byte(in)); err != errSkip {
			t.Errorf("%s is read as %+v, %v", in, l, err)
		}
	}
}

// TestLongAnswerIsCheap: a piece costs the same whatever stands before it.
func TestLongAnswerIsCheap(t *testing.T) {
	long := []byte(`{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"x","partial":{"text":"` + strings.Repeat("y", 8<<20) + `"}}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if l, err := parse(long); err != nil || l.Piece.Delta != "x" {
		t.Fatal(l, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("a piece after 8 MiB of text costs %d bytes", n)
	}
}

func TestTool(t *testing.T) {
	for in, want := range map[string]agentcli.Tool{
		`bash {"command":"ls"}`:             {What: agentcli.Execute, Command: "ls"},
		`read {"path":"a"}`:                 {What: agentcli.Read, Paths: []string{"a"}},
		`ls {}`:                             {What: agentcli.Read, Paths: []string{"."}},
		`write {"path":"@/etc/passwd"}`:     {What: agentcli.Edit, Paths: []string{"/etc/passwd"}},
		`edit {"path":"~/x"}`:               {What: agentcli.Edit, Paths: []string{"~/x"}, Outside: true},
		`edit {"path":"@~/x"}`:              {What: agentcli.Edit, Paths: []string{"~/x"}, Outside: true},
		"write {\"path\":\"a\u00a0b\"}":     {What: agentcli.Edit, Paths: []string{"a b"}},
		`web {"path":"a"}`:                  {What: agentcli.Other},
		`bash {"command":["not","a text"]}`: {What: agentcli.Other},
	} {
		name, input, _ := strings.Cut(in, " ")
		got := tool("1", name, json.RawMessage(input))
		want.ID, want.Name, want.Input = "1", name, json.RawMessage(input)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/pi-*.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, row := range strings.Split(string(data), "\n") {
			if m := recorded.FindStringSubmatch(row); m != nil && m[1] == "<-" && len(m[2]) < 2000 {
				f.Add([]byte(m[2]))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newState()
		s.prompt(agentcli.Prompt{ID: "p"})
		for _, row := range bytes.Split(data, []byte("\n")) {
			if l, err := parse(row); err == nil {
				s.hear(l)
			}
		}
		s.interrupt()
		for _, c := range s.out {
			if _, err := json.Marshal(c); err != nil {
				t.Errorf("%+v cannot be said: %v", c, err)
			}
		}
	})
}
