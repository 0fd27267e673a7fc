package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/sandbox/host"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

func TestAttach(t *testing.T) {
	b := open(t, nil)
	b.put("SESSION-1/out/報告 a]\n.pdf", "%PDF")
	b.put("empty", "")
	b.link("SESSION-1/out", "short")
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.link(outside, "exit")
	b.link(filepath.Dir(outside), "exits")
	attach := func(a args) (tool.Result, []turn.Event) {
		call := a.call(t)
		var events []turn.Event
		call.Emit = func(e turn.Event) error {
			events = append(events, e)
			return nil
		}
		return b.tools["attach"].Call(t.Context(), call), events
	}
	for _, c := range []struct {
		args args
		want turn.Event
		text string
	}{
		{args{"path": "SESSION-1/out/報告 a]\n.pdf"}, turn.Event{Filename: "報告 a] .pdf", Local: "SESSION-1/out/報告 a]\n.pdf"}, "Attached file: 報告 a] .pdf"},
		{args{"path": b.path("short/報告 a]\n.pdf"), "title": "The\nreport"}, turn.Event{Filename: "報告 a] .pdf", Title: "The report", Local: "SESSION-1/out/報告 a]\n.pdf"}, "Attached file: The report"},
	} {
		got, events := attach(c.args)
		c.want.Kind = turn.FileOut
		if diff := cmp.Diff([]turn.Event{c.want}, events); diff != "" || got.Text != c.text || got.IsError {
			t.Errorf("%v: %+v\n%s", c.args, got, diff)
		}
	}
	for path, want := range map[string]string{
		outside: "is outside of the workspace", "exit": "is outside of the workspace", "exits/secret.txt": "is outside of the workspace",
		"../x": "is outside of the workspace", "/etc/passwd": "is outside of the workspace", `..\x`: "no such file",
		"none": "no such file", "short": "is not a regular file", "empty": "is empty",
	} {
		got, events := attach(args{"path": path})
		wants(t, got, true, want)
		if len(events) > 0 {
			t.Errorf("%s: events %+v", path, events)
		}
	}
	call := args{"path": "SESSION-1/out/報告 a]\n.pdf"}.call(t)
	call.Emit = func(turn.Event) error { return errors.New("the turn is over") }
	wants(t, b.tools["attach"].Call(t.Context(), call), true, "the turn is over")
}

// TestAttachBelongsToItsTurn attaches in two turns at once.
func TestAttachBelongsToItsTurn(t *testing.T) {
	b := open(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("f%d", i)
		b.put(name, "x")
		wg.Go(func() {
			call := args{"path": name}.call(t)
			call.Emit = func(e turn.Event) error {
				if e.Local != name {
					t.Errorf("the turn of %s got %s", name, e.Local)
				}
				return nil
			}
			b.tools["attach"].Call(t.Context(), call)
		})
	}
	wg.Wait()
}

// TestAttachThroughLinkedWorkspace has a workspace that is itself a link.
func TestAttachThroughLinkedWorkspace(t *testing.T) {
	real := t.TempDir()
	ws := filepath.Join(t.TempDir(), "ws")
	if err := os.Symlink(real, ws); err != nil {
		t.Fatal(err)
	}
	b := open(t, func(o *Options) {
		box, err := host.New(host.Options{Workspace: ws})
		if err != nil {
			t.Fatal(err)
		}
		o.Sandbox, o.Workspace, o.Dir = box, ws, ""
	})
	if err := os.WriteFile(filepath.Join(real, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, b.do("attach", args{"path": "f"}), false, "Attached file: f")
	wants(t, b.do("attach", args{"path": filepath.Join(ws, "f")}), false, "Attached file: f")
}
