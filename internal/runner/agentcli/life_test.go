package agentcli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/clitest"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/turn"
)

func TestResidentProcess(t *testing.T) {
	s := newStage(t, nil)
	if n := s.pool.Live(); n != 0 {
		t.Fatalf("%d processes before the first message", n)
	}
	first, second := s.say("PID"), s.say("PID")
	if first != second {
		t.Errorf("two messages of one conversation ran in the processes %s and %s", first, second)
	}
	if other := s.sayIn(number(2), "PID"); other == first {
		t.Error("two conversations share a process")
	}
	st := s.status()
	if !st.Alive || strconv.Itoa(st.PID) != first || st.Busy || !st.Known || st.Session == "" {
		t.Errorf("Status = %+v", st)
	}
	if n := s.pool.Live(); n != 2 {
		t.Errorf("Live = %d, want 2", n)
	}
}

// TestSessionIsOnDiskBeforeTheProcess has the program say what is on disk when it
// takes its first message.
func TestSessionIsOnDiskBeforeTheProcess(t *testing.T) {
	s := newStage(t, nil)
	file := filepath.Join(s.opts.Dir, "fake", thread.Channel()+".json")
	var got struct {
		Session string
		Known   bool
	}
	g := s.start("WAIT") // the driver launches after the record was written
	g.Wait(hasText("waiting"))
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &got) != nil || got.Session == "" {
		t.Fatalf("%s: %q, %v", file, data, err)
	}
	g.stop(runner.ErrStopped)
	g.wait()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want 0600", info, err)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v: want 0700", info, err)
	}
}

// refusing is a driver whose Launch looks at what is on disk at that moment.
type refusing struct {
	clitest.Driver
	look func(agentcli.Setup)
}

func (r refusing) Launch(s agentcli.Setup) (agentcli.Launch, error) {
	r.look(s)
	return r.Driver.Launch(s)
}

func TestChosenSessionBeforeSpawn(t *testing.T) {
	var fresh, kept string
	s := newStage(t, func(o *agentcli.Options) {
		o.Projects[0].Driver = refusing{look: func(setup agentcli.Setup) {
			fresh = setup.Fresh
			data, _ := os.ReadFile(filepath.Join(o.Dir, "fake", thread.Channel()+".json"))
			kept = string(data)
		}}
	})
	s.say("hello")
	if fresh == "" || !strings.Contains(kept, fresh) {
		t.Errorf("when the process was started for the session %q, on disk was %q", fresh, kept)
	}
	if got := s.say("SESSION"); got != fresh {
		t.Errorf("the session is %s, want the chosen %s", got, fresh)
	}
}

func TestSessionSurvivesRestart(t *testing.T) {
	s := newStage(t, nil)
	before := s.say("SESSION")
	s.restart()
	if st := s.status(); st.Alive || st.Session != before {
		t.Errorf("after a restart: %+v", st)
	}
	if after := s.say("SESSION"); after != before {
		t.Errorf("the session is %s, was %s", after, before)
	}
	if told := s.told(); len(told) != 0 {
		t.Errorf("notices: %q", told)
	}
}

// TestUnseenSession is a crash between the choice of a session and its first
// message: nobody knew of it, so nobody is told.
func TestUnseenSession(t *testing.T) {
	for _, eager := range []bool{false, true} {
		s := newStage(t, func(o *agentcli.Options) { o.Projects[0].Driver = clitest.Driver{EagerErrors: eager} })
		dir := filepath.Join(s.opts.Dir, "fake")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		rec := `{"channel":"` + thread.Channel() + `","session":"11111111-1111-4111-8111-111111111111"}`
		if err := os.WriteFile(filepath.Join(dir, thread.Channel()+".json"), []byte(rec), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := s.say("hello"); got != "echo: hello" {
			t.Errorf("eager %v: %q", eager, got)
		}
		if told := s.told(); len(told) != 0 {
			t.Errorf("eager %v: told %q", eager, told)
		}
	}
}

// TestBadResume is a session that the program has forgotten: people are told, the
// id is dropped, and the message is answered in a fresh one.
func TestBadResume(t *testing.T) {
	for _, eager := range []bool{false, true} {
		s := newStage(t, func(o *agentcli.Options) { o.Projects[0].Driver = clitest.Driver{EagerErrors: eager} })
		old := s.say("SESSION")
		s.restart()
		if err := clitest.Forget(s.work, old); err != nil {
			t.Fatal(err)
		}
		fresh := s.say("SESSION")
		if fresh == old || fresh == "" {
			t.Errorf("eager %v: answered in %q, the session that is gone", eager, fresh)
		}
		if told := s.told(); len(told) != 1 || !strings.Contains(told[0], "does not know the session") {
			t.Errorf("eager %v: told %q", eager, told)
		}
		if again := s.say("SESSION"); again != fresh {
			t.Errorf("eager %v: the next message is in %s, want %s", eager, again, fresh)
		}
	}
}

func TestMissingBinary(t *testing.T) {
	for name, bin := range map[string]string{"a path": "/nowhere/agent", "a name": "no-such-agent", "no program": "/etc/passwd"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(o *agentcli.Options) {
				o.Projects = append(o.Projects, agentcli.Project{Name: "broken", Agent: "The Agent", Driver: clitest.Driver{}, Bin: bin, WorkDir: o.Projects[0].WorkDir})
			})
			sink := runnertest.NewSink(t)
			err := s.pool.Runner("broken").Run(t.Context(), runnertest.Request(thread, "hello"), sink)
			var known *runner.Error
			if !errors.As(err, &known) || known.Text != "The Agent could not be started: there is no program "+bin+"." {
				t.Errorf("Run = %v", err)
			}
			if got := s.say("still here"); got != "echo: still here" {
				t.Errorf("another project: %q", got)
			}
		})
	}
}

func TestCannotStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agentcli.Project)
		want   string
	}{
		"no directory": {func(p *agentcli.Project) { p.WorkDir = "/nowhere/at/all" }, "its work directory /nowhere/at/all is not there"},
		"launch":       {func(p *agentcli.Project) { p.Driver = clitest.Driver{FailLaunch: errSomething} }, "fake could not be started: something."},
		"attach":       {func(p *agentcli.Project) { p.Driver = clitest.Driver{FailAttach: errSomething} }, "fake could not be started: something."},
		"not an agent": {func(p *agentcli.Project) { p.Bin = "/bin/false" }, "fake ended before it was ready (exit status 1)"},
		"says nonsense": {func(p *agentcli.Project) {
			p.Driver = speaking{path: "/bin/echo", args: []string{"hello"}}
		}, "said something that could not be understood"},
		"never ready": {func(p *agentcli.Project) { p.Driver = speaking{path: "/bin/sleep", args: []string{"600"}} }, "was not ready within"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(o *agentcli.Options) {
				o.OpenLimit = 300 * time.Millisecond
				if name != "never ready" {
					o.OpenLimit = 10 * time.Second
				}
				c.change(&o.Projects[0])
			})
			_, err := s.start("hello").wait()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run = %v, want %q in it", err, c.want)
			}
			if n := s.pool.Live(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

// speaking starts another program.
type speaking struct {
	clitest.Driver
	path string
	args []string
}

func (d speaking) Launch(agentcli.Setup) (agentcli.Launch, error) {
	return agentcli.Launch{Path: d.path, Args: d.args}, nil
}

// TestCrashInItsOwnTurn kills the program in the middle of a turn: that turn fails
// with a sentence, another conversation goes on, the next message resumes.
func TestCrashInItsOwnTurn(t *testing.T) {
	s := newStage(t, nil)
	before := s.say("SESSION")
	other := s.startIn(number(2), "WAIT")
	other.Wait(hasText("waiting"))
	_, err := s.start("SAY half\nDIE").wait()
	var known *runner.Error
	if !errors.As(err, &known) || !strings.Contains(known.Text, "fake ended while it worked on this (exit status 7)") || !strings.Contains(known.Text, "Its session is kept") {
		t.Errorf("Run = %v", err)
	}
	if after := s.say("SESSION"); after != before {
		t.Errorf("the session is %s, was %s", after, before)
	}
	other.stop(runner.ErrStopped)
	if end, err := other.wait(); err != nil || end == nil || !end.Stopped {
		t.Errorf("the other conversation: %+v, %v", end, err)
	}
}

// TestNonsenseEndsTheProcess contains output that no protocol has.
func TestNonsenseEndsTheProcess(t *testing.T) {
	s := newStage(t, nil)
	if _, err := s.start("NONSENSE\nWAIT").wait(); err == nil || !strings.Contains(err.Error(), "could not be understood") {
		t.Errorf("Run = %v", err)
	}
	if got := s.say("hello"); got != "echo: hello" {
		t.Errorf("then: %q", got)
	}
}

// TestBrokenPipe is a program that has ended between two turns: the write fails,
// and the message is given to the next process.
func TestBrokenPipe(t *testing.T) {
	s := newStage(t, nil)
	before := s.say("SESSION\nEXIT")
	eventually(t, "the end of the process", func() bool { return s.pool.Live() == 0 })
	if after := s.say("SESSION"); after != before {
		t.Errorf("the session is %s, was %s", after, before)
	}
}

// TestClosingTakesNoMessage restarts a program that takes its time to end: a
// message that comes at once goes to the next process and is not lost.
func TestClosingTakesNoMessage(t *testing.T) {
	s := newStage(t, func(o *agentcli.Options) { o.EOFWait, o.KillDelay = 300*time.Millisecond, 300*time.Millisecond })
	first := s.say("PID\nSTUBBORN")
	closed := make(chan struct{})
	go func() {
		s.r.Restart(thread)
		close(closed)
	}()
	eventually(t, "the process to be closing", func() bool { return !s.status().Alive })
	second := s.say("PID")
	if second == first {
		t.Error("the message went to the process that was ending")
	}
	if running(first) {
		t.Error("two processes had the session at once")
	}
	<-closed
	if running(first) {
		t.Errorf("process %s ignores TERM and was not killed", first)
	}
}

// TestStopLeavesNothing stops a turn in the middle of a command that has a session
// of its own, with another program left in the background: nothing of them is left
// within five seconds, and the turn ends with what was said.
func TestStopLeavesNothing(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("SPAWN\nRUN echo $$; exec sleep 600")
	spawned := g.Wait(func(e turn.Event) bool { return e.Kind == turn.Text && !e.Partial }).Text
	g.Wait(func(e turn.Event) bool { return e.Kind == turn.ToolUse })
	pid := strconv.Itoa(s.status().PID)
	if !running(spawned) {
		t.Fatal("the program has started nothing")
	}
	began := time.Now()
	g.stop(runner.ErrStopped)
	end, err := g.wait()
	if err != nil || end == nil || !end.Stopped || !strings.Contains(end.Text, spawned) {
		t.Errorf("end = %+v, %v", end, err)
	}
	for _, p := range []string{spawned, pid} {
		if running(p) {
			t.Errorf("process %s is left", p)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if got := s.say("hello"); got != "echo: hello" {
		t.Errorf("then: %q", got)
	}
}

// TestStopKeepsTheProcess: a program that has ended its work and left nothing stays.
func TestStopKeepsTheProcess(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("PID\nWAIT")
	g.Wait(hasText("waiting"))
	pid := s.status().PID
	g.stop(runner.ErrStopped)
	if end, err := g.wait(); err != nil || !end.Stopped {
		t.Errorf("end = %+v, %v", end, err)
	}
	if now := s.status(); now.PID != pid || !now.Alive {
		t.Errorf("process %d is gone: %+v", pid, now)
	}
	if got := s.say("hello"); got != "echo: hello" {
		t.Errorf("then: %q", got)
	}
}

// TestStopOfTheDeaf ends a program that hears no interrupt, no end of input and no
// TERM.
func TestStopOfTheDeaf(t *testing.T) {
	s := newStage(t, func(o *agentcli.Options) {
		o.InterruptWait, o.EOFWait, o.KillDelay = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	g := s.start("STUBBORN\nSAY so far\nDEAF")
	g.Wait(hasText("deaf"))
	pid := strconv.Itoa(s.status().PID)
	g.stop(runner.ErrStopped)
	if end, err := g.wait(); err != nil || !end.Stopped || !strings.Contains(end.Text, "so far") {
		t.Errorf("end = %+v, %v", end, err)
	}
	if running(pid) {
		t.Error("it is still there")
	}
}

// TestStopWhileNobodyReads: a message that does not fit into the pipe of a program
// that does not read holds up nobody.
func TestStopWhileNobodyReads(t *testing.T) {
	s := newStage(t, func(o *agentcli.Options) {
		o.Projects[0].Driver = speaking{path: "/bin/sh", args: []string{"-c", `echo '{"ready":true}'; exec sleep 600`}}
		o.InterruptWait, o.EOFWait, o.KillDelay = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	g := s.start(strings.Repeat("x", 1<<20))
	eventually(t, "the process", func() bool { return s.status().Alive })
	g.stop(runner.ErrStopped)
	if end, err := g.wait(); err != nil || !end.Stopped {
		t.Errorf("end = %+v, %v", end, err)
	}
	if n := s.pool.Live(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestIdleReapAndResume(t *testing.T) {
	s := newStage(t, nil)
	before, pid := s.say("SESSION"), strconv.Itoa(s.status().PID)
	s.later(24*time.Hour - time.Second)
	agentcli.Reap(s.pool)
	if !s.status().Alive {
		t.Fatal("paused a second too early")
	}
	s.later(time.Second)
	agentcli.Reap(s.pool)
	if s.status().Alive || running(pid) {
		t.Fatal("not paused after 24 hours")
	}
	want := []string{"_fake is paused after 1440 minutes without a message; the next one resumes it._"}
	if diff := cmp.Diff(want, s.told()); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if after := s.say("SESSION"); after != before {
		t.Errorf("the session is %s, was %s", after, before)
	}
	if told := s.told(); len(told) != 2 || told[1] != "_fake resumes its session._" {
		t.Errorf("notices: %q", told)
	}
	s.say("again")
	if told := s.told(); len(told) != 2 {
		t.Errorf("told more than once: %q", told)
	}
}

func TestIdleOff(t *testing.T) {
	s := newStage(t, func(o *agentcli.Options) { o.Idle = -1 })
	s.say("hello")
	s.later(1e6 * time.Hour)
	agentcli.Reap(s.pool)
	if !s.status().Alive {
		t.Error("paused although that is off")
	}
}

// TestNoReapInATurn: neither a turn that works nor one that waits for a person is
// idle.
func TestNoReapInATurn(t *testing.T) {
	for name, script := range map[string]string{"a turn": "SAY x\nWAIT", "an ask": "SAY x\nRUN sleep 600"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(o *agentcli.Options) {
				o.Projects[0].Mode = agentcli.Manual
				o.Ask = func(ctx context.Context, q agentcli.Query) agentcli.Reply {
					_ = q.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "a1"}})
					<-ctx.Done()
					return agentcli.Reply{Outcome: agentcli.TakenBack}
				}
			})
			g := s.start(script)
			g.Wait(hasText("x"))
			if name == "an ask" {
				g.Wait(func(e turn.Event) bool { return e.Kind == turn.AskFor })
			}
			s.later(1000 * time.Hour)
			agentcli.Reap(s.pool)
			if !s.status().Alive || !s.status().Busy {
				t.Errorf("the process was ended: %+v", s.status())
			}
			g.stop(runner.ErrStopped)
			g.wait()
		})
	}
}

// TestInstanceIDs are never those of an earlier process of Iris.
func TestInstanceIDs(t *testing.T) {
	s := newStage(t, nil)
	seen := map[string]bool{}
	for range 3 {
		s.restart()
		for range 2 {
			s.say("hello")
			id := s.status().Instance
			if id == "" || seen[id] {
				t.Errorf("instance %q came again", id)
			}
			seen[id] = true
			s.r.Restart(thread)
		}
	}
}

// TestServeEndsEverything: when the pool ends nothing is left and nothing starts.
func TestServeEndsEverything(t *testing.T) {
	s := newStage(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.pool.Serve(ctx) }()
	spawned := s.say("SPAWN")
	pid := strconv.Itoa(s.status().PID)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if running(pid) || running(spawned) {
		t.Error("processes are left")
	}
	if _, err := s.start("hello").wait(); !errors.Is(err, runner.ErrLeaving) {
		t.Errorf("a turn after the end: %v", err)
	}
}

func TestReset(t *testing.T) {
	s := newStage(t, nil)
	before := s.say("SESSION")
	if err := s.r.Reset(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	if st := s.status(); st.Alive || st.Session != "" {
		t.Errorf("after a reset: %+v", st)
	}
	if after := s.say("SESSION"); after == before {
		t.Error("the session was not forgotten")
	}
}

func TestCompact(t *testing.T) {
	s := newStage(t, nil)
	if line, err := s.r.Compact(t.Context(), thread); err != nil || !strings.Contains(line, "no context") {
		t.Errorf("before the first message: %q, %v", line, err)
	}
	s.say("hello")
	if line, err := s.r.Compact(t.Context(), thread); err != nil || line != "" {
		t.Errorf("Compact = %q, %v", line, err)
	}
	if u, err := s.r.Usage(thread); err != nil || u.Turns != 1 {
		t.Errorf("a compaction counts as a turn: %+v, %v", u, err)
	}
}
