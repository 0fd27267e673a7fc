package bash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/host"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/tool/tooltest"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A judge denies commands with "denied" in them and holds those with "held".
type judge struct {
	mu   sync.Mutex
	seen []string // command, environment, directory
}

func (j *judge) Command(command string, env []string, cwd string) policy.Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, command+" | "+strings.Join(env, " ")+" | "+cwd)
	switch {
	case strings.Contains(command, "denied"):
		return policy.Verdict{Decision: policy.Deny, Rule: "test-deny", Reason: "command says denied"}
	case strings.Contains(command, "held"):
		return policy.Verdict{Decision: policy.Confirm, Rule: "test-hold", Reason: "command says held"}
	case strings.Contains(command, "strange"):
		return policy.Verdict{Decision: "perhaps", Reason: "the judge is of a later version"}
	}
	return policy.Verdict{Decision: policy.Allow}
}

// A record keeps audit entries.
type record struct {
	mu      sync.Mutex
	entries []audit.Entry
}

func (r *record) Append(e audit.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
}

// decisions returns the entries as "decision exit-code".
func (r *record) decisions() (list []string) {
	for _, e := range r.entries {
		text := string(e.Decision)
		if e.ExitCode != nil {
			code, _ := json.Marshal(e.ExitCode)
			text += " " + string(code)
		}
		list = append(list, text)
	}
	return list
}

// A bench is a Bash with real parts around it.
type bench struct {
	*Bash
	judge *judge
	audit *record
	ws    string
}

func open(t *testing.T, change func(*Options)) bench {
	t.Helper()
	b := bench{judge: &judge{}, audit: &record{}, ws: t.TempDir()}
	box, err := host.New(host.Options{Workspace: b.ws, KillDelay: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := tool.NewOutputs(tool.OutputsOptions{Workspace: b.ws})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Sandbox: box, Judge: b.judge, Audit: b.audit, Outputs: outputs}
	if change != nil {
		change(&opts)
	}
	if b.Bash, err = New(opts); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b bench) call(t *testing.T, args map[string]any) tool.Result {
	t.Helper()
	if _, ok := args["label"]; !ok {
		args["label"] = "test"
	}
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return b.Call(t.Context(), tooltest.Call(string(text)))
}

func (b bench) run(t *testing.T, command string) tool.Result {
	t.Helper()
	return b.call(t, map[string]any{"command": command})
}

func TestSuite(t *testing.T) {
	tooltest.Run(t, func(t *testing.T) tooltest.Subject {
		return tooltest.Subject{
			Tool: open(t, nil),
			Good: `{"label":"say","command":"echo hello"}`,
			Big:  `{"label":"much","command":"head -c 3000000 /dev/urandom"}`,
			Long: `{"label":"wait","command":"echo begun; sleep 300","timeout":250}`,
		}
	})
}

func TestResults(t *testing.T) {
	b := open(t, nil)
	for name, c := range map[string]struct {
		command, want string
		isError       bool
	}{
		"output":          {"echo out", "out\n", false},
		"both streams":    {"printf out; printf err >&2", "out\nerr", false},
		"no output":       {"true", "(no output)", false},
		"exit code":       {"echo out; exit 3", "out\n\nCommand exited with code 3", true},
		"silent failure":  {"false", "(no output)\n\nCommand exited with code 1", true},
		"not found":       {"no-such-program-here 2>/dev/null", "(no output)\n\nCommand exited with code 127", true},
		"signal":          {"echo out; kill -KILL $$", "out\n\nCommand ended by signal SIGKILL\nCommand exited with code 137", true},
		"invalid UTF-8":   {`printf 'a\377b'`, "a\uFFFDb", false},
		"stdin is closed": {"cat; echo end", "end\n", false},
		"background":      {"sleep 300 & echo started", "started\n\n[1 background process was still running when the command had ended, and ended with it. Run what should stay as a service.]", false},
		"backgrounds":     {"sleep 300 & sleep 300 & exit 2", "(no output)\n\n[2 background processes were still running when the command had ended, and ended with it. Run what should stay as a service.]\n\nCommand exited with code 2", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := b.run(t, c.command)
			if diff := cmp.Diff(tool.Result{Text: c.want, IsError: c.isError}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	got := open(t, nil).call(t, map[string]any{"command": "echo before; sleep 300", "timeout": 0.5})
	if want := "before\n\nCommand timed out after 0.5 seconds"; !got.IsError || got.Text != want {
		t.Errorf("got %+v, want %q", got, want)
	}
	b := open(t, func(o *Options) { o.Timeout = time.Second })
	if got := b.run(t, "sleep 300"); got.Text != "(no output)\n\nCommand timed out after 1 seconds" {
		t.Errorf("the default timeout: %+v", got)
	}
	for _, bad := range []any{0, -1, 90000, "5"} {
		if got := b.call(t, map[string]any{"command": "true", "timeout": bad}); !got.IsError || !strings.Contains(got.Text, `"timeout"`) {
			t.Errorf("timeout %v: %+v", bad, got)
		}
	}
}

var named = regexp.MustCompile(`Full output: (\S+)\]`)

// TestTimeoutOutputIsCut shows that the output of an ended command is cut like
// any other, with a file that is there.
func TestTimeoutOutputIsCut(t *testing.T) {
	got := open(t, nil).call(t, map[string]any{"command": "seq 100000; sleep 300", "timeout": 2})
	if len(got.Text) > tool.MaxBytes+1000 || !strings.HasSuffix(got.Text, "]\n\nCommand timed out after 2 seconds") {
		t.Fatalf("%d bytes, end %q", len(got.Text), got.Text[max(0, len(got.Text)-200):])
	}
	m := named.FindStringSubmatch(got.Text)
	if m == nil {
		t.Fatal("no file is named")
	}
	if data, err := os.ReadFile(m[1]); err != nil || !bytes.HasSuffix(data, []byte("\n100000\n")) || !bytes.HasPrefix(data, []byte("1\n2\n")) {
		t.Errorf("file of %d bytes, %v", len(data), err)
	}
}

// TestHugeOutput is a result that would end a session if it were not cut.
func TestHugeOutput(t *testing.T) {
	b := open(t, nil)
	for name, command := range map[string]string{
		"50 MB":         "yes | head -c 50M",
		"one line":      "head -c 5M /dev/zero | tr '\\0' x",
		"invalid UTF-8": "head -c 2M /dev/urandom",
	} {
		t.Run(name, func(t *testing.T) {
			got := b.run(t, command)
			m := named.FindStringSubmatch(got.Text)
			if got.IsError || len(got.Text) > tool.MaxBytes+1000 || m == nil {
				t.Fatalf("error %v, %d bytes, file %v", got.IsError, len(got.Text), m)
			}
			if info, err := os.Stat(m[1]); err != nil || info.Size() < 2<<20 {
				t.Errorf("full output: %v, %v", info, err)
			}
		})
	}
}

func TestDenied(t *testing.T) {
	b := open(t, nil)
	mark := filepath.Join(b.ws, "ran")
	for command, reason := range map[string]string{"touch " + mark + " # denied": "command says denied", "touch " + mark + " # strange": "the judge is of a later version"} {
		got := b.run(t, command)
		if !got.IsError || !strings.HasPrefix(got.Text, "Command refused by bash policy: "+reason+". This command cannot be run. ") {
			t.Errorf("got %+v", got)
		}
		if want := "Not run: the policy refuses it (" + reason + ")."; got.Display != want {
			t.Errorf("people are shown %q, want %q", got.Display, want)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
	if got := b.audit.decisions(); !slices.Equal(got, []string{"denied", "denied"}) {
		t.Errorf("audit %q", got)
	}
}

func TestHeld(t *testing.T) {
	answer := Answer{Text: "Held. Ask the user and end the turn."}
	var asked []string
	b := open(t, func(o *Options) {
		o.Hold = func(_ context.Context, call tool.Call, command string, v policy.Verdict) Answer {
			asked = append(asked, call.ID+" "+command+" "+v.Rule)
			return answer
		}
	})
	if got := b.run(t, "echo held"); !got.IsError || got.Text != answer.Text || got.Display != "Not run: it needs a person's yes (command says held)." {
		t.Errorf("not allowed: %+v", got)
	}
	answer.Text = ""
	if got := b.run(t, "echo held"); !got.IsError || !strings.Contains(got.Text, "command says held") {
		t.Errorf("not allowed, without words: %+v", got)
	}
	answer = Answer{Allowed: true, By: "anna 17"}
	if got := b.run(t, "echo held; exit 4"); got.Text != "held\n\nCommand exited with code 4" {
		t.Errorf("allowed: %+v", got)
	}
	if want := []string{"call-1 echo held test-hold", "call-1 echo held test-hold", "call-1 echo held; exit 4 test-hold"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if want := []string{"confirmation-required", "confirmation-required", "confirmed", "executed 4"}; !slices.Equal(b.audit.decisions(), want) {
		t.Errorf("audit %q, want %q", b.audit.decisions(), want)
	}
	if by := b.audit.entries[2].By; by != "anna 17" {
		t.Errorf("confirmed by %q", by)
	}
}

func TestHeldWithNobodyToAsk(t *testing.T) {
	b := open(t, nil)
	if got := b.run(t, "echo held"); !got.IsError || !strings.Contains(got.Text, "nobody can approve it here") {
		t.Errorf("got %+v", got)
	}
	if want := []string{"confirmation-required"}; !slices.Equal(b.audit.decisions(), want) {
		t.Errorf("audit %q, want %q", b.audit.decisions(), want)
	}
}

func TestPolicyOff(t *testing.T) {
	b := open(t, func(o *Options) { o.PolicyOff = true })
	for _, command := range []string{"echo denied", "echo held"} {
		if got := b.run(t, command); got.IsError {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if got := b.audit.decisions(); !slices.Equal(got, []string{"executed 0", "executed 0"}) || len(b.judge.seen) > 0 {
		t.Errorf("audit %q, judged %q", got, b.judge.seen)
	}
}

// TestAudit has one line for every decision, null for a command that did not
// come to its own end, and who asked for it.
func TestAudit(t *testing.T) {
	b := open(t, nil)
	b.run(t, "exit 5")
	b.call(t, map[string]any{"command": "sleep 300", "timeout": 0.1})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	b.Call(ctx, tooltest.Call(`{"label":"x","command":"sleep 300"}`))
	b.run(t, strings.Repeat("#", 200<<10)) // more than bash can be given
	if want := []string{"executed 5", "executed", "executed", "executed"}; !slices.Equal(b.audit.decisions(), want) {
		t.Errorf("audit %q, want %q", b.audit.decisions(), want)
	}
	e := b.audit.entries[0]
	if e.Channel != "SESSION-tooltest" || e.Command != "exit 5" || e.User != "U1" || e.Origin != "api" || e.Sandbox != "host" || e.Turn == "" || e.DurationMS < 0 {
		t.Errorf("entry %+v", e)
	}
}

// TestAuditFailureIsHarmless runs with a record that cannot be written.
func TestAuditFailureIsHarmless(t *testing.T) {
	blocker := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := audit.New(audit.Options{File: filepath.Join(blocker, "audit.log")})
	if err != nil {
		t.Fatal(err)
	}
	if got := open(t, func(o *Options) { o.Audit = log }).run(t, "echo fine"); got.IsError || got.Text != "fine\n" {
		t.Errorf("got %+v", got)
	}
}

// TestEnvironmentAndDirectory shows that the judge sees what the command gets.
func TestEnvironmentAndDirectory(t *testing.T) {
	dir := t.TempDir()
	b := open(t, func(o *Options) {
		o.Dir = dir
		o.Env = func(r turn.Request) []string {
			return []string{"PATH=" + DefaultPath, "CONV=" + r.Conversation.Channel()}
		}
	})
	if got := b.run(t, `echo "$CONV $PWD ${HOME-none}"`); got.Text != "SESSION-tooltest "+dir+" none\n" {
		t.Errorf("got %+v", got)
	}
	if want := `echo "$CONV $PWD ${HOME-none}" | PATH=` + DefaultPath + " CONV=SESSION-tooltest | " + dir; !slices.Equal(b.judge.seen, []string{want}) {
		t.Errorf("judged %q, want %q", b.judge.seen, want)
	}
}

// A broken sandbox cannot run anything.
type broken struct{ sandbox.Sandbox }

func (broken) Name() string { return "broken" }

func (broken) Run(context.Context, sandbox.Command) (sandbox.Exit, error) {
	return sandbox.Exit{}, errors.New("the machine is gone")
}

func TestSandboxError(t *testing.T) {
	var logs bytes.Buffer
	b := open(t, func(o *Options) {
		o.Sandbox = broken{}
		o.Logger = slog.New(slog.NewTextHandler(&logs, nil))
	})
	if got := b.run(t, "true"); !got.IsError || !strings.Contains(got.Text, "the machine is gone") || !strings.Contains(logs.String(), "the machine is gone") {
		t.Errorf("got %+v, log %s", got, &logs)
	}
}

func TestNewRefuses(t *testing.T) {
	whole := open(t, nil).opts
	for name, drop := range map[string]func(*Options){
		"sandbox": func(o *Options) { o.Sandbox = nil },
		"policy":  func(o *Options) { o.Judge = nil },
		"audit":   func(o *Options) { o.Audit = nil },
		"outputs": func(o *Options) { o.Outputs = nil },
	} {
		opts := whole
		drop(&opts)
		if _, err := New(opts); err == nil {
			t.Errorf("without %s: no error", name)
		}
	}
}

func TestEnviron(t *testing.T) {
	for name, c := range map[string]struct {
		environ, extra, want []string
	}{
		"nothing": {nil, nil, []string{"PATH=" + DefaultPath}},
		"the list": {
			[]string{"PATH=/bin", "HOME=/h", "LANG=C", "LC_ALL=C", "LC_TIME=de", "TZ=UTC", "TERM=dumb", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "TMPDIR=/t"}, nil,
			[]string{"PATH=/bin", "HOME=/h", "LANG=C", "LC_ALL=C", "LC_TIME=de", "TZ=UTC", "TERM=dumb", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "TMPDIR=/t"},
		},
		"never a token": {
			[]string{"PATH=/bin", "IRIS_API_TOKEN=t", "ANTHROPIC_API_KEY=t", "GITHUB_TOKEN=t", "SLACK_BOT_TOKEN=t", "AWS_SECRET_ACCESS_KEY=t", "LC_TOKEN=t", "LC_secret=t", "LC_=t",
				"PATHS=t", "HOME_TOKEN=t", "home=t", "SSH_AUTH_SOCK=t", "DATABASE_URL=t", "BASH_ENV=t", "LD_PRELOAD=t", "IRIS_COMMAND_ID=t", "=t", "t", "BASH_FUNC_ls%%=() { t; }"}, nil,
			[]string{"PATH=/bin"},
		},
		"configured":        {[]string{"PATH=/bin", "GOFLAGS=-v", "EDITOR=vi"}, []string{"GOFLAGS"}, []string{"PATH=/bin", "GOFLAGS=-v"}},
		"never configured":  {[]string{"PATH=/bin", "IRIS_API_TOKEN=t", "BASH_ENV=t", "IFS=t"}, []string{"IRIS_API_TOKEN", "BASH_ENV", "IFS"}, []string{"PATH=/bin"}},
		"the last counts":   {[]string{"PATH=/a", "HOME=/h", "PATH=/b"}, nil, []string{"PATH=/b", "HOME=/h"}},
		"empty is a value":  {[]string{"PATH=", "TZ="}, nil, []string{"PATH=", "TZ="}},
		"NUL is not passed": {[]string{"PATH=/bin", "TZ=a\x00b"}, nil, []string{"PATH=/bin"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Environ(c.environ, c.extra...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
