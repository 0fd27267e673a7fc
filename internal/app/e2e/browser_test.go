//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long anything on the page may take. It is long because it is
// spent in failures only, and a busy machine is slow.
const patience = 60 * time.Second

// message is where people write.
const message = chromedp.CSS("#message")

// chromium is the browser's path, empty if there is none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

// browser is a fresh Chromium without a past.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	path := chromium()
	if path == "" {
		t.Skip("there is no chromium: apt-get install chromium")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 800), chromedp.Flag("lang", "en-US"), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("no-pings", true), chromedp.Flag("disable-features", "OptimizationHints,MediaRouter,Translate"),
	)
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, closeBrowser := chromedp.NewContext(alloc)
	t.Cleanup(closeBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return &browser{t, ctx}
}

// tab is one tab of a browser. What its page says on the console is kept:
// errors and refusals of the Content-Security-Policy fail the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string
	may   []string // parts of messages that are expected
}

// tab opens one with an empty page.
func (b *browser) tab() *tab {
	b.t.Helper()
	p := &tab{t: b.t}
	var cancel context.CancelFunc
	p.ctx, cancel = chromedp.NewContext(b.ctx, chromedp.WithListener(p.hear))
	// The first run opens the tab and must not have a limit.
	if err := chromedp.Do(p.ctx); err != nil {
		b.t.Fatal(err)
	}
	call(p, log.Enable, cdp.Empty{})
	b.t.Cleanup(func() {
		if b.t.Failed() {
			p.fail()
		}
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.wrong {
			b.t.Errorf("the page complained: %s", w)
		}
	})
	return p
}

// hear must not block: it runs inside of the browser's connection.
func (p *tab) hear(ev any) {
	text := ""
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			text = "console:"
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			text = string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.may {
		if strings.Contains(text, m) {
			return
		}
	}
	p.wrong = append(p.wrong, text)
}

// expect lets messages pass that contain a part: a server that is killed makes
// the browser complain.
func (p *tab) expect(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.may = append(p.may, parts...)
}

// do runs actions in time.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%v; the page shows:\n%s", err, p.text("body"))
	}
}

// call runs a command of the protocol.
func call[P, R any](p *tab, cmd cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	r, err := chromedp.Call(ctx, cmd, params)
	if err != nil {
		p.t.Fatalf("%s: %v", cmd.Method, err)
	}
	return r
}

func (p *tab) open(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

// enter logs in with a one-time link and waits for the page.
func (p *tab) enter(link string) {
	p.t.Helper()
	p.open(link)
	p.connected()
}

func (p *tab) connected() {
	p.t.Helper()
	p.see("#message")
	p.see(".status .link.open")
}

// eval runs an expression and returns what it gives.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v; the page shows:\n%s", js, err, p.text("body"))
	}
	return out
}

// text is what a person reads in the first element; empty if there is none.
func (p *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	out, _ := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%s)?.innerText ?? ""`, quote(selector))))
	return out
}

// count is how many elements there are.
func (p *tab) count(selector string) int {
	p.t.Helper()
	return eval[int](p, fmt.Sprintf(`document.querySelectorAll(%s).length`, quote(selector)))
}

// until waits for an expression to be true. The browser is another process, and
// the page may be replaced meanwhile: it is asked again and again.
func (p *tab) until(what, js string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+js+")"))
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatalf("waiting for %s: %v; the page shows:\n%s", what, err, p.text("body"))
		}
	}
}

// see waits for an element that is visible.
func (p *tab) see(selector string) {
	p.t.Helper()
	p.until(selector, fmt.Sprintf(`document.querySelector(%s)?.checkVisibility({visibilityProperty: true})`, quote(selector)))
}

// read waits until an element's text contains a part.
func (p *tab) read(selector, part string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q in %s", part, selector), fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))`, quote(selector), quote(part)))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.see(selector)
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// keys types into what has the focus.
func (p *tab) keys(keys string, mods ...chromedp.KeyOption) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, mods...))
}

// say writes a message and sends it with Enter.
func (p *tab) say(text string) {
	p.t.Helper()
	p.do(chromedp.Focus(message), chromedp.SendKeys(message, text))
	p.enterKey()
}

// enterKey presses Enter as a keyboard does: the character comes only if the
// page lets it.
func (p *tab) enterKey() {
	p.t.Helper()
	key := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyDown, Key: "Enter", Code: "Enter", Text: "\r", UnmodifiedText: "\r",
		WindowsVirtualKeyCode: 13, NativeVirtualKeyCode: 13,
	}
	call(p, input.DispatchKeyEvent, key)
	key.Type, key.Text, key.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	call(p, input.DispatchKeyEvent, key)
}

// done waits for the end of n turns.
func (p *tab) done(n int) {
	p.t.Helper()
	p.until(fmt.Sprintf("%d turns to end", n),
		fmt.Sprintf(`document.querySelectorAll(".turn.done,.turn.stopped,.turn.failed,.turn.silent").length === %d && !document.querySelector(".turn.running,.turn.waiting")`, n))
}

// screen sets the size of the viewport and the colours.
func (p *tab) screen(width, height int64, scheme string) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	p.settle()
}

// settle waits until nothing moves any more but what moves for ever.
func (p *tab) settle() {
	p.t.Helper()
	eval[bool](p, `new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
	p.until("the transitions to end", `!document.getAnimations().some((a) => a instanceof CSSTransition && a.playState === "running")`)
}

// closed waits until there is no dialog and the focus is back where it was.
func (p *tab) closed() {
	p.t.Helper()
	p.until("no dialog", `!document.querySelector("dialog")`)
	p.settle()
}

// shots is where screenshots go.
var shots string

// shot writes what the page looks like.
func (p *tab) shot(name string) {
	p.t.Helper()
	p.settle()
	png := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
	if err := os.WriteFile(filepath.Join(shots, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// fail keeps a picture of a test that failed.
func (p *tab) fail() {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	if png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot()); err == nil {
		name := filepath.Join(shots, strings.ReplaceAll(p.t.Name(), "/", "_")+"-failed.png")
		_ = os.WriteFile(name, png, 0o644)
		p.t.Logf("the page when it failed: %s", name)
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
