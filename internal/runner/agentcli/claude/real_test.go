//go:build e2e

package claude_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/apitest"
	"github.com/iris-operator/iris/internal/runner/agentcli/claude"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/turn"
)

// patience is how long the real program may take; a cold start takes most of it.
const patience = 90 * time.Second

// real finds the program: below the npm prefix that IRIS_TEST_CLIS names, else on
// PATH.
func real(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(os.Getenv("IRIS_TEST_CLIS"), "node_modules", ".bin", "claude")
	if os.Getenv("IRIS_TEST_CLIS") == "" {
		bin, _ = exec.LookPath("claude")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skip("no real claude: it is not on PATH, and IRIS_TEST_CLIS names no npm prefix with it; the recordings stand in")
	}
	return bin
}

// A lab is the real program behind a Pool, with a model that follows a script.
type lab struct {
	t    *testing.T
	api  *apitest.Server
	opts agentcli.Options
	pool *agentcli.Pool
	work string
	home string

	mu      sync.Mutex
	asked   []agentcli.Query
	replies []agentcli.Reply
	notices []string
	now     time.Time
	files   []string
	images  []agentcli.Image
}

func newLab(t *testing.T, mode agentcli.Mode) *lab {
	t.Helper()
	l := &lab{t: t, api: apitest.New(t, apitest.Options{}), work: t.TempDir(), home: t.TempDir(), now: time.Now()}
	driver, err := claude.New(claude.Options{Retries: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.opts = agentcli.Options{
		Dir: filepath.Join(t.TempDir(), "agentcli"), Owner: "claude" + strconv.Itoa(os.Getpid()),
		Environ: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + l.home, "ANTHROPIC_BASE_URL=" + l.api.URL(), "ANTHROPIC_API_KEY=sk-ant-dummy",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
			"IRIS_API_TOKEN=canary", "SLACK_BOT_TOKEN=canary",
		},
		Projects: []agentcli.Project{{Name: "claude", Driver: driver, Bin: real(t), WorkDir: l.work, Mode: mode,
			System: func(chat.Address) string { return "CANARY-OF-OUR-PROMPT" }}},
		Ask: l.ask,
		Notice: func(_ context.Context, _ chat.Address, text string) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.notices = append(l.notices, text)
			return nil
		},
		Attach: func(context.Context, turn.Request) ([]agentcli.Image, []string, error) { return l.images, l.files, nil },
		Now: func() time.Time {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.now
		},
		InterruptWait: 4 * time.Second,
		Logger:        slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	t.Cleanup(func() {
		if l.pool != nil {
			l.pool.Close()
		}
		if t.Failed() {
			t.Logf("the API was asked:\n%s", l.api.Log())
		}
	})
	return l
}

// open makes the Pool; called again it is what the next process of Iris finds.
func (l *lab) open() *lab {
	l.t.Helper()
	if l.pool != nil {
		l.pool.Close()
	}
	var err error
	if l.pool, err = agentcli.New(l.opts); err != nil {
		l.t.Fatal(err)
	}
	return l
}

// answer says what people answer next.
func (l *lab) answer(replies ...agentcli.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replies = append(l.replies, replies...)
}

func (l *lab) ask(ctx context.Context, q agentcli.Query) agentcli.Reply {
	l.mu.Lock()
	l.asked = append(l.asked, q)
	var r *agentcli.Reply
	if len(l.replies) > 0 {
		r, l.replies = &l.replies[0], l.replies[1:]
	}
	l.mu.Unlock()
	if err := q.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: q.ID, Text: q.Text, Command: q.Command}}); err != nil {
		return agentcli.Reply{Outcome: agentcli.TakenBack}
	}
	if r == nil {
		<-ctx.Done()
		_ = q.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: q.ID, Outcome: "withdrawn"}})
		return agentcli.Reply{Outcome: agentcli.TakenBack}
	}
	return *r
}

// questions returns what was asked and forgets it.
func (l *lab) questions() (all []agentcli.Query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, l.asked = l.asked, nil
	return all
}

func (l *lab) told(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.notices, func(n string) bool { return strings.Contains(n, text) })
}

var thread = chat.Address{Space: chat.Web, ID: "thread"}

type going struct {
	*runnertest.Sink
	l    *lab
	stop context.CancelCauseFunc
	done chan error
}

func (l *lab) begin(conv chat.Address, text string) *going {
	l.t.Helper()
	ctx, cancel := context.WithCancelCause(l.t.Context())
	g := &going{Sink: runnertest.NewSink(l.t), l: l, stop: cancel, done: make(chan error, 1)}
	req := runnertest.Request(conv, text)
	if len(l.files)+len(l.images) > 0 {
		req.Message.Files = []chat.File{{Local: "x"}}
	}
	go func() { g.done <- l.pool.Runner("claude").Run(ctx, req, g.Sink) }()
	return g
}

func (g *going) end() (turn.Event, error) {
	g.l.t.Helper()
	select {
	case err := <-g.done:
		if e := g.End(); e != nil {
			return *e, err
		}
		return turn.Event{}, err
	case <-time.After(patience):
		g.l.t.Fatalf("the turn does not end; events: %+v\n%s", g.Events(), g.l.api.Log())
		panic("unreachable")
	}
}

// until waits for an event.
func (g *going) until(what string, match func(turn.Event) bool) turn.Event {
	g.l.t.Helper()
	var found turn.Event
	eventually(g.l.t, what, func() bool {
		i := slices.IndexFunc(g.Events(), match)
		if i >= 0 {
			found = g.Events()[i]
		}
		return i >= 0
	})
	return found
}

func (l *lab) say(conv chat.Address, text string) turn.Event {
	l.t.Helper()
	e, err := l.begin(conv, text).end()
	if err != nil || e.Kind != turn.Final {
		l.t.Fatalf("%q: %v, %+v; want a reply\n%s", text, err, e, l.api.Log())
	}
	return e
}

// eventually polls something outside of the test's process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// below lists the processes that carry the mark of this test's programs.
func (l *lab) below() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, d := range dirs {
		env, err := os.ReadFile(d)
		if err != nil || !strings.Contains(string(env), "HOME="+l.home) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(d))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

var (
	yes    = agentcli.Reply{Outcome: agentcli.Approved, By: "ada"}
	always = agentcli.Reply{Outcome: agentcli.Approved, By: "ada", Always: true}
	no     = agentcli.Reply{Outcome: agentcli.Declined, By: "ada", Words: "use another"}
)

func TestRealTurnAndTools(t *testing.T) {
	l := newLab(t, agentcli.Manual).open()
	e := l.say(thread, "hello there")
	if e.Text != "echo: hello there" || e.Usage == nil || e.Usage.Output == 0 || e.Usage.Cost <= 0 || e.Usage.Window == 0 {
		t.Errorf("reply %+v, want the echo and what it cost", e)
	}
	if r := l.api.AwaitText(t, "hello there"); !strings.Contains(r.System, "CANARY-OF-OUR-PROMPT") {
		t.Error("the system prompt does not hold ours")
	}

	l.answer(yes)
	if e := l.say(thread, "RUN: touch made && echo done"); !strings.Contains(e.Text, "OK done") {
		t.Errorf("allowed: %q", e.Text)
	}
	if _, err := os.Stat(filepath.Join(l.work, "made")); err != nil {
		t.Errorf("the command did not run: %v", err)
	}
	l.answer(no)
	if e := l.say(thread, "RUN: touch unmade"); !strings.Contains(e.Text, "use another") {
		t.Errorf("declined: %q, want the person's words", e.Text)
	}
	if _, err := os.Stat(filepath.Join(l.work, "unmade")); err == nil {
		t.Error("what was declined ran")
	}
	if q := l.questions(); len(q) != 2 || q[0].Command != "touch made && echo done" || !q[0].Always {
		t.Errorf("asked %+v, want both commands", q)
	}

	l.answer(always)
	l.say(thread, "RUN: echo again")
	if e := l.say(thread, "RUN: echo again"); !strings.Contains(e.Text, "OK again") {
		t.Errorf("always: %q", e.Text)
	}
	if q := l.questions(); len(q) != 1 {
		t.Errorf("asked %d times, want once", len(q))
	}

	l.answer(agentcli.Reply{Outcome: agentcli.Answered, Picked: "Blue"})
	if e := l.say(thread, "ASKUSER"); !strings.Contains(e.Text, `"Which colour?"="Blue"`) {
		t.Errorf("answered: %q", e.Text)
	}
	if q := l.questions(); len(q) != 1 || len(q[0].Options) != 2 || q[0].Options[1].Label != "Blue" {
		t.Errorf("asked %+v, want two options", q)
	}

	l.answer(yes, yes)
	l.say(thread, "TOOL:EnterPlanMode {}")
	if e := l.say(thread, "PLAN"); !strings.Contains(e.Text, "approved your plan") {
		t.Errorf("plan: %q", e.Text)
	}
	if q := l.questions(); len(q) != 2 || q[1].Kind != agentcli.Plan || !strings.Contains(q[1].Text, "do x") {
		t.Errorf("asked %+v, want the plan", q)
	}

	l.answer(yes, yes)
	g := l.begin(thread, "TASKME")
	if e, err := g.end(); err != nil || !strings.Contains(e.Text, "FINAL after tool") || strings.Contains(e.Text, "running it.") {
		t.Errorf("sub-agent: %+v, %v; want the agent's text without the sub-agent's", e, err)
	}
}

// TestRealManual: what Claude would let pass by itself, and what the machine's own
// settings allow, is asked all the same.
func TestRealManual(t *testing.T) {
	l := newLab(t, agentcli.Manual)
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(l.home, ".claude", "settings.json"), `{"permissions":{"allow":["Bash","Read","mcp__toy"],"defaultMode":"bypassPermissions"}}`)
	write(filepath.Join(l.work, "a.txt"), "inside a")
	write(filepath.Join(l.work, "CLAUDE.md"), "NOTES-OF-THE-PROJECT")
	server := filepath.Join(t.TempDir(), "toy.sh")
	write(server, `while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"toy\",\"version\":\"1\"}}}" ;;
  *'"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"play\",\"inputSchema\":{\"type\":\"object\"}}]}}" ;;
  *'"tools/call"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"played\"}]}}" ;;
  esac
done
`)
	mcp, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"toy": map[string]any{"command": "bash", "args": []string{server}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []agentcli.Mode{agentcli.Manual, agentcli.AcceptEdits} {
		t.Run(string(mode), func(t *testing.T) {
			l.t = t
			l.opts.Projects[0].Mode = mode
			l.opts.Projects[0].Args = []string{"--mcp-config", string(mcp)}
			l.open()
			conv := chat.Address{Space: chat.Web, ID: string(mode)}
			reads := mode == agentcli.Manual
			for _, c := range []struct {
				prompt, want string
				asks         bool
			}{
				{"RUN: ls", "a.txt", true},
				{"READ:" + filepath.Join(l.work, "a.txt"), "inside a", reads},
				{"WRITE:" + filepath.Join(l.work, string(mode)), "OK", reads},
				{"WRITE:" + filepath.Join(l.work, ".claude", string(mode)), "OK", true},
				{"WRITE:" + filepath.Join(l.home, string(mode)), "OK", true},
				{"TOOL:mcp__toy__play {}", "played", true},
				{`TOOL:TaskCreate {"subject":"x","description":"y"}`, "OK", true},
			} {
				if c.asks {
					l.answer(yes)
				}
				if e := l.say(conv, c.prompt); !strings.Contains(e.Text, c.want) {
					t.Errorf("%s: %q, want %q", c.prompt, e.Text, c.want)
				}
				if got := len(l.questions()) == 1; got != c.asks {
					t.Errorf("%s: asked %v, want %v", c.prompt, got, c.asks)
				}
			}
			if r := l.api.AwaitText(t, "RUN: ls"); !strings.Contains(string(r.Body), "NOTES-OF-THE-PROJECT") {
				t.Error("the project's notes are not in the request")
			}
		})
	}
}

func TestRealInterrupt(t *testing.T) {
	l := newLab(t, agentcli.Auto).open()
	g := l.begin(thread, "SLOW")
	g.until("text", func(e turn.Event) bool { return e.Kind == turn.Text && e.Partial })
	g.stop(runner.ErrStopped)
	if e, err := g.end(); err != nil || !e.Stopped || !strings.HasPrefix(e.Text, "word") {
		t.Errorf("stopped while it streams: %+v, %v; want what it had said", e, err)
	}
	l.api.AwaitAbort(t, "SLOW")

	for name, command := range map[string]string{
		"a command":              "sleep 61",
		"what leaves its parent": "(setsid nohup sleep 62 >/dev/null 2>&1 &) ; sleep 63",
	} {
		g = l.begin(thread, "RUN: "+command)
		eventually(t, name, func() bool { return len(l.sleeping()) > 0 })
		g.stop(runner.ErrStopped)
		began := time.Now()
		if e, err := g.end(); err != nil || !e.Stopped {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		eventually(t, name, func() bool { return len(l.sleeping()) == 0 })
		if took := time.Since(began); took > 5*time.Second {
			t.Logf("%s: nothing left after %s (the machine may be busy)", name, took)
		}
	}
	// A question that is open is taken back.
	l.opts.Projects[0].Mode = agentcli.Manual
	l.open()
	g = l.begin(thread, "RUN: touch x")
	g.until("a question", func(e turn.Event) bool { return e.Kind == turn.AskFor })
	g.stop(runner.ErrStopped)
	if e, err := g.end(); err != nil || !e.Stopped {
		t.Errorf("stopped while it asks: %+v, %v", e, err)
	}
	if e := l.say(thread, "still there?"); e.Text != "echo: still there?" {
		t.Errorf("after that it says %q", e.Text)
	}
	l.pool.Close()
	if left := l.below(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// sleeping lists the sleeps of this lab.
func (l *lab) sleeping() (pids []int) {
	for _, pid := range l.below() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(string(line), "sleep\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestRealFilesIn(t *testing.T) {
	l := newLab(t, agentcli.AcceptEdits)
	notes := t.TempDir()
	path := filepath.Join(notes, "Überblick 計画.txt")
	if err := os.WriteFile(path, []byte("what the file says"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.opts.Projects[0].Readable = func(chat.Address) []string { return []string{notes} }
	var pic strings.Builder
	img := image.NewRGBA(image.Rect(0, 0, 8, 8))
	img.Set(1, 1, color.White)
	if err := png.Encode(&pic, img); err != nil {
		t.Fatal(err)
	}
	l.files, l.images = []string{path}, []agentcli.Image{{Mime: "image/png", Data: []byte(pic.String())}}
	l.open()
	l.say(thread, "look at these")
	r := l.api.AwaitText(t, "look at these")
	if !strings.Contains(r.Text, path) || r.Images != 1 {
		t.Errorf("the model got %q and %d images, want the path and one", r.Text, r.Images)
	}
	l.files, l.images = nil, nil
	if e := l.say(thread, "READ:"+path); !strings.Contains(e.Text, "what the file says") {
		t.Errorf("reading it: %q", e.Text)
	}
	if q := l.questions(); len(q) != 0 {
		t.Errorf("asked %+v, want nothing: it is readable", q)
	}
}

func TestRealResume(t *testing.T) {
	l := newLab(t, agentcli.Auto).open()
	l.say(thread, "remember 42")
	// The process is killed while it works.
	g := l.begin(thread, "HOLD")
	l.api.AwaitText(t, "HOLD")
	for _, pid := range l.below() {
		p, err := os.FindProcess(pid)
		if err == nil {
			_ = p.Kill()
		}
	}
	if _, err := g.end(); err == nil || !strings.Contains(err.Error(), "session is kept") {
		t.Errorf("killed: %v, want to be told that the session is kept", err)
	}
	l.say(thread, "after the kill")
	if r := l.api.AwaitText(t, "after the kill"); !strings.Contains(string(r.Body), "remember 42") {
		t.Error("after a kill the conversation is not the same")
	}
	// Iris is restarted.
	l.open()
	l.say(thread, "after the restart")
	if r := l.api.AwaitText(t, "after the restart"); !strings.Contains(string(r.Body), "remember 42") {
		t.Error("after a restart the conversation is not the same")
	}
	// It is idle, and goes on.
	l.mu.Lock()
	l.now = l.now.Add(48 * time.Hour)
	l.mu.Unlock()
	l.opts.Idle = 50 * time.Millisecond
	l.open()
	ctx, cancel := context.WithCancel(t.Context())
	serving := make(chan error, 1)
	l.say(thread, "before the pause")
	go func() { serving <- l.pool.Serve(ctx) }()
	l.mu.Lock()
	l.now = l.now.Add(time.Hour)
	l.mu.Unlock()
	eventually(t, "a pause", func() bool { return l.told("is paused") && l.pool.Live() == 0 })
	l.say(thread, "after the pause")
	if r := l.api.AwaitText(t, "after the pause"); !strings.Contains(string(r.Body), "remember 42") {
		t.Error("after a pause the conversation is not the same")
	}
	if !l.told("resumes its session") {
		t.Errorf("after a pause nobody was told that it goes on: %q", l.notices)
	}
	cancel()
	<-serving
	// Its sessions are gone: that is told, and a new one begins.
	if err := os.RemoveAll(filepath.Join(l.home, ".claude", "projects")); err != nil {
		t.Fatal(err)
	}
	l.open()
	if e := l.say(thread, "anybody?"); e.Text != "echo: anybody?" || !l.told("does not know the session") {
		t.Errorf("an unknown session: %q, notices %q", e.Text, l.notices)
	}
}

func TestRealErrors(t *testing.T) {
	l := newLab(t, agentcli.Auto).open()
	for _, status := range []string{"401", "500", "529"} {
		g := l.begin(chat.Address{Space: chat.Web, ID: "e" + status}, "ERR"+status)
		e, err := g.end()
		if err != nil || e.Kind != turn.Failed || !strings.Contains(e.Error, status) && !strings.Contains(strings.ToLower(e.Error), "api key") {
			t.Errorf("%s: %+v, %v; want a failure that names it", status, e, err)
		}
		if !slices.ContainsFunc(g.Events(), func(e turn.Event) bool {
			return e.Kind == turn.Status && strings.Contains(e.Label, status) && strings.Contains(e.Label, "again")
		}) {
			t.Errorf("%s: no line about the new attempt in %+v", status, g.Events())
		}
	}
	if e := l.say(thread, "ERR529*1 once"); !strings.Contains(e.Text, "recovered") {
		t.Errorf("after one error: %q", e.Text)
	}
}

func TestRealTwoThreads(t *testing.T) {
	l := newLab(t, agentcli.Auto).open()
	other := chat.Address{Space: chat.Web, ID: "other"}
	a, b := l.begin(thread, "HOLD one"), l.begin(other, "HOLD two")
	l.api.AwaitText(t, "HOLD one")
	l.api.AwaitText(t, "HOLD two")
	l.api.Release()
	for _, g := range []*going{a, b} {
		if e, err := g.end(); err != nil || e.Text != "holding on and released" {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if l.pool.Live() != 2 {
		t.Errorf("%d processes, want one each", l.pool.Live())
	}
}
