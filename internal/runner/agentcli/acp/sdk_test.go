package acp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// A sdkAgent is an agent written with somebody else's reading of the protocol: its
// types refuse what the schema does not know.
type sdkAgent struct {
	sdk.Agent // the rest is not called
	conn      *sdk.AgentSideConnection
	dir       string
	prompt    sdk.PromptRequest
	said      []string
	cancelled chan struct{}
}

func (a *sdkAgent) Initialize(_ context.Context, r sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	if !r.ClientCapabilities.Fs.ReadTextFile || !r.ClientCapabilities.Fs.WriteTextFile || !r.ClientCapabilities.Terminal || r.ClientInfo.Name != "iris" {
		return sdk.InitializeResponse{}, errors.New("capabilities are missing")
	}
	return sdk.InitializeResponse{ProtocolVersion: r.ProtocolVersion, AgentCapabilities: sdk.AgentCapabilities{
		PromptCapabilities: sdk.PromptCapabilities{Image: true},
	}}, nil
}

func (a *sdkAgent) NewSession(_ context.Context, r sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	if r.Cwd != a.dir || r.McpServers == nil {
		return sdk.NewSessionResponse{}, errors.New("no directory")
	}
	return sdk.NewSessionResponse{SessionId: "sdk"}, nil
}

func (a *sdkAgent) Cancel(_ context.Context, r sdk.CancelNotification) error {
	if r.SessionId == "sdk" {
		close(a.cancelled)
	}
	return nil
}

func (a *sdkAgent) Prompt(ctx context.Context, r sdk.PromptRequest) (sdk.PromptResponse, error) {
	a.prompt = r
	if r.Prompt[0].Text != nil && r.Prompt[0].Text.Text == "wait" {
		<-a.cancelled
		return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
	}
	say := func(u sdk.SessionUpdate) {
		if err := a.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: "sdk", Update: u}); err != nil {
			a.said = append(a.said, err.Error())
		}
	}
	note := func(what string, v any, err error) {
		text, _ := json.Marshal(v)
		if err != nil {
			text = []byte(err.Error())
		}
		a.said = append(a.said, what+" "+string(text))
	}
	say(sdk.UpdateAgentMessageText("let me see. "))
	say(sdk.StartToolCall("c1", "a title", sdk.WithStartKind(sdk.ToolKindExecute), sdk.WithStartStatus(sdk.ToolCallStatusPending), sdk.WithStartRawInput(map[string]any{"command": "echo hi"})))
	perm, err := a.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{
		SessionId: "sdk", ToolCall: sdk.ToolCallUpdate{ToolCallId: "c1", RawInput: map[string]any{"command": "echo hi"}},
		Options: []sdk.PermissionOption{{Kind: sdk.PermissionOptionKindAllowOnce, Name: "y", OptionId: "y"}, {Kind: sdk.PermissionOptionKindRejectOnce, Name: "n", OptionId: "n"}},
	})
	note("permission", perm.Outcome, err)
	term, err := a.conn.CreateTerminal(ctx, sdk.CreateTerminalRequest{SessionId: "sdk", Command: "echo hi"})
	note("create", "", err)
	exit, err := a.conn.WaitForTerminalExit(ctx, sdk.WaitForTerminalExitRequest{SessionId: "sdk", TerminalId: term.TerminalId})
	note("exit", exit, err)
	out, err := a.conn.TerminalOutput(ctx, sdk.TerminalOutputRequest{SessionId: "sdk", TerminalId: term.TerminalId})
	note("output", out, err)
	kill, err := a.conn.KillTerminal(ctx, sdk.KillTerminalRequest{SessionId: "sdk", TerminalId: term.TerminalId})
	note("kill", kill, err)
	rel, err := a.conn.ReleaseTerminal(ctx, sdk.ReleaseTerminalRequest{SessionId: "sdk", TerminalId: term.TerminalId})
	note("release", rel, err)
	say(sdk.UpdateToolCall("c1", sdk.WithUpdateStatus(sdk.ToolCallStatusCompleted), sdk.WithUpdateRawOutput("hi")))
	wrote, err := a.conn.WriteTextFile(ctx, sdk.WriteTextFileRequest{SessionId: "sdk", Path: filepath.Join(a.dir, "f"), Content: "text"})
	note("write", wrote, err)
	read, err := a.conn.ReadTextFile(ctx, sdk.ReadTextFileRequest{SessionId: "sdk", Path: filepath.Join(a.dir, "f")})
	note("read", read, err)
	_, err = a.conn.ReadTextFile(ctx, sdk.ReadTextFileRequest{SessionId: "sdk", Path: filepath.Join(a.dir, "none")})
	note("none", "", err)
	say(sdk.UpdateAgentMessageText("done."))
	return sdk.PromptResponse{StopReason: sdk.StopReasonEndTurn, Usage: &sdk.Usage{InputTokens: 3, OutputTokens: 2, TotalTokens: 5}}, nil
}

// TestWithTheSDK has an agent of the SDK go through everything that an agent may
// ask of us.
func TestWithTheSDK(t *testing.T) {
	dir := t.TempDir()
	d, err := New(Options{Env: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	theirs := &sdkAgent{dir: dir, cancelled: make(chan struct{})}
	theirs.conn = sdk.NewAgentSideConnection(theirs, outW, inR)
	theirs.conn.SetLogger(slog.New(slog.DiscardHandler))
	agent, err := d.Attach(agentcli.Setup{WorkDir: dir, Mode: agentcli.Manual}, agentcli.Pipes{In: inW, Out: outR})
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	results, ended := make(chan agentcli.Event, 2), make(chan error, 1)
	go func() {
		ended <- agent.Read(func(e agentcli.Event) {
			if e.Kind != agentcli.Delta {
				log = append(log, string(e.Kind))
			}
			switch e.Kind {
			case agentcli.Permission:
				if err := agent.Answer(context.Background(), agentcli.Answer{ID: e.ID, Allow: true}); err != nil {
					t.Error(err)
				}
			case agentcli.Result:
				results <- e
			}
		})
	}()
	if err := agent.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := agent.Send(t.Context(), agentcli.Prompt{ID: "1", Text: "go", Images: []agentcli.Image{{Mime: "image/png", Data: []byte("p")}}, Files: []string{"/x/y.txt"}}); err != nil {
		t.Fatal(err)
	}
	if e := <-results; e.Failure != "" || e.Usage == nil || e.Usage.Input != 3 {
		t.Errorf("Result = %s", show(e))
	}
	if err := theirs.prompt.Validate(); err != nil || theirs.prompt.Prompt[0].Image == nil || theirs.prompt.Prompt[2].ResourceLink == nil || theirs.prompt.Prompt[2].ResourceLink.Name != "y.txt" {
		t.Errorf("the prompt came as %+v, %v", theirs.prompt, err)
	}
	want := []string{
		`permission {"optionId":"y","outcome":"selected"}`, `create ""`, `exit {"exitCode":0}`,
		`output {"exitStatus":{"exitCode":0},"output":"hi\n","truncated":false}`, `kill {}`, `release {}`, `write {}`, `read {"content":"text"}`,
	}
	for i := range theirs.said {
		if s, ok := strings.CutPrefix(theirs.said[i], "none "); ok && strings.Contains(s, "no such file") {
			theirs.said = theirs.said[:i]
			break
		}
	}
	if diff := cmp.Diff(want, theirs.said); diff != "" {
		t.Errorf("the agent got (-want +got):\n%s", diff)
	}
	if err := agent.Send(t.Context(), agentcli.Prompt{ID: "2", Text: "wait"}); err != nil {
		t.Fatal(err)
	}
	if err := agent.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := <-results; !e.Interrupted {
		t.Errorf("Result = %s", show(e))
	}
	outW.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	inR.Close()
	<-theirs.conn.Done()
	wantLog := []string{"session", "taken up", "text", "tool start", "permission", "tool end", "permission", "permission", "permission", "text", "result", "taken up", "result"}
	if diff := cmp.Diff(wantLog, log); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
