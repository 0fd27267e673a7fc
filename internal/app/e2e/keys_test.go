//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestKeyboard: the page can be used without a mouse.
func TestKeyboard(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.until("the box has the focus", `document.activeElement.id === "message"`)
	p.do(chromedp.SendKeys(message, "one"))
	p.keys("\r", chromedp.KeyModifiers(chromedp.ModifierShift))
	p.do(chromedp.SendKeys(message, "two"))
	if n := p.count(".bubble"); n != 0 {
		t.Fatal("Shift+Enter sent the message")
	}
	p.enterKey()
	p.done(1)
	p.until("a message of two lines", `document.querySelector(".bubble").textContent.trim().split(/\n+/).join("|") === "one|two"`)
	p.keys(kb.ArrowUp)
	p.until("the last message", `/^one\n+two$/.test(document.querySelector("#message").value)`)
	eval[bool](p, `(document.querySelector("#message").value = "", document.querySelector("#message").dispatchEvent(new Event("input", {bubbles: true})), true)`)

	p.do(chromedp.SendKeys(message, "/he"))
	p.read(".slash [aria-selected=true]", "/help")
	p.enterKey()
	p.see("dialog.help")
	p.keys("\x1b")
	p.closed()

	old := eval[string](p, `location.hash`)
	p.keys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	p.see("dialog.palette input")
	p.do(chromedp.SendKeys(chromedp.CSS("dialog.palette input"), "new"))
	p.enterKey()
	p.see(".welcome")
	p.keys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	p.see("dialog.palette input")
	p.do(chromedp.SendKeys(chromedp.CSS("dialog.palette input"), "one"))
	p.enterKey()
	p.read(".bubble", "one")
	if got := eval[string](p, `location.hash`); got != old {
		t.Errorf("the palette led to %q, want %q", got, old)
	}
}

// TestTypingAfterADialog: when a dialog is left, the caret is back in the box as
// well as the focus.
func TestTypingAfterADialog(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	for i := range 6 {
		p.keys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
		p.see("dialog.palette")
		p.settle()
		p.keys("\x1b")
		p.closed()
		p.keys("x")
		p.until("the letter", fmt.Sprintf(`document.querySelector("#message").value.length === %d`, i+1))
	}
}

// TestSearchAndBack: threads are found by their words, and the browser's way
// back leads to the one before.
func TestSearchAndBack(t *testing.T) {
	s := newStage(t, nil)
	for i := range 3 {
		s.past(t, fmt.Sprintf("t%d", i), 1, func(int) (string, string) { return fmt.Sprintf("about subject %d", i), "x" })
	}
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("apples and pears")
	p.done(1)
	p.read(".row", "apples and pears")
	first := p.text(".thread")
	p.click(".button.new")
	p.see(".welcome")
	p.say("plums")
	p.done(1)
	p.until("two rows", `document.querySelectorAll(".row").length === 2`)
	p.do(chromedp.SendKeys(chromedp.CSS(".search input"), "PEARS app"))
	p.until("one row", `document.querySelectorAll(".row").length === 1`)
	p.click(".row")
	p.read(".bubble", "apples")
	if got := p.text(".thread"); got != first {
		t.Errorf("the thread shows %q, want %q", got, first)
	}
	p.do(chromedp.NavigateBack())
	p.read(".bubble", "plums")
}

// TestOffline: no network is said in words, and what is written then is sent
// when it is back.
func TestOffline(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.expect("ERR_INTERNET_DISCONNECTED", "WebSocket")
	p.say("before")
	p.done(1)
	p.network(false)
	p.read(".banner", "You are offline")
	p.say("meanwhile")
	p.read(".banner", "will be sent")
	p.shot("offline-light")
	p.network(true)
	p.done(2)
	p.read(".text", "You said: meanwhile")
}

// network takes the network away from a tab, or gives it back.
func (p *tab) network(there bool) {
	p.t.Helper()
	call(p, network.Enable, network.EnableParams{})
	call(p, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: !there, DownloadThroughput: -1, UploadThroughput: -1}},
	})
	call(p, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: !there, DownloadThroughput: -1, UploadThroughput: -1})
}

// TestUnread: what ends while nobody looks is marked in the title and the icon.
func TestUnread(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	eval[bool](p, `(Object.defineProperty(document, "hidden", {get: () => window.away, configurable: true}), window.away = true)`)
	p.say("ping")
	p.done(1)
	p.until("a mark", `document.title.startsWith("(1) ") && document.getElementById("favicon").href.endsWith("/favicon-unread.svg")`)
	eval[bool](p, `(window.away = false, document.dispatchEvent(new Event("visibilitychange")), true)`)
	p.until("no mark", `document.title.startsWith("ping") && document.getElementById("favicon").href.endsWith("/favicon.svg")`)
}

// TestSessionIsReadOnly: a session of the API can be watched and says why it
// cannot be written to.
func TestSessionIsReadOnly(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.open(s.url + "/#SESSION-abc")
	p.read(".composer", "session of the API")
	if n := p.count("#message"); n != 0 {
		t.Error("there is a message box")
	}
}

// TestContrast: text is readable in both themes, by the measure of WCAG AA.
func TestContrast(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("hello `there`")
	p.done(1)
	for _, scheme := range []string{"light", "dark"} {
		p.screen(1280, 800, scheme)
		if bad := eval[[]string](p, contrast); len(bad) > 0 {
			t.Errorf("%s: %s", scheme, strings.Join(bad, "\n"))
		}
	}
}

// contrast lists texts whose colour is too near to what is behind them.
const contrast = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgb = (color, under) => {
		canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
		canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
		return canvas.getImageData(0, 0, 1, 1).data;
	};
	const hex = (d) => "#" + [d[0], d[1], d[2]].map((x) => x.toString(16).padStart(2, "0")).join("");
	const light = (d) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => { const c = d[i] / 255; return sum + w * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4) }, 0);
	const behind = (el) => {
		const path = [];
		for (let e = el; e; e = e.parentElement) path.unshift(e);
		return path.reduce((under, e) => hex(rgb(getComputedStyle(e).backgroundColor, under)), "#ffffff");
	};
	const bad = [];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const el = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || !el.checkVisibility({visibilityProperty: true}) || el.closest(".sr, .skip, :disabled")) continue;
		const under = behind(el);
		const [a, b] = [light(rgb(getComputedStyle(el).color, under)), light(rgb(under, under))];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) bad.push(ratio.toFixed(2) + " " + el.className + ": " + walk.currentNode.data.trim().slice(0, 40));
	}
	return bad;
})()`
