package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/iris-operator/iris/internal/turn"
)

// talking answers messages by their first word.
func talking(f *fake, id turn.ID, text string) {
	word, rest, _ := strings.Cut(text, " ")
	f.emit(id, turn.Event{Kind: turn.Thinking})
	switch word {
	case "hold": // until it is told to stop
		f.emit(id, started("1", "sleep "+rest))
		for {
			select {
			case which := <-f.stops:
				if which == "" || which == id {
					f.emit(id, ended("1", "sleep "+rest, "aborted", true), turn.Event{Kind: turn.Final, Text: "so far", Stopped: true})
					return
				}
			case <-f.leaving:
				return
			}
		}
	case "fail":
		f.emit(id, turn.Event{Kind: turn.Failed, Error: "the model is overloaded", Code: turn.CodeModel})
	default:
		f.emit(id, part("you said "), final("you said "+text))
	}
}

// files are pipes for a conversation without a terminal.
func files(t *testing.T, in string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = w.WriteString(in) // a reader that has enough closes its end
		w.Close()
	}()
	t.Cleanup(func() { r.Close() })
	return r
}

// pipe holds a conversation through pipes.
func pipe(t *testing.T, f *fake, opts Options, in string) (out, notes string, err error) {
	t.Helper()
	var o, n bytes.Buffer
	opts.Client, opts.In, opts.Out, opts.Err = f.client(), files(t, in), &o, &n
	err = Run(t.Context(), opts)
	return o.String(), n.String(), err
}

func TestOneMessage(t *testing.T) {
	for name, c := range map[string]struct {
		opts       Options
		in         string
		out, notes string
		err        string
	}{
		"the reply alone":  {opts: Options{Text: "hi"}, out: "you said hi\n"},
		"from a pipe":      {opts: Options{Text: "-"}, in: "\nhi\nyou\n\n", out: "you said hi\nyou\n"},
		"an empty pipe":    {opts: Options{Text: "-"}, in: " \n", err: "the message is empty"},
		"a failed turn":    {opts: Options{Text: "fail"}, notes: "error: the model is overloaded\n", err: ErrTurnFailed.Error()},
		"command in words": {opts: Options{Text: "help"}, out: "a command in words\n"},
		"a session":        {opts: Options{Text: "hi", Session: "SESSION-" + testSession}, out: "you said hi\n"},
		"no such session":  {opts: Options{Text: "hi", Session: "nobody"}, err: "session nobody: session not found"},
		"too long":         {opts: Options{Text: "-"}, in: strings.Repeat("x", maxInput+1), err: "the message is longer than 8 MiB"},
		"lines":            {in: "hi\n\nyou", out: "you said hi\nyou said you\n"},
		"lines, one failed": {in: "fail\nyou\n", out: "you said you\n", notes: "error: the model is overloaded\n",
			err: ErrTurnFailed.Error()},
		"a command of an agent program": {in: "/status\nhi\n", out: "Agent\n- mode: manual\nyou said hi\n"},
		"lines and commands": {in: "/session\n/reset\n/compact\n/stop\n/nope\n/etc/passwd is what\n/quit\nnever\n", err: ErrTurnFailed.Error(),
			out:   testSession + "\nyou said /etc/passwd is what\n",
			notes: "Context cleared\nerror: Can't compact while running\nnothing is running\nerror: there is no command /nope: /help lists them\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, notes, err := pipe(t, newFake(t, talking), c.opts, c.in)
			if fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
				t.Errorf("err = %v, want %q", err, c.err)
			}
			if out != c.out || notes != c.notes {
				t.Errorf("out %q notes %q, want %q and %q", out, notes, c.out, c.notes)
			}
		})
	}
}

func TestHistoryOfAPipe(t *testing.T) {
	f := newFake(t, talking)
	out, notes, err := pipe(t, f, Options{User: "ann"}, "/history\nhi\n/history\n/help\n")
	if err != nil || notes != "nothing was said yet\n" || !strings.HasPrefix(out, "you said hi\nann: hi\niris: you said hi\n/stop ") {
		t.Errorf("out %q, notes %q, %v", out, notes, err)
	}
}

// TestErrorsOfTheServer: what the server refuses is told and is no turn.
func TestErrorsOfTheServer(t *testing.T) {
	for route, want := range map[string]string{
		"/sessions":                             "open a session: too bad",
		"/sessions/" + testSession + "/stream":  "watch session s1: too bad",
		"/sessions/" + testSession + "/message": "too bad",
	} {
		f := newFake(t, talking)
		f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != route {
				return false
			}
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error":"too bad"}`)
			return true
		}
		if _, _, err := pipe(t, f, Options{Text: "hi"}, ""); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", route, err, want)
		}
	}
}

// TestBrokenStreamIsTold: the reply comes whole, and once, all the same.
func TestBrokenStreamIsTold(t *testing.T) {
	f := newFake(t, talking)
	f.beforeFrame = func(n int, frame string) (string, bool) { return frame[:len(frame)/2], n < 2 }
	out, notes, err := pipe(t, f, Options{Text: "hi"}, "")
	if out != "you said hi\n" || notes != "(the server closed the event stream: trying again)\n" || err != nil {
		t.Errorf("out %q, notes %q, %v", out, notes, err)
	}
}

// TestEndWhileReading: the end of ctx is not held up by an input that says
// nothing.
func TestEndWhileReading(t *testing.T) {
	for _, text := range []string{"", "-"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f := newFake(t, talking)
		done := make(chan error)
		go func() {
			done <- Run(ctx, Options{Client: f.client(), Text: text, In: r, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run(%q) = %v", text, err)
		}
		r.Close()
		w.Close()
	}
}

// A console is a conversation at a terminal.
type console struct {
	t    *testing.T
	keys *os.File // what the person types
	tty  *os.File
	done chan error

	mu    sync.Mutex
	seen  []byte
	read  int           // what expect has passed
	grown chan struct{} // closed and made anew when more is seen
}

func newConsole(t *testing.T, f *fake, opts Options) *console {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo terminals here:", err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, keys: keys, tty: tty, done: make(chan error, 1), grown: make(chan struct{})}
	var copying sync.WaitGroup
	copying.Go(c.copy)
	t.Cleanup(func() {
		tty.Close()
		keys.Close()
		copying.Wait()
	})
	opts.Client, opts.In, opts.Out, opts.Err, opts.User = f.client(), tty, tty, tty, "ann"
	opts.same = time.Nanosecond
	go func() { c.done <- Run(t.Context(), opts) }()
	return c
}

func (c *console) copy() {
	buf := make([]byte, 4096)
	for {
		n, err := c.keys.Read(buf)
		c.mu.Lock()
		c.seen = append(c.seen, buf[:n]...)
		close(c.grown)
		c.grown = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits until text is on the screen, after what was expected before.
func (c *console) expect(texts ...string) {
	c.t.Helper()
	deadline := time.After(patience)
	for _, text := range texts {
		for {
			c.mu.Lock()
			i, grown := bytes.Index(c.seen[c.read:], []byte(text)), c.grown
			if i >= 0 {
				c.read += i + len(text)
			}
			c.mu.Unlock()
			if i >= 0 {
				break
			}
			select {
			case <-grown:
			case <-deadline:
				c.t.Fatalf("%q did not come; seen:\n%s", text, c.all())
			}
		}
	}
}

func (c *console) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return named.Replace(string(c.seen))
}

func (c *console) enter(keys string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

func (c *console) end(want error) {
	c.t.Helper()
	select {
	case err := <-c.done:
		if !errors.Is(err, want) {
			c.t.Errorf("Run() = %v, want %v; seen:\n%s", err, want, c.all())
		}
	case <-time.After(patience):
		c.t.Fatalf("the conversation does not end; seen:\n%s", c.all())
	}
}

// ask is the prompt as it is drawn.
const ask = cyan + "›" + plain + " "

func interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

func TestPrompt(t *testing.T) {
	f := newFake(t, talking)
	c := newConsole(t, f, Options{})
	c.expect("Iris with m1 · /help lists the commands", ask)
	c.enter("hello\r")
	c.expect("you said hello", ask)
	c.enter("\x1b[A\r") // ↑
	c.expect("you said hello", ask)
	c.enter("/se\t\r")
	c.expect("/session", testSession, ask)
	c.enter("/x\r")
	c.expect("there is no command /x", ask)
	c.enter("fail\r")
	c.expect("error: the model is overloaded", ask)
	c.enter("thrown away\x03kept\r") // Ctrl-C empties the line
	c.expect("you said kept", ask)
	c.enter("/\t\x15\r") // Tab has no single answer
	c.expect(ask)
	c.enter("\x04") // Ctrl-D
	c.expect("continue with: iris chat --session " + testSession)
	c.end(nil)
	if got := f.texts(); got != "hello|hello|fail|kept" {
		t.Errorf("sent %q", got)
	}
}

// TestPromptPaste: lines pasted together are one message, sent by Enter.
func TestPromptPaste(t *testing.T) {
	f := newFake(t, talking)
	c := newConsole(t, f, Options{})
	c.expect(ask)
	c.enter("\x1b[200~one\rtwo\rthree\x1b[201~")
	c.expect("three")
	c.enter("\r")
	c.expect("you said one", ask)
	c.enter(strings.Repeat("x", maxTyped) + "\r")
	c.expect("has room for 4096 characters", ask)
	c.enter("/quit\r")
	c.end(nil)
	if got := f.texts(); got != "one\ntwo\nthree" {
		t.Errorf("sent %q", got)
	}
}

func TestTypedWhileATurnRuns(t *testing.T) {
	f := newFake(t, talking)
	c := newConsole(t, f, Options{})
	c.expect(ask)
	c.enter("hold 1\r")
	c.expect("→ sleep 1")
	c.enter("later\r")
	c.expect("(waits until this turn has ended)")
	c.enter("/stop\r")
	c.expect("✗ sleep 1", "(stopped)", "› later", "you said later", ask)
	c.enter("hold 2\r")
	c.expect("→ sleep 2")
	c.enter("\r")
	c.enter("stop\r")
	c.expect("(stopped)", ask)
	c.enter("hold 3\r")
	c.expect("→ sleep 3")
	c.enter("\x04")
	c.expect("(leaves when this turn has ended)")
	interrupt(t)
	c.expect("(stopped)", "continue with")
	c.end(nil)
	if got := f.texts(); got != "hold 1|later|hold 2|hold 3" {
		t.Errorf("sent %q", got)
	}
}

func TestCtrlCStopsTheTurnAndNotTheProgram(t *testing.T) {
	f := newFake(t, talking)
	c := newConsole(t, f, Options{})
	c.expect(ask)
	c.enter("hold 1\r")
	c.expect("→ sleep 1")
	interrupt(t)
	c.expect("(stopping; Ctrl-C again leaves)", "(stopped)", ask)
	c.enter("still here\r")
	c.expect("you said still here", ask)
	interrupt(t) // from outside, while nothing runs
	c.end(ErrInterrupted)
}

// TestCtrlCTwice leaves although the server does not stop the turn.
func TestCtrlCTwice(t *testing.T) {
	f := newFake(t, talking)
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/stop") {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	c := newConsole(t, f, Options{})
	c.expect(ask)
	c.enter("hold 1\r")
	c.expect("→ sleep 1")
	interrupt(t)
	c.expect("error: stop: Internal Server Error (HTTP 500)")
	c.enter("/stop\r")
	c.expect("error: stop: Internal Server Error (HTTP 500)")
	interrupt(t)
	c.end(ErrInterrupted)
}

func TestPress(t *testing.T) {
	i := interrupts{same: samePress}
	start := time.Now()
	at := func(ms int) reaction {
		_, r := i.press(start.Add(time.Duration(ms) * time.Millisecond))
		return r
	}
	i.begin(turn.NewID())
	for _, c := range []struct {
		ms   int
		want reaction
	}{{0, stopIt}, {1, nothing}, {499, nothing}, {500, leave}, {900, leave}} {
		if got := at(c.ms); got != c.want {
			t.Errorf("a press after %d ms does %v, want %v", c.ms, got, c.want)
		}
	}
	i.end()
	if got := at(200); got != nothing {
		t.Error("the end of the turn makes the same press another one")
	}
	if got := at(600); got != leave || !i.pressed() {
		t.Errorf("a press while nothing runs does %v", got)
	}
}

func TestCtrlCInOneMessage(t *testing.T) {
	f := newFake(t, talking)
	c := newConsole(t, f, Options{Text: "hold 1"})
	c.expect("→ sleep 1")
	interrupt(t)
	c.expect("(stopped)")
	c.end(ErrInterrupted)
}

// TestStoppedBySomebodyElse is no success of a message in a script.
func TestStoppedBySomebodyElse(t *testing.T) {
	f := newFake(t, talking)
	f.stops <- ""
	if out, _, err := pipe(t, f, Options{Text: "hold 1"}, ""); !errors.Is(err, ErrTurnFailed) || out != "so far\n" {
		t.Errorf("out %q, %v", out, err)
	}
}

// TestContinued shows the end of the log and joins the turn that runs; ↑ reaches
// the lines from before.
func TestContinued(t *testing.T) {
	f := newFake(t, talking)
	for i := range 6 {
		f.log = append(f.log, Line{User: "ann", Text: fmt.Sprint("question ", i)}, Line{User: "bot", Text: fmt.Sprint("answer ", i), IsBot: true})
	}
	id := turn.NewID()
	f.begin(id, "hold on")
	c := newConsole(t, f, Options{Session: testSession, NoColor: true})
	c.expect("(2 earlier lines: /history shows them)", "ann: question 1", "iris: answer 5", "Iris with m1", "(a turn is running; Ctrl-C stops it)", "→ sleep on")
	interrupt(t)
	c.expect("(stopped)", "› ")
	c.enter("\x1b[A\x1b[A\r")
	c.expect("you said question 4", "› ")
	c.enter("\x04")
	c.end(nil)
}

// TestAnotherTurnFirst: the turn before is not drawn, and Ctrl-C does not stop
// it but the own one.
func TestAnotherTurnFirst(t *testing.T) {
	other := turn.NewID()
	f := newFake(t, func(f *fake, id turn.ID, text string) {
		f.emit(other, part("not yours"), final("not yours"))
		talking(f, id, text)
	})
	f.emit(other, turn.Event{Kind: turn.Thinking})
	f.running = other
	c := newConsole(t, f, Options{Text: "hold mine"})
	c.expect("(another turn runs before this one)", "→ sleep mine")
	interrupt(t)
	c.expect("(stopped)")
	c.end(ErrInterrupted)
	if strings.Contains(c.all(), "not yours") {
		t.Errorf("another turn was drawn:\n%s", c.all())
	}
}

func TestRecall(t *testing.T) {
	r := &recall{}
	for i := range maxRecall + 5 {
		r.Add(fmt.Sprint("line ", i))
		r.Add(fmt.Sprint("line ", i, " "))
		r.Add(" ")
	}
	if r.Len() != maxRecall || r.At(0) != fmt.Sprint("line ", maxRecall+4) || r.At(maxRecall-1) != "line 5" {
		t.Errorf("%d lines from %q to %q", r.Len(), r.At(0), r.At(r.Len()-1))
	}
}
