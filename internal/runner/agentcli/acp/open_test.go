package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// opening plays a handshake step by step: each step is the method that the driver
// has to send and what it is answered.
func opening(t *testing.T, opts Options, s agentcli.Setup, steps ...[2]string) (*peer, []message, error) {
	t.Helper()
	p := join(t, opts, s)
	done := make(chan error, 1)
	go func() { done <- p.agent.Open(context.Background()) }()
	var sent []message
	for _, step := range steps {
		m := p.next(step[0])
		sent = append(sent, m)
		for l := range strings.SplitSeq(step[1], "\n") {
			p.line(strings.Replace(l, "ID", string(m.ID), 1))
		}
	}
	select {
	case err := <-done:
		return p, sent, err
	case <-time.After(patience):
		t.Fatal("Open did not return")
		return nil, nil, nil
	}
}

const (
	hello       = `{"id":ID,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}},"authMethods":[{"id":"oauth","name":"Log in"},{"id":"gemini-api-key","name":"Key"}]}}`
	helloL      = `{"id":ID,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`
	hello0      = `{"id":ID,"result":{"protocolVersion":1}}`
	created     = `{"id":ID,"result":{"sessionId":"s"}}`
	ok          = `{"id":ID,"result":{}}`
	unknown     = `{"id":ID,"error":{"code":-32603,"message":"Internal error","data":{"details":"Session not found"}}}`
	locked      = `{"id":ID,"error":{"code":-32000,"message":"Authentication required"}}`
	withModels  = `{"id":ID,"result":{"sessionId":"s","models":{"currentModelId":"a","availableModels":[{"modelId":"a","name":"A"},{"modelId":"b"}]}}}`
	withOptions = `{"id":ID,"result":{"sessionId":"s","configOptions":[{"id":"allow_all","currentValue":"on","options":[]},{"id":"m","category":"model","currentValue":"a","options":[{"name":"group","options":[{"value":"a","name":"A"},{"value":"b"}]}]}]}}`
	past        = `{"method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"past"}}}}`
)

func TestHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		preset Preset
		setup  agentcli.Setup
		steps  [][2]string
		is     error  // errors.Is
		says   string // part of the error
		log    string // the events
	}{
		"new":                {Preset{}, agentcli.Setup{}, [][2]string{{"initialize", hello}, {"session/new", created}}, nil, "", `session id="s"`},
		"resumed":            {Preset{}, agentcli.Setup{Session: "old"}, [][2]string{{"initialize", hello}, {"session/resume", ok}}, nil, "", `session id="old"`},
		"loaded, muted":      {Preset{}, agentcli.Setup{Session: "old"}, [][2]string{{"initialize", helloL}, {"session/load", past + "\n" + ok}}, nil, "", `session id="old"`},
		"no session":         {Preset{}, agentcli.Setup{Session: "old"}, [][2]string{{"initialize", helloL}, {"session/load", unknown}}, agentcli.ErrNoSession, "Session not found", ""},
		"cannot go on":       {Preset{}, agentcli.Setup{Session: "old"}, [][2]string{{"initialize", hello0}}, agentcli.ErrNoSession, "", ""},
		"another version":    {Preset{}, agentcli.Setup{}, [][2]string{{"initialize", `{"id":ID,"result":{"protocolVersion":2}}`}}, nil, "version 2", ""},
		"login":              {Gemini(), agentcli.Setup{}, [][2]string{{"initialize", hello}, {"session/new", locked}, {"authenticate", ok}, {"session/new", created}}, nil, "", `session id="s"`},
		"login for a load":   {Gemini(), agentcli.Setup{Session: "old"}, [][2]string{{"initialize", hello}, {"session/resume", locked}, {"authenticate", ok}, {"session/resume", ok}}, nil, "", `session id="old"`},
		"a person's login":   {Preset{}, agentcli.Setup{}, [][2]string{{"initialize", hello}, {"session/new", locked}}, nil, "it offers: Log in, Key", ""},
		"no login":           {Preset{}, agentcli.Setup{}, [][2]string{{"initialize", hello0}, {"session/new", locked}}, nil, "not logged in", ""},
		"no name":            {Preset{}, agentcli.Setup{}, [][2]string{{"initialize", hello}, {"session/new", ok}}, nil, "named no session", ""},
		"refused":            {Preset{}, agentcli.Setup{}, [][2]string{{"initialize", unknown}}, nil, "initialize: Internal error: Session not found", ""},
		"unreadable":         {Preset{}, agentcli.Setup{}, [][2]string{{"initialize", `{"id":ID,"result":` + `"x"}`}}, nil, "version 0", ""},
		"a model":            {Preset{}, agentcli.Setup{Model: "b"}, [][2]string{{"initialize", hello}, {"session/new", withModels}, {"session/set_model", ok}}, nil, "", `session id="s"`},
		"a model by option":  {Preset{}, agentcli.Setup{Model: "b"}, [][2]string{{"initialize", hello}, {"session/new", withOptions}, {"session/set_config_option", ok}}, nil, "", `session id="s"`},
		"an unknown model":   {Preset{}, agentcli.Setup{Model: "c"}, [][2]string{{"initialize", hello}, {"session/new", withModels}}, nil, `no model "c"; there are: a, b`, `session id="s"`},
		"no models":          {Preset{}, agentcli.Setup{Model: "c"}, [][2]string{{"initialize", hello}, {"session/new", created}}, agentcli.ErrNotOffered, "", `session id="s"`},
		"a model by flag":    {Copilot(), agentcli.Setup{Model: "c"}, [][2]string{{"initialize", hello}, {"session/new", created}}, nil, "", `session id="s"`},
		"asking is restored": {Copilot(), agentcli.Setup{}, [][2]string{{"initialize", hello}, {"session/new", withOptions}, {"session/set_config_option", ok}}, nil, "", `session id="s"`},
		"the asking mode":    {Gemini(), agentcli.Setup{}, [][2]string{{"initialize", hello}, {"session/new", `{"id":ID,"result":{"sessionId":"s","modes":{"currentModeId":"yolo","availableModes":[{"id":"yolo"},{"id":"default"}]}}}`}, {"session/set_mode", ok}}, nil, "", `session id="s"`},
	} {
		t.Run(name, func(t *testing.T) {
			p, sent, err := opening(t, Options{Preset: c.preset}, c.setup, c.steps...)
			if (err != nil) != (c.says != "" || c.is != nil) || c.is != nil && !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("Open = %v, want %v %q", err, c.is, c.says)
			}
			p.hangUp()
			if got := strings.TrimSpace(p.log()); got != c.log {
				t.Errorf("events %q, want %q", got, c.log)
			}
			if got := string(sent[0].Params); got != `{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true},"clientInfo":{"name":"iris","version":"0"}}` {
				t.Errorf("initialize %s", got)
			}
		})
	}
}

// TestHandshakeTimeout: an agent that says nothing is told from one that says no.
func TestHandshakeTimeout(t *testing.T) {
	p := join(t, Options{Handshake: time.Millisecond}, agentcli.Setup{})
	err := p.agent.Open(t.Context())
	var rpc *rpcError
	if err == nil || errors.As(err, &rpc) || err.Error() != "initialize: no answer within 1ms" {
		t.Errorf("Open = %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := p.agent.Open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v", err)
	}
	if d, err := New(Options{}); err != nil || d.opts.Handshake != 90*time.Second {
		t.Errorf("New: %v, %+v", err, d)
	}
}

// TestPromptsWaitForTheHandshake: what is sent before the session is there goes
// out when it is.
func TestPromptsWaitForTheHandshake(t *testing.T) {
	p := join(t, Options{}, agentcli.Setup{})
	if err := p.agent.Send(t.Context(), agentcli.Prompt{ID: "early", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	p.open(plainCaps, `{"sessionId":"s"}`)
	p.next("session/prompt")
	if e := p.await(agentcli.TakenUp); e.ID != "early" {
		t.Errorf("taken up: %s", show(e))
	}
}

func TestModels(t *testing.T) {
	for name, session := range map[string]string{"method": withModels, "option": withOptions} {
		t.Run(name, func(t *testing.T) {
			p, _, err := opening(t, Options{}, agentcli.Setup{}, [2]string{"initialize", hello}, [2]string{"session/new", session})
			if err != nil {
				t.Fatal(err)
			}
			all, current, err := p.agent.Models(t.Context())
			want := []agentcli.Model{{ID: "a", Name: "A"}, {ID: "b", Name: "b"}}
			if diff := cmp.Diff(want, all); err != nil || current != "a" || diff != "" {
				t.Errorf("Models = %v, %q, %v", all, current, err)
			}
			p.line(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","category":"model","currentValue":"b","options":[{"value":"b"}]}]}}}`)
			if _, current, _ = p.agent.Models(t.Context()); current != "b" {
				t.Errorf("the agent changed its model, and Models says %q", current)
			}
			if err := p.agent.SetMode(t.Context(), agentcli.Auto); err != nil {
				t.Error(err)
			}
			p.quiet()
		})
	}
}

// TestPresets: how each agent is started, and where our instructions go.
func TestPresets(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "agent")
	write(t, bin, "#!/bin/sh\n[ \"$1 $2\" = 'acp --check' ] && [ -e "+bin+".broken ] && { echo 'no such model'; exit 3; }\nexit 0\n", 0o755)
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".hermes"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, ".hermes", "config.yaml"), "a: b", 0o644)
	for name, c := range map[string]struct {
		preset Preset
		args   string
		file   string
		text   string
		env    string
	}{
		"copilot": {Copilot(), "--acp --log-level error --no-auto-update --model m --more", "instructions/iris-outbox.instructions.md", "---\napplyTo: \"**\"\n---\n\nbe kind\n", "COPILOT_CUSTOM_INSTRUCTIONS_DIRS=%s/instructions"},
		"claude":  {ClaudeCode(), "--more", "", "", ""},
		"hermes":  {Hermes(), "acp --more", "hermes/SOUL.md", "be kind", "HERMES_HOME=%s/hermes"},
		"gemini":  {Gemini(), "--acp --model m --more", "", "", ""},
		"generic": {Preset{}, "--more", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := New(Options{Preset: c.preset, Home: home})
			if err != nil {
				t.Fatal(err)
			}
			scratch := t.TempDir()
			l, err := d.Launch(agentcli.Setup{Bin: bin, Model: "m", System: "be kind", Scratch: scratch, Args: []string{"--more"}})
			if err != nil || l.Path != bin || strings.Join(l.Args, " ") != c.args {
				t.Errorf("Launch = %+v, %v, want %s", l, err, c.args)
			}
			if c.env != "" && l.Env[len(l.Env)-1] != fmt.Sprintf(c.env, scratch) {
				t.Errorf("Env = %q, want %q", l.Env, c.env)
			}
			if c.file == "" {
				return
			}
			text, err := os.ReadFile(filepath.Join(scratch, c.file))
			info, _ := os.Stat(filepath.Join(scratch, c.file))
			if err != nil || string(text) != c.text || info.Mode().Perm() != 0o600 {
				t.Errorf("%s = %q %v, %v", c.file, text, info.Mode(), err)
			}
		})
	}
	d, _ := New(Options{Preset: Hermes(), Home: home})
	scratch := t.TempDir()
	if _, err := d.Launch(agentcli.Setup{Bin: bin, Scratch: scratch}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(scratch, "hermes", "config.yaml"), "changed by the agent", 0o600)
	write(t, bin+".broken", "", 0o600)
	_, err := d.Launch(agentcli.Setup{Bin: bin, Scratch: scratch})
	if err == nil || !strings.Contains(err.Error(), "no such model") {
		t.Errorf("Launch of an agent that says it cannot = %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(scratch, "hermes", "config.yaml")); string(text) != "changed by the agent" {
		t.Errorf("the copy was made again: %q", text)
	}
	if _, err := d.Launch(agentcli.Setup{Bin: "no-such-agent"}); err == nil {
		t.Error("Launch of a program that is not there worked")
	}
	if _, err := New(Options{Preset: Hermes()}); err == nil {
		t.Error("New of a preset that copies from nowhere worked")
	}
	if _, err := d.Attach(agentcli.Setup{WorkDir: "rel"}, agentcli.Pipes{}); err == nil {
		t.Error("Attach with a relative work directory worked")
	}
}

// TestSystemPromptOfTheClaudeAdapter goes with the session; manual mode reads none
// of the person's own permissions.
func TestSystemPromptOfTheClaudeAdapter(t *testing.T) {
	for mode, settings := range map[agentcli.Mode]bool{agentcli.Manual: true, agentcli.Auto: false} {
		p, sent, err := opening(t, Options{Preset: ClaudeCode()}, agentcli.Setup{System: "be kind", Mode: mode}, [2]string{"initialize", hello}, [2]string{"session/new", created})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Meta struct {
				System struct{ Append string } `json:"systemPrompt"`
				Claude struct {
					Options struct {
						Sources *[]string                 `json:"settingSources"`
						Extra   struct{ Settings string } `json:"extraArgs"`
					}
				} `json:"claudeCode"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal(sent[1].Params, &got); err != nil || got.Meta.System.Append != "be kind" {
			t.Errorf("session/new %s, %v", sent[1].Params, err)
		}
		o := got.Meta.Claude.Options
		if (o.Sources != nil && len(*o.Sources) == 0) != settings || strings.Contains(o.Extra.Settings, `"Bash"`) != settings {
			t.Errorf("%s: session/new %s", mode, sent[1].Params)
		}
		p.prompt("p", "hello")
	}
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
