package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
)

// TestKilledBetweenAnswerAndRun: a yes whose command had not begun when the
// process died counts for nothing; the turn goes on and asks again.
func TestKilledBetweenAnswerAndRun(t *testing.T) {
	asked, killed := make(chan struct{}, 1), make(chan struct{})
	model := llmtest.NewServer(t)
	model.Script(func(r llmtest.Request) llmtest.Answer {
		approved := strings.Contains(r.Text(), "approved by api")
		if approved {
			select {
			case <-killed:
			default:
				asked <- struct{}{}
				<-killed
			}
		}
		if len(r.Results()) == 0 && (approved || strings.Contains(r.Text(), "clean up")) {
			args, err := json.Marshal(map[string]string{"label": "clean", "command": heldCommand})
			if err != nil {
				t.Error(err)
			}
			return llmtest.Answer{Parts: []llm.Part{llmtest.Call(fmt.Sprint("call_", r.Number), "bash", string(args))}}
		}
		return llmtest.Answer{Parts: []llm.Part{llmtest.Text("done")}}
	})
	p := newPlace(t, wires(model)[0]...)
	s := p.serve()
	id := p.session()
	p.say(id, "clean up")
	q := p.oneWaits("SESSION-" + id)
	if a := p.do("POST", "/approvals/"+q, `{"answer":"yes"}`); a.status != http.StatusOK {
		t.Fatalf("answer: %v", a)
	}
	<-asked
	s.kill()
	close(killed)
	s = p.serve()
	until(t, "it asks again", func() bool { return len(p.waiting("SESSION-"+id)) == 1 })
	again := p.oneWaits("SESSION-" + id)
	if n := p.ran(); n != 0 {
		t.Fatalf("ran %d times without a yes of this process", n)
	}
	if a := p.do("POST", "/approvals/"+again, `{"answer":"yes"}`); a.status != http.StatusOK {
		t.Fatalf("answer: %v", a)
	}
	until(t, "it runs", func() bool { return p.ran() > 0 })
	p.events(id, 3)
	if n := p.ran(); n != 1 {
		t.Errorf("ran %d times", n)
	}
	s.stop()
}

// TestCommandsHoldNoToken: of all the tokens of the process a command sees that of
// its turn, at every level.
func TestCommandsHoldNoToken(t *testing.T) {
	for _, level := range []string{"host", "bwrap"} {
		t.Run(level, func(t *testing.T) {
			if _, err := exec.LookPath("bwrap"); level == "bwrap" && err != nil {
				t.Skip("bubblewrap is not installed")
			}
			p := newPlace(t, "IRIS_SANDBOX="+level)
			names := []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "IRIS_SLACK_BOT_TOKEN", "IRIS_SLACK_APP_TOKEN", "TELEGRAM_BOT_TOKEN",
				"IRIS_SECRET_BROKER_TOKEN", "GITHUB_TOKEN", "LANGFUSE_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"}
			var environ []string
			for _, name := range names {
				environ = append(environ, name+"=canary-"+strings.ToLower(name))
			}
			bot := telegramtest.New(telegramtest.Options{Token: "canary-telegram_bot_token"})
			defer bot.Close()
			team := slacktest.New(slacktest.Options{})
			defer team.Close()
			s := p.serve(append(environ, "IRIS_TELEGRAM_API_URL="+bot.URL(), "IRIS_SLACK_API_URL="+team.URL(),
				"IRIS_SLACK_BOT_TOKEN="+slacktest.BotToken, "IRIS_SLACK_APP_TOKEN="+slacktest.AppToken)...)
			out := p.say(p.session(), "run `env | sort`")
			if !strings.Contains(out, "IRIS_TURN_TOKEN=") || !strings.Contains(out, "PATH=") {
				t.Fatalf("env printed %q", out)
			}
			for _, name := range append(names, "IRIS_API_TOKEN", "IRIS_WEBUI_PASSWORD") {
				if strings.Contains(out, name+"=") {
					t.Errorf("a command has %s", name)
				}
			}
			for _, secret := range []string{"canary-", slacktest.BotToken, slacktest.AppToken, operatorToken, pagePassword} {
				if strings.Contains(out, secret) {
					t.Errorf("a command sees %s", secret)
				}
			}
			s.stop()
		})
	}
}

// TestServerInASandbox: what commands of the server see and do not see with
// bwrap, and that the policy and the audit are in front of it all the same.
func TestServerInASandbox(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	p := newPlace(t, "IRIS_SANDBOX=bwrap")
	if err := os.WriteFile(p.home+"/diary", []byte("dear diary"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := p.serve()
	id := p.session()
	if out := p.say(id, "run `cat ~/diary`"); strings.Contains(out, "dear diary") || !strings.Contains(out, "No such file") {
		t.Errorf("cat ~/diary: %q", out)
	}
	if out := p.say(id, "run `pwd; echo hello > note`"); !strings.Contains(out, p.workspace) {
		t.Errorf("in the workspace: %q", out)
	}
	if data, err := os.ReadFile(p.workspace + "/note"); err != nil || string(data) != "hello\n" {
		t.Errorf("the note: %q, %v", data, err)
	}
	if out := p.say(id, "run `cat .env`"); !strings.Contains(out, "refused") {
		t.Errorf("cat .env: %q", out)
	}
	log, err := os.ReadFile(p.workspace + "/meta/bash-audit.log")
	if err != nil || strings.Count(string(log), `"sandbox":"bwrap"`) != 3 || !strings.Contains(string(log), `"denied"`) {
		t.Errorf("audit: %s, %v", log, err)
	}
	s.stop()
}

// TestUnprovenLevelIsNoStart: a level that cannot be had ends the start with the
// reason and the way out; it never becomes another level.
func TestUnprovenLevelIsNoStart(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		want    []string
	}{
		"no engine":     {[]string{"IRIS_SANDBOX=docker:box", "DOCKER_HOST=unix:///does/not/exist.sock"}, []string{"no engine answers at unix:///does/not/exist.sock", "DOCKER_HOST"}},
		"no bubblewrap": {[]string{"IRIS_SANDBOX=bwrap", "PATH=/does/not/exist"}, []string{"bubblewrap is not installed: apt install bubblewrap"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, c.environ...)
			s := p.start()
			if code := s.wait(); code == 0 {
				t.Error("it started")
			}
			for _, want := range c.want {
				if !strings.Contains(s.stderr.String(), want) {
					t.Errorf("stderr %q lacks %q", s.stderr.String(), want)
				}
			}
		})
	}
}

// TestVerifyTellsWhatTheHostLacks: on the host the table says plainly which walls
// do not exist, and that is no failure.
func TestVerifyTellsWhatTheHostLacks(t *testing.T) {
	home := t.TempDir()
	cfg, _, err := config.Load(config.Source{Dir: home, Home: home, Environ: []string{"IRIS_SANDBOX_PROCESSES=20", "IRIS_SANDBOX_FILE_MIB=1"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = app.SandboxVerify(t.Context(), app.VerifyOptions{Config: cfg, Out: &out, Environ: []string{"HOME=" + home}})
	if err != nil {
		t.Errorf("SandboxVerify: %v", err)
	}
	for _, want := range []string{"PROBE", "secret file", "host has no wall against: ", "fork bomb", "setsid survivor", "Every wall that host promises stands."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// TestSameVerdictFromEveryOrigin: a command that the policy refuses is refused, and
// recorded, whoever asks for it (F38).
func TestSameVerdictFromEveryOrigin(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	const ask = "run `cat .env`"
	count := func() (denied int) {
		log, err := os.ReadFile(p.workspace + "/meta/bash-audit.log")
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if !strings.Contains(line, `"denied"`) || !strings.Contains(line, `"rule":"secret"`) || !strings.Contains(line, `"command":"cat .env"`) {
				t.Errorf("audit line %s", line)
			}
			denied++
		}
		return denied
	}
	if out := p.say(p.session(), ask); !strings.Contains(out, "refused by bash policy") {
		t.Errorf("in a session: %q", out)
	}
	file, err := json.Marshal(map[string]string{"type": "immediate", "channelId": "SESSION-" + p.session(), "text": ask})
	if err != nil {
		t.Fatal(err)
	}
	for n, origin := range map[string]func() error{
		"event": func() error {
			a := p.do("POST", "/event", `{"channelId":"SESSION-`+p.session()+`","text":"`+ask+`"}`)
			if a.status != http.StatusOK {
				return fmt.Errorf("%v", a)
			}
			return nil
		},
		"event file": func() error { return os.WriteFile(p.workspace+"/events/now.json", file, 0o600) },
	} {
		before := count()
		if err := origin(); err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		until(t, "the command of an "+n+" is judged", func() bool { return count() > before })
	}
	s.stop()
}
