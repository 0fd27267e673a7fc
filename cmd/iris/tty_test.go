package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A person is someone at a terminal of their own with a real process in it.
type person struct {
	t    *testing.T
	keys *os.File
	cmd  *exec.Cmd

	mu    sync.Mutex
	seen  []byte
	read  int
	grown chan struct{} // closed and made anew when more is seen
}

// session is the shell of a terminal. When the first process of a terminal ends,
// the kernel throws away what nobody has read yet, so that is not Iris, and it
// stays until the end of the test.
const session = `trap : INT; "$0" "$@"; echo "exit code $?."; read end`

// sit starts iris in a terminal.
func sit(t *testing.T, home string, args ...string) *person {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	iris := filepath.Join(t.TempDir(), "iris") // TestMain goes by the name
	if err := os.Symlink(exe, iris); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, grown: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), "sh", append([]string{"-c", session, iris}, args...)...)
	p.cmd.Dir = home
	p.cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "USER=ann", "TERM=xterm", "IRIS_PROVIDER=rehearsal", "GORACE=" + brief,
		"IRIS_API_PORT=" + strconv.Itoa(port)}
	if p.keys, err = pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Skip("no pseudo terminals here:", err)
	}
	var copying sync.WaitGroup
	copying.Go(p.copy)
	t.Cleanup(func() {
		p.keys.Close()
		copying.Wait()
		_ = p.cmd.Wait() // the shell, which has lost its terminal
	})
	return p
}

func (p *person) copy() {
	buf := make([]byte, 4096)
	for {
		n, err := p.keys.Read(buf)
		p.mu.Lock()
		p.seen = append(p.seen, buf[:n]...)
		close(p.grown)
		p.grown = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// sees waits for texts, one after the other.
func (p *person) sees(texts ...string) {
	p.t.Helper()
	deadline := time.After(patience)
	for _, text := range texts {
		for {
			p.mu.Lock()
			i, grown := bytes.Index(p.seen[p.read:], []byte(text)), p.grown
			if i >= 0 {
				p.read += i + len(text)
			}
			all := string(p.seen)
			p.mu.Unlock()
			if i >= 0 {
				break
			}
			select {
			case <-grown:
			case <-deadline:
				p.t.Fatalf("%q did not come; seen:\n%q", text, all)
			}
		}
	}
}

func (p *person) types(keys string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the exit code of iris.
func (p *person) ends(code int) {
	p.t.Helper()
	p.sees("exit code " + strconv.Itoa(code) + ".")
}

func (p *person) prompted() { p.t.Helper(); p.sees("›", " ") }

// TestTalkAtATerminal is a conversation with a real process, real keys and a
// real command that Ctrl-C ends.
func TestTalkAtATerminal(t *testing.T) {
	home := t.TempDir()
	p := sit(t, home, "chat")
	p.sees("Iris with rehearsal · /help lists the commands, Ctrl-D leaves")
	p.prompted()
	p.types("run echo $((6*7))\r")
	p.sees("→ run echo", "✓ ", "42", "tokens in")
	p.prompted()

	p.types("run sleep 300; echo survived\r")
	p.sees("→ run sleep 300")
	p.types("\x03")
	p.sees("(stopping; Ctrl-C again leaves)", "(stopped)")
	p.prompted()

	p.types("run sleep 301\r")
	p.sees("→ run sleep 301")
	p.types("/stop\r")
	p.sees("(stopped)")
	p.prompted()

	p.types("\x1b[A\x1b[A\x1b[A\r") // ↑ three times: the first command again
	p.sees("echo $((6*7))", "42", "tokens in")
	p.prompted()

	p.types("typed and thrown away\x03/session\r")
	p.sees("/session")
	p.prompted()
	p.types("/help\r")
	p.sees("/stop ", "/reset ", "/quit ")
	p.prompted()
	p.types("/compact\r")
	p.sees("ompact")
	p.prompted()
	p.types("/reset\r")
	p.sees("Context cleared")
	p.prompted()
	p.types("/history\r")
	p.sees("ann:", " run echo $((6*7))", "iris:")
	p.prompted()
	p.types("\x04")
	p.sees("continue with: iris chat --session ")
	p.ends(0)
	p.mu.Lock()
	all := string(p.seen)
	p.mu.Unlock()
	if strings.Contains(all, "\nsurvived") {
		t.Error("the stopped command went on")
	}

	// The conversation goes on in another process.
	_, id, _ := strings.Cut(all, "continue with: iris chat --session ")
	id, _, _ = strings.Cut(id, "\x1b") // the end of its color
	p = sit(t, home, "chat", "--session", id)
	p.sees("ann:", " run sleep 301", "iris:", "Iris with rehearsal")
	p.prompted()
	p.types("\x1b[A\r")
	p.sees("42", "tokens in")
	p.prompted()
	p.types("/quit\r")
	p.sees("continue with")
	p.ends(0)
}

// TestCtrlCInOneMessage: a script sees that the message was not answered.
func TestCtrlCInOneMessage(t *testing.T) {
	p := sit(t, t.TempDir(), "chat", "run sleep 302")
	p.sees("→ run sleep 302")
	p.types("\x03")
	p.sees("(stopped)")
	p.ends(130)
}

// TestDoctorAtATerminal marks its findings for a person.
func TestDoctorAtATerminal(t *testing.T) {
	p := sit(t, t.TempDir(), "doctor")
	p.sees("\x1b[32m✓\x1b[0m  version ", "\x1b[33m!\x1b[0m  model ", "\x1b[2m→ set ANTHROPIC_API_KEY", "Nothing is broken; one note above.")
	p.ends(0)
}
