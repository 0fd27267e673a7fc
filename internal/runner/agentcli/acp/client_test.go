package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// serve asks the driver for something and returns its answer; if it puts a
// question first, that is answered with allow, and returned.
func (p *peer) ask(method, params string, answer *agentcli.Answer) (message, *agentcli.Event) {
	p.t.Helper()
	p.feed(`{"jsonrpc":"2.0","id":"r","method":%q,"params":%s}`, method, params)
	if answer == nil {
		return p.next(""), nil
	}
	e := p.await(agentcli.Permission)
	p.quiet()
	a := *answer
	a.ID = e.ID
	if err := p.agent.Answer(p.t.Context(), a); err != nil {
		p.t.Fatal(err)
	}
	return p.next(""), &e
}

func yes() *agentcli.Answer { return &agentcli.Answer{Allow: true} }

func readOf(path string) string { return fmt.Sprintf(`{"sessionId":"s","path":%q}`, path) }
func writeOf(path, text string) string {
	return fmt.Sprintf(`{"sessionId":"s","path":%q,"content":%q}`, path, text)
}

// TestFilesAreAskedAboutFirst: each file goes out as a question that says what and
// where; the word of the mode or of a person comes before the deed.
func TestFilesAreAskedAboutFirst(t *testing.T) {
	for _, mode := range []agentcli.Mode{agentcli.Manual, agentcli.AcceptEdits, agentcli.Auto} {
		t.Run(string(mode), func(t *testing.T) {
			dir, far, readable := t.TempDir(), t.TempDir(), t.TempDir()
			write(t, filepath.Join(dir, "a.txt"), "one\ntwo\nthree", 0o600)
			write(t, filepath.Join(far, "far.txt"), "far", 0o600)
			write(t, filepath.Join(readable, "att.txt"), "att", 0o600)
			p, _ := ready(t, Options{}, agentcli.Setup{WorkDir: dir, Readable: []string{readable}, Mode: mode})

			inside := filepath.Join(dir, "a.txt")
			m, e := p.ask("fs/read_text_file", fmt.Sprintf(`{"sessionId":"s","path":%q,"line":2,"limit":1}`, inside), yes())
			if string(m.Result) != `{"content":"two\n"}` || e.Tool.What != agentcli.Read || e.Tool.Paths[0] != inside || e.Tool.Outside || e.Tool.Granted != (mode != agentcli.Manual) {
				t.Errorf("read inside: %s %v, %s", m.Result, m.Error, show(*e))
			}
			m, e = p.ask("fs/read_text_file", readOf(filepath.Join(readable, "att.txt")), yes())
			if string(m.Result) != `{"content":"att"}` || e.Tool.Outside {
				t.Errorf("read an attachment: %s %v", m.Result, m.Error)
			}
			m, e = p.ask("fs/read_text_file", readOf(filepath.Join(dir, "..", filepath.Base(far), "far.txt")), yes())
			if string(m.Result) != `{"content":"far"}` || !e.Tool.Outside || e.Tool.Granted {
				t.Errorf("read outside, allowed: %s %v, %s", m.Result, m.Error, show(*e))
			}
			m, e = p.ask("fs/write_text_file", writeOf(filepath.Join(dir, "new", "b.txt"), "b"), yes())
			if string(m.Result) != `{}` || e.Tool.What != agentcli.Edit || e.Tool.Outside || e.Tool.Granted {
				t.Errorf("write inside: %s %v, %s", m.Result, m.Error, show(*e))
			}
			m, e = p.ask("fs/write_text_file", writeOf(filepath.Join(readable, "att.txt"), "x"), &agentcli.Answer{Reason: "not there"})
			if m.Error == nil || m.Error.Code != codeRefused || m.Error.Message != "not there" || !e.Tool.Outside {
				t.Errorf("write where it may only read, refused: %s %v, %s", m.Result, m.Error, show(*e))
			}
			for name, want := range map[string]string{filepath.Join(dir, "new", "b.txt"): "b", filepath.Join(readable, "att.txt"): "att"} {
				if text, err := os.ReadFile(name); string(text) != want {
					t.Errorf("%s = %q, %v", name, text, err)
				}
			}
		})
	}
}

// TestFilesThatAreNone: what is no plain file of the directory is refused, also
// when a person said yes to its path, and nothing waits for it.
func TestFilesThatAreNone(t *testing.T) {
	dir, far := t.TempDir(), t.TempDir()
	secret := filepath.Join(far, "secret")
	write(t, secret, "secret", 0o600)
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Symlink(secret, in("link")), os.Symlink(far, in("dirlink")), os.Link(secret, in("hard")),
		syscall.Mkfifo(in("fifo"), 0o600), os.Mkdir(in("dir"), 0o700), os.Symlink("loop", in("loop")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	big, err := os.Create(in("big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(fileRoom + 1); err != nil {
		t.Fatal(err)
	}
	big.Close()
	p, _ := ready(t, Options{}, agentcli.Setup{WorkDir: dir})
	for path, what := range map[string]string{
		in("link"): "rw", in("dirlink/secret"): "rw", in("hard"): "w", in("fifo"): "rw", in("dir"): "rw", in("loop"): "rw",
		in("big"): "r", in("missing"): "r", in("dirlink/new"): "w", filepath.Join(in("dirlink"), "..", "..", "x", "y"): "r",
		"/dev/zero": "r", "/proc/self/cwd/x": "rw",
	} {
		for method, params := range map[string]string{"fs/read_text_file": readOf(path), "fs/write_text_file": writeOf(path, "x")} {
			if !strings.Contains(what, method[3:4]) {
				continue
			}
			if m, _ := p.ask(method, params, yes()); m.Error == nil {
				t.Errorf("%s %s worked: %s", method, path, m.Result)
			}
		}
	}
	for _, params := range []string{`{"sessionId":"s","path":"a.txt"}`, `{"sessionId":"s"}`, `3`} {
		for _, method := range []string{"fs/read_text_file", "fs/write_text_file"} {
			if m, _ := p.ask(method, params, nil); m.Error == nil || m.Error.Code != codeParams {
				t.Errorf("%s %s: %s %v", method, params, m.Result, m.Error)
			}
		}
	}
	if m, _ := p.ask("fs/read_text_file", strings.Replace(readOf(in("link")), `"s"`, `"other"`, 1), nil); m.Error == nil {
		t.Error("another session reads files")
	}
	if text, _ := os.ReadFile(secret); string(text) != "secret" {
		t.Errorf("the file outside is %q now", text)
	}
	if left, _ := os.ReadDir(far); len(left) != 1 {
		t.Errorf("there are new files outside: %v", left)
	}
}

// TestWhatWasAllowedIsNotAskedTwice: an agent that asked leave for a call and then
// has us do it is not asked about again; for that command, that file, that once.
func TestWhatWasAllowedIsNotAskedTwice(t *testing.T) {
	p, id := ready(t, Options{}, agentcli.Setup{})
	p.line(permit("0", `{"command":"echo hi"}`))
	p.agent.Answer(t.Context(), agentcli.Answer{ID: p.await(agentcli.Permission).ID, Allow: true})
	p.next("")
	if m, _ := p.ask("terminal/create", `{"sessionId":"s","command":"echo hi","env":[{"name":"CLAUDECODE","value":"1"}]}`, nil); m.Error != nil {
		t.Errorf("the allowed command: %v", m.Error)
	}
	if m, e := p.ask("terminal/create", `{"sessionId":"s","command":"echo hi"}`, &agentcli.Answer{}); m.Error == nil || e.Tool.Granted {
		t.Errorf("the same a second time: %s", m.Result)
	}
	path := filepath.Join(p.agent.setup.WorkDir, "f")
	p.feed(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t2","kind":"edit","rawInput":{"file_path":%q}},%s}}`, path, askOptions)
	p.agent.Answer(t.Context(), agentcli.Answer{ID: p.await(agentcli.Permission).ID, Allow: true})
	p.next("")
	if m, _ := p.ask("fs/write_text_file", writeOf(path, "x"), nil); m.Error != nil {
		t.Errorf("the allowed file: %v", m.Error)
	}
	if m, _ := p.ask("fs/read_text_file", readOf(path), nil); m.Error != nil {
		t.Errorf("reading the file that may be edited: %v", m.Error)
	}
	p.feed(`{"jsonrpc":"2.0","id":2,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t3","kind":"execute","rawInput":{"command":"echo later"}},%s}}`, askOptions)
	p.agent.Answer(t.Context(), agentcli.Answer{ID: p.await(agentcli.Permission).ID, Allow: true})
	p.next("")
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, id)
	p.await(agentcli.Result)
	p.prompt("p2", "next turn")
	if m, _ := p.ask("terminal/create", `{"sessionId":"s","command":"echo later"}`, &agentcli.Answer{}); m.Error == nil {
		t.Error("a grant outlived its turn")
	}
}

// TestAlwaysOfOurOwnQuestions: what was allowed for the session is asked with that
// word; the very same only.
func TestAlwaysOfOurOwnQuestions(t *testing.T) {
	p, _ := ready(t, Options{}, agentcli.Setup{})
	always := &agentcli.Answer{Allow: true, Always: true}
	for i, c := range []struct {
		params  string
		granted bool
	}{
		{`{"sessionId":"s","command":"true"}`, false},
		{`{"sessionId":"s","command":"true"}`, true},
		{`{"sessionId":"s","command":"true; rm x"}`, false},
		{`{"sessionId":"s","command":"true","cwd":"/"}`, false},
		{`{"sessionId":"s","command":"true","env":[{"name":"LD_PRELOAD","value":"x"}]}`, false},
	} {
		if m, e := p.ask("terminal/create", c.params, always); e.Tool.Granted != c.granted {
			t.Errorf("%d: %s, %v", i, show(*e), m.Error)
		}
	}
}

func (p *peer) terminal(params string) string {
	p.t.Helper()
	m, _ := p.ask("terminal/create", params, yes())
	var id terminalID
	if m.Error != nil || json.Unmarshal(m.Result, &id) != nil {
		p.t.Fatalf("terminal/create: %s %v", m.Result, m.Error)
	}
	return fmt.Sprintf(`{"sessionId":"s","terminalId":%q}`, id.Terminal)
}

func TestTerminals(t *testing.T) {
	for name, c := range map[string]struct{ params, command, exit, output string }{
		"a shell line":  {`{"sessionId":"s","command":"echo $((1+2)); echo err >&2; exit 3"}`, "echo $((1+2)); echo err >&2; exit 3", `{"exitCode":3,"signal":null}`, `{"output":"3\nerr\n","truncated":false,"exitStatus":{"exitCode":3,"signal":null}}`},
		"words":         {`{"sessionId":"s","command":"printf","args":["%s|","a b","$HOME"]}`, "printf '%s|' 'a b' '$HOME'", `{"exitCode":0,"signal":null}`, `{"output":"a b|$HOME|","truncated":false,"exitStatus":{"exitCode":0,"signal":null}}`},
		"a signal":      {`{"sessionId":"s","command":"kill -9 $$"}`, "kill -9 $$", `{"exitCode":null,"signal":"killed"}`, `{"output":"","truncated":false,"exitStatus":{"exitCode":null,"signal":"killed"}}`},
		"the end of it": {`{"sessionId":"s","command":"printf 0123456789äö","outputByteLimit":5}`, "printf 0123456789äö", `{"exitCode":0,"signal":null}`, `{"output":"9äö","truncated":true,"exitStatus":{"exitCode":0,"signal":null}}`},
		"no bytes":      {`{"sessionId":"s","command":"printf '\\377'"}`, `printf '\377'`, `{"exitCode":0,"signal":null}`, "{\"output\":\"\uFFFD\",\"truncated\":false,\"exitStatus\":{\"exitCode\":0,\"signal\":null}}"},
		"variables":     {`{"sessionId":"s","command":"echo $A","env":[{"name":"A","value":"x y"}]}`, `A='x y' echo $A`, `{"exitCode":0,"signal":null}`, `{"output":"x y\n","truncated":false,"exitStatus":{"exitCode":0,"signal":null}}`},
		"a directory":   {`{"sessionId":"s","command":"pwd","cwd":"/"}`, "pwd", `{"exitCode":0,"signal":null}`, `{"output":"/\n","truncated":false,"exitStatus":{"exitCode":0,"signal":null}}`},
		"no terminal":   {`{"sessionId":"s","command":"cat; tty"}`, "cat; tty", `{"exitCode":1,"signal":null}`, `{"output":"not a tty\n","truncated":false,"exitStatus":{"exitCode":1,"signal":null}}`},
		"left behind":   {`{"sessionId":"s","command":"sleep 300 & echo on"}`, "sleep 300 & echo on", `{"exitCode":0,"signal":null}`, `{"output":"on\n","truncated":false,"exitStatus":{"exitCode":0,"signal":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := ready(t, Options{}, agentcli.Setup{})
			ref := p.terminal(c.params)
			for _, e := range p.events {
				if e.Kind == agentcli.Permission && (e.Tool.Command != c.command || e.Tool.What != agentcli.Execute || !e.Tool.Outside == (name == "a directory")) {
					t.Errorf("the question: %s, want %s", show(e), c.command)
				}
			}
			if m, _ := p.ask("terminal/wait_for_exit", ref, nil); string(m.Result) != c.exit {
				t.Errorf("wait_for_exit %s %v, want %s", m.Result, m.Error, c.exit)
			}
			if m, _ := p.ask("terminal/output", ref, nil); string(m.Result) != c.output {
				t.Errorf("output %s %v, want %s", m.Result, m.Error, c.output)
			}
			if m, _ := p.ask("terminal/release", ref, nil); string(m.Result) != `{}` {
				t.Errorf("release %s %v", m.Result, m.Error)
			}
			if m, _ := p.ask("terminal/output", ref, nil); m.Error == nil {
				t.Errorf("output after release: %s", m.Result)
			}
		})
	}
}

// TestTerminalsEnd: kill, a stop of the turn and the end of the agent all end the
// command and what it started.
func TestTerminalsEnd(t *testing.T) {
	for name, end := range map[string]func(*peer, string){
		"kill":    func(p *peer, ref string) { p.ask("terminal/kill", ref, nil) },
		"release": func(p *peer, ref string) { p.ask("terminal/release", ref, nil) },
		"stop":    func(p *peer, _ string) { p.agent.Interrupt(t.Context()) },
		"gone":    func(p *peer, _ string) { p.hangUp() },
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := ready(t, Options{}, agentcli.Setup{})
			ref := p.terminal(`{"sessionId":"s","command":"(setsid sleep 300 & echo $! > pid; mv pid child); sleep 300"}`)
			file := filepath.Join(p.agent.setup.WorkDir, "child")
			pid := ""
			until(t, "the child starts", func() bool {
				text, err := os.ReadFile(file)
				pid = strings.TrimSpace(string(text))
				return err == nil && pid != ""
			})
			end(p, ref)
			until(t, "the child ends", func() bool {
				_, err := os.Stat("/proc/" + pid)
				return err != nil
			})
		})
	}
}

// until polls for something outside of this process.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// TestTerminalsThatAreNone: refused commands do not run, and there are not more
// than so many.
func TestTerminalsThatAreNone(t *testing.T) {
	p, _ := ready(t, Options{}, agentcli.Setup{})
	file := filepath.Join(p.agent.setup.WorkDir, "ran")
	m, _ := p.ask("terminal/create", fmt.Sprintf(`{"sessionId":"s","command":"touch %s"}`, file), &agentcli.Answer{Reason: "no"})
	if m.Error == nil || m.Error.Message != "no" {
		t.Errorf("a refused command: %s %v", m.Result, m.Error)
	}
	p.feed(`{"jsonrpc":"2.0","id":"w","method":"terminal/create","params":{"sessionId":"s","command":"touch %s"}}`, file)
	p.await(agentcli.Permission)
	p.agent.Interrupt(t.Context())
	p.next("session/cancel")
	if m := p.next(""); m.Error == nil || m.Error.Code != codeRefused {
		t.Errorf("a withdrawn command: %s %v", m.Result, m.Error)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a command ran that nobody allowed")
	}
	for _, params := range []string{`{}`, `4`, `{"sessionId":"other","command":"x"}`, `{"sessionId":"s","command":"x","cwd":"rel"}`} {
		if m, _ := p.ask("terminal/create", params, nil); m.Error == nil {
			t.Errorf("terminal/create %s: %s", params, m.Result)
		}
	}
	for _, params := range []string{`{"sessionId":"s","command":"no-such-program","args":["x"]}`, `{"sessionId":"s","command":"true","cwd":"/no/such/dir"}`} {
		if m, _ := p.ask("terminal/create", params, yes()); m.Error == nil || m.Error.Code != codeInternal {
			t.Errorf("terminal/create %s: %s %v", params, m.Result, m.Error)
		}
	}
	if m, _ := p.ask("terminal/output", `7`, nil); m.Error == nil {
		t.Errorf("terminal/output: %s", m.Result)
	}
	p.agent.mu.Lock()
	for i := range terminalsRoom {
		p.agent.terminals[fmt.Sprint(i)] = &terminal{ends: func() {}}
	}
	p.agent.mu.Unlock()
	if m, _ := p.ask("terminal/create", `{"sessionId":"s","command":"true"}`, nil); m.Error == nil {
		t.Errorf("one too many: %s", m.Result)
	}
}
