package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// all feeds lines to a new state and draws the events.
func all(t *testing.T, setup agentcli.Setup, lines ...string) (got []string) {
	t.Helper()
	s := newState(setup)
	for _, l := range lines {
		m, ok := parse([]byte(l))
		if !ok {
			continue
		}
		for _, e := range s.take(m).events {
			got = append(got, drawn(e))
		}
	}
	return got
}

func delta(text, parent string) string {
	return fmt.Sprintf(`{"type":"stream_event","parent_tool_use_id":%q,"event":{"type":"content_block_delta","delta":{"type":"text_delta","text":%q}}}`, parent, text)
}

func whole(text, parent string) string {
	return fmt.Sprintf(`{"type":"assistant","parent_tool_use_id":%q,"message":{"content":[{"type":"text","text":%q}]}}`, parent, text)
}

const start = `{"type":"stream_event","event":{"type":"message_start"}}`

func TestPiecesAndTheWhole(t *testing.T) {
	thinking := `{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}}`
	thought := `{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]}}`
	for name, c := range map[string]struct{ lines, want []string }{
		"pieces, then the whole": {[]string{start, delta("a", ""), delta("b", ""), whole("ab", ""), start}, []string{`delta text="a"`, `delta text="b"`, `text text="ab"`}},
		"begun anew":             {[]string{start, delta("a", ""), start, delta("c", ""), whole("c", "")}, []string{`delta text="a"`, `text`, `delta text="c"`, `text text="c"`}},
		"a sub-agent beside": {[]string{start, delta("a", ""), delta("x", "t1"), whole("x", "t1"), whole("a", "")},
			[]string{`delta text="a"`, `delta parent="t1" text="x"`, `text parent="t1" text="x"`, `text text="a"`}},
		"thoughts once":     {[]string{start, thinking, thought, thought}, []string{`thought text="hm"`, `thought text="hm"`}},
		"nothing in pieces": {[]string{start, delta("", ""), start}, nil},
	} {
		if diff := cmp.Diff(c.want, all(t, agentcli.Setup{}, c.lines...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCompaction(t *testing.T) {
	got := all(t, agentcli.Setup{},
		`{"type":"system","subtype":"status","status":"compacting"}`,
		`{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":123}}`,
		`{"type":"system","subtype":"compact_boundary"}`,
		`{"type":"system","subtype":"status","status":null,"compact_result":"failed","compact_error":"why\nmore"}`)
	want := []string{
		`notice text="Claude is summarising the conversation to make room."`,
		`notice text="The conversation was summarised to make room (it had 123 tokens)."`,
		`notice text="The conversation was summarised to make room."`,
		`notice text="The conversation could not be summarised: why"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

func TestFailures(t *testing.T) {
	for line, want := range map[string]string{
		`{"result":"API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"}`: "The API answered 529: Overloaded",
		`{"result":"API Error: 500 oops","api_error_status":500}`:                                                               "The API answered 500: oops",
		`{"result":"API Error: gone","api_error_status":502}`:                                                                   "The API answered 502: gone",
		`{"result":"Failed to authenticate. API Error: 401 bad key"}`:                                                           "The API answered 401: bad key",
		`{"result":"API Error: no net"}`:                                                                                        "The API failed: no net",
		`{"result":"Not logged in · Please run /login"}`:                                                                        "Claude Code is not logged in: run it once on this machine and log in, or give it ANTHROPIC_API_KEY.",
		`{"result":"Credit balance is too low"}`:                                                                                "Credit balance is too low",
		`{"subtype":"error_max_turns","errors":["[ede_diagnostic] x","Reached the limit"]}`:                                     "Reached the limit",
		`{"subtype":"error_max_turns","errors":["[ede_diagnostic] x"]}`:                                                         "Claude ended the turn without an answer (error_max_turns).",
		`{"result":"` + strings.Repeat("é", 200) + `"}`:                                                                         strings.Repeat("é", 150) + "…",
	} {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if got := failure(m); got != want {
			t.Errorf("failure of %s = %q, want %q", line, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	c := &Claude{}
	for stderr, want := range map[string]struct {
		text string
		lost bool
	}{
		"":          {"", false},
		"warning\n": {"", false},
		"x\nNo conversation found with session ID: y\n":  {forgotten, true},
		"Error: Session ID 1 is already in use.\n":       {"The session's id is in use by another process of Claude.", false},
		"warning\nError: something else\n":               {"Claude Code ended: something else", false},
		"error: unknown option '--input-format'\n":       {"Claude Code could not be started so: unknown option '--input-format'", false},
		"--dangerously… cannot be used with root/sudo …": {"Claude refuses to run as root with its permission checks off.", false},
	} {
		if text, lost := c.Explain(stderr); text != want.text || lost != want.lost {
			t.Errorf("Explain(%q) = %q, %v; want %q, %v", stderr, text, lost, want.text, want.lost)
		}
	}
}

func TestUsageIsADifference(t *testing.T) {
	result := func(cost float64, in, out int64, more string) string {
		return fmt.Sprintf(`{"type":"result","subtype":"success","duration_ms":1500,"total_cost_usd":%g,"usage":{"input_tokens":1,"output_tokens":2},"modelUsage":{"m":{"inputTokens":%d,"outputTokens":%d,"contextWindow":9}%s}}`, cost, in, out, more)
	}
	s := newState(agentcli.Setup{})
	usage := func(line string) agentcli.Usage {
		m, _ := parse([]byte(line))
		events := s.take(m).events
		return *events[len(events)-1].Usage
	}
	s.model = "m"
	for i, c := range []struct {
		line string
		want agentcli.Usage
	}{
		{result(1, 10, 20, ""), agentcli.Usage{Model: "m", Input: 10, Output: 20, Cost: 1, Took: 1500 * time.Millisecond, Window: 9}},
		{result(1.5, 15, 22, ""), agentcli.Usage{Model: "m", Input: 5, Output: 2, Cost: .5, Took: 1500 * time.Millisecond, Window: 9}},
		{result(2, 15, 22, `,"small":{"inputTokens":3,"outputTokens":4,"contextWindow":1}`), agentcli.Usage{Model: "m", Input: 3, Output: 4, Cost: .5, Took: 1500 * time.Millisecond, Window: 9}},
		{result(.25, 1, 1, ""), agentcli.Usage{Model: "m", Input: 1, Output: 1, Cost: .25, Took: 1500 * time.Millisecond, Window: 9}}, // begun again
		{`{"type":"result","subtype":"success","usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}}`,
			agentcli.Usage{Model: "m", Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}},
	} {
		if diff := cmp.Diff(c.want, usage(c.line)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", i, diff)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name, input string
		want        agentcli.Tool
	}{
		{"Bash", `{"command":"ls"}`, agentcli.Tool{What: agentcli.Execute, Command: "ls"}},
		{"Bash", `{"command":7}`, agentcli.Tool{What: agentcli.Execute}},
		{"Read", `{"file_path":"/a"}`, agentcli.Tool{What: agentcli.Read, Paths: []string{"/a"}}},
		{"Grep", `{"pattern":"x"}`, agentcli.Tool{What: agentcli.Read}},
		{"Grep", `{"pattern":"x","path":"sub"}`, agentcli.Tool{What: agentcli.Read, Paths: []string{"sub"}}},
		{"Glob", `{"pattern":"*.go"}`, agentcli.Tool{What: agentcli.Read}},
		{"Glob", `{"pattern":"/etc/ssh/*.pub","path":"sub"}`, agentcli.Tool{What: agentcli.Read, Paths: []string{"/etc/ssh"}}},
		{"Glob", `{"pattern":"../x/**","path":"sub"}`, agentcli.Tool{What: agentcli.Read, Paths: []string{"x"}}},
		{"Glob", `{"pattern":"../../**"}`, agentcli.Tool{What: agentcli.Read, Paths: []string{"../.."}}},
		{"NotebookEdit", `{"notebook_path":"/n"}`, agentcli.Tool{What: agentcli.Edit, Paths: []string{"/n"}}},
		{"MultiEdit", `{"file_path":"m"}`, agentcli.Tool{What: agentcli.Edit, Paths: []string{"m"}}},
		{"WebSearch", `{"query":"q"}`, agentcli.Tool{What: agentcli.Fetch}},
		{"mcp__files__get", `{"where":"/etc/passwd","n":3,"text":"no/path"}`, agentcli.Tool{What: agentcli.Other, Paths: []string{"/etc/passwd"}}},
		{"Agent", `{"prompt":"/a long\ntext"}`, agentcli.Tool{What: agentcli.Other}},
	} {
		got := describe("t", c.name, json.RawMessage(c.input))
		c.want.ID, c.want.Name, c.want.Input = "t", c.name, json.RawMessage(c.input)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.name, c.input, diff)
		}
	}
	for _, odd := range []string{`null`, `"x"`, `[1]`, ``, `{`} {
		if got := describe("t", "Read", json.RawMessage(odd)); string(got.Input) != "{}" {
			t.Errorf("input %q becomes %s, want {}", odd, got.Input)
		}
	}
}

func TestOutside(t *testing.T) {
	root := t.TempDir()
	work, notes := filepath.Join(root, "work"), filepath.Join(root, "notes")
	for _, d := range []string{work, notes, filepath.Join(work, "sub")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"away": notes, "lost": filepath.Join(root, "nothing"), "near": filepath.Join(work, "sub")} {
		if err := os.Symlink(to, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		tool, path string
		want       bool
	}{
		{"Write", "a", false},
		{"Write", filepath.Join(work, "new", "deep", "a"), false},
		{"Write", "near/a", false},
		{"Write", ".", false},
		{"Write", "..a", false},
		{"Write", "../" + filepath.Base(work) + "/a", false},
		{"Write", "../a", true},
		{"Write", "sub/../../a", true},
		{"Write", "away/a", true},
		{"Write", "lost", true},
		{"Write", "~/a", true},
		{"Write", filepath.Join(notes, "a"), true},
		{"Write", work + "-other/a", true},
		{"Write", ".git/hooks/pre-commit", true},
		{"Write", "sub/.GIT/config", true},
		{"Write", ".claude/settings.json", true},
		{"Write", ".mcp.json", true},
		{"Write", ".gitignore", false},
		{"Read", ".git/config", false},
		{"Read", filepath.Join(notes, "a"), false},
		{"Read", "/etc/passwd", true},
		{"Read", "away/../../a", true},
	} {
		tool := describe("t", c.tool, json.RawMessage(fmt.Sprintf(`{"file_path":%q}`, c.path)))
		if got := agentcli.Outside(tool, work, []string{notes}); got != c.want {
			t.Errorf("%s %s: outside %v, want %v", c.tool, c.path, got, c.want)
		}
	}
	flagged := all(t, agentcli.Setup{WorkDir: work}, `{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"file_path":"a"},"decision_reason_type":"safetyCheck","tool_use_id":"t"}}`)
	if !strings.Contains(flagged[0], " outside") || strings.Contains(flagged[0], "always") {
		t.Errorf("what Claude itself flags is %s, want outside and not always", flagged[0])
	}
}

// TestOddLines: whatever is printed beside the protocol is passed over.
func TestOddLines(t *testing.T) {
	long := `{"type":"assistant","message":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}}`
	lines := []string{
		"", "   ", "not json", "\x00\x01", "[1]", "7", `"x"`, `{"type":`, `{"type":7}`, `{}`, `{"type":"never seen","x":{"y":[1]}}`,
		`{"type":"system","subtype":"never seen"}`, `{"type":"assistant"}`, `{"type":"assistant","message":7}`, `{"type":"assistant","message":{"content":[7,{"type":"text","text":"odd"}]}}`,
		`{"type":"user","message":{"content":null},"isReplay":true}`, `{"type":"result"}`, "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}}",
		strings.Repeat(`{"type":`, 20000), `{"type":"user","session_id":9,"uuid":null,"message":{"content":"x"}}`, long,
		`{"type":"control_request","request_id":7,"request":"x"}`, `{"type":"control_response","response":[]}`,
	}
	var got []string
	a := newAgent(agentcli.Setup{}, agentcli.Pipes{In: &bytes.Buffer{}, Out: iotest.OneByteReader(strings.NewReader(strings.Join(lines[:20], "\n") + "\n"))})
	if err := a.Read(func(e agentcli.Event) { got = append(got, drawn(e)) }); err != nil {
		t.Fatal(err)
	}
	a = newAgent(agentcli.Setup{}, agentcli.Pipes{In: &bytes.Buffer{}, Out: strings.NewReader(strings.Join(lines[20:], "\r\n"))})
	if err := a.Read(func(e agentcli.Event) { got = append(got, drawn(e)) }); err != nil {
		t.Fatal(err)
	}
	want := []string{`text text="odd"`, `result  0/0/0/0 $0.0000 0s of 0`, `text text="�"`, `text text="` + strings.Repeat("x", 150) + `…"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAHundredMegabytes is a line that no reader with a limit would take.
func TestAHundredMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes memory")
	}
	size := 100 << 20
	if detector {
		size = 8 << 20 // the detector makes it take minutes
	}
	head, tail := `{"type":"assistant","message":{"content":[{"type":"text","text":"`, `"}]}}`+"\n"
	in := bytes.NewBuffer(make([]byte, 0, size+200))
	in.WriteString(head)
	in.Write(bytes.Repeat([]byte("x"), size))
	in.WriteString(tail + initLine + "\n")
	a := newAgent(agentcli.Setup{}, agentcli.Pipes{In: &bytes.Buffer{}, Out: in})
	var kinds []agentcli.Kind
	if err := a.Read(func(e agentcli.Event) {
		kinds = append(kinds, e.Kind)
		if e.Kind == agentcli.Text && len(e.Text) != size {
			t.Errorf("text of %d bytes, want %d", len(e.Text), size)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agentcli.Kind{agentcli.Text, agentcli.Session}, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestReadTellsABrokenPipe(t *testing.T) {
	bad := errors.New("bad")
	a := newAgent(agentcli.Setup{}, agentcli.Pipes{In: &bytes.Buffer{}, Out: iotest.ErrReader(bad)})
	if err := a.Read(func(agentcli.Event) {}); !errors.Is(err, bad) {
		t.Errorf("Read: %v, want %v", err, bad)
	}
}

// FuzzLines reads anything as a process's output, after the recorded ones.
func FuzzLines(f *testing.F) {
	files, _ := filepath.Glob("testdata/claude-*.txt")
	for _, file := range files {
		_, cases := recorded(f, file)
		for _, c := range cases {
			var lines []byte
			for _, e := range c {
				if e.mark == "<-" && len(e.text) < 900 && len(lines) < 4000 {
					lines = append(append(lines, e.text...), '\n')
				}
			}
			f.Add(lines)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := newAgent(agentcli.Setup{WorkDir: "/home/user/project", Session: "s"}, agentcli.Pipes{In: &bytes.Buffer{}, Out: bytes.NewReader(data)})
		a.state.sent = []string{"aaaaaaaa-1111-4222-8333-444444444444"}
		open := map[string]bool{}
		answered := map[string]bool{}
		if err := a.Read(func(e agentcli.Event) {
			switch e.Kind {
			case agentcli.Permission, agentcli.Question, agentcli.Plan:
				open[e.ID] = true
				for _, ans := range []agentcli.Answer{{ID: e.ID, Allow: true, Always: true}, {ID: e.ID}} {
					d, err := json.Marshal(verdict(a.state.open[e.ID], ans))
					if err != nil {
						t.Fatalf("the answer to %+v: %v", e, err)
					}
					if ans.Allow && !bytes.Contains(d, []byte(`"updatedInput":{`)) || !ans.Allow && !bytes.Contains(d, []byte(`"message":"`)) {
						t.Fatalf("the answer to %+v is %s", e, d)
					}
				}
			case agentcli.Withdrawn:
				if !open[e.ID] {
					t.Fatalf("%q is withdrawn and was not asked", e.ID)
				}
				delete(open, e.ID)
			case agentcli.Result:
				for _, id := range e.Prompts {
					if answered[id] {
						t.Fatalf("%q is answered twice", id)
					}
					answered[id] = true
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if len(open) > 0 {
			t.Fatalf("still open at the end: %v", open)
		}
	})
}
