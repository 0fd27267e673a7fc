package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/turn"
)

// A pair is an Iris and a sub-agent called billing, each a process of its own.
type pair struct {
	iris, agent *place
	model       *llmtest.Server
	port        int // of the agent's bridge
}

const bridgeToken = "bridge-token-of-the-tests-0123456789"

// newPair registers the agent at its own port.
func newPair(t testing.TB) *pair {
	t.Helper()
	d := &pair{model: llmtest.NewServer(t), port: freePort(t)}
	d.model.Script(accountant)
	d.agent = newPlace(t, append(wires(d.model)[0], "IRIS_BRIDGE_PORT="+strconv.Itoa(d.port), "IRIS_BRIDGE_TOKEN="+bridgeToken, "IRIS_LLM_RETRY_BASE_MS=10")...)
	d.iris = newPlace(t, append(wires(d.model)[0], "IRIS_BRIDGE_TOKEN="+bridgeToken, "IRIS_BRIDGE_JOB_POLL_MS=20", "IRIS_BRIDGE_STATUS_THROTTLE_MS=0", "IRIS_LLM_RETRY_BASE_MS=10")...)
	d.setVia(t, d.port)
	return d
}

// setVia says where the agent is reached.
func (d *pair) setVia(t testing.TB, via int) {
	t.Helper()
	if err := os.MkdirAll(d.iris.workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	registry := fmt.Sprintf(`{"billing": {"bridge_url": "http://127.0.0.1:%d", "description": "knows the bills"}}`, via)
	if err := os.WriteFile(filepath.Join(d.iris.workspace, "agents.json"), []byte(registry), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bill names a request to the agent, and how many steps it takes.
var bill = regexp.MustCompile(`bill ([a-z0-9]+) in ([0-9]+) steps of ([0-9.]+)`)

// accountant plays the agent's model: so many calls, one after the other, each
// with a label of its own, and then a reply with the name of the request. For
// Iris it asks the agent when told to.
func accountant(r llmtest.Request) llmtest.Answer {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		text, done := "", 0
		for _, p := range r.Messages[i].Parts {
			text += p.Text
		}
		if ask := strings.Index(text, "use the tool:"); ask >= 0 {
			if results := r.Results(); len(results) > 0 {
				return llmtest.Answer{Parts: []llm.Part{llmtest.Text("it says " + results[0].Text)}}
			}
			args, err := json.Marshal(map[string]string{"label": "asking billing", "name": "billing", "question": text[ask+len("use the tool:"):]})
			if err != nil {
				return llmtest.Answer{Status: 400, Message: err.Error()}
			}
			return llmtest.Answer{Parts: []llm.Part{llmtest.Call("ask1", "ask_agent", string(args))}}
		}
		m := bill.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		for _, later := range r.Messages[i+1:] {
			for _, p := range later.Parts {
				if p.Call != nil {
					done++
				}
			}
		}
		if want, _ := strconv.Atoi(m[2]); done < want {
			args := fmt.Sprintf(`{"label":"%s step %d","command":"sleep %s"}`, m[1], done+1, m[3])
			return llmtest.Answer{Parts: []llm.Part{llmtest.Call(fmt.Sprintf("c%d", done+1), "bash", args)}}
		}
		return llmtest.Answer{Parts: []llm.Part{llmtest.Text("paid " + m[1])}}
	}
	return llmtest.Answer{Parts: []llm.Part{llmtest.Text("no bill")}}
}

// Issue C 5: every way to an agent, with live progress, through one dispatch.
func TestAgentEverywhere(t *testing.T) {
	d := newPair(t)
	p := d.iris
	agent, iris := d.agent.serve(), p.serve()
	ask := func(session, text string) string {
		t.Helper()
		a := p.do("POST", "/sessions/"+session+"/message", fmt.Sprintf(`{"text":%q}`, text))
		if a.status != http.StatusOK {
			t.Errorf("%s: %v", text, a)
		}
		return a.field(p, "text")
	}
	// By name, in a session whose runner is Iris herself.
	s := p.session()
	if got := ask(s, "@Billing, bill a1 in 2 steps of 0"); got != "paid a1" {
		t.Errorf("by name: %q", got)
	}
	var shown []string
	for _, e := range p.events(s, 1) {
		if e.Kind == turn.Status {
			shown = append(shown, e.Label)
		}
	}
	if strings.Join(shown, "; ") != "→ a1 step 1; → a1 step 2" {
		t.Errorf("progress %q", shown)
	}
	// Spec 3.14: a bridge turn has a context and no log.
	held := filepath.Join(d.agent.workspace, "BRIDGE-SESSION-"+s)
	if _, err := os.Stat(filepath.Join(held, "context.jsonl")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(held, "log.jsonl")); err == nil {
		t.Error("a bridge turn is logged")
	}
	// As the runner of a session.
	made := p.do("POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1.1","runner":"billing"}`)
	if got := ask(made.field(p, "sessionId"), "bill a2 in 1 steps of 0"); got != "paid a2" {
		t.Errorf("as a runner: %q, %v", got, made)
	}
	// By the model.
	if got := ask(p.session(), "use the tool: bill a3 in 1 steps of 0"); got != "it says paid a3" {
		t.Errorf("by the model: %q", got)
	}
	// In the page's picker.
	conn, _, err := websocket.Dial(t.Context(), p.url("/ws")+"?thread=t&agent=billing", &websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {p.login()}}, HTTPClient: p.client})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	b := &browser{p, conn}
	b.send(map[string]any{"type": "message", "id": "m1", "text": "bill a4 in 1 steps of 0"})
	if f := b.until("status"); f["text"] != "→ a4 step 1" {
		t.Errorf("the page shows %v", f)
	}
	if f := b.until("final"); f["text"] != "paid a4" {
		t.Errorf("the page got %v", f)
	}
	if a := p.do("GET", "/agents", ""); !strings.Contains(a.body, `"billing"`) || strings.Contains(a.body, strconv.Itoa(d.port)) {
		t.Errorf("GET /agents = %v", a)
	}
	// Who goes, is gone; who comes, is there: without a restart.
	file := filepath.Join(p.workspace, "agents.json")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(`{"lookout": {"bridge_url": "http://127.0.0.1:%d/bridge"}}`, d.port)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(p.session(), "@lookout bill a5 in 0 steps of 0"); got != "paid a5" {
		t.Errorf("a new agent: %q", got)
	}
	if a := p.do("POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1.1","runner":"billing"}`); a.status != http.StatusBadRequest {
		t.Errorf("a runner that is gone: %v", a)
	}
	// A stranger at the port.
	resp, err := p.client.Post(fmt.Sprintf("http://127.0.0.1:%d/bridge", d.port), "application/json", strings.NewReader(`{"text":"x"}`))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %v, %v", resp, err)
	}
	if err == nil {
		resp.Body.Close()
	}
	if raw := rawStatus(t, d.port, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"); raw != "400" {
		t.Errorf("a malformed path: %s", raw)
	}
	// Nobody there.
	agent.stop()
	a := p.do("POST", "/sessions/"+p.session()+"/message", `{"text":"@lookout bill a6 in 0 steps of 0"}`)
	if a.status != http.StatusInternalServerError || !strings.Contains(a.body, "Agent @lookout cannot be reached: connect: connection refused") {
		t.Errorf("nobody there: %v", a)
	}
	iris.stop()
}

// An agent that is killed in the middle of a turn, and an Iris that is: the reply
// arrives where it was asked, and the question is asked once.
func TestAgentReplyOutlivesBothProcesses(t *testing.T) {
	for _, who := range []string{"agent", "iris"} {
		t.Run(who, func(t *testing.T) {
			d := newPair(t)
			p := d.iris
			agent, iris := d.agent.serve(), p.serve()
			s := p.session()
			a := p.do("POST", "/sessions/"+s+"/message", `{"text":"@billing bill k1 in 3 steps of 0.2"}`, "Prefer: respond-async")
			if a.status != http.StatusAccepted {
				t.Fatalf("POST = %v", a)
			}
			until(t, "the agent works", func() bool {
				data, _ := os.ReadFile(filepath.Join(d.agent.workspace, "bridge-jobs", "SESSION-"+s+".jsonl")) // not there yet
				return strings.Contains(string(data), "step 1")
			})
			if who == "agent" {
				agent.kill()
				agent = d.agent.serve()
			} else {
				iris.kill()
				iris = p.serve()
			}
			until(t, "the reply", func() bool { return p.replies([]string{"SESSION-" + s}) == 1 })
			d.check(t, s, "k1", true)
			iris.stop()
			agent.stop()
		})
	}
}

// check looks at both sides of a request: one reply, or one honest error, where
// it was asked; a job log without gap or repeat; nothing shown twice.
func (d *pair) check(t testing.TB, session, id string, answered bool) (failed string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.iris.workspace, "SESSION-"+session, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var bots []string
	people := 0
	for _, line := range lines(string(data)) {
		var l struct {
			Text, Failed string
			IsBot        bool
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if !l.IsBot {
			people++
			continue
		}
		bots = append(bots, l.Text)
		failed = l.Failed
	}
	switch {
	case len(bots) != 1 || people != 1:
		t.Errorf("%s: %d questions and the answers %q, want one of each", id, people, bots)
	case failed == "" && bots[0] != "paid "+id:
		t.Errorf("%s: the answer of somebody else: %q", id, bots[0])
	case failed != "" && answered:
		t.Errorf("%s: %s: %s", id, failed, bots[0])
	case failed != "" && strings.TrimSpace(bots[0]) == "":
		t.Errorf("%s: an error without words", id)
	}
	logged := d.job(t, session, id)
	shown := map[string]int{}
	for _, e := range d.iris.events(session, 1) {
		if e.Kind == turn.Status {
			shown[e.Label]++
		}
	}
	for label, n := range shown {
		if n > logged[label] {
			t.Errorf("%s: %q is shown %d times and was said %d times", id, label, n, logged[label])
		}
	}
	return failed
}

// job checks the agent's log of a request and counts its statuses.
func (d *pair) job(t testing.TB, session, id string) map[string]int {
	t.Helper()
	said := map[string]int{}
	data, err := os.ReadFile(filepath.Join(d.agent.workspace, "bridge-jobs", "SESSION-"+session+".jsonl"))
	if err != nil {
		return said // it never arrived
	}
	var seq int64
	ends := 0
	for i, line := range strings.SplitAfter(string(data), "\n") {
		if i == 0 || line == "" {
			continue // its head
		}
		l, err := wire.CheckLine([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if seq++; l.Seq != seq {
			t.Errorf("%s: line %d has the number %d", id, seq, l.Seq)
		}
		if l.Terminal() {
			ends++
		} else {
			said[l.Text]++
		}
	}
	if ends != 1 {
		t.Errorf("%s: %d ends in its job log", id, ends)
	}
	return said
}

func rawStatus(t testing.TB, port int, request string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 64)
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(answer[:n]))
	if len(words) < 2 {
		return ""
	}
	return words[1]
}
