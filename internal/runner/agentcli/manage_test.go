package agentcli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/clitest"
)

// TestOnlyItsOwnSessions: a project lists, and resumes, the sessions that Iris began
// for it and no others.
func TestOnlyItsOwnSessions(t *testing.T) {
	elsewhere := t.TempDir()
	s := newStage(t, func(o *agentcli.Options) {
		o.Projects = append(o.Projects, agentcli.Project{Name: "other", Driver: clitest.Driver{}, Bin: self(t), WorkDir: elsewhere})
	})
	foreign := "99999999-9999-4999-8999-999999999999"
	if err := os.MkdirAll(filepath.Join(s.work, ".clitest"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.work, ".clitest", foreign), nil, 0o600); err != nil {
		t.Fatal(err) // the program has it, Iris did not begin it
	}
	first := s.say("SESSION")
	if err := s.r.Reset(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	s.later(time.Hour)
	second := s.say("SESSION")
	s.r = s.pool.Runner("other")
	third := s.say("SESSION")
	s.r = s.pool.Runner("fake")

	list, err := s.r.Sessions(thread)
	if err != nil || len(list) != 2 || list[0].ID != second || list[1].ID != first || !list[0].Open || !list[0].Alive || list[1].Open {
		t.Fatalf("Sessions = %+v, %v", list, err)
	}
	if p := list[1]; p.Turns != 1 || p.First != "SESSION" || p.Dir != s.work || p.Conversation != thread.Channel() {
		t.Errorf("past = %+v", p)
	}
	for _, id := range []string{foreign, third, "", "nope"} {
		if _, err := s.r.Resume(thread, id); !errors.Is(err, agentcli.ErrNoPast) {
			t.Errorf("Resume(%q) = %v", id, err)
		}
	}
	if _, err := s.r.Resume(number(2), second); !errors.Is(err, agentcli.ErrElsewhere) {
		t.Errorf("a session that another conversation has: %v", err)
	}
	if p, err := s.r.Resume(thread, second); err != nil || p.ID != second {
		t.Errorf("its own: %+v, %v", p, err)
	}
	if _, err := s.r.Resume(thread, first[:8]); err != nil {
		t.Fatal(err)
	}
	if got := s.say("SESSION"); got != first {
		t.Errorf("resumed %s, want %s", got, first)
	}
	if list, _ = s.r.Sessions(thread); len(list) != 2 {
		t.Errorf("afterwards: %+v", list)
	}
}

func TestSwitch(t *testing.T) {
	s := newStage(t, nil)
	for _, d := range []string{"api/server", "web", "node_modules/web"} {
		if err := os.MkdirAll(filepath.Join(s.work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(s.work, "out")); err != nil {
		t.Fatal(err)
	}
	before := s.say("SESSION")
	if err := s.r.Switch(thread, "api/server"); err != nil {
		t.Fatal(err)
	}
	if got := s.say("DIR"); got != filepath.Join(s.work, "api/server") {
		t.Errorf("it works in %s", got)
	}
	if got := s.say("SESSION"); got == before {
		t.Error("the session was taken along")
	}
	for _, dir := range []string{"..", "/etc", "out", "nothing"} {
		if err := s.r.Switch(thread, dir); !errors.Is(err, agentcli.ErrNoDir) {
			t.Errorf("Switch(%q) = %v", dir, err)
		}
	}
	if _, err := s.r.Resume(thread, before); err != nil {
		t.Fatal(err)
	}
	if got := s.say("DIR"); got != s.work {
		t.Errorf("a resumed session works in %s, not where it was begun", got)
	}
	if err := s.r.Switch(thread, ""); err != nil || s.status().Dir != s.work {
		t.Errorf("back: %v, %+v", err, s.status())
	}
}

func TestDirectories(t *testing.T) {
	s := newStage(t, nil)
	for _, d := range []string{"Api", "api-old", "deep/er/api", "deep/er/still/api", ".hidden/api", "node_modules/api"} {
		if err := os.MkdirAll(filepath.Join(s.work, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		if err := os.Mkdir(filepath.Join(s.work, fmt.Sprint("many", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	find := func(word string) string {
		dirs, more := s.r.Directories(word)
		for i, d := range dirs {
			dirs[i], _ = filepath.Rel(s.work, d)
		}
		return fmt.Sprint(dirs, more)
	}
	for word, want := range map[string]string{
		"old": "[api-old] false", "API": "[Api deep/er/api] false", "nothing": "[] false",
	} {
		if diff := cmp.Diff(want, find(word)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", word, diff)
		}
	}
	if dirs, more := s.r.Directories("many"); len(dirs) != 10 || !more {
		t.Errorf("many: %d, %v", len(dirs), more)
	}
}

// TestEnvironment looks at what the program really sees.
func TestEnvironment(t *testing.T) {
	s := newStage(t, func(o *agentcli.Options) {
		o.Environ = append(o.Environ, "IRIS_API_TOKEN=leak1", "IRIS_SLACK_BOT_TOKEN=leak2", "SLACK_BOT_TOKEN=leak3", "TELEGRAM_TOKEN=leak4",
			"AWS_SECRET_ACCESS_KEY=leak5", "GITHUB_TOKEN=leak6", "LC_TOKEN_X=ok1", "ANTHROPIC_API_KEY=ok2", "CLAUDE_CONFIG_DIR=ok3", "HTTPS_PROXY=ok4",
			"XDG_CONFIG_HOME=ok5", "MINE=ok6", "MINE_TOO=leak7", "LANG=ok7", "slack_token=leak8")
		o.Projects[0].PassEnv = []string{"MINE", "SLACK_BOT_TOKEN", "IRIS_API_TOKEN", "slack_token"}
	})
	env := s.say("ENV")
	for i := 1; i <= 8; i++ {
		if strings.Contains(env, fmt.Sprint("leak", i)) {
			t.Errorf("leak%d is in the program's environment", i)
		}
	}
	for i := 1; i <= 7; i++ {
		if !strings.Contains(env, fmt.Sprint("ok", i)) {
			t.Errorf("ok%d is missing in\n%s", i, env)
		}
	}
	proc, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.status().PID))
	if err != nil || strings.Contains(string(proc), "leak") {
		t.Errorf("/proc shows %q, %v", proc, err)
	}
	if got := agentcli.Environ([]string{"HOME=/a", "HOME=/b", "BAD", "X=a\x00b"}); strings.Join(got, " ") != "HOME=/b PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" {
		t.Errorf("Environ = %q", got)
	}
}

// TestStderrIsLoggedAndNotPosted, by level, each line cut.
func TestStderrIsLoggedAndNotPosted(t *testing.T) {
	s := newStage(t, nil)
	g := s.start(lines("ERR error: broken thing", "ERR warning: old thing", "ERR plain thing "+strings.Repeat("y", 3000), "SAY done"))
	end, err := g.wait()
	if err != nil || end.Text != "done" {
		t.Errorf("end = %+v, %v", end, err)
	}
	s.r.Restart(thread)
	log := s.logs.String()
	for _, want := range []string{`level=ERROR msg="agent: error: broken thing"`, `level=WARN msg="agent: warning: old thing"`, `level=INFO msg="agent: plain thing yyy`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, strings.Repeat("y", 600)) {
		t.Error("a line was not cut")
	}
	for _, e := range g.Events() {
		if strings.Contains(e.Text+e.Label+e.Error, "thing") {
			t.Errorf("posted: %+v", e)
		}
	}
}

// TestLimits sets them on the process before its first instruction.
func TestLimits(t *testing.T) {
	s := newStage(t, func(o *agentcli.Options) { o.Limits = agentcli.Limits{Memory: 8 << 30, Processes: 12345} })
	s.say("hello")
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.status().PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Max core file size        0 ", "Max data size             8589934592 ", "Max processes             12345 "} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
}

func TestNewChecks(t *testing.T) {
	good := agentcli.Project{Name: "a", Driver: clitest.Driver{}, Bin: "x", WorkDir: "/"}
	with := func(change func(*agentcli.Project)) []agentcli.Project {
		p := good
		change(&p)
		return []agentcli.Project{p}
	}
	for name, o := range map[string]agentcli.Options{
		"no directory":        {},
		"a bad name":          {Dir: "/x", Projects: with(func(p *agentcli.Project) { p.Name = "../x" })},
		"no driver":           {Dir: "/x", Projects: with(func(p *agentcli.Project) { p.Driver = nil })},
		"no program":          {Dir: "/x", Projects: with(func(p *agentcli.Project) { p.Bin = "" })},
		"a relative work dir": {Dir: "/x", Projects: with(func(p *agentcli.Project) { p.WorkDir = "here" })},
		"a bad mode":          {Dir: "/x", Projects: with(func(p *agentcli.Project) { p.Mode = "yolo" })},
		"two of one name":     {Dir: "/x", Projects: []agentcli.Project{good, good}},
	} {
		if _, err := agentcli.New(o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	p, err := agentcli.New(agentcli.Options{Dir: "/x", Projects: []agentcli.Project{good}})
	if err != nil || len(p.Names()) != 1 || p.Runner("a").Project().Mode != agentcli.Manual || p.Runner("b") != nil {
		t.Errorf("New = %+v, %v", p, err)
	}
}

// TestDamagedRecord: a file that is no record is an error with its path, ends the
// turn and stays as it is.
func TestDamagedRecord(t *testing.T) {
	s := newStage(t, nil)
	dir := filepath.Join(s.opts.Dir, "fake")
	file := filepath.Join(dir, thread.Channel()+".json")
	for name, content := range map[string]string{"no JSON": "{", "another's": `{"channel":"WEBUI-x"}`} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.start("hello").wait(); err == nil || !strings.Contains(err.Error(), "could not be read or kept") {
			t.Errorf("%s: Run = %v", name, err)
		}
		if data, _ := os.ReadFile(file); string(data) != content {
			t.Errorf("%s: the file is %q now", name, data)
		}
		if _, err := s.r.Status(thread); err == nil {
			t.Errorf("%s: Status has no error", name)
		}
	}
	if got := s.sayIn(number(2), "hello"); got != "echo: hello" {
		t.Errorf("another conversation: %q", got)
	}
}
