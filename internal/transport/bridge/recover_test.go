package bridge

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/turn"
)

// A log that a crash left at any byte is made whole from the journal: no gap,
// nothing twice, exactly one end.
func TestALogCutAtAnyByteIsMadeWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir, j := t.TempDir(), enginetest.NewJournal()
		p := start(t, setup{dir: dir, journal: j})
		x := p.stream(ask("k", "status a", "tool b", "status c\\nd", "final done"))
		<-x.ended
		want := p.file("k")
		path := p.server.path("k")
		whole, err := os.ReadFile(path)
		if err != nil || len(want) != 4 {
			t.Fatalf("%q, %v", words(want), err)
		}
		p.stop()
		for n := range whole {
			if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, setup{dir: dir, journal: j})
			synctest.Wait()
			if n < len(wire.Head("k", want[0].Turn, 1))+36 { // without its head nobody knows whose it was
				if got := p.job("k", 0); !got.Done {
					t.Errorf("cut at %d: %+v", n, got)
				}
			} else if diff := cmp.Diff(want, p.file("k")); diff != "" {
				t.Errorf("cut at %d (-want +got):\n%s", n, diff)
			}
			p.stop()
		}
	})
}

// A turn that was open goes on after the restart, and its log with it, whatever
// the crash left of the log.
func TestOpenJobsGoOn(t *testing.T) {
	other := string(wire.Head("k", string(turn.NewID()), 1)) + string(wire.Final("of an older turn", "k", 1).Encode())
	for name, left := range map[string]func(file string) string{
		"as it was":          func(file string) string { return file },
		"only its head":      func(file string) string { return file[:strings.IndexByte(file, '\n')+1] },
		"torn":               func(file string) string { return file[:len(file)-3] },
		"empty":              func(string) string { return "" },
		"of the turn before": func(string) string { return other },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				dir, j := t.TempDir(), enginetest.NewJournal()
				first := start(t, setup{dir: dir, journal: j, run: func(ctx context.Context, req turn.Request, s turn.Sink) error {
					_ = s.Emit(turn.Event{Kind: turn.Status, Label: "first attempt"})
					<-ctx.Done()
					return context.Cause(ctx)
				}})
				x := first.stream(ask("k", "status second attempt", "wait 10s", "final done"))
				synctest.Wait()
				first.engine.Leave()
				first.stop()
				<-x.ended
				path := first.server.path("k")
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(left(string(data))), 0o600); err != nil {
					t.Fatal(err)
				}
				p := start(t, setup{dir: dir, journal: j})
				synctest.Wait()
				if got := p.job("k", 0); got.Done || cmp.Diff([]string{"1 first attempt", "2 second attempt"}, words(got.Events)) != "" {
					t.Errorf("after the restart: %q", words(got.Events))
				}
				time.Sleep(11 * time.Second)
				synctest.Wait()
				want := []string{"1 first attempt", "2 second attempt", "3 final done"}
				if diff := cmp.Diff(want, words(p.file("k"))); diff != "" {
					t.Errorf("at the end (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Appendix B.2: what cannot go on ends as interrupted, at the next start.
func TestJobsThatCannotGoOnEndAsInterrupted(t *testing.T) {
	status := string(wire.Status("working", 1).Encode())
	for name, c := range map[string]struct{ file, want string }{
		"a log without a head": {status, "2 interrupted: interrupted by a restart"},
		"an empty log":         {"", "1 interrupted: interrupted by a restart"},
		"a torn log":           {status + `{"type":"fin`, "2 interrupted: interrupted by a restart"},
		"a turn nobody knows":  {string(wire.Head("k", string(turn.NewID()), 7)) + status, "2 interrupted: interrupted by a restart"},
		"one that has an end":  {status + string(wire.Final("x", "k", 2).Encode()), "2 final x"},
		"a long end":           {status + string(wire.Final(strings.Repeat("x", 9000), "k", 2).Encode()), "2 final " + strings.Repeat("x", 9000)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "bridge-jobs", "k.jsonl")
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
				for range 2 { // a second start adds nothing
					p := start(t, setup{dir: dir})
					synctest.Wait()
					got := p.job("k", 0)
					if n := len(got.Events); !got.Done || n == 0 || words(got.Events[n-1:])[0] != c.want {
						t.Errorf("the job = %q", words(got.Events))
					}
					p.stop()
				}
			})
		})
	}
}

// An interrupted run that may not be taken up again ends its job too.
func TestARunTooOldToResumeEndsItsJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir, j := t.TempDir(), enginetest.NewJournal()
		first := start(t, setup{dir: dir, journal: j, opts: func(o *Options) { o.Limits = wire.Limits{} }})
		x := first.stream(ask("k", "wait 100h"))
		synctest.Wait()
		first.engine.Leave()
		first.stop()
		<-x.ended
		time.Sleep(5 * time.Hour)
		p := start(t, setup{dir: dir, journal: j})
		synctest.Wait()
		if got := words(p.job("k", 0).Events); len(got) != 1 || !strings.HasPrefix(got[0], "1 interrupted: interrupted by a restart 5h0m0s ago") {
			t.Errorf("the job = %q", got)
		}
	})
}

// Spec 16 #18: the hard limit goes on counting over a restart.
func TestHardLimitOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir, j := t.TempDir(), enginetest.NewJournal()
		first := start(t, setup{dir: dir, journal: j})
		x := first.stream(ask("k", "wait 100h"))
		synctest.Wait()
		x.leave()
		time.Sleep(300 * time.Second)
		first.engine.Leave()
		first.stop()
		p := start(t, setup{dir: dir, journal: j})
		time.Sleep(299 * time.Second)
		synctest.Wait()
		if p.job("k", 0).Done {
			t.Error("it ended too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := words(p.job("k", 0).Events); len(got) != 1 || got[0] != "1 max_duration: exceeded the 600s limit" {
			t.Errorf("the job = %q", got)
		}
	})
}

// Spec 8.6: old logs go, others stay; once more changes nothing; 0 keeps all.
func TestSweep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for retention, want := range map[time.Duration]string{24 * time.Hour: "keep.txt live.jsonl new.jsonl", 0: ".job-123 keep.txt live.jsonl new.jsonl old.jsonl"} {
			dir := t.TempDir()
			jobs := filepath.Join(dir, "bridge-jobs")
			p := start(t, setup{dir: dir, opts: func(o *Options) { o.Retention, o.Limits = retention, wire.Limits{} }})
			x := p.stream(ask("live", "wait 100h"))
			synctest.Wait()
			for name, age := range map[string]time.Duration{"old.jsonl": 25 * time.Hour, "new.jsonl": 23 * time.Hour, "live.jsonl": 25 * time.Hour, "keep.txt": 99 * time.Hour, ".job-123": 25 * time.Hour} {
				path := filepath.Join(jobs, name)
				if name != "live.jsonl" {
					if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				at := time.Now().Add(-age)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				p.server.sweep(t.Context())
				entries, err := os.ReadDir(jobs)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, e := range entries {
					names = append(names, e.Name())
				}
				if got := strings.Join(names, " "); got != want {
					t.Errorf("retention %v leaves %s, want %s", retention, got, want)
				}
			}
			if retention > 0 {
				time.Sleep(2*time.Hour + time.Minute) // by itself, every hour
				synctest.Wait()
				if _, err := os.Stat(filepath.Join(jobs, "new.jsonl")); err == nil {
					t.Error("nobody swept")
				}
			}
			x.leave()
			p.engine.Leave()
			p.stop()
		}
	})
}

// A log that cannot be written is a warning; the stream does not depend on it.
func TestLogThatCannotBeWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		if err := os.Mkdir(p.server.path("k"), 0o700); err != nil {
			t.Fatal(err)
		}
		x := p.stream(ask("k", "status a", "final b"))
		<-x.ended
		if got := words(x.lines(t)); len(got) != 3 || got[2] != "2 final b" {
			t.Errorf("lines = %q", got)
		}
		if !strings.Contains(p.log.String(), "begin a job log") {
			t.Errorf("no warning: %s", p.log)
		}
	})
}

func TestOptions(t *testing.T) {
	p := start(t, setup{})
	if _, err := New(Options{}); err == nil {
		t.Error("New takes no options")
	}
	opts := p.server.opts
	opts.Tokens = append(opts.Tokens, opts.Tokens...)
	if p.server.Name() != "bridge" || p.server.Ready() != nil {
		t.Errorf("%s is not ready: %v", p.server.Name(), p.server.Ready())
	}
	if err := p.server.Serve(t.Context(), func() {}); err == nil {
		t.Error("Serve a second time")
	}
	p.stop()
	if p.server.Ready() == nil {
		t.Error("ready after its end")
	}
	opts.Listen = func(context.Context) (net.Listener, error) { return nil, fmt.Errorf("the port is taken") }
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), func() {}); err == nil || s.Ready() == nil {
		t.Errorf("Serve on a port that is taken = %v", err)
	}
}
