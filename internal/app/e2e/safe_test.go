//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/iris-operator/iris/internal/turn"
)

const nasty = `Look: <img src=x onerror="window.hurt=1"> <script>window.hurt=2</script> <svg onload="window.hurt=3"></svg>
[a link](javascript:window.hurt=4) [another](JaVaScRiPt&colon;window.hurt=5) <a href="javascript:window.hurt=6">raw</a>
![picture](https://example.org/spy.png "x") <iframe srcdoc="<script>parent.hurt=7</script>"></iframe>
<style>body{display:none}</style> <form action="https://example.org"><input name=password></form> [data](data:text/html,<script>hurt=8</script>)
` + "```\"><img src=x onerror=window.hurt=9>\n<img src=x onerror=window.hurt=10>\n```"

// TestHostileText: nothing that a model, a tool or a name says becomes a part of
// the page, and the page's policy has nothing to complain about.
func TestHostileText(t *testing.T) {
	s := newStage(t, nil)
	name := `"><img src=x onerror=window.hurt=20>.png`
	local := s.put(t, "a.png", []byte("no picture"))
	s.scenes = map[string]scene{"bad": func(ctx context.Context, s *stage, req turn.Request, say func(turn.Event)) {
		say(turn.Event{Kind: turn.Thinking, Text: nasty})
		say(turn.Event{Kind: turn.Status, Label: nasty})
		args, _ := json.Marshal(map[string]string{"command": nasty, nasty: nasty})
		say(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: nasty, Name: nasty, Label: nasty, Args: args, Phase: turn.Start}})
		say(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: nasty, Name: nasty, Result: nasty, Phase: turn.End}})
		say(turn.Event{Kind: turn.FileOut, Filename: name, Title: nasty, Local: local})
		say(turn.Event{Kind: turn.Text, Text: nasty, Partial: true})
		say(turn.Event{Kind: turn.Text, Text: nasty})
		say(turn.Event{Kind: turn.Final, Text: nasty})
	}}
	p := openBrowser(t).tab()
	p.enter(s.link)
	eval[bool](p, `(window.refused = [], addEventListener("securitypolicyviolation", (e) => refused.push(e.violatedDirective + " " + e.blockedURI)), true)`)
	p.say("bad " + strings.ReplaceAll(nasty, "\n", " "))
	p.done(1)
	p.shot("hostile-light")
	for what, js := range map[string]string{
		"script ran":          `window.hurt ?? null`,
		"elements":            `[...document.querySelectorAll("#app script, #app iframe, #app style, #app form:not(.composer), #app img, #app svg[onload], #app [onerror]")].map((e) => e.outerHTML).join() || null`,
		"dangerous addresses": `[...document.querySelectorAll("#app a[href]")].map((a) => a.href).filter((h) => !/^(https?|mailto):/.test(h)).join() || null`,
		"policy complaints":   `refused.join() || null`,
	} {
		if got := eval[any](p, js); got != nil {
			t.Errorf("%s: %v", what, got)
		}
	}
	for _, a := range eval[[]string](p, `[...document.querySelectorAll(".text a[href]")].map((a) => a.rel + " " + a.target)`) {
		if !strings.Contains(a, "noopener") || !strings.HasSuffix(a, "_blank") {
			t.Errorf("a link of the model has %q", a)
		}
	}
	p.do(chromedp.Reload())
	p.connected()
	p.done(1)
	if got := eval[any](p, `window.hurt ?? null`); got != nil {
		t.Errorf("after a reload a script ran: %v", got)
	}
}

// TestFilesThereAndBack: files go up, two of one name stay two, and come down as
// the bytes they were.
func TestFilesThereAndBack(t *testing.T) {
	dir := t.TempDir()
	content := map[string][]byte{
		"a/notes.txt":        []byte("the first\n"),
		"b/notes.txt":        []byte("the second\n"),
		"Grüße 你好 & <b>.bin": bytes.Repeat([]byte{0, 255, 10, 13, 7}, 50_000),
	}
	var paths []string
	for name, data := range content {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, data, 0o644))
		paths = append(paths, p)
	}
	s := newStage(t, map[string]scene{"keep": func(ctx context.Context, s *stage, req turn.Request, say func(turn.Event)) {
		for _, f := range req.Message.Files {
			say(turn.Event{Kind: turn.FileOut, Filename: f.Original, Title: "Back", Local: f.Local})
		}
		say(turn.Event{Kind: turn.Final, Text: "kept"})
	}})
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), paths))
	p.until("three uploads", `document.querySelectorAll(".upload.done").length === 3`)
	p.shot("uploads-light")
	p.say("keep these")
	p.done(1)
	p.do(chromedp.Reload())
	p.connected()
	p.done(1)
	for _, where := range []string{".said-files a.chip", ".file-out a.chip"} {
		p.until("three files in "+where, `document.querySelectorAll("`+where+`").length === 3`)
		got := eval[[]struct{ Name, Body string }](p, `Promise.all([...document.querySelectorAll("`+where+`")].map(async (a) => ({
			Name: a.getAttribute("download"), Body: [...new Uint8Array(await (await fetch(a.href)).arrayBuffer())].map((b) => b.toString(16).padStart(2, "0")).join("")})))`)
		seen := map[string]bool{}
		for _, f := range got {
			for name, data := range content {
				if f.Body == hex(data) {
					seen[name] = true
					if f.Name != filepath.Base(name) {
						t.Errorf("%s: %s comes back as %q", where, name, f.Name)
					}
				}
			}
		}
		if len(seen) != 3 {
			t.Errorf("%s: of three files %v came back as they were", where, seen)
		}
	}
}

func hex(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 2*len(b))
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

// TestUploadRefused: what cannot be taken says why and holds nothing else up.
func TestUploadRefused(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.iso")
	must(t, os.WriteFile(big, nil, 0o644))
	must(t, os.Truncate(big, 26<<20))
	empty := filepath.Join(dir, "empty.txt")
	must(t, os.WriteFile(empty, nil, 0o644))
	fine := filepath.Join(dir, "fine.txt")
	must(t, os.WriteFile(fine, []byte("x"), 0o644))
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{big, empty, fine}))
	p.read(".upload.failed", "Larger than 25 MB")
	p.read(".upload.failed", "The file is empty")
	p.read(".upload.done", "fine.txt")
	p.say("take it")
	p.done(1)
	p.read(".said-files", "fine.txt")
	if n := p.count(".said-files .chip"); n != 1 {
		t.Errorf("%d files were sent, want 1", n)
	}
}

// TestPicture: a picture that Iris gives is shown.
func TestPicture(t *testing.T) {
	s := newStage(t, nil)
	local := s.put(t, "chart.png", drawing())
	s.scenes = map[string]scene{"draw": func(ctx context.Context, s *stage, req turn.Request, say func(turn.Event)) {
		say(turn.Event{Kind: turn.FileOut, Filename: "chart.png", Title: "Disk use by month", Local: local})
		say(turn.Event{Kind: turn.Final, Text: "Here it is."})
	}}
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("draw it")
	p.until("the picture", `document.querySelector(".picture img")?.naturalWidth === 320`)
	p.shot("picture-light")
	p.click(".picture button")
	p.see("dialog.lightbox img")
}
