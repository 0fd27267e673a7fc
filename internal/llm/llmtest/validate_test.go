package llmtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a body as it is and returns the status and the answer.
func post(t *testing.T, url, body string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// A refusal is a body with the reason why the service does not take it, or ""
// if it does.
type refusal struct{ name, body, why string }

func checkRefusals(t *testing.T, path string, header map[string]string, cases []refusal) {
	s := NewServer(t)
	for _, c := range cases {
		status, answer := post(t, s.URL()+path, c.body, header)
		if c.why == "" && status != 200 || c.why != "" && (status != 400 || !strings.Contains(answer, c.why)) {
			t.Errorf("%s: HTTP %d %s, want %q", c.name, status, answer, c.why)
		}
		all := s.Requests()
		if last := all[len(all)-1]; (last.Refused == "") != (c.why == "") {
			t.Errorf("%s: booked as refused: %q", c.name, last.Refused)
		}
	}
}

func TestAnthropicRefuses(t *testing.T) {
	header := map[string]string{"X-Api-Key": Key, "Anthropic-Version": "2023-06-01"}
	body := func(messages, more string) string {
		return `{"model":"m","max_tokens":4000,"stream":true,"messages":[` + messages + `]` + more + `}`
	}
	const user = `{"role":"user","content":"x"}`
	say := func(role string, blocks ...string) string {
		return `{"role":"` + role + `","content":[` + strings.Join(blocks, ",") + `]}`
	}
	use := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"bash","input":{}}` }
	res := func(id string) string { return `{"type":"tool_result","tool_use_id":"` + id + `","content":"r"}` }
	think := `{"type":"thinking","thinking":"t","signature":"s"}`
	text := `{"type":"text","text":"x"}`
	marked := `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`
	on := `,"thinking":{"type":"enabled","budget_tokens":2000}`
	pair := func(a, b string) string { return user + "," + a + "," + b }
	checkRefusals(t, "/v1/messages", header, []refusal{
		{"plain", body(user, ""), ""},
		{"everything", body(pair(say("assistant", think, use("a"), use("b")), say("user", res("b"), res("a"), marked)), on+`,"system":[`+marked+`],"tools":[{"name":"bash","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]`), ""},
		{"two users", body(user+","+user, ""), ""},
		{"no model", `{"max_tokens":1,"stream":true,"messages":[` + user + `]}`, "model"},
		{"no max_tokens", `{"model":"m","stream":true,"messages":[` + user + `]}`, "max_tokens"},
		{"not streaming", `{"model":"m","max_tokens":1,"messages":[` + user + `]}`, "stream"},
		{"no messages", body("", ""), "at least one message"},
		{"unknown field", body(user, `,"prompt_cache_key":"x"`), "unknown field"},
		{"not JSON", `{`, "unexpected EOF"},
		{"not UTF-8", body(`{"role":"user","content":"\`+"\xff"+`"}`, ""), "UTF-8"},
		{"system role", body(`{"role":"system","content":"x"},`+user, ""), "unexpected role"},
		{"assistant first", body(say("assistant", text)+","+user, ""), "first message"},
		{"empty content", body(`{"role":"user","content":[]}`, ""), "non-empty content"},
		{"blank text", body(`{"role":"user","content":" "}`, ""), "non-whitespace"},
		{"blank system", body(user, `,"system":""`), "system"},
		{"trailing space", body(user+`,{"role":"assistant","content":"x "}`, ""), "trailing whitespace"},
		{"unknown block", body(say("user", `{"type":"video"}`), ""), "does not match"},
		{"field of another block", body(say("user", `{"type":"text","text":"x","id":"1"}`), ""), "Extra inputs"},
		{"call of the user", body(say("user", use("a")), ""), "can only be in"},
		{"result of the assistant", body(user+","+say("assistant", res("a")), ""), "can only be in"},
		{"unpaired", body(user+","+say("assistant", use("a")), ""), "without `tool_result`"},
		{"unpaired in the middle", body(pair(say("assistant", use("a")), user), ""), "without `tool_result`"},
		{"wrong id", body(pair(say("assistant", use("a")), say("user", res("b"))), ""), "unexpected `tool_use_id`"},
		{"orphan", body(say("user", res("b")), ""), "unexpected `tool_use_id`"},
		{"answered twice", body(pair(say("assistant", use("a")), say("user", res("a"), res("a"))), ""), "unexpected `tool_use_id`"},
		{"text before result", body(pair(say("assistant", use("a")), say("user", text, res("a"))), ""), "must come first"},
		{"odd id", body(pair(say("assistant", use("a|b")), say("user", res("a|b"))), ""), "pattern"},
		{"id twice", body(pair(say("assistant", use("a"), use("a")), say("user", res("a"))), ""), "unique"},
		{"input no object", body(pair(say("assistant", `{"type":"tool_use","id":"a","name":"b","input":[]}`), say("user", res("a"))), ""), "dictionary"},
		{"empty error", body(pair(say("assistant", use("a")), say("user", `{"type":"tool_result","tool_use_id":"a","is_error":true}`)), ""), "is_error"},
		{"result in result", body(pair(say("assistant", use("a")), say("user", `{"type":"tool_result","tool_use_id":"a","content":[`+res("a")+`]}`)), ""), "unexpected tool_result"},
		{"blank in result", body(pair(say("assistant", use("a")), say("user", `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""}]}`)), ""), "non-whitespace"},
		{"bad content in result", body(pair(say("assistant", use("a")), say("user", `{"type":"tool_result","tool_use_id":"a","content":3}`)), ""), "content"},
		{"five markers", body(say("user", marked, marked, marked, marked, marked), ""), "maximum of 4"},
		{"odd marker", body(say("user", `{"type":"text","text":"x","cache_control":{"type":"forever"}}`), ""), "ephemeral"},
		{"marker on thinking", body(user+","+say("assistant", `{"type":"thinking","thinking":"t","signature":"s","cache_control":{"type":"ephemeral"}}`), ""), "Extra inputs"},
		{"no signature", body(user+","+say("assistant", `{"type":"thinking","thinking":"t"}`), ""), "signature"},
		{"no data", body(user+","+say("assistant", `{"type":"redacted_thinking"}`), ""), "data"},
		{"small budget", body(user, `,"thinking":{"type":"enabled","budget_tokens":10}`), "budget_tokens"},
		{"big budget", body(user, `,"thinking":{"type":"enabled","budget_tokens":4000}`), "budget_tokens"},
		{"begins in the middle", body(pair(say("assistant", use("a")), say("user", res("a"))), on), "Expected `thinking`"},
		{"bad image", body(say("user", `{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"aGkh"}}`), ""), "unsupported"},
		{"bad base64", body(say("user", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}`), ""), "base64"},
		{"tool name", body(user, `,"tools":[{"name":"a.b","input_schema":{"type":"object"}}]`), "pattern"},
		{"tool schema", body(user, `,"tools":[{"name":"a","input_schema":{}}]`), "input_schema"},
		{"tool twice", body(user, `,"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]`), "unique"},
	})
	s := NewServer(t)
	if status, _ := post(t, s.URL()+"/v1/messages", body(user, ""), map[string]string{"Anthropic-Version": "2023-06-01"}); status != 401 {
		t.Errorf("without a key: HTTP %d", status)
	}
	if status, _ := post(t, s.URL()+"/v1/messages", body(user, ""), map[string]string{"X-Api-Key": Key}); status != 400 {
		t.Errorf("without a version: HTTP %d", status)
	}
	if len(s.Refused()) != 2 {
		t.Errorf("Refused = %q", s.Refused())
	}
}

func TestChatRefuses(t *testing.T) {
	header := map[string]string{"Authorization": "Bearer " + Key}
	body := func(messages, more string) string {
		return `{"model":"m","stream":true,"messages":[` + messages + `]` + more + `}`
	}
	const user = `{"role":"user","content":"x"}`
	use := func(id, args string) string {
		return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":%q}}]}`, id, args)
	}
	res := func(id string) string { return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"r"}`, id) }
	checkRefusals(t, "/v1/chat/completions", header, []refusal{
		{"plain", body(user, ""), ""},
		{"everything", body(`{"role":"system","content":"s"},`+user+","+use("a|b", "{}")+","+res("a|b")+`,{"role":"assistant","content":"y","reasoning_content":"t"},`+user, `,"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}],"stream_options":{"include_usage":true},"max_completion_tokens":5,"reasoning_effort":"low"`), ""},
		{"no model", `{"stream":true,"messages":[` + user + `]}`, "model"},
		{"not streaming", `{"model":"m","messages":[` + user + `]}`, "stream"},
		{"no messages", body("", ""), "too short"},
		{"unknown field", body(user, `,"cache_control":1`), "unrecognized"},
		{"not UTF-8", body(`{"role":"user","content":"`+"\xff"+`"}`, ""), "UTF-8"},
		{"both maxima", body(user, `,"max_tokens":1,"max_completion_tokens":1`), "exclude"},
		{"late system", body(user+`,{"role":"system","content":"s"}`, ""), "at the beginning"},
		{"empty user", body(`{"role":"user","content":""}`, ""), "without content"},
		{"empty assistant", body(user+`,{"role":"assistant","content":""}`, ""), "either content or tool_calls"},
		{"no calls", body(user+`,{"role":"assistant","content":"x","tool_calls":[]}`, ""), "too short"},
		{"assistant first", body(`{"role":"assistant","content":"x"}`, ""), "start with a user"},
		{"orphan", body(user+","+res("a"), ""), "preceding message"},
		{"wrong id", body(user+","+use("a", "{}")+","+res("b"), ""), "preceding message"},
		{"unpaired", body(user+","+use("a", "{}"), ""), "must be followed"},
		{"interrupted", body(user+","+use("a", "{}")+","+user, ""), "did not have response"},
		{"arguments", body(user+","+use("a", "[]")+","+res("a"), ""), "not a JSON object"},
		{"call without id", body(user+","+use("", "{}")+","+res(""), ""), "required"},
		{"id twice", body(user+`,{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"b","arguments":"{}"}},{"id":"a","type":"function","function":{"name":"b","arguments":"{}"}}]}`, ""), "used twice"},
		{"field of another role", body(`{"role":"user","content":"x","tool_call_id":"a"}`, ""), "does not belong"},
		{"unknown role", body(`{"role":"critic","content":"x"}`, ""), "invalid role"},
		{"unknown part", body(`{"role":"user","content":[{"type":"video"}]}`, ""), "does not belong here"},
		{"bad content", body(`{"role":"user","content":3}`, ""), "content"},
		{"bad image", body(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}`, ""), "not a supported image"},
		{"odd image", body(`{"role":"user","content":[{"type":"image_url","image_url":3}]}`, ""), "image_url"},
		{"tool type", body(user, `,"tools":[{"type":"web","function":{"name":"a"}}]`), "tools.0.type"},
		{"tool name", body(user, `,"tools":[{"type":"function","function":{"name":"a.b"}}]`), "does not match"},
		{"tool schema", body(user, `,"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"string"}}}]`), "schema"},
		{"tool twice", body(user, `,"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}]`), "used twice"},
	})
	s := NewServer(t)
	if status, _ := post(t, s.URL()+"/v1/chat/completions", body(user, ""), nil); status != 401 {
		t.Errorf("without a key: HTTP %d", status)
	}
	if status, _ := post(t, s.URL()+"/v1/chat/completions", body(user, ""), map[string]string{"Api-Key": Key, "Content-Type": "text/plain"}); status != 400 {
		t.Errorf("as text: HTTP %d", status)
	}
}

func TestResponsesRefuses(t *testing.T) {
	header := map[string]string{"Authorization": "Bearer " + Key}
	body := func(items, more string) string {
		return `{"model":"m","stream":true,"input":[` + items + `]` + more + `}`
	}
	const user, ours = `{"role":"user","content":"x"}`, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"y"}]}`
	const reasoning = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"e"}`
	use := func(id, args string) string {
		return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"bash","arguments":%q}`, id, args)
	}
	res := func(id string) string {
		return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"r"}`, id)
	}
	checkRefusals(t, "/v1/responses", header, []refusal{
		{"plain", body(user, ""), ""},
		{"a text", `{"model":"m","stream":true,"input":"hi"}`, ""},
		{"everything", body(`{"role":"developer","content":"s"},`+user+","+reasoning+","+use("a", "{}")+","+res("a")+","+reasoning+","+ours+","+user, `,"tools":[{"type":"function","name":"bash","parameters":{"type":"object"}}],"reasoning":{"effort":"low"},"store":false,"prompt_cache_key":"k"`), ""},
		{"no model", `{"stream":true,"input":"x"}`, "model"},
		{"not streaming", `{"model":"m","input":"x"}`, "stream"},
		{"no input", body("", ""), "input"},
		{"bad input", `{"model":"m","stream":true,"input":3}`, "input"},
		{"unknown field", body(user, `,"messages":[]`), "unknown parameter"},
		{"few tokens", body(user, `,"max_output_tokens":3`), "expected a value"},
		{"late system", body(user+`,{"role":"system","content":"s"}`, ""), "at the beginning"},
		{"unknown role", body(`{"role":"critic","content":"s"}`, ""), "invalid role"},
		{"empty message", body(`{"role":"user","content":[]}`, ""), "without content"},
		{"text of the other side", body(user+`,{"role":"assistant","content":[{"type":"input_text","text":"y"}]}`, ""), "does not belong here"},
		{"unknown item", body(`{"type":"aroma"}`, ""), "invalid type"},
		{"orphan", body(user+","+res("a"), ""), "no tool call found"},
		{"wrong id", body(user+","+use("a", "{}")+","+res("b"), ""), "no tool call found"},
		{"unpaired", body(user+","+use("a", "{}"), ""), "no tool output found"},
		{"id twice", body(user+","+use("a", "{}")+","+use("a", "{}")+","+res("a"), ""), "duplicate"},
		{"no id", body(user+","+use("", "{}"), ""), "call_id"},
		{"arguments", body(user+","+use("a", "{"), ""), "not a JSON object"},
		{"odd item id", body(user+`,{"type":"function_call","id":"x","call_id":"a","name":"b","arguments":"{}"}`, ""), "begins with 'fc'"},
		{"no output", body(user+","+use("a", "{}")+`,{"type":"function_call_output","call_id":"a"}`, ""), "output"},
		{"call first", body(use("a", "{}")+","+res("a")+","+user, ""), "no user message"},
		{"reasoning alone", body(user+","+reasoning, ""), "required following item"},
		{"reasoning before the user", body(user+","+reasoning+","+user, ""), "required following item"},
		{"reasoning without id", body(user+`,{"type":"reasoning","summary":[]},`+ours, ""), "begins with 'rs'"},
		{"reasoning without summary", body(user+`,{"type":"reasoning","id":"rs_1"},`+ours, ""), "summary"},
		{"tool type", body(user, `,"tools":[{"type":"web"}]`), "type"},
		{"tool name", body(user, `,"tools":[{"type":"function","name":"a.b"}]`), "does not match"},
	})
	s := NewServer(t)
	if status, _ := post(t, s.URL()+"/v1/responses", body(user, ""), nil); status != 401 {
		t.Errorf("without a key: HTTP %d", status)
	}
}

func TestServerOutsideATest(t *testing.T) {
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Start(strings.TrimPrefix(s.URL(), "http://")); err == nil {
		t.Error("two servers at one address")
	}
	s.Answers(Answer{Status: 418, Message: "one"}, Answer{Parts: []llm.Part{Text("two")}})
	for i, want := range []string{"one", "two", "two"} {
		_, answer := post(t, s.URL()+"/v1/messages", `{"model":"m","max_tokens":4,"stream":true,"messages":[{"role":"user","content":"x"}]}`, map[string]string{"X-Api-Key": Key, "Anthropic-Version": "2023-06-01"})
		if !strings.Contains(answer, want) {
			t.Errorf("answer %d = %s", i, answer)
		}
	}
	if r := s.Requests(); len(r) != 3 || r[2].Number != 3 || r[2].Text() != "x" || r[2].Results() != nil {
		t.Errorf("Requests = %+v", r)
	}
	if (Request{}).Text() != "" {
		t.Error("an empty request has text")
	}
	<-s.Idle()
}
