package app_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
)

// What goes wrong with a model, through the real server and the real clients of
// both wires: an error with the provider's words, or the answer after all, and
// always soon.
func TestModelFaults(t *testing.T) {
	for _, wire := range []int{0, 1} {
		model := llmtest.NewServer(t)
		environ := wires(model)[wire]
		t.Run(strings.TrimPrefix(environ[0], "IRIS_PROVIDER="), func(t *testing.T) {
			p := newPlace(t, append(environ, "IRIS_LLM_MAX_RETRIES=2", "IRIS_LLM_RETRY_BASE_MS=10", "IRIS_LLM_TIMEOUT_SECS=0.5")...)
			s := p.serve()
			f := &faults{t: t, p: p, model: model}
			t.Run("400", f.refused)
			t.Run("stream cut", f.cut)
			t.Run("stream cut again and again", f.cutAlways)
			t.Run("429 with retry-after", f.limited)
			t.Run("silence", f.silence)
			t.Run("pings only", f.pings)
			t.Run("stop during the pause", f.stopInPause)
			f.model.Answers(good)
			p.alive(p.session())
			s.stop()
		})
	}
}

type faults struct {
	t     *testing.T
	p     *place
	model *llmtest.Server
}

var good = llmtest.Answer{Parts: []llm.Part{llmtest.Text("all is well")}}

// say sends a message in a session of its own and returns the answer, how long
// it took and how often the model was asked.
func (f *faults) say(answers ...llmtest.Answer) (a answer, took time.Duration, asked int) {
	f.model.Answers(answers...)
	id := f.p.session()
	before := len(f.model.Requests())
	begun := time.Now()
	a = f.p.do("POST", "/sessions/"+id+"/message", `{"text":"hello"}`)
	return a, time.Since(begun), len(f.model.Requests()) - before
}

func (f *faults) refused(t *testing.T) {
	best := time.Hour
	for range 5 { // the machine may be busy: the best counts
		a, took, asked := f.say(llmtest.Answer{Status: 400, Message: "model: there is no such thing as claude-9"})
		best = min(best, took)
		if a.status != http.StatusBadGateway || a.field(f.p, "code") != "model" || !strings.Contains(a.body, "no such thing as claude-9") || a.field(f.p, "turn") == "" || asked != 1 {
			t.Errorf("after %d requests: %v", asked, a)
		}
	}
	if limit := 50 * time.Millisecond * detector; best > limit {
		t.Errorf("the error took %v, want at most %v", best, limit)
	}
	t.Logf("the error took %v", best)
}

func (f *faults) cut(t *testing.T) {
	broken := good
	broken.Fault.CutAfter = 3
	if a, took, asked := f.say(broken, good); a.status != http.StatusOK || a.field(f.p, "text") != "all is well" || asked != 2 || took > 5*time.Second {
		t.Errorf("after %d requests and %v: %v", asked, took, a)
	}
}

func (f *faults) cutAlways(t *testing.T) {
	broken := good
	broken.Fault.CutAfter = 3
	if a, took, asked := f.say(broken); a.status != http.StatusBadGateway || a.field(f.p, "code") != "model" || a.field(f.p, "error") == "" || asked != 2 || took > 5*time.Second {
		t.Errorf("after %d requests and %v: %v", asked, took, a)
	}
}

func (f *faults) limited(t *testing.T) {
	a, took, asked := f.say(llmtest.Answer{Status: 429, Message: "slow down", RetryAfter: "1"}, good)
	if a.status != http.StatusOK || asked != 2 || took < time.Second || took > 5*time.Second {
		t.Errorf("after %d requests and %v: %v, want the answer after 1 s", asked, took, a)
	}
}

func (f *faults) silence(t *testing.T) { f.quiet(t, llmtest.Fault{SilentAfter: 3}) }

func (f *faults) pings(t *testing.T) { f.quiet(t, llmtest.Fault{SilentAfter: 3, Pings: true}) }

func (f *faults) quiet(t *testing.T, fault llmtest.Fault) {
	quiet := good
	quiet.Fault = fault
	a, took, asked := f.say(quiet)
	if a.status != http.StatusBadGateway && a.status != http.StatusGatewayTimeout || a.field(f.p, "code") != "timeout" ||
		!strings.Contains(a.body, "LLM response timeout after 0.5s") || took > 10*time.Second {
		t.Errorf("after %d requests and %v: %v", asked, took, a)
	}
}

func (f *faults) stopInPause(t *testing.T) {
	asked := make(chan struct{}, 10)
	f.model.Script(func(llmtest.Request) llmtest.Answer {
		asked <- struct{}{}
		return llmtest.Answer{Status: 429, Message: "slow down", RetryAfter: "25"}
	})
	id := f.p.session()
	got := f.p.post(id, "hello")
	<-asked
	<-f.model.Idle() // the refusal is with the client: the pause begins
	begun := time.Now()
	if a := f.p.do("POST", "/sessions/"+id+"/stop", "{}"); a.status != http.StatusOK {
		t.Errorf("POST stop = %v", a)
	}
	r := <-got
	if took := time.Since(begun); r.err != nil || r.answer.status != http.StatusOK || !strings.Contains(r.answer.body, `"stopped":true`) || took > 5*time.Second {
		t.Errorf("the stopped message after %v: %v, %v", took, r.answer, r.err)
	}
	if len(asked) != 0 {
		t.Error("the model was asked once more after the stop")
	}
}

// A damaged journal is refused with the way out, and that way works: what was
// said is still there, and the conversation goes on.
func TestDamagedJournalNamesTheWayOut(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	id := p.session()
	for range 3 {
		p.alive(id)
	}
	said := len(p.do("GET", "/sessions/"+id+"/history", "").body)
	s.stop()
	dir := filepath.Join(p.workspace, "state", "journal")
	segments, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	whole, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/3] ^= 0x80
	if err := os.WriteFile(segments[0], damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := p.start()
	if code := refused.wait(); code != 1 || !strings.Contains(refused.stderr.String(), "move that directory away") || !strings.Contains(refused.stderr.String(), segments[0]) {
		t.Errorf("exit code %d, and it says %s", code, refused.stderr)
	}
	if now, err := os.ReadFile(segments[0]); err != nil || !bytes.Equal(now, damaged) {
		t.Errorf("the damaged journal was changed: %v", err)
	}
	if err := os.Rename(dir, dir+".damaged"); err != nil {
		t.Fatal(err)
	}
	s = p.serve()
	if now := p.do("GET", "/sessions/"+id+"/history", ""); len(now.body) < said {
		t.Errorf("history of %d bytes, it had %d", len(now.body), said)
	}
	p.alive(id)
	s.stop()
}
