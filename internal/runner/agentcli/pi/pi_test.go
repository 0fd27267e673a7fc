package pi

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a real Pi gets, on a machine that is busy.
const patience = 90 * time.Second

// A bench is a home, a work directory and a Messages API for real Pis.
type bench struct {
	api   *apitest.Server
	home  string
	setup agentcli.Setup
	bin   string
}

func newBench(t *testing.T, opts apitest.Options) *bench {
	t.Helper()
	bin := os.Getenv("IRIS_TEST_CLIS")
	if bin != "" {
		bin = filepath.Join(bin, "node_modules", ".bin", "pi")
	} else if found, err := exec.LookPath("pi"); err == nil {
		bin = found
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skip("no real pi: it is not on PATH, and IRIS_TEST_CLIS names no npm prefix with it; the transcripts stand in")
	}
	b := &bench{api: apitest.New(t, opts), home: t.TempDir(), bin: bin}
	agent := filepath.Join(b.home, ".pi", "agent")
	if err := os.MkdirAll(agent, 0o700); err != nil {
		t.Fatal(err)
	}
	models := `{"providers":{"fake":{"baseUrl":"` + b.api.URL() + `","api":"anthropic-messages","apiKey":"x","models":[{"id":"fake-1","input":["text","image"]},{"id":"fake-2"}]}}}`
	settings := `{"retry":{"baseDelayMs":50,"maxRetries":2}}`
	for name, text := range map[string]string{"models.json": models, "settings.json": settings} {
		if err := os.WriteFile(filepath.Join(agent, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.setup = agentcli.Setup{Bin: bin, WorkDir: b.dir(t), Scratch: b.dir(t), Mode: agentcli.Manual, Model: "fake/fake-1", Args: []string{"--offline"}}
	return b
}

func (b *bench) dir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A proc is a running Pi.
type proc struct {
	t      *testing.T
	agent  agentcli.Agent
	events chan agentcli.Event
	stdin  io.Closer
	cmd    *exec.Cmd
	ended  chan error
}

// start launches a Pi as the supervisor would, with a clean environment.
func (b *bench) start(t *testing.T, s agentcli.Setup) *proc {
	t.Helper()
	d := New(Options{})
	l, err := d.Launch(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(l.Path, l.Args...)
	cmd.Dir = s.WorkDir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "PI_OFFLINE=1", "PI_TELEMETRY=0"}, l.Env...)
	cmd.WaitDelay = time.Second
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	agent, err := d.Attach(s, agentcli.Pipes{In: in, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	p := &proc{t: t, agent: agent, events: make(chan agentcli.Event, 10000), stdin: in, cmd: cmd, ended: make(chan error, 1)}
	go func() {
		err := agent.Read(func(e agentcli.Event) { p.events <- e })
		close(p.events)
		_ = cmd.Wait()
		p.ended <- err
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *proc) stop() {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	p.ended <- nil
}

func (p *proc) open() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := p.agent.Open(ctx); err != nil {
		p.t.Fatalf("Open: %v", err)
	}
}

func (p *proc) send(id, text string) {
	p.t.Helper()
	if err := p.agent.Send(p.t.Context(), agentcli.Prompt{ID: id, Text: text}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *proc) answer(a agentcli.Answer) {
	p.t.Helper()
	if err := p.agent.Answer(p.t.Context(), a); err != nil {
		p.t.Fatal(err)
	}
}

// until collects events to the first of a kind.
func (p *proc) until(kind agentcli.Kind) (all []agentcli.Event, last agentcli.Event) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e, ok := <-p.events:
			if !ok {
				p.t.Fatalf("pi ended before a %s; it said %+v", kind, all)
			}
			all = append(all, e)
			if e.Kind == kind {
				return all, e
			}
		case <-deadline:
			p.t.Fatalf("no %s; pi said %+v", kind, all)
		}
	}
}

// texts are the whole texts among events.
func texts(all []agentcli.Event) (out []string) {
	for _, e := range all {
		if e.Kind == agentcli.Text {
			out = append(out, strings.TrimSpace(e.Text))
		}
	}
	return out
}

func TestRealPiAnswersWithText(t *testing.T) {
	b := newBench(t, apitest.Options{})
	b.setup.System = "Speak of the blue door."
	p := b.start(t, b.setup)
	p.open()
	p.send("p1", "hello \u2028 pi")
	all, result := p.until(agentcli.Result)
	if diff := cmp.Diff([]string{"echo: hello \u2028 pi"}, texts(all)); diff != "" {
		t.Error(diff)
	}
	var pieces string
	var kinds []agentcli.Kind
	for _, e := range all {
		if e.Kind == agentcli.Delta {
			pieces += e.Text
		} else {
			kinds = append(kinds, e.Kind)
		}
	}
	if pieces != "echo: hello \u2028 pi" {
		t.Errorf("the pieces are %q", pieces)
	}
	if diff := cmp.Diff([]agentcli.Kind{agentcli.Session, agentcli.TakenUp, agentcli.Text, agentcli.Result}, kinds); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(result.Prompts, []string{"p1"}) || result.Failure != "" || result.Usage == nil || result.Usage.Output != 42 || result.Usage.Model != "fake/fake-1" {
		t.Errorf("the result is %+v, usage %+v", result, result.Usage)
	}
	if r := b.api.AwaitText(t, "hello"); !strings.Contains(r.System, "blue door") {
		t.Error("what is added to the system prompt did not arrive")
	}
	for range 2 { // a prompt after the first one, and thoughts
		p.send("p2", "SAY:two")
		if all, _ := p.until(agentcli.Result); !slices.Equal(texts(all), []string{"two"}) {
			t.Errorf("the second answer is %q", texts(all))
		}
	}
}

// TestRealPiManualAsksForEverything: reading is asked about as well, a refusal
// does not run, another input is what runs (agent-cli A15-26).
func TestRealPiManualAsksForEverything(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	made := func(name string) bool {
		_, err := os.Stat(filepath.Join(b.setup.WorkDir, name))
		return err == nil
	}
	p.send("p1", "BASHLC: touch one; echo made one")
	_, ask := p.until(agentcli.Permission)
	if ask.Tool.Command != "touch one; echo made one" || ask.Tool.What != agentcli.Execute || made("one") {
		t.Fatalf("asked is %+v", ask)
	}
	p.answer(agentcli.Answer{ID: ask.ID, Allow: true})
	all, _ := p.until(agentcli.Result)
	if !made("one") || !slices.Contains(texts(all), "FINAL after tool: OK made one") {
		t.Errorf("allowed: the file is there: %v, the texts are %q", made("one"), texts(all))
	}

	p.send("p2", "BASHLC: touch two")
	_, ask = p.until(agentcli.Permission)
	p.answer(agentcli.Answer{ID: ask.ID, Reason: "not today"})
	all, _ = p.until(agentcli.Result)
	if made("two") || !slices.Contains(texts(all), "FINAL after tool: ERR not today") {
		t.Errorf("refused: the file is there: %v, the texts are %q", made("two"), texts(all))
	}

	p.send("p3", "BASHLC: touch three")
	_, ask = p.until(agentcli.Permission)
	p.answer(agentcli.Answer{ID: ask.ID, Allow: true, Input: []byte(`{"command":"touch four"}`)})
	p.until(agentcli.Result)
	if made("three") || !made("four") {
		t.Errorf("rewritten: three is there: %v, four: %v", made("three"), made("four"))
	}

	p.send("p4", "READ:one")
	_, ask = p.until(agentcli.Permission)
	if ask.Tool.What != agentcli.Read || !slices.Equal(ask.Tool.Paths, []string{"one"}) {
		t.Errorf("reading is asked as %+v", ask.Tool)
	}
	p.answer(agentcli.Answer{ID: ask.ID, Allow: true})
	p.answer(agentcli.Answer{ID: ask.ID}) // late: no error, no harm
	all, _ = p.until(agentcli.ToolEnd)
	if e := all[len(all)-1]; e.Tool.Failed || e.Tool.Name != "read" {
		t.Errorf("the reading ended as %+v", e.Tool)
	}
	p.until(agentcli.Result)
}

// TestRealPiIgnoresExtensionsOfTheProject: they run code and could answer for us.
func TestRealPiIgnoresExtensionsOfTheProject(t *testing.T) {
	b := newBench(t, apitest.Options{})
	dir := filepath.Join(b.setup.WorkDir, ".pi", "extensions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	proof := filepath.Join(b.setup.WorkDir, "ran")
	evil := `import { writeFileSync } from "node:fs"; export default function () { writeFileSync(` + "`" + proof + "`" + `, "x"); }`
	if err := os.WriteFile(filepath.Join(dir, "evil.ts"), []byte(evil), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start(t, b.setup).open()
	if _, err := os.Stat(proof); err == nil {
		t.Error("an extension that lay in the work directory ran")
	}
}

func TestRealPiStops(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	stop := func() {
		t.Helper()
		if err := p.agent.Interrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop() // nothing to stop, and nothing said of it

	p.send("p1", "HOLD streaming")
	p.until(agentcli.Delta)
	stop()
	all, result := p.until(agentcli.Result)
	if !result.Interrupted || result.Failure != "" || !slices.Equal(texts(all), []string{"holding on"}) {
		t.Errorf("mid-stream: %+v, texts %q", result, texts(all))
	}
	b.api.AwaitAbort(t, "HOLD streaming")

	p.send("p2", "BASHLC: touch never")
	_, ask := p.until(agentcli.Permission)
	stop()
	all, result = p.until(agentcli.Result)
	if !result.Interrupted || !slices.ContainsFunc(all, func(e agentcli.Event) bool { return e.Kind == agentcli.Withdrawn && e.ID == ask.ID }) {
		t.Errorf("with an open question: %+v after %+v", result, all)
	}
	p.answer(agentcli.Answer{ID: ask.ID, Allow: true})
	if _, err := os.Stat(filepath.Join(b.setup.WorkDir, "never")); err == nil {
		t.Error("the command ran after all")
	}

	fifo := filepath.Join(b.setup.WorkDir, "begun")
	p.send("p3", "BASHLC: echo $$ > "+fifo+"; exec sleep 1000")
	_, ask = p.until(agentcli.Permission)
	p.answer(agentcli.Answer{ID: ask.ID, Allow: true})
	pid := awaitFile(t, fifo)
	stop()
	_, result = p.until(agentcli.Result)
	if !result.Interrupted {
		t.Errorf("mid-bash: %+v", result)
	}
	awaitGone(t, pid)

	p.send("p4", "SAY:still here")
	if all, _ := p.until(agentcli.Result); !slices.Equal(texts(all), []string{"still here"}) {
		t.Errorf("after the stops it says %q", texts(all))
	}
}

// awaitFile waits for the words another program writes.
func awaitFile(t *testing.T, name string) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if data, _ := os.ReadFile(name); strings.HasSuffix(string(data), "\n") {
			return strings.TrimSpace(string(data))
		}
	}
	t.Fatalf("nobody wrote %s", name)
	return ""
}

// awaitGone waits until another program has ended.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %s lives on", pid)
}

// TestRealPiTakesMessagesMeanwhile: one while it streams is next, one while a tool
// waits is told with the tool's result; each is accounted for.
func TestRealPiTakesMessagesMeanwhile(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	p.send("p1", "HOLD one")
	p.until(agentcli.Delta)
	p.send("p2", "SAY:two")
	b.api.Release()
	if _, r := p.until(agentcli.Result); !slices.Equal(r.Prompts, []string{"p1"}) {
		t.Errorf("the first result is for %q", r.Prompts)
	}
	if all, r := p.until(agentcli.Result); !slices.Equal(r.Prompts, []string{"p2"}) || !slices.Equal(texts(all), []string{"two"}) {
		t.Errorf("the second result is for %q: %q", r.Prompts, texts(all))
	}
	for _, allow := range []bool{true, false} {
		p.send("p3", "BASHLC: echo three")
		_, ask := p.until(agentcli.Permission)
		p.send("p4", "SAY:four")
		p.answer(agentcli.Answer{ID: ask.ID, Allow: allow})
		if all, r := p.until(agentcli.Result); !slices.Equal(r.Prompts, []string{"p3", "p4"}) || texts(all)[len(texts(all))-1] != "four" {
			t.Errorf("allow=%v: the result is for %q: %q", allow, r.Prompts, texts(all))
		}
	}
	if n := len(b.api.Requests()); n != 6 {
		t.Errorf("%d requests, want 6:\n%s", n, b.api.Log())
	}
}

func TestRealPiResumes(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	p.send("p1", "SAY:remember the heron")
	all, _ := p.until(agentcli.Result)
	i := slices.IndexFunc(all, func(e agentcli.Event) bool { return e.Kind == agentcli.Session })
	if i < 0 {
		t.Fatal("no session is told")
	}
	p.stop()
	info, err := os.Stat(filepath.Join(b.setup.Scratch, "sessions"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the sessions are in %v, %v", info, err)
	}

	again := b.setup
	again.Session = all[i].ID
	p = b.start(t, again)
	p.open()
	p.send("p2", "and now")
	p.until(agentcli.Result)
	if r := b.api.AwaitText(t, "and now"); r.Turns != 3 || !strings.Contains(string(r.Body), "remember the heron") {
		t.Errorf("the resumed session sends %d messages", r.Turns)
	}
	p.stop()

	for name, bad := range map[string]func(*agentcli.Setup){
		"unknown":                 func(s *agentcli.Setup) { s.Session = "01a22d1b-56b7-79b1-91c8-816304fff180" },
		"the beginning of one":    func(s *agentcli.Setup) { s.Session = again.Session[:8] },
		"of another directory":    func(s *agentcli.Setup) { s.WorkDir = b.dir(t) },
		"a path":                  func(s *agentcli.Setup) { s.Session = "../x" },
		"of another conversation": func(s *agentcli.Setup) { s.Scratch = b.dir(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s := again
			bad(&s)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := b.start(t, s).agent.Open(ctx); !errors.Is(err, agentcli.ErrNoSession) {
				t.Errorf("Open says %v", err)
			}
		})
	}
}

func TestRealPiReportsErrors(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	p.send("p1", "ERR401")
	if _, r := p.until(agentcli.Result); r.Failure != "Pi reports: 401 scripted error 401 (authentication_error)" || r.Reason != "error" {
		t.Errorf("401: %+v", r)
	}
	p.send("p2", "ERR529*3")
	all, r := p.until(agentcli.Result)
	if r.Failure != "" || !slices.Contains(texts(all), "recovered after 3") || !slices.ContainsFunc(all, func(e agentcli.Event) bool { return e.Kind == agentcli.Notice && strings.Contains(e.Text, "1 of 2") }) {
		t.Errorf("529, three times: %+v, %+v", r, all)
	}
	p.send("p3", "ERR500")
	if _, r := p.until(agentcli.Result); !strings.Contains(r.Failure, "500 scripted error 500") || !slices.Equal(r.Prompts, []string{"p3"}) {
		t.Errorf("500: %+v", r)
	}
	p.send("p4", "SAY:well again")
	if all, _ := p.until(agentcli.Result); !slices.Equal(texts(all), []string{"well again"}) {
		t.Errorf("after the errors it says %q", texts(all))
	}
}

// A GIF of one pixel.
var pixel = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

func TestRealPiSeesImagesAndFiles(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	if err := p.agent.Send(t.Context(), agentcli.Prompt{ID: "p1", Text: "look", Images: []agentcli.Image{{Mime: "image/gif", Data: pixel}}, Files: []string{"/tmp/a b.txt"}}); err != nil {
		t.Fatal(err)
	}
	p.until(agentcli.Result)
	if r := b.api.AwaitText(t, "look"); r.Images != 1 || !strings.Contains(r.Text, "/tmp/a b.txt") {
		t.Errorf("the model got %d images and %q", r.Images, r.Text)
	}
}

func TestRealPiModels(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	all, current, err := p.agent.Models(t.Context())
	if err != nil || current != "fake/fake-1" || !slices.ContainsFunc(all, func(m agentcli.Model) bool { return m.ID == "fake/fake-2" }) {
		t.Fatalf("models: %q of %+v, %v", current, all, err)
	}
	for _, name := range []string{"fake/fake-2", "fake-1", "fake-2"} {
		if err := p.agent.SetModel(t.Context(), name); err != nil {
			t.Errorf("SetModel(%s): %v", name, err)
		}
	}
	p.send("p1", "who are you")
	p.until(agentcli.Result)
	if r := b.api.AwaitText(t, "who are you"); r.Model != "fake-2" {
		t.Errorf("the model that answers is %s", r.Model)
	}
	for name, want := range map[string]string{"fake/none": "Model not found: fake/none", "none": "knows no model"} {
		if err := p.agent.SetModel(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SetModel(%s) says %v", name, err)
		}
	}
	if err := p.agent.SetMode(t.Context(), agentcli.Auto); err != nil {
		t.Error(err)
	}
}

func TestRealPiTwoAtOnce(t *testing.T) {
	b := newBench(t, apitest.Options{})
	other := b.setup
	other.WorkDir, other.Scratch = b.dir(t), b.dir(t)
	one, two := b.start(t, b.setup), b.start(t, other)
	one.open()
	two.open()
	one.send("a", "BASHLC: pwd")
	two.send("b", "BASHLC: pwd")
	for p, dir := range map[*proc]string{one: b.setup.WorkDir, two: other.WorkDir} {
		_, ask := p.until(agentcli.Permission)
		p.answer(agentcli.Answer{ID: ask.ID, Allow: true})
		if all, _ := p.until(agentcli.Result); !slices.Contains(texts(all), "FINAL after tool: OK "+dir) {
			t.Errorf("in %s it says %q", dir, texts(all))
		}
	}
}

// TestRealPiGone: whoever speaks to a Pi that has died hears of it.
func TestRealPiGone(t *testing.T) {
	b := newBench(t, apitest.Options{})
	p := b.start(t, b.setup)
	p.open()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.stop()
	if err := p.agent.Send(t.Context(), agentcli.Prompt{ID: "p"}); !errors.Is(err, agentcli.ErrGone) {
		t.Errorf("Send says %v", err)
	}
	if _, _, err := p.agent.Models(t.Context()); !errors.Is(err, agentcli.ErrGone) {
		t.Errorf("Models says %v", err)
	}
}
