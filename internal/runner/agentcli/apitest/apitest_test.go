package apitest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tools = `[{"name":"Bash","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}]`

// ask is a body with one prompt.
func ask(prompt string) string {
	quoted, _ := json.Marshal(prompt)
	return fmt.Sprintf(`{"model":"m","max_tokens":100,"stream":true,"tools":%s,"messages":[{"role":"user","content":%s}]}`, tools, quoted)
}

func post(t *testing.T, ctx context.Context, s *Server, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "dummy")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// hear reads a stream: its kinds of events without repeats, and what it says.
func hear(t *testing.T, body io.Reader) (kinds []string, said string) {
	t.Helper()
	in := bufio.NewScanner(body)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string `json:"type"`
			Block struct {
				Type string `json:"type"`
				Name string `json:"name"`
			} `json:"content_block"`
			Delta struct {
				Text     string `json:"text"`
				Thinking string `json:"thinking"`
				Partial  string `json:"partial_json"`
				Stop     string `json:"stop_reason"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if e.Block.Name != "" {
			said += "[" + e.Block.Name + "]"
		}
		said += e.Delta.Text + e.Delta.Thinking + e.Delta.Partial
		if e.Delta.Stop != "" {
			said += " (" + e.Delta.Stop + ")"
		}
		if len(kinds) == 0 || kinds[len(kinds)-1] != e.Type {
			kinds = append(kinds, e.Type)
		}
	}
	return kinds, said
}

func TestWordsOfAPrompt(t *testing.T) {
	s := New(t, Options{Piece: time.Microsecond})
	s.Release()
	for prompt, want := range map[string]string{
		"hello":            "echo: hello (end_turn)",
		"please\nRUN: ls":  `running it.[Bash]{"command":"ls","description":"scripted"} (tool_use)`,
		"RUN2: a;;b":       `two commands.[Bash]{"command":"a","description":"scripted"}[Bash]{"command":"b","description":"scripted"} (tool_use)`,
		"BASHLC: x":        `lower-case bash.[bash]{"command":"x","description":"scripted"} (tool_use)`,
		"WRITE:/a/b":       `[write]{"content":"written by the fake","path":"/a/b"} (tool_use)`,
		"READ:c":           `[read]{"path":"c"} (tool_use)`,
		`TOOL:x {"a":1}`:   `[x]{"a":1} (tool_use)`,
		"TOOL:x":           `[x]{} (tool_use)`,
		"PLAN":             `[ExitPlanMode]{"plan":"do x"} (tool_use)`,
		"TASKME":           `[Agent]{"description":"sub job","prompt":"RUN: touch from-sub","subagent_type":"general-purpose"} (tool_use)`,
		"TASKME: SAY:x":    `[Agent]{"description":"sub job","prompt":"SAY:x","subagent_type":"general-purpose"} (tool_use)`,
		"THINK":            "let me think about itthought about it. (end_turn)",
		"SAY:you":          "you (end_turn)",
		"BIG:100000":       strings.Repeat("x", 100000) + " (end_turn)",
		"SLOW":             strings.Repeat("word ", slowWords) + " (end_turn)",
		"HOLD":             "holding on and released (end_turn)",
		"Command: RUN: ls": "echo: Command: RUN: ls (end_turn)",
		"PLANET":           "echo: PLANET (end_turn)",
	} {
		body := strings.Replace(ask(prompt), `"Bash"`, `"write"`, 1)
		kinds, said := hear(t, post(t, t.Context(), s, "/v1/messages?beta=true", body).Body)
		if said != want {
			t.Errorf("%q is answered %q, want %q", prompt, said, want)
		}
		if kinds[0] != "message_start" || kinds[len(kinds)-1] != "message_stop" || kinds[len(kinds)-2] != "message_delta" {
			t.Errorf("%q: the events are %v", prompt, kinds)
		}
	}
	kinds, said := hear(t, post(t, t.Context(), s, "/v1/messages", ask("CUT")).Body)
	if said != "this answer " || kinds[len(kinds)-1] != "content_block_delta" {
		t.Errorf("CUT says %q and ends with %v", said, kinds)
	}
	_, said = hear(t, post(t, t.Context(), s, "/v1/messages", strings.Replace(ask("RUN: x"), tools, "[]", 1)).Body)
	if said != "echo: RUN: x (end_turn)" {
		t.Errorf("without tools RUN says %q", said)
	}
}

func TestAfterAToolItQuotesTheResults(t *testing.T) {
	s := New(t, Options{})
	history := `{"role":"user","content":"RUN2: a;;b"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}},{"type":"tool_use","id":"t2","name":"Bash","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"two"}]}%s]}`
	body := strings.Replace(ask("x"), `{"role":"user","content":"x"}`, history, 1)
	_, said := hear(t, post(t, t.Context(), s, "/v1/messages", fmt.Sprintf(body, `,{"type":"text","text":"<system-reminder>RUN: x</system-reminder>"}`)).Body)
	if want := "FINAL after tool: OK one | ERR two (end_turn)"; said != want {
		t.Errorf("after tools it says %q, want %q", said, want)
	}
	_, said = hear(t, post(t, t.Context(), s, "/v1/messages", fmt.Sprintf(body, `,{"type":"text","text":"SAY:new"}`)).Body)
	if want := "new (end_turn)"; said != want {
		t.Errorf("after tools and a new prompt it says %q, want %q", said, want)
	}
	r := s.Requests()[0]
	if diff := cmp.Diff([]Result{{ID: "t1", Text: "one"}, {ID: "t2", Text: "two", Failed: true}}, r.Results); diff != "" || r.Turns != 3 || r.Key != "dummy" {
		t.Errorf("the log says %+v: %s", r, diff)
	}
}

func TestErrors(t *testing.T) {
	s := New(t, Options{})
	for _, c := range []struct {
		prompt string
		status int
		kind   string
	}{{"ERR401", 401, "authentication_error"}, {"ERR500", 500, "api_error"}, {"ERR529", 529, "overloaded_error"}, {"ERR529*1", 529, "overloaded_error"}, {"ERR529*1", 200, ""}} {
		res := post(t, t.Context(), s, "/v1/messages", ask(c.prompt))
		data, _ := io.ReadAll(res.Body)
		if res.StatusCode != c.status || !strings.Contains(string(data), c.kind) || res.Header.Get("Request-Id") == "" {
			t.Errorf("%s is answered %d %s", c.prompt, res.StatusCode, data)
		}
	}
}

func TestOtherRequests(t *testing.T) {
	s := New(t, Options{})
	res := post(t, t.Context(), s, "/v1/messages/count_tokens?beta=true", `{}`)
	if data, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(data) != "{\"input_tokens\":1}\n" {
		t.Errorf("count_tokens is answered %d %s", res.StatusCode, data)
	}
	for _, path := range []string{"/", "/v1beta/models/x"} {
		if res := post(t, t.Context(), s, path, ""); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered %d", path, res.StatusCode)
		}
	}
	data, _ := io.ReadAll(post(t, t.Context(), s, "/v1/messages", strings.Replace(ask("THINK"), `"stream":true,`, "", 1)).Body)
	if !strings.Contains(string(data), `"thought about it."`) || !strings.Contains(string(data), `"end_turn"`) {
		t.Errorf("without a stream it says %s", data)
	}
}

func TestSeesTheClientHangUp(t *testing.T) {
	s := New(t, Options{})
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	res := post(t, ctx, s, "/v1/messages", ask("HOLD the line"))
	if n, err := res.Body.Read(make([]byte, 1)); n != 1 {
		t.Fatalf("the answer does not begin: %v", err)
	}
	if r := s.AwaitText(t, "HOLD"); r.Aborted || r.Done {
		t.Errorf("the request is over before the client hangs up: %+v", r)
	}
	hangUp()
	if r := s.AwaitAbort(t, "HOLD"); r.Number != 1 {
		t.Errorf("aborted is %+v", r)
	}
	if log := s.Log(); !strings.Contains(log, `text="HOLD the line"`) || !strings.Contains(log, "aborted=true") {
		t.Errorf("the log is %s", log)
	}
}

// TestRefusesWhatTheApiRefuses: a history that would brick a conversation is a
// failing test.
func TestRefusesWhatTheApiRefuses(t *testing.T) {
	s := New(t, Options{Lenient: true})
	user := `{"role":"user","content":"x"}`
	use := `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}`
	with := func(messages string) string { return strings.Replace(ask("x"), user, messages, 1) }
	marked := strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, 5)
	for name, c := range map[string]struct{ body, want string }{
		"no JSON":          {`{`, "no JSON"},
		"no model":         {strings.Replace(ask("x"), `"m"`, `""`, 1), "model"},
		"no max":           {strings.Replace(ask("x"), `100`, `0`, 1), "max_tokens"},
		"thinking budget":  {strings.Replace(ask("x"), `"stream"`, `"thinking":{"type":"enabled","budget_tokens":2000},"stream"`, 1), "budget"},
		"no messages":      {with(""), "at least one"},
		"assistant first":  {with(use), "first message"},
		"empty text":       {ask("  "), "non-empty"},
		"empty content":    {with(`{"role":"user","content":[]}`), "empty"},
		"role":             {with(user + `,{"role":"system","content":"x"}`), "role"},
		"no answer":        {with(user + "," + use), "without `tool_result`"},
		"no answer inside": {with(user + "," + use + "," + user + "," + strings.Replace(use, "t1", "t2", 1)), "without `tool_result`"},
		"stray answer":     {with(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t9","content":"x"}]}`), "unexpected tool_use_id"},
		"same id":          {with(user + "," + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]},` + use), "wrong role, id"},
		"image":            {with(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/svg+xml","data":"AAAA"}}]}`), "image.source"},
		"thinking":         {with(user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]}`), "signature"},
		"unknown part":     {with(`{"role":"user","content":[{"type":"smell"}]}`), "expected tags"},
		"odd content":      {with(`{"role":"user","content":7}`), "no list"},
		"odd result":       {with(user + "," + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"smell"}]}]}`), "unexpected smell"},
		"markers":          {with(`{"role":"user","content":[` + marked[:len(marked)-1] + `]}`), "maximum of 4"},
		"same tool":        {strings.Replace(ask("x"), `"web_search"`, `"Bash"`, 1), "unique"},
		"tool name":        {strings.Replace(ask("x"), `"Bash"`, `"a b"`, 1), "does not match"},
		"tool schema":      {strings.Replace(ask("x"), `"object"`, `"list"`, 1), "input_schema"},
		"system":           {strings.Replace(ask("x"), `"stream"`, `"system":[{"type":"text","text":""}],"stream"`, 1), "system"},
	} {
		res := post(t, t.Context(), s, "/v1/messages", c.body)
		data, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(data), strings.ReplaceAll(c.want, `"`, `\"`)) {
			t.Errorf("%s is answered %d %s, want %q", name, res.StatusCode, data, c.want)
		}
	}
	image := with(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"text","text":"see"}]}`)
	if res := post(t, t.Context(), s, "/v1/messages", image); res.StatusCode != http.StatusOK {
		t.Errorf("an image is answered %d", res.StatusCode)
	}
	if all := s.Requests(); all[len(all)-1].Images != 1 {
		t.Errorf("images are not counted: %+v", all[len(all)-1])
	}
}
