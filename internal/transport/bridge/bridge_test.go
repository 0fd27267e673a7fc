package bridge

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/turn"
)

// Spec 8.1, 8.2: the headers, accepted before the run, statuses in order, one
// final; the same numbers in the stream and in the log.
func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		p := start(t, setup{run: func(ctx context.Context, req turn.Request, s turn.Sink) error {
			<-release
			return obey(ctx, req, s)
		}})
		x := p.stream(ask("slack-C1", "status _→ running bash_", "tool list files", "say never shown", "think", "status two\\nlines", "file ../a.txt", "state x", "final done"))
		synctest.Wait()
		want := http.Header{"Content-Type": {"application/x-ndjson"}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"}, "Connection": {"close"}, "X-Iris-Bridge": {"turns"}}
		if diff := cmp.Diff(want, x.header); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		if got := words(x.lines(t)); len(got) != 1 || got[0] != "accepted" {
			t.Errorf("before the run: %q", got)
		}
		if _, err := os.Stat(p.server.path("slack-C1")); err != nil {
			t.Errorf("before the run: %v", err)
		}
		close(release)
		<-x.ended
		lines := x.lines(t)
		if diff := cmp.Diff([]string{"accepted", "1 → running bash", "2 → list files", "3 two\nlines", "4 file: a.txt", "5 final done"}, words(lines)); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if lines[0].Protocol != 1 || lines[0].RequestID != "slack-C1" {
			t.Errorf("accepted = %+v", lines[0])
		}
		if diff := cmp.Diff(lines[1:], p.file("slack-C1")); diff != "" {
			t.Errorf("the log has other lines than the stream (-stream +log):\n%s", diff)
		}
		if diff := cmp.Diff(lines[1:], p.job("slack-C1", 0).Events); diff != "" {
			t.Errorf("the job has other lines than the stream (-stream +job):\n%s", diff)
		}
	})
}

// Spec 8.2: a status is cut at 200 characters and stays one line.
func TestLongStatusIsCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x := p.stream(ask("k", "status "+strings.Repeat("é", 500), "status __", "final ok"))
		<-x.ended
		lines := x.lines(t)
		if len(lines) != 3 || lines[1].Text != strings.Repeat("é", 200) {
			t.Errorf("lines = %q", words(lines))
		}
	})
}

// Spec 8.3: heartbeats do not extend the idle limit.
func TestHeartbeatsDoNotExtendIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		begun := time.Now()
		x := p.stream(ask("k", "status working", "wait 1h", "final late"))
		<-x.ended
		if took := time.Since(begun); took != 180*time.Second {
			t.Errorf("the stream ended after %v", took)
		}
		want := []string{"accepted", "1 working"}
		for range 11 {
			want = append(want, "heartbeat")
		}
		got := words(x.lines(t))
		if n := len(got) - 1; got[n] != "2 idle_timeout: no progress for 180s" {
			t.Errorf("the last line is %q", got[n])
		} else if beats := strings.Count(strings.Join(got, " "), "heartbeat"); beats < 11 || beats > 12 {
			t.Errorf("%d heartbeats in 180 s: %q", beats, want)
		}
		if j := p.job("k", 0); !j.Done || len(j.Events) != 2 {
			t.Errorf("the job = %+v", j)
		}
	})
}

// Spec 8.3: progress extends the idle limit, and the hard limit fires all the
// same; the run is really ended.
func TestProgressExtendsIdleUpToTheHardLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended time.Duration
		begun := time.Now()
		p := start(t, setup{run: func(ctx context.Context, req turn.Request, s turn.Sink) error {
			defer func() { ended = time.Since(begun) }()
			for i := range 100 {
				// Text and the results of tools are progress too.
				e := turn.Event{Kind: turn.Status, Label: fmt.Sprint("step ", i)}
				if i%2 == 1 {
					e = turn.Event{Kind: turn.Text, Text: "x", Partial: true}
				}
				if err := s.Emit(e); err != nil {
					return err
				}
				select {
				case <-time.After(101 * time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}})
		x := p.stream(ask("k", "x"))
		<-x.ended
		lines := x.lines(t)
		if last := words(lines[len(lines)-1:]); last[0] != "4 max_duration: exceeded the 600s limit" || time.Since(begun) != 600*time.Second {
			t.Errorf("after %v: %q", time.Since(begun), words(lines))
		}
		synctest.Wait()
		if ended != 600*time.Second {
			t.Errorf("the run ended after %v", ended)
		}
	})
}

// Spec 8.3: 0 disables a limit.
func TestZeroIsNoLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{opts: func(o *Options) { o.Limits, o.Heartbeat = wire.Limits{}, 0 }})
		x := p.stream(ask("k", "wait 5h", "final at last"))
		<-x.ended
		if got := words(x.lines(t)); len(got) != 2 || got[1] != "1 final at last" {
			t.Errorf("lines = %q", got)
		}
	})
}

// Spec 8.1, 8.3: the plain shape: one body, its own ceiling, opaque failures;
// published status keeps it alive.
func TestPlain(t *testing.T) {
	for name, c := range map[string]struct {
		text   []string
		status int
		body   string
		after  time.Duration
	}{
		"reply":                     {[]string{"status a", "final hello <b>"}, 200, `{"text":"hello <b>","requestId":"k"}`, 0},
		"failure is opaque":         {[]string{"fail the secret reason"}, 504, `{"error":"Bridge request failed."}`, 0},
		"idle":                      {[]string{"wait 1h"}, 504, `{"error":"Bridge request failed."}`, 180 * time.Second},
		"status keeps it alive":     {[]string{"wait 120s", "status a", "wait 110s", "final ok"}, 200, `{"text":"ok","requestId":"k"}`, 230 * time.Second},
		"but not beyond its limit":  {[]string{"wait 120s", "status a", "wait 120s", "status b", "wait 100s", "final ok"}, 504, `{"error":"Bridge request failed."}`, 240 * time.Second},
		"silence is an empty reply": {[]string{"final [SILENT] nothing to say"}, 200, `{"text":"(no response)","requestId":"k"}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := start(t, setup{})
				begun := time.Now()
				x := p.plain(ask("k", c.text...))
				<-x.ended
				status, body := x.got()
				if status != c.status || strings.TrimSpace(body) != c.body || time.Since(begun) != c.after {
					t.Errorf("%d %s after %v, want %d %s after %v", status, body, time.Since(begun), c.status, c.body, c.after)
				}
				if ct := x.header.Get("Content-Type"); ct != "application/json" {
					t.Errorf("content type %q", ct)
				}
			})
		})
	}
}

// Spec 8.1: a stream lives beyond what a plain request may take.
func TestStreamOutlivesThePlainLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		work := []string{"wait 170s", "status a", "wait 170s", "final ok"}
		x, y := p.stream(ask("a", work...)), p.plain(ask("b", work...))
		<-x.ended
		<-y.ended
		if status, _ := y.got(); status != 504 {
			t.Errorf("the plain caller got %d", status)
		}
		if got := x.lines(t); words(got[len(got)-1:])[0] != "2 final ok" {
			t.Errorf("the stream got %q", words(got))
		}
	})
}

// Spec 8.3.1, 16 #17: a newer request with the same id ends the older one, whose
// run is cancelled, and starts a log afresh; nobody gets the other's answer.
func TestSupersede(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cancelled := 0
		p := start(t, setup{run: func(ctx context.Context, req turn.Request, s turn.Sink) error {
			err := obey(ctx, req, s)
			if ctx.Err() != nil {
				cancelled++
			}
			return err
		}})
		x := p.stream(ask("k", "status old", "wait 100s", "final old"))
		y := p.plain(ask("other", "wait 10s", "final other"))
		synctest.Wait()
		z := p.stream(ask("k", "wait 5s", "status new", "final new"))
		<-x.ended
		if got := words(x.lines(t)); len(got) != 3 || got[2] != "2 superseded: superseded by a newer request" {
			t.Errorf("the older one got %q", got)
		}
		if j := p.job("k", 0); j.Done || len(j.Events) != 0 {
			t.Errorf("the job right behind: %+v, want an empty live one", j)
		}
		<-z.ended
		if got := words(z.lines(t)); len(got) != 3 || got[1] != "1 new" || got[2] != "2 final new" {
			t.Errorf("the newer one got %q", got)
		}
		<-y.ended
		if _, body := y.got(); !strings.Contains(body, "other") {
			t.Errorf("another id got %s", body)
		}
		if cancelled != 1 {
			t.Errorf("%d runs were cancelled", cancelled)
		}
		if got := words(p.file("k")); len(got) != 2 {
			t.Errorf("the log = %q", got)
		}
	})
}

// A reused id after an end starts afresh too.
func TestAReusedKeyStartsAfresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		for _, text := range []string{"one", "two"} {
			x := p.stream(ask("k", "status "+text, "final "+text))
			<-x.ended
			if got := words(p.job("k", 0).Events); len(got) != 2 || got[1] != "2 final "+text {
				t.Errorf("the job = %q", got)
			}
		}
	})
}

// Spec 8.3.4: a caller that hangs up leaves the run going; the reply is in the
// log; there is no error, only the hard limit is left, and no timer leaks.
func TestHangUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x := p.stream(ask("k", "status a", "wait 400s", "status b", "final late"))
		synctest.Wait()
		x.leave()
		<-x.ended
		if j := p.job("k", 0); j.Done || len(j.Events) != 1 {
			t.Errorf("right after: %+v", j)
		}
		time.Sleep(401 * time.Second)
		synctest.Wait()
		if got := words(p.job("k", 1).Events); len(got) != 2 || got[0] != "2 b" || got[1] != "3 final late" {
			t.Errorf("at the end: %q", got)
		}
		if live := p.server.live("k"); live != nil {
			t.Error("the job is still there")
		}
	})
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x := p.stream(ask("k", "wait 10h"))
		synctest.Wait()
		x.leave()
		time.Sleep(599 * time.Second)
		if p.job("k", 0).Done {
			t.Error("it ended before the hard limit")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := words(p.job("k", 0).Events); len(got) != 1 || got[0] != "1 max_duration: exceeded the 600s limit" {
			t.Errorf("after the hard limit: %q", got)
		}
	})
}

// Spec 8.5, 16 #18: every run has one end.
func TestEveryRunHasOneEnd(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"reply":                     {"final hello", "1 final hello"},
		"throws":                    {"fail out of paper", "1 failed: run failed: out of paper"},
		"panics":                    {"panic oops", "1 failed: run failed: an internal error; the log of this server says more"},
		"says nothing":              {"return", "1 failed: run failed: no response"},
		"silent":                    {"final [SILENT]", "1 final (no response)"},
		"empty":                     {"final", "1 final (no response)"},
		"returns with what it said": {"said part\nreturn", "1 final part"},
		"emphasis is no marker":     {"final _all of it_", "1 final _all of it_"},
		"model fails":               {"model the model answered 400", "1 failed: the model answered 400"},
		"tool results stay out":     {"tool ls\nfinal done", "2 final done"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := start(t, setup{})
				x := p.stream(ask("k", strings.Split(c.text, "\n")...))
				<-x.ended
				got := words(x.lines(t))
				if got[len(got)-1] != c.want {
					t.Errorf("lines = %q, want %q at the end", got, c.want)
				}
				n := 0
				for _, l := range x.lines(t) {
					if l.Terminal() {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%d terminal lines", n)
				}
			})
		})
	}
}

// Spec 5, design 2: the question of a held command is in the reply, and the
// answer counts when the caller has shown a token.
func TestAskIsInTheReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x := p.stream(ask("k", "ask rm -rf build", "final I would like to clean up."))
		<-x.ended
		want := []string{"accepted", "1 waiting for approval: rm -rf build",
			"2 final I would like to clean up.\n\nWaiting for approval until 2026-01-02 03:04 UTC: `rm -rf build`. Answer yes or no under the same request id."}
		if diff := cmp.Diff(want, words(x.lines(t))); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		x = p.stream(ask("k", "ask rm -rf build", "final May I run `rm -rf build`?"))
		<-x.ended
		if got := words(x.lines(t)); got[2] != "2 final May I run `rm -rf build`?" {
			t.Errorf("the question is put twice: %q", got[2])
		}
	})
}
