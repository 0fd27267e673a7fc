//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/iris-operator/iris/internal/turn"
)

// update makes TestScreens write the picture of the README anew.
var update = flag.Bool("update", false, "write docs/page.png")

// TestScreens takes pictures for people to look at, in both themes and on a
// small screen, and checks that nothing needs to be scrolled sideways.
func TestScreens(t *testing.T) {
	s := startIris(t)
	s.write("notes.md", "# Notes\n- water the plants\n- renew the certificate of mail.example.org\n- ask Iris how big the logs have become\n")
	p := openBrowser(t).tab()
	p.enter(s.link)
	shoot := func(name string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			p.screen(1280, 800, scheme)
			p.shot(name + "-" + scheme)
			p.screen(375, 720, scheme)
			p.shot(name + "-small-" + scheme)
			if w := eval[int](p, `Math.max(document.documentElement.scrollWidth, document.querySelector(".scroll").scrollWidth)`); w > 375 {
				t.Errorf("%s: the page is %d pixels wide on a screen of 375", name, w)
			}
		}
		p.screen(1280, 800, "light")
	}
	shoot("empty")
	p.say("run uptime")
	p.done(1)
	p.click(".button.new")
	p.see(".welcome")
	p.do(chromedp.Click("//button[contains(., 'What is in this folder')]"))
	p.done(1)
	shoot("first")
	thread := eval[string](p, `location.hash.slice(1)`)
	if *update {
		eval[bool](p, `(document.querySelector(".button.new").click(), true)`)
		p.see(".welcome")
		p.click(".composer")
		p.say("read notes.md")
		p.done(1)
		eval[bool](p, `(document.activeElement.blur(), true)`)
		p.shot("page")
		data, err := os.ReadFile(shots + "/page.png")
		must(t, err)
		must(t, os.WriteFile("../../../docs/page.png", data, 0o644))
	}
	p.open(s.url + "/#" + thread)
	p.connected()
	p.say("run df -h")
	p.done(2)
	p.say("help")
	p.see(".said-reply")
	p.say("run ls /nowhere")
	p.done(3)
	shoot("thread")
	p.screen(375, 720, "light")
	p.click(`.top [aria-label="Threads"]`)
	p.until("the drawer", `document.querySelector(".desk.drawn")`)
	p.shot("drawer-small-light")
}

const sample = "## What I found\n\nThe disk is **71 % full**; `/var/log` grew most. Three things stand out:\n\n" +
	"1. Old journals, see [the manual](https://example.org/journald)\n2. A core dump from March\n3. Two copies of the same backup\n\n" +
	"| path | size | changed |\n|---|---:|---|\n| /var/log/journal | 4.1 GB | today |\n| /var/crash/core.4411 | 2.2 GB | 12 March |\n| /srv/backup/db-copy.tar | 1.7 GB | 3 May |\n\n" +
	"This would clear most of it:\n\n```bash\njournalctl --vacuum-size=500M\nrm /var/crash/core.4411\n```\n\n> Nothing has been deleted yet.\n\n- [x] looked\n- [ ] cleaned\n"

// TestSampler shows every kind of thing once, for people to look at.
func TestSampler(t *testing.T) {
	gate := make(chan struct{})
	tool := func(say func(turn.Event), id, name, label, args, result string, ms int64, failed bool) {
		say(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: id, Name: name, Label: label, Args: json.RawMessage(args), Phase: turn.Start}})
		if result != "" {
			say(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: id, Name: name, Result: result, IsError: failed, DurationMS: ms, Phase: turn.End}})
		}
	}
	s := newStage(t, nil)
	report := s.put(t, "report.csv", []byte("path,size\n"))
	s.scenes = map[string]scene{
		"why": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
			say(turn.Event{Kind: turn.Thinking, Text: "The person wants to know what takes the space. I look at the file system first."})
			say(turn.Event{Kind: turn.Text, Text: "I look at the disk first, then at the biggest directories."})
			tool(say, "1", "bash", "disk use", `{"label":"disk use","command":"df -h /"}`, "Filesystem      Size  Used Avail Use% Mounted on\n/dev/vda1        40G   28G   12G  71% /", 41, false)
			tool(say, "2", "mcp__github__search_issues", "", `{"query":"log rotation","state":"open"}`, strings.Repeat("#412 journald keeps too much\n", 24), 1310, false)
			say(turn.Event{Kind: turn.FileOut, Filename: "report.csv", Title: "Sizes by directory", Local: report})
			say(turn.Event{Kind: turn.Final, Text: sample, Usage: &turn.Usage{Provider: "acme", Model: "acme-large", Input: 12000, Output: 640, Cost: 0.0431, Context: 12640, Window: 200000}})
		},
		"fail": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
			say(turn.Event{Kind: turn.Failed, Code: turn.CodeModel, Error: "acme answered 529: overloaded. Four attempts in 31 s."})
		},
		"go": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
			tool(say, "1", "bash", "vacuum the journal", `{"command":"journalctl --vacuum-size=500M"}`, "", 0, false)
			say(turn.Event{Kind: turn.Status, Label: "Retrying (2/4)..."})
			select {
			case <-gate:
			case <-ctx.Done():
			}
			say(turn.Event{Kind: turn.Final, Text: "done"})
		},
	}
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("why is the disk full?")
	p.done(1)
	p.say("fail now")
	p.done(2)
	p.say("go ahead")
	p.see(".tool.running")
	for _, scheme := range []string{"light", "dark"} {
		p.screen(1280, 1900, scheme)
		p.shot("sampler-" + scheme)
		p.screen(375, 2400, scheme)
		p.shot("sampler-small-" + scheme)
	}
	p.screen(1280, 800, "light")
	close(gate)
	p.done(3)
	p.keys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	p.see("dialog.palette")
	p.shot("palette-light")
	p.keys("\x1b")
	p.closed()
	p.do(chromedp.Focus(message), chromedp.SendKeys(message, "/"))
	p.see(".slash")
	p.shot("slash-light")
}

// TestThemeIsKept: a chosen theme holds against the system's and over a reload.
func TestThemeIsKept(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.screen(1280, 800, "light")
	background := `getComputedStyle(document.body).backgroundColor`
	light := eval[string](p, background)
	p.click(`.themes [aria-label="Dark"]`)
	dark := eval[string](p, background)
	if light == dark {
		t.Fatalf("both themes have the background %s", light)
	}
	p.do(chromedp.Reload())
	p.connected()
	if got := eval[string](p, background); got != dark {
		t.Errorf("after a reload the background is %s, want %s", got, dark)
	}
	p.click(`.themes [aria-label="Like the system"]`)
	if got := eval[string](p, background); got != light {
		t.Errorf("like the system the background is %s, want %s", got, light)
	}
}

// TestLongThread: a thousand turns open quickly, only a window of them is drawn,
// earlier ones come by scrolling, and writing stays quick while text streams.
func TestLongThread(t *testing.T) {
	s := newStage(t, map[string]scene{"flood": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
		for i := range 1500 {
			say(turn.Event{Kind: turn.Text, Text: fmt.Sprintf("word **%d** and `code`\n", i), Partial: true})
		}
		say(turn.Event{Kind: turn.Final, Text: "over"})
	}})
	s.past(t, "long", 1000, func(i int) (string, string) {
		return fmt.Sprintf("question %d", i), fmt.Sprintf("answer %d\n\n```go\nfmt.Println(%d)\n```\n\n| a | b |\n|---|---|\n| %d | x |\n", i, i, i)
	})
	p := openBrowser(t).tab()
	p.enter(s.link)
	begun := time.Now()
	p.open(s.url + "/#long")
	p.read(".bubble", "question 999")
	t.Logf("a thread of 1000 turns is there after %v", time.Since(begun).Round(time.Millisecond))
	if n := p.count(".block"); n > 130 {
		t.Errorf("%d blocks are drawn at once", n)
	}
	if d := eval[float64](p, `(() => { const s = document.querySelector(".scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight })()`); d > 2 {
		t.Errorf("the thread opens %v pixels above its end", d)
	}
	eval[bool](p, `(document.querySelector(".scroll").scrollTop = 0, true)`)
	p.read(".bubble", "question 925")
	p.see(".latest")
	p.shot("scrolled-light")
	p.click(".latest")
	p.until("the end", `!document.querySelector(".latest")`)

	eval[bool](p, `(window.slowest = 0, (function tick(last) { requestAnimationFrame((now) => { slowest = Math.max(slowest, now - last); tick(now) }) })(performance.now()), true)`)
	p.say("flood")
	p.read(".turn.done .text", "over")
	t.Logf("the slowest picture while text streamed took %.0f ms", eval[float64](p, `slowest`))
}

// drawing is a small chart.
func drawing() []byte {
	img := image.NewRGBA(image.Rect(0, 0, 320, 180))
	for x := range 320 {
		for y := range 180 {
			c := color.RGBA{245, 243, 255, 255}
			if x%40 > 8 && x%40 < 34 && y > 160-(x/40*17+20) && y < 165 {
				c = color.RGBA{91, 72, 201, 255}
			}
			img.Set(x, y, c)
		}
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return b.Bytes()
}
