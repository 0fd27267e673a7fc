package bridge

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// Spec 16 #16: a token protects the port; only who shows it is proven.
func TestTokens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{tokens: []secret.Value{secret.New("shared-token"), secret.New("own-token")}})
		seen := &spy{Inbox: p.engine}
		p.server.opts.Inbox = seen
		for header, status := range map[string]int{
			"": 401, "Bearer": 401, "Bearer wrong": 401, "Basic shared-token": 401, "Bearer shared-token": 200, "bearer own-token": 200,
		} {
			x := p.plain(ask("k", "final ok"), "Authorization", header)
			<-x.ended
			if got, body := x.got(); got != status {
				t.Errorf("%q: %d %s, want %d", header, got, body, status)
			}
			y := p.send("GET", "/bridge/jobs/k", "", "Authorization", header)
			<-y.ended
			if got, body := y.got(); got != status && (status != 200 || got != 404) {
				t.Errorf("GET with %q: %d %s, want %d", header, got, body, status)
			}
		}
		for _, s := range seen.got {
			if !s.Proven {
				t.Errorf("a caller with a token is not proven: %+v", s)
			}
		}
	})
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		seen := &spy{Inbox: p.engine}
		p.server.opts.Inbox = seen
		x := p.plain(ask("k", "final ok"), "Authorization", "Bearer whatever")
		<-x.ended
		if len(seen.got) != 1 || seen.got[0].Proven || seen.got[0].Origin != turn.FromBridge {
			t.Errorf("without tokens: %+v", seen.got)
		}
	})
}

type spy struct {
	Inbox
	got []transport.Submission
}

func (s *spy) Submit(ctx context.Context, in transport.Submission) (transport.Receipt, error) {
	s.got = append(s.got, in)
	return s.Inbox.Submit(ctx, in)
}

// Spec 8.1: what is refused, with which words.
func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		for _, c := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"POST", "/bridge", "{", 400, `{"error":"invalid JSON"}`},
			{"POST", "/bridge", "{}", 400, `{"error":"text is required"}`},
			{"POST", "/bridge", `{"text":{"a":1}}`, 400, `{"error":"text is required"}`},
			{"POST", "/bridge", `{"text":"x","turn":"not one"}`, 400, `{"error":"turn id is not a UUIDv7"}`},
			{"POST", "/bridge", `{"text":"` + strings.Repeat("x", wire.MaxBody) + `"}`, 413, `{"error":"body is larger than 10485760 bytes"}`},
			{"GET", "/health", "", 404, `{"error":"not found"}`},
			{"GET", "/bridge", "", 404, `{"error":"not found"}`},
			{"GET", "/", "", 404, `{"error":"not found"}`},
			{"POST", "/bridge/", "{}", 404, `{"error":"not found"}`},
			{"POST", "/bridge/jobs/k", "{}", 404, `{"error":"not found"}`},
			{"DELETE", "/bridge/jobs/k", "", 404, `{"error":"not found"}`},
			{"GET", "/bridge/jobs/", "", 404, `{"error":"not found"}`},
			{"GET", "/bridge/jobs/a/b", "", 404, `{"error":"not found"}`},
			{"GET", "/bridge/jobs/nobody", "", 404, `{"error":"unknown job"}`},
			{"GET", "/bridge/jobs/%2e%2e%2fx", "", 404, `{"error":"not found"}`},
		} {
			x := p.send(c.method, c.path, c.body)
			<-x.ended
			if status, body := x.got(); status != c.status || strings.TrimSpace(body) != c.want {
				t.Errorf("%s %s %.40s: %d %s, want %d %s", c.method, c.path, c.body, status, body, c.status, c.want)
			}
		}
	})
}

// Spec 8.6, 16 #16: ids are cleaned on the server and never leave the directory.
func TestHostileIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		p := start(t, setup{dir: dir})
		for _, id := range []string{"../../evil", "a/b", "..", strings.Repeat("k", 500), "a\x00b", "计划"} {
			x := p.plain(ask(id, "final ok"))
			<-x.ended
			if _, body := x.got(); !strings.Contains(body, `"requestId":"`+wire.CleanID(id)+`"`) {
				t.Errorf("%.20q: %s", id, body)
			}
			if j := p.job(wire.CleanID(id), 0); !j.Done {
				t.Errorf("%.20q has no job", id)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("beside the job logs: %v, %v", entries, err)
		}
	})
}

// Spec 8.6: since, and a log with torn and foreign lines.
func TestJobAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x := p.stream(ask("k", "status a", "status b", "final c"))
		<-x.ended
		for since, want := range map[string]int{"": 3, "0": 3, "1": 2, "3": 0, "99": 0, "-5": 3, "x": 3} {
			_, body := p.get("/bridge/jobs/k?since=" + since)
			j, err := wire.ParseJob([]byte(body))
			if err != nil || len(j.Events) != want || !j.Done || j.RequestID != "k" || uuids.FindString(j.Turn) != j.Turn {
				t.Errorf("since=%s: %s %v, want %d events", since, body, err, want)
			}
		}
		old := "{\"type\":\"status\",\"text\":\"no number\"}\nrubbish\n{\"type\":\"later\"}\n{\"type\":\"final\",\"text\":\"x\",\"requestId\":\"old\",\"seq\":7}\n{\"type\":\"sta"
		if err := os.WriteFile(p.server.path("old"), []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		if j := p.job("old", 99); !j.Done || len(j.Events) != 1 {
			t.Errorf("since=99 of a foreign log: %+v", j)
		}
		if err := os.Mkdir(p.server.path("dir"), 0o700); err != nil {
			t.Fatal(err)
		}
		if status, body := p.get("/bridge/jobs/dir"); status != 500 || strings.TrimSpace(body) != `{"error":"internal server error"}` {
			t.Errorf("a log that cannot be read: %d %s", status, body)
		}
	})
}

// A poll that waits has the line at once.
func TestLongPoll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x := p.stream(ask("k", "wait 3s", "status a", "wait 3s", "final b"))
		synctest.Wait()
		x.leave()
		begun := time.Now()
		for _, want := range []struct {
			query string
			after time.Duration
			word  string
		}{{"since=0&wait=30000", 3 * time.Second, "1 a"}, {"since=1&wait=1000", 4 * time.Second, ""}, {"since=1&wait=30000", 6 * time.Second, "2 final b"}, {"since=2&wait=30000", 6 * time.Second, ""}} {
			_, body := p.get("/bridge/jobs/k?" + want.query)
			j, err := wire.ParseJob([]byte(body))
			got := strings.Join(words(j.Events), "; ")
			if err != nil || got != want.word || time.Since(begun) != want.after {
				t.Errorf("%s: %q after %v, want %q after %v", want.query, got, time.Since(begun), want.word, want.after)
			}
		}
	})
}

// Design 6: a turn that is posted again is answered by itself: while it runs,
// after its end, and when another has taken its id.
func TestATurnPostedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		runs := 0
		p := start(t, setup{run: func(ctx context.Context, req turn.Request, s turn.Sink) error {
			runs++
			return obey(ctx, req, s)
		}})
		body := func(id turn.ID, text string) string {
			return string(wire.Request{Text: text, RequestID: "k", Turn: string(id)}.Encode())
		}
		first, second := turn.NewID(), turn.NewID()
		text := "status a\nwait 10s\nfinal one"
		x := p.stream(body(first, text))
		synctest.Wait()
		x.leave()
		y := p.stream(body(first, text))
		<-y.ended
		want := []string{"accepted", "1 a", "2 final one"}
		if got := y.lines(t); cmp.Diff(want, words(got)) != "" || got[0].Turn != string(first) {
			t.Errorf("while it runs: %q, turn %s", words(got), got[0].Turn)
		}
		y = p.stream(body(first, text))
		<-y.ended
		if got := words(y.lines(t)); cmp.Diff(want, got) != "" {
			t.Errorf("after its end: %q", got)
		}
		z := p.plain(body(second, "final two"))
		<-z.ended
		y = p.stream(body(first, text))
		<-y.ended
		if got := words(y.lines(t)); cmp.Diff(want, got) != "" {
			t.Errorf("when another has the id: %q", got)
		}
		if j := p.job("k", 0); j.Turn != string(second) || words(j.Events)[0] != "1 final two" {
			t.Errorf("the job = %+v, want the one of the newest turn", j)
		}
		if runs != 2 {
			t.Errorf("%d runs", runs)
		}
		// The same turn under another id is refused.
		w := p.stream(string(wire.Request{Text: "final x", RequestID: "other", Turn: string(first)}.Encode()))
		<-w.ended
		if got := words(w.lines(t)); len(got) != 1 || got[0] != "1 event_write_failed: Failed to write event." {
			t.Errorf("under another id: %q", got)
		}
	})
}

// A caller that wants no reply any more stops its turn, and no other.
func TestStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		id := turn.NewID()
		x := p.stream(string(wire.Request{Text: "said half\nwait 1h", RequestID: "k", Turn: string(id)}.Encode()))
		synctest.Wait()
		for _, c := range []struct {
			turn turn.ID
			want string
		}{{turn.NewID(), `"running":true`}, {id, `"running":true`}, {id, `"running":false`}} {
			y := p.plain(string(wire.Request{RequestID: "k", Turn: string(c.turn), Stop: true}.Encode()))
			<-y.ended
			synctest.Wait()
			if status, body := y.got(); status != 200 || !strings.Contains(body, c.want) {
				t.Errorf("stop %s: %d %s, want %s", c.turn, status, body, c.want)
			}
		}
		<-x.ended
		if got := words(x.lines(t)); got[len(got)-1] != "1 final half" {
			t.Errorf("lines = %q", got)
		}
		id = turn.NewID()
		y := p.stream(string(wire.Request{Text: "wait 1h", RequestID: "k", Turn: string(id)}.Encode()))
		synctest.Wait()
		p.plain(string(wire.Request{RequestID: "k", Turn: string(id), Stop: true}.Encode()))
		<-y.ended
		if got := words(y.lines(t)); got[1] != "1 failed: run failed: stopped" {
			t.Errorf("stopped before it said anything: %q", got)
		}
	})
}

// A reader that stalls delays nobody, and has everything when it reads again.
func TestStalledReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		let := make(chan struct{})
		x := p.stream(ask("k", "wait 1s", "status a", "status b", "final c"))
		synctest.Wait()
		x.mu.Lock()
		x.block = let
		x.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if j := p.job("k", 0); !j.Done {
			t.Errorf("the job waits for its reader: %+v", j)
		}
		close(let)
		<-x.ended
		if got := words(x.lines(t)); len(got) != 4 || got[3] != "3 final c" {
			t.Errorf("lines = %q", got)
		}
	})
}

// Spec 8.2: a request that cannot be written.
func TestNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := enginetest.NewJournal()
		p := start(t, setup{journal: j})
		p.server.opts.Inbox = refusing{p.engine}
		x, y := p.stream(ask("k", "final x")), p.plain(ask("k", "final x"))
		<-x.ended
		<-y.ended
		if got := words(x.lines(t)); len(got) != 1 || got[0] != "1 event_write_failed: Failed to write event." {
			t.Errorf("stream: %q", got)
		}
		if status, body := y.got(); status != 500 || strings.TrimSpace(body) != `{"error":"Failed to write event."}` {
			t.Errorf("plain: %d %s", status, body)
		}
	})
}

type refusing struct{ Inbox }

func (refusing) Submit(context.Context, transport.Submission) (transport.Receipt, error) {
	return transport.Receipt{}, journal.ErrCorrupt
}

// While the process ends nothing is taken, and open streams break off without an
// end that is not true.
func TestClosing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x, y := p.stream(ask("k", "status a", "wait 1h")), p.plain(ask("l", "wait 1h"))
		synctest.Wait()
		p.engine.Leave()
		p.stop()
		<-x.ended
		<-y.ended
		if got := words(x.lines(t)); len(got) != 2 {
			t.Errorf("lines = %q", got)
		}
		if status, _ := y.got(); status != 503 {
			t.Errorf("the plain caller got %d", status)
		}
		z := p.stream(ask("m", "final x"))
		<-z.ended
		if status, body := z.got(); status != 503 || z.header.Get("Retry-After") == "" {
			t.Errorf("a new request got %d %s", status, body)
		}
	})
}
