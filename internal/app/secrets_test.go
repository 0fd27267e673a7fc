package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/redact"
	"github.com/iris-operator/iris/internal/secret/secrettest"
	"github.com/iris-operator/iris/internal/secret/store"
)

// oddSecrets are 50 secrets of odd shapes, each found by its own text.
func oddSecrets() []string {
	var all []string
	for i, v := range secrettest.Values() {
		if len(v) < 10_000 {
			all = append(all, v+strconv.Itoa(100+i))
		}
	}
	shapes := []string{"%d-canary!", "sk-proj-%d-AbCdEf", "pass word %d", "%d\"quote\\", "päss-%d-ü", "{\"k\":\"%d-json\"}", "%d+/=base64==", "^%d.*$[a-z]+"}
	for i := 0; len(all) < 50; i++ {
		all = append(all, fmt.Sprintf(shapes[i%len(shapes)], 7_000_000+i*137))
	}
	return all
}

// vaulted is a place with a store that holds values under S0, S1, …
func vaulted(t *testing.T, values []string, environ ...string) (*place, *store.Store) {
	t.Helper()
	dir := t.TempDir()
	key, file := filepath.Join(dir, "secret.key"), filepath.Join(dir, "secrets.json.enc")
	if err := store.NewKey(key); err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Options{File: file, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if _, err := s.Put(t.Context(), "S"+strconv.Itoa(i), secret.New(v), secret.Put{}); err != nil {
			t.Fatal(err)
		}
	}
	return newPlace(t, append(environ, "IRIS_SECRET_KEY_FILE="+key, "IRIS_SECRET_STORE_FILE="+file)...), s
}

// No secret comes out on any way, though people write it, commands print it in
// many encodings and the model says it.
func TestCanariesNeverComeOut(t *testing.T) {
	values := oddSecrets()
	const batch = 10
	model := llmtest.NewServer(t)
	p, _ := vaulted(t, values, append(wires(model)[0], "GITHUB_TOKEN="+values[len(values)-1])...)
	for i, v := range values {
		if err := os.WriteFile(filepath.Join(p.home, "c"+strconv.Itoa(i)), []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	model.Script(func(r llmtest.Request) llmtest.Answer {
		var n int
		for _, m := range r.Messages {
			for _, part := range m.Parts {
				if at := strings.Index(part.Text, "batch "); part.Kind == llm.TextPart && m.Role == llm.User && at >= 0 {
					_, _ = fmt.Sscanf(part.Text[at:], "batch %d", &n)
				}
			}
		}
		mine := values[n*batch : (n+1)*batch]
		if len(r.Results()) > 0 {
			if n == 4 {
				return llmtest.Answer{Status: http.StatusBadRequest, Message: "you sent " + mine[0]}
			}
			return llmtest.Answer{Parts: []llm.Part{llmtest.Text("they are " + strings.Join(mine, " and "))}, Fault: llmtest.Fault{Chunk: 7}}
		}
		a := llmtest.Answer{Parts: []llm.Part{llmtest.Text("first " + mine[1])}}
		for i, v := range mine {
			v = strings.ReplaceAll(v, "\x00", "") // no command can hold it
			file := "c" + strconv.Itoa(n*batch+i)
			script := "cat " + file + "; base64 " + file + "; base64 -w0 " + file + "; xxd -p " + file + " | tr -d '\\n'; printf '%q ' \"$(cat " + file + ")\"; cat " + file + " >&2; env; cat /proc/$$/environ > environ" + file
			if i == 0 {
				script += "; yes \"$(cat " + file + ")\" | head -c 300000"
			}
			args, err := json.Marshal(map[string]string{"label": "show " + v, "command": script + " # " + strings.ReplaceAll(v, "\n", " ")})
			if err != nil {
				t.Error(err)
			}
			a.Parts = append(a.Parts, llmtest.Call(fmt.Sprintf("call_%d_%d", n, i), "bash", string(args)))
		}
		return a
	})
	s := p.serve("IRIS_LOG_LEVEL=debug")
	for n := range len(values) / batch {
		id := p.session()
		body, err := json.Marshal(map[string]string{"text": fmt.Sprintf("batch %d: %s", n, strings.Join(values[n*batch:(n+1)*batch], "\n"))})
		if err != nil {
			t.Fatal(err)
		}
		a := p.do("POST", "/sessions/"+id+"/message", string(body))
		for _, v := range values {
			if strings.Contains(a.body, v) {
				t.Errorf("the answer holds %.40q: %.300s", v, a.body)
			}
		}
		if n != 4 && (a.status != http.StatusOK || !strings.Contains(a.body, "they are "+redact.Mark)) {
			t.Errorf("batch %d: %.300v", n, a)
		}
	}
	s.stop()

	places := map[string]string{"the log": s.stderr.String(), "standard output": s.stdout.String()}
	for i, r := range model.Requests() {
		places["model request "+strconv.Itoa(i)] = string(r.Body)
	}
	err := filepath.WalkDir(p.workspace, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() { // a link leads to this program, which holds its constants
			return err
		}
		data, err := os.ReadFile(path)
		places[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range values {
		data, err := os.ReadFile(filepath.Join(p.home, "environc"+strconv.Itoa(i)))
		if err != nil {
			t.Error(err)
		}
		places["environment of child "+strconv.Itoa(i)] = string(data)
	}
	if len(places) < 70 {
		t.Errorf("only %d places were searched", len(places))
	}
	marked := 0
	for where, text := range places {
		if strings.Contains(text, redact.Mark) {
			marked++
		}
		if strings.Contains(text, operatorToken) || strings.Contains(text, pagePassword) {
			t.Errorf("%s holds the operator's token or the password", where)
		}
		for _, v := range values {
			quoted, _ := json.Marshal(v)
			for form, needle := range map[string]string{
				"plain": v, "json": string(quoted[1 : len(quoted)-1]), "base64": strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(v)), "=")[:10], "hex": fmt.Sprintf("%x", v),
			} {
				if at := strings.Index(text, needle); at >= 0 {
					t.Errorf("%s holds %.40q as %s: %.120q", where, v, form, text[max(0, at-40):])
				}
			}
		}
	}
	if marked < 25 {
		t.Errorf("only %d places hold a mark", marked)
	}
}

// A store is enough: the model's key comes from it, the environment is cleaned of
// what it holds, and a person hands a secret over by a link.
func TestStoreModeNeedsNoEnvironment(t *testing.T) {
	model := llmtest.NewServer(t)
	model.Script(func(r llmtest.Request) llmtest.Answer {
		return llmtest.Answer{Parts: []llm.Part{llmtest.Text("heard: " + r.Text())}}
	})
	p, vault := vaulted(t, nil, "IRIS_PROVIDER=anthropic", "ANTHROPIC_BASE_URL="+model.URL(), "IRIS_BASE_DOMAIN=iris.example.org")
	for name, v := range map[string]string{"ANTHROPIC-API-KEY": "sk-of-the-store", "GITHUB-TOKEN": "ghp-canary-value"} {
		if _, err := vault.Put(t.Context(), name, secret.New(v), secret.Put{}); err != nil {
			t.Fatal(err)
		}
	}
	s := p.serve("GITHUB_TOKEN=ghp-canary-value", "RESEND_API_KEY=re-only-here", "TELEGRAM_BOT_TOKEN=")
	id := p.session()
	if a := p.do("POST", "/sessions/"+id+"/message", `{"text":"hello"}`); a.status != http.StatusOK {
		t.Fatalf("message: %v", a)
	}
	if got := model.Requests()[0].Header.Get("X-Api-Key"); got != "sk-of-the-store" {
		t.Errorf("the model got the key %q", got)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if environ := string(data); strings.Contains(environ, "ghp-canary-value") || strings.Contains(environ, pagePassword) || !strings.Contains(environ, "re-only-here") {
		t.Errorf("the environment after the start: %q", environ)
	}
	if !strings.Contains(s.stderr.String(), "RESEND_API_KEY") || strings.Contains(s.stderr.String(), "re-only-here") {
		t.Errorf("what stays is not named in the log: %s", s.stderr)
	}

	a := p.do("POST", "/secret-drops", `{"name":"STRIPE-KEY","channelId":"SESSION-`+id+`"}`)
	path := a.field(p, "path")
	if a.field(p, "url") != "https://iris.example.org"+path {
		t.Errorf("drop: %v", a)
	}
	if f := p.do("GET", path, "", "Authorization", ""); f.status != http.StatusOK || !strings.Contains(f.body, "STRIPE-KEY") {
		t.Fatalf("the form: %v", f)
	}
	p.do("POST", path, `{"value":"sk-live-canary"}`, "Authorization", "")
	if f := p.do("POST", path, `{"value":"sk-live-other"}`, "Authorization", ""); f.status != http.StatusNotFound {
		t.Errorf("a second use: %v", f)
	}
	if v, m, err := vault.Get(t.Context(), "STRIPE-KEY"); err != nil || !v.Equal("sk-live-canary") || m.Origin != secret.FromDrop {
		t.Errorf("stored: %v, %+v", err, m)
	}
	until(t, "the conversation is told", func() bool {
		for _, r := range model.Requests() {
			if strings.Contains(string(r.Body), "sk-live-canary") {
				t.Fatal("the model is told the value")
			}
			if strings.Contains(r.Text(), "STRIPE-KEY") {
				return true
			}
		}
		return false
	})
	if a := p.do("GET", "/secret/STRIPE_KEY", ""); a.field(p, "value") != "sk-live-canary" {
		t.Errorf("GET: %v", a)
	}
	s.stop()
}
