package agentcli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/turn"
)

// A clerk answers questions with what it was told to, in order.
type clerk struct {
	mu      sync.Mutex
	replies []agentcli.Reply
	asked   []agentcli.Query
}

func (c *clerk) ask(ctx context.Context, q agentcli.Query) agentcli.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, q)
	id := fmt.Sprint("a", len(c.asked))
	_ = q.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: id, Text: q.Text, Command: q.Command}})
	if len(c.replies) == 0 {
		<-ctx.Done()
		_ = q.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: id, Outcome: "withdrawn"}})
		return agentcli.Reply{Outcome: agentcli.TakenBack}
	}
	r := c.replies[0]
	c.replies = c.replies[1:]
	_ = q.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: id, Outcome: string(r.Outcome), By: r.By, Picked: r.Picked}})
	return r
}

func (c *clerk) questions() []agentcli.Query {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]agentcli.Query{}, c.asked...)
}

func judged(t testing.TB, dir string) agentcli.Judge {
	t.Helper()
	j, err := policy.New(policy.Options{Workspace: dir, Home: "/home/nobody"})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// permitted is a stage with a clerk and the real policy.
func permitted(t *testing.T, mode agentcli.Mode, replies ...agentcli.Reply) (*stage, *clerk) {
	c := &clerk{replies: replies}
	s := newStage(t, func(o *agentcli.Options) {
		o.Projects[0].Mode = mode
		o.Judge = judged(t, o.Projects[0].WorkDir)
		o.Ask = c.ask
	})
	return s, c
}

var (
	yes    = agentcli.Reply{Outcome: agentcli.Approved, By: "ada"}
	no     = agentcli.Reply{Outcome: agentcli.Declined, By: "ada"}
	always = agentcli.Reply{Outcome: agentcli.Approved, By: "ada", Always: true}
)

// TestManualAsksAboutEverything: reading, too.
func TestManualAsksAboutEverything(t *testing.T) {
	s, c := permitted(t, agentcli.Manual, yes, yes, yes, yes)
	file := filepath.Join(s.work, "a.txt")
	got := s.say(lines("RUN ls", "READ "+file, "EDIT "+file, "USE Thing"))
	if n := len(c.questions()); n != 4 {
		t.Errorf("%d questions, want 4: %s", n, got)
	}
	if q := c.questions()[0]; q.Command != "ls" || q.Text != "fake wants to run this command." || q.Always || q.Tool.Name != "Bash" || q.Project != "fake" {
		t.Errorf("question: %+v", q)
	}
}

// TestAcceptEditsInsideOnly: only edits of files that lie in the work directory
// once links are followed, and that are no settings, go without a question.
func TestAcceptEditsInsideOnly(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	for _, d := range []string{"sub", ".git/hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"away": out, "gone": filepath.Join(out, "not-there"), "here": filepath.Join(dir, "sub")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(paths ...string) agentcli.Tool {
		return agentcli.Tool{Name: "Write", What: agentcli.Edit, Paths: paths}
	}
	read := func(paths ...string) agentcli.Tool {
		return agentcli.Tool{Name: "Read", What: agentcli.Read, Paths: paths}
	}
	outside := edit("x")
	outside.Outside = true
	for name, c := range map[string]struct {
		tool agentcli.Tool
		want string
	}{
		"inside":                      {edit("sub/x"), "allow"},
		"inside, absolute":            {edit(filepath.Join(dir, "sub/x")), "allow"},
		"new directories":             {edit("new/deep/x"), "allow"},
		"a link that stays inside":    {edit("here/x"), "allow"},
		"outside":                     {edit(filepath.Join(out, "x")), "ask"},
		"up and out":                  {edit("../x"), "ask"},
		"up and in":                   {edit("sub/../x"), "allow"},
		"through a link":              {edit("away/x"), "ask"},
		"a link to what is not there": {edit("gone"), "ask"},
		"one of two outside":          {edit("x", "/etc/x"), "ask"},
		"no path":                     {edit(), "ask"},
		"the program says outside":    {outside, "ask"},
		"hooks":                       {edit(".git/hooks/pre-commit"), "ask"},
		"hooks of a module":           {edit("sub/.git/config"), "ask"},
		"the program's settings":      {edit(".claude/settings.json"), "ask"},
		"reading inside":              {read("sub/x"), "allow"},
		"reading what was sent":       {read(filepath.Join(out, "x")), "allow"},
		"reading elsewhere":           {read("/etc/hostname"), "ask"},
		"searching":                   {read(), "allow"},
		"a command":                   {agentcli.Tool{Name: "Bash", What: agentcli.Execute, Command: "ls"}, "ask"},
		"the network":                 {agentcli.Tool{Name: "WebFetch", What: agentcli.Fetch}, "ask"},
		"anything":                    {agentcli.Tool{Name: "X", What: agentcli.Other}, "ask"},
	} {
		if got, _ := agentcli.RuleOf(judged(t, "/workspace"), agentcli.AcceptEdits, dir, []string{out}, c.tool); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	s, c := permitted(t, agentcli.AcceptEdits, no)
	inside := filepath.Join(s.work, "x.txt")
	got := s.say(lines("EDIT "+inside, "EDIT "+filepath.Join(out, "x.txt")))
	if len(c.questions()) != 1 || !strings.Contains(got, "EDIT: true written") || !strings.Contains(got, "EDIT: false") {
		t.Errorf("%d questions: %s", len(c.questions()), got)
	}
	if _, err := os.Stat(filepath.Join(out, "x.txt")); err == nil {
		t.Error("the file outside was written")
	}
}

// TestPolicyInEveryMode: what it refuses is refused without a question, what it
// holds is asked about, also in auto.
func TestPolicyInEveryMode(t *testing.T) {
	for _, mode := range []agentcli.Mode{agentcli.Manual, agentcli.AcceptEdits, agentcli.Auto} {
		s, c := permitted(t, mode, no)
		got := s.say(lines("RUN cat .env", "RUN rm -rf /srv/x"))
		if !strings.Contains(got, "RUN: false Refused by the policy of this machine: ") {
			t.Errorf("%s: %s", mode, got)
		}
		if qs := c.questions(); len(qs) != 1 || qs[0].Command != "rm -rf /srv/x" || qs[0].Reason == "" || !strings.Contains(qs[0].Text, "The policy holds it") {
			t.Errorf("%s: questions %+v", mode, qs)
		}
		var audit []string
		s.mu.Lock()
		for _, a := range s.audit {
			audit = append(audit, fmt.Sprintf("%s %s %s", a.Decision.Decision, a.What, a.Decision.By))
		}
		s.mu.Unlock()
		want := []string{"refused cat .env ", "held rm -rf /srv/x ", "declined rm -rf /srv/x ada"}
		if diff := cmp.Diff(want, audit); diff != "" {
			t.Errorf("%s: audit (-want +got):\n%s", mode, diff)
		}
	}
	s, c := permitted(t, agentcli.Auto)
	if got := s.say(lines("RUN echo hi", "USE Thing", "EDIT "+filepath.Join(t.TempDir(), "x"))); strings.Contains(got, "false") || len(c.questions()) != 0 {
		t.Errorf("auto asks about %d calls: %s", len(c.questions()), got)
	}
}

// TestPolicySeesThroughLinks: a link in the work directory does not hide a secret.
func TestPolicySeesThroughLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("K=v"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".env", filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	tool := agentcli.Tool{Name: "Read", What: agentcli.Read, Paths: []string{"notes.txt"}}
	if got, why := agentcli.RuleOf(judged(t, "/workspace"), agentcli.Auto, dir, nil, tool); got != "refuse" {
		t.Errorf("%s, %s: want it refused", got, why)
	}
}

// TestAlwaysForTheSession is offered where the program can do it and the policy does
// not hold the call, and reaches the program.
func TestAlwaysForTheSession(t *testing.T) {
	s, c := permitted(t, agentcli.Manual, always)
	s.say(lines("ALWAYS echo 1", "ALWAYS echo 1"))
	if qs := c.questions(); len(qs) != 1 || !qs[0].Always {
		t.Errorf("questions: %+v", qs)
	}
	s, c = permitted(t, agentcli.Manual, always, no)
	s.say(lines("ALWAYS rm -rf /srv/x"))
	if qs := c.questions(); len(qs) != 1 || qs[0].Always {
		t.Errorf("held by the policy: %+v", qs)
	}
	granted := agentcli.Tool{Name: "Bash", What: agentcli.Execute, Command: "echo 1", Granted: true}
	if got, _ := agentcli.RuleOf(judged(t, "/w"), agentcli.Manual, "/w", nil, granted); got != "allow" {
		t.Errorf("granted before: %s", got)
	}
	granted.Command = "rm -rf /srv/x"
	if got, _ := agentcli.RuleOf(judged(t, "/w"), agentcli.Manual, "/w", nil, granted); got != "ask" {
		t.Errorf("granted before, and held: %s", got)
	}
}

// TestQuestionsAndPlansAreForThePerson, in auto mode too: options go out, the pick
// comes back, and nothing is answered automatically.
func TestQuestionsAndPlansAreForThePerson(t *testing.T) {
	picked := func(s string) agentcli.Reply { return agentcli.Reply{Outcome: agentcli.Answered, Picked: s} }
	s, c := permitted(t, agentcli.Auto, picked("red"), picked("my own words"), yes, no)
	got := s.say(lines("PICK red|blue;big|small", "PLAN first this\\, then that", "PLAN another"))
	want := []string{`picked: true {"question 1?":"red","question 2?":"my own words"} `, "plan: true ", "plan: false The person did not allow it"}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("reply %q, want %q in it", got, w)
		}
	}
	qs := c.questions()
	if len(qs) != 4 {
		t.Fatalf("%d questions", len(qs))
	}
	opts := []turn.Option{{Label: "red", About: "about red"}, {Label: "blue", About: "about blue"}}
	if diff := cmp.Diff(opts, qs[0].Options); diff != "" || qs[0].Text != "Choice: question 1?" || qs[0].Kind != agentcli.Question {
		t.Errorf("question %+v; options (-want +got):\n%s", qs[0], diff)
	}
	if qs[2].Kind != agentcli.Plan || !strings.Contains(qs[2].Text, "first this") || len(qs[2].Options) != 0 {
		t.Errorf("plan: %+v", qs[2])
	}
	for name, r := range map[string]agentcli.Reply{"declined": no, "expired": {Outcome: agentcli.Expired}} {
		s, _ := permitted(t, agentcli.Auto, r)
		if got := s.say("PICK red|blue"); !strings.HasPrefix(got, "picked: false null ") || strings.HasSuffix(got, "null ") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestExpiryDenies, and the words of a no reach the program.
func TestExpiryDenies(t *testing.T) {
	s, _ := permitted(t, agentcli.Manual, agentcli.Reply{Outcome: agentcli.Expired}, agentcli.Reply{Outcome: agentcli.Declined, Words: "no, use git"})
	got := s.say(lines("RUN a", "RUN b"))
	for _, want := range []string{"RUN: false Nobody answered in time", "Their words: no, use git"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}

// TestWithdrawn: an ask ends when the program takes it back, when the turn is
// stopped and when the process ends; the turn says so before its own end.
func TestWithdrawn(t *testing.T) {
	ask := func(e turn.Event) bool { return e.Kind == turn.AskFor && e.Ask.Outcome == "" }
	over := func(e turn.Event) bool { return e.Kind == turn.AskFor && e.Ask.Outcome == "withdrawn" }
	t.Run("taken back", func(t *testing.T) {
		s, _ := permitted(t, agentcli.Manual)
		g := s.start("TAKEBACK ls")
		g.Wait(over)
		if end, err := g.wait(); err != nil || !strings.Contains(end.Text, "taken back") {
			t.Errorf("end = %+v, %v", end, err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		s, _ := permitted(t, agentcli.Manual)
		g := s.start("RUN ls")
		g.Wait(ask)
		if st := s.status(); st.Asks != 1 {
			t.Errorf("Status = %+v, want one ask", st)
		}
		g.stop(runner.ErrStopped)
		end, err := g.wait()
		if err != nil || !end.Stopped {
			t.Errorf("end = %+v, %v", end, err)
		}
		g.Wait(over)
	})
	t.Run("process ended", func(t *testing.T) {
		s, _ := permitted(t, agentcli.Manual)
		g := s.start("LATER 300\nRUN ls")
		g.Wait(ask)
		if _, err := g.wait(); err == nil {
			t.Error("the turn has a good end")
		}
		g.Wait(over)
	})
}

// TestModeAndModelOfAConversation: both hold from the next call or message on, for
// this conversation, and survive a restart.
func TestModeAndModelOfAConversation(t *testing.T) {
	s, c := permitted(t, agentcli.Manual, yes)
	s.say("hello")
	if err := s.r.SetMode(t.Context(), thread, agentcli.Auto); err != nil {
		t.Fatal(err)
	}
	if got := s.say("RUN echo hi\nMODE"); len(c.questions()) != 0 || !strings.Contains(got, "mode auto") {
		t.Errorf("in auto: %d questions, %s", len(c.questions()), got)
	}
	// Beside a turn that runs: its next call is judged by the new mode, the next
	// message has a process that was started for it.
	g := s.start("PID\nWAIT")
	g.Wait(hasText("waiting"))
	before := s.status().PID
	for _, m := range []agentcli.Mode{agentcli.Manual, agentcli.Auto} {
		if err := s.r.SetMode(t.Context(), thread, m); err != nil {
			t.Fatal(err)
		}
	}
	if s.status().PID != before {
		t.Error("the process of a running turn was ended")
	}
	g.stop(runner.ErrStopped)
	g.wait()
	if s.say("hello"); s.status().PID == before {
		t.Error("the next message has the process that was started for the old mode")
	}
	for _, flag := range []string{"-x", "provider/-x", "a\nb"} {
		if err := s.r.SetModel(t.Context(), thread, flag); err == nil {
			t.Errorf("SetModel takes %q", flag)
		}
	}
	if err := s.r.SetModel(t.Context(), thread, "big"); err != nil {
		t.Fatal(err)
	}
	pid := s.status().PID
	if got := s.say("MODEL"); got != "model big" || s.status().PID != pid {
		t.Errorf("model: %s, process %d then %d", got, pid, s.status().PID)
	}
	if err := s.r.SetModel(t.Context(), thread, "stubborn"); err != nil {
		t.Fatal(err)
	}
	if got := s.say("MODEL"); got != "model stubborn" || s.status().PID == pid {
		t.Errorf("a program that cannot change it: %s, process %d then %d", got, pid, s.status().PID)
	}
	s.restart()
	if st := s.status(); st.Mode != agentcli.Auto || st.Model != "stubborn" {
		t.Errorf("after a restart: %+v", st)
	}
	if err := s.r.SetMode(t.Context(), thread, "yolo"); err == nil {
		t.Error("a mode that there is not was taken")
	}
	all, current, err := s.r.Models(t.Context(), thread)
	if err != agentcli.ErrGone {
		t.Errorf("Models without a process = %v, %q, %v", all, current, err)
	}
	s.say("hello")
	if all, current, err = s.r.Models(t.Context(), thread); err != nil || len(all) != 2 || current != "small" {
		t.Errorf("Models = %v, %q, %v", all, current, err)
	}
}
