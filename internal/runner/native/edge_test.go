package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	models := func(context.Context) ([]llm.Model, error) { return nil, nil }
	for name, o := range map[string]Options{
		"no archive":   {Models: models, Workspace: "/ws"},
		"no models":    {Archive: &memory{}, Workspace: "/ws"},
		"no workspace": {Archive: &memory{}, Models: models},
		"fraction":     {Archive: &memory{}, Models: models, Workspace: "/ws", CompactAt: 1.5},
		"order":        {Archive: &memory{}, Models: models, Workspace: "/ws", CompactAt: 0.2, CompactTo: 0.3},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: New = nil", name)
		}
	}
}

func TestModelsThatCannotBeHad(t *testing.T) {
	b := newBed(t, nil, func(o *Options) {
		o.Models = func(context.Context) ([]llm.Model, error) { return nil, errors.New("models.json:\nbroken") }
	})
	var e *runner.Error
	if _, err := b.run(b.accept("go")); !errors.As(err, &e) || e.Text != "models.json: broken" {
		t.Errorf("Run = %v", err)
	}
	if _, err := b.n.Compact(t.Context(), room); err == nil {
		t.Error("Compact = nil")
	}
}

// A turn that a newer one replaced keeps its message in the context.
func TestSupersededTurnKeepsItsMessage(t *testing.T) {
	m := scripted.New(info, scripted.Hang("half"), scripted.Text("ok"))
	b := newBed(t, one(m), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	s, done := b.started(ctx, b.accept("old wish"))
	s.Wait(func(e turn.Event) bool { return e.Partial })
	cancel(runner.ErrSuperseded)
	if err := <-done; !errors.Is(err, runner.ErrSuperseded) {
		t.Fatalf("Run = %v", err)
	}
	b.say("new wish")
	if got := dump(last(t, m).Messages); strings.Count(got, "old wish") != 1 || !strings.Contains(got, "half") {
		t.Errorf("request:\n%s", got)
	}
	valid(t, m.Requests()...)
}

// A turn stopped at the moment when its partial text was saved ends as stopped
// after the restart and is not begun again.
func TestStoppedTurnIsNotBegunAgain(t *testing.T) {
	m := scripted.New(info, scripted.Hang("half"))
	b := newBed(t, one(m), nil)
	req := b.accept("go")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := b.sink(req)
	s.before = func(what string) error {
		if what == string(turn.Final) {
			return errDisk
		}
		return nil
	}
	done := make(chan error, 1) // one value, when Run has returned
	go func() { done <- b.n.Run(ctx, req, s) }()
	s.Wait(func(e turn.Event) bool { return e.Partial })
	cancel(runner.ErrStopped)
	if err := <-done; !errors.Is(err, errDisk) {
		t.Fatalf("Run = %v", err)
	}
	b.restart()
	req.Attempt = 2
	again, err := b.run(req)
	if err != nil || !again.End().Stopped || again.End().Text != "half" || len(m.Requests()) != 1 {
		t.Errorf("Run = %v, end %+v, %d requests", err, again.End(), len(m.Requests()))
	}
}

func TestEntryThatCannotBeReadIsLeftOut(t *testing.T) {
	m := scriptedOK(info)
	b := newBed(t, one(m), nil)
	b.say("one")
	file := filepath.Join(b.root, room.Dir(), "context.jsonl")
	lines := strings.SplitAfter(string(mustRead(t, file)), "\n")
	lines = append(lines[:2], append([]string{
		`{"id":"x1","type":"message","body":[1]}` + "\n",
		`{"id":"x2","type":"compaction","body":"what"}` + "\n",
		`{"id":"x3","type":"message","body":{"role":"robot","parts":[{"kind":"text","text":"beep"}]}}` + "\n",
	}, lines[2:]...)...)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.say("two")
	got := dump(last(t, m).Messages)
	if strings.Contains(got, "beep") || !strings.Contains(got, ": two") {
		t.Errorf("request:\n%s", got)
	}
	valid(t, m.Requests()...)
}

// A history made for a large window is no end for a model with a small one.
func TestHugeHistoryInASmallWindow(t *testing.T) {
	large := scripted.New(llm.Info{Window: 1_000_000}, scripted.Tools(scripted.Call("big", `{}`)), scripted.Text("done"))
	b := newBed(t, one(large), tools(fakeTool{"big", func(context.Context, tool.Call) tool.Result { return tool.Result{Text: strings.Repeat("x ", 120<<10)} }}))
	b.say("go")
	m := scripted.Func(small, func(_ int, req llm.Request) scripted.Step {
		size := len(req.System)
		for _, msg := range req.Messages {
			size += int(messageBytes(msg))
		}
		switch {
		case size/4 > 10_000:
			return scripted.Fail(llm.ClassTooLong, "prompt is too long")
		case isSummary(req):
			return scripted.Text("A big thing was read.")
		}
		return scripted.Text("fits")
	})
	b.opts.Models = func(context.Context) ([]llm.Model, error) { return one(m), nil }
	b.restart()
	if end := b.say("and now"); end.Text != "fits" {
		t.Errorf("end = %+v", end)
	}
	valid(t, m.Requests()...)
}

func TestMoreToolsFollowAndTakeNoName(t *testing.T) {
	m := scripted.New(info, scripted.Tools(scripted.Call("echo", `{}`)), scripted.Text("done"))
	b := newBed(t, one(m), func(o *Options) {
		o.Tools = []tool.Tool{echo("echo")}
		o.MoreTools = func(context.Context, chat.Address) []tool.Tool {
			return []tool.Tool{fakeTool{"echo", func(context.Context, tool.Call) tool.Result { return tool.Result{Text: "the other"} }}, echo("mcp__a__b")}
		}
	})
	b.say("go")
	req := last(t, m)
	var names []string
	for _, s := range req.Tools {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"echo", "mcp__a__b"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := results(req.Messages); r[0].Text != "echo {}" {
		t.Errorf("result = %+v", r)
	}
}

func TestNoToolsAtAll(t *testing.T) {
	m := scripted.New(info, scripted.Tools(scripted.Call("bash", `{}`)), scripted.Text("done"))
	b := newBed(t, one(m), nil)
	b.say("go")
	if r := results(last(t, m).Messages); !strings.Contains(r[0].Text, "and no other") {
		t.Errorf("result = %+v", r)
	}
}

func TestLocateOnThisMachine(t *testing.T) {
	b := newBed(t, one(scriptedOK(info)), func(o *Options) { o.Locate = nil })
	there := b.file("WEBUI-room/attachments/1_a.txt", []byte("x"))
	for _, c := range []struct {
		file      chat.File
		path, err string
	}{
		{there, filepath.ToSlash(filepath.Join(b.root, there.Local)), ""},
		{chat.File{Local: "WEBUI-room/gone"}, "/ws/WEBUI-room/gone", "still downloading — try again shortly"},
		{chat.File{Local: "../x"}, "/ws/../x", "not available"},
		{chat.File{Original: "a.pdf", Missing: "too large"}, "a.pdf", "too large"},
	} {
		got, err := b.n.locate(t.Context(), room, c.file)
		if got != c.path || fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
			t.Errorf("%+v: %q, %v", c.file, got, err)
		}
	}
}

func TestTranscriptKeepsTheEndsOfLongThings(t *testing.T) {
	call := llm.Call{ID: "1", Name: "bash", Args: []byte(`{"command":"ls"}`)}
	got := transcript([]llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: "<dynamic_context>\nx\n</dynamic_context>\n\nhi"}, {Kind: llm.ImagePart}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "secret thought"}, {Kind: llm.CallPart, Call: &call}}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.ResultPart, Result: &llm.Result{ID: "1", Name: "bash", Text: "begin" + strings.Repeat("é", 5000) + "end"}}}},
	}, 1<<20)
	if len(got) != 1 {
		t.Fatalf("%d pieces", len(got))
	}
	for _, want := range []string{"PEOPLE: hi\n", "[an image]", `CALL bash {"command":"ls"}`, "RESULT of bash: begin", "end\n", "bytes left out"} {
		if !strings.Contains(got[0], want) {
			t.Errorf("%q is missing in %.300q", want, got[0])
		}
	}
	if strings.Contains(got[0], "secret thought") || strings.Contains(got[0], "\uFFFD") || len(got[0]) > 3000 {
		t.Errorf("transcript of %d bytes: %.300q", len(got[0]), got[0])
	}
}

func TestReasonsForPeople(t *testing.T) {
	for want, err := range map[string]error{
		"p: HTTP 529: busy": &llm.Error{Provider: "p", Status: 529, Text: "busy"},
		"p: HTTP 500":       &llm.Error{Provider: "p", Status: 500},
		"p: network":        &llm.Error{Provider: "p", Class: llm.ClassNetwork},
		"plain":             &llm.Error{Text: "plain"},
		"internal error":    errors.New("x"),
	} {
		if got := reason(err); got != want {
			t.Errorf("reason(%v) = %q, want %q", err, got, want)
		}
	}
}

// brokenArchive fails where it is told to.
type brokenArchive struct {
	memory
	entries, unseen error
}

func (b *brokenArchive) Entries(context.Context, chat.Address, string) ([]session.Entry, error) {
	return nil, b.entries
}

func (b *brokenArchive) Unseen(context.Context, chat.Address, map[string]bool, func(string) bool) ([]session.Line, error) {
	return nil, b.unseen
}

func TestArchiveThatFails(t *testing.T) {
	for _, a := range []*brokenArchive{{entries: errDisk}, {unseen: errDisk}} {
		m := scriptedOK(info)
		n, err := New(Options{Archive: a, Workspace: "/ws", Models: func(context.Context) ([]llm.Model, error) { return one(m), nil }})
		if err != nil {
			t.Fatal(err)
		}
		err = n.Run(t.Context(), turn.Request{ID: turn.NewID(), Conversation: room}, &quiet{})
		if !errors.Is(err, errDisk) || len(m.Requests()) != 0 {
			t.Errorf("Run = %v after %d requests", err, len(m.Requests()))
		}
	}
}
