//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli/apitest"
)

// A desk is the real Iris with the real Claude Code behind a conversation, and a model
// that follows a script.
type desk struct {
	*iris
	api     *apitest.Server
	token   string
	session string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	bin := filepath.Join(os.Getenv("IRIS_TEST_CLIS"), "node_modules", ".bin", "claude")
	if os.Getenv("IRIS_TEST_CLIS") == "" {
		bin, _ = exec.LookPath("claude")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skip("no real claude: it is not on PATH, and IRIS_TEST_CLIS names no npm prefix with it")
	}
	only := t.TempDir() // so that no other agent program is found
	must(t, os.Symlink(bin, filepath.Join(only, "claude")))
	d := &desk{api: apitest.New(t, apitest.Options{})}
	d.iris = startIris(t, "PATH="+only+":/usr/bin:/bin", "IRIS_API_TOKEN=e2e-token-of-the-operator",
		"ANTHROPIC_BASE_URL="+d.api.URL(), "ANTHROPIC_API_KEY=sk-ant-dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_MAX_RETRIES=1")
	d.token = "e2e-token-of-the-operator"
	var made struct {
		ID string `json:"sessionId"`
	}
	if status := d.call("POST", "/sessions", map[string]string{"originChannel": "C1", "originThreadTs": "1.1", "runner": "claude"}, &made); status/100 != 2 || made.ID == "" {
		t.Fatalf("POST /sessions: %d", status)
	}
	d.session = made.ID
	return d
}

// do makes a request and decodes the answer.
func (d *desk) do(req *http.Request, out any) int {
	d.t.Helper()
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := (&http.Client{Timeout: 2 * time.Minute}).Do(req)
	if err != nil {
		d.t.Log(err) // Iris was killed; what was expected is missed by the caller
		return 0
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Log(err)
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = data
	} else if out != nil {
		_ = json.Unmarshal(data, out) // an answer without a body is empty
	}
	if resp.StatusCode >= 400 {
		d.t.Logf("%s %s: %d %s", req.Method, req.URL.Path, resp.StatusCode, data)
	}
	return resp.StatusCode
}

func (d *desk) call(method, path string, body, out any) int {
	d.t.Helper()
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		must(d.t, err)
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, d.url+path, r)
	must(d.t, err)
	req.Header.Set("Content-Type", "application/json")
	return d.do(req, out)
}

type spoken struct{ Text, Error, Code string }

func (d *desk) say(text string) (r spoken) {
	d.t.Helper()
	d.call("POST", "/sessions/"+d.session+"/message", map[string]string{"text": text}, &r)
	return r
}

// saying is say in the background.
func (d *desk) saying(text string) <-chan spoken {
	done := make(chan spoken, 1)
	go func() { done <- d.say(text) }()
	return done
}

// history is what the archive has of the conversation.
func (d *desk) history() string {
	var raw []byte
	d.call("GET", "/sessions/"+d.session+"/history", nil, &raw)
	return string(raw)
}

// settle answers the question that waits.
func (d *desk) settle(answer string) {
	d.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); {
		var list struct {
			Approvals []struct {
				ID string `json:"id"`
			} `json:"approvals"`
		}
		d.call("GET", "/approvals", nil, &list)
		if len(list.Approvals) > 0 {
			d.call("POST", "/approvals/"+list.Approvals[0].ID, map[string]any{"answer": answer}, nil)
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	d.t.Fatal("nothing waits for an answer")
}

func TestRealClaudeBehindAConversation(t *testing.T) {
	d := newDesk(t)
	if r := d.say("hello there"); r.Text != "echo: hello there" {
		t.Fatalf("hello: %+v", r)
	}
	request := d.api.AwaitText(t, "hello there")
	at := strings.Index(request.System, filepath.Join(d.dir, ".iris", "outbox"))
	if at < 0 {
		t.Fatalf("the program is not told where files go: %.2000s", request.System)
	}
	tray, _, _ := strings.Cut(request.System[at:], "\n")

	// A command that a person allows, which puts a file into the outbox.
	done := d.saying("RUN: printf report > '" + tray + "/Überblick.txt' && ln -s /etc/passwd '" + tray + "/link.txt'")
	d.settle("yes")
	if r := <-done; !strings.Contains(r.Text, "FINAL after tool: OK") {
		t.Errorf("allowed: %+v", r)
	}
	if left, err := os.ReadDir(tray); err != nil || len(left) > 1 {
		t.Errorf("left in the outbox: %v, %v; want what is put aside alone", left, err)
	}
	if h := d.history(); !strings.Contains(h, "Überblick.txt") || strings.Contains(h, "root:x:") {
		t.Errorf("the file is not in the history: %s", h)
	}
	done = d.saying("RUN: touch declined")
	d.settle("no")
	if r := <-done; !strings.Contains(r.Text, "did not allow") {
		t.Errorf("declined: %+v", r)
	}

	// A file of a person, under its own name, and one that is not what it says.
	var files []map[string]string
	for name, text := range map[string]string{"計画.txt": "the plan", "photo.png": "<!DOCTYPE html><html>log in</html>"} {
		req, err := http.NewRequest("POST", d.url+"/sessions/"+d.session+"/attachments", strings.NewReader(text))
		must(t, err)
		req.Header.Set("X-Filename", url.PathEscape(name))
		var stored struct {
			Local string `json:"local"`
		}
		d.do(req, &stored)
		files = append(files, map[string]string{"local": stored.Local})
	}
	d.call("POST", "/sessions/"+d.session+"/message", map[string]any{"text": "look at these", "attachments": files}, nil)
	got := d.api.AwaitText(t, "look at these")
	if !strings.Contains(got.Text, "計画.txt") || strings.Contains(got.Text, "photo.png") {
		t.Errorf("the model got %q, want the plan alone", got.Text)
	}

	// Iris is killed while Claude works; the turn says so, and the session goes on.
	done = d.saying("HOLD")
	d.api.AwaitText(t, "HOLD")
	d.kill(syscall.SIGKILL)
	<-done
	d.start()
	d.api.Release()
	if r := d.say("are you still there"); r.Text != "echo: are you still there" {
		t.Errorf("after the kill: %+v", r)
	}
	if r := d.api.AwaitText(t, "are you still there"); !strings.Contains(string(r.Body), "hello there") {
		t.Error("after the kill it is another conversation")
	}
	if h := d.history(); !strings.Contains(h, "Iris was restarted while") {
		t.Errorf("nobody was told of the interrupted turn: %s", h)
	}
}
