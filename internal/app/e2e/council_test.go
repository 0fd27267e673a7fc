//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// seat looks at the room as somebody.
func (p *tab) seat(name string) {
	p.t.Helper()
	p.do(chromedp.Click(fmt.Sprintf(`//div[@class="viewer-row"]//button[. = %q]`, name)))
	p.until(name+"'s side", fmt.Sprintf(`document.querySelector('.viewer-row [aria-checked=true]')?.textContent === %q && document.querySelector(".columns")`, name))
}

// write puts text into the box of a column and sends it.
func (p *tab) write(col, text string) {
	p.t.Helper()
	p.fill(col+" .say textarea", text)
	p.click(col + " .say .send")
	p.until("the line "+text, fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.textContent === %q)`, col+" .line.mine .line-text", text))
}

// fill types into a field.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.see(selector)
	p.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// TestCouncil makes a room with the mouse, tells Iris something on a private
// line, says yes to its wording, and sees it in the room; another person, and
// everybody, never see more than that.
func TestCouncil(t *testing.T) {
	s := startIris(t)
	p := openBrowser(t).tab()
	p.enter(s.link)
	shoot := func(name string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			p.screen(1280, 800, scheme)
			p.shot("council-" + name + "-" + scheme)
			p.screen(390, 780, scheme)
			p.shot("council-" + name + "-small-" + scheme)
			if w := eval[int](p, `document.documentElement.scrollWidth`); w > 390 {
				t.Errorf("%s: the page is %d pixels wide on a screen of 390", name, w)
			}
		}
		p.screen(1280, 800, "light")
	}
	p.click(`.side-views a[href="#/council"]`)
	p.see(".welcome")
	shoot("empty")
	p.do(chromedp.Click("//button[contains(., 'six neighbours')]"))
	p.see(".columns")

	p.seat("Ida")
	p.write(".room", "What shall the garden get for the nine hundred euros?")
	p.seat("Jonas")
	p.write(".room", "Something for the summer evenings, I think.")
	p.seat("Mara")
	p.write(".room", "I propose a fire pit with benches around it.")
	p.seat("Noor")
	p.until("Iris on Noor's line", `document.querySelector(".side-col .line.iris")`)
	p.write(".side-col", "A fire needs 20 metres to the nearest window, my lungs are bad")
	p.see(".consent")
	shoot("consent")
	p.do(chromedp.Click("//button[contains(., 'Yes, these words')]"))
	p.see(".consent.granted")
	p.seat("Tilda")
	if text := p.text("body"); strings.Contains(text, "lungs") {
		t.Errorf("Tilda sees Noor's words before they are said:\n%s", text)
	}
	p.write(".room", "I don't mind which, as long as children can be near it.")
	p.see(".room .line-note")
	p.seat("Everybody")
	p.until("the released words", `document.querySelector(".room .lines").textContent.includes("20 metres")`)
	if eval[bool](p, `!!document.querySelector(".side-col")`) {
		t.Error("everybody has a private side")
	}
	shoot("room")

	p.do(chromedp.Click(`//label[contains(@class, "switch")]`))
	p.see(".inside .kept")
	p.do(chromedp.Click("//button[contains(., 'Step through by hand')]"))
	p.see(".stepper.open")
	p.fill(`.stepper form input`, "How about a long table under the lime tree?")
	p.do(chromedp.Click("//button[. = 'Take']"))
	p.until("a step", `document.querySelectorAll(".history li").length === 2`)
	p.click(`[aria-label^="One step on"]`)
	p.until("another", `document.querySelectorAll(".history li").length === 3`)
	p.click(`[aria-label^="One step back"]`)
	p.until("a step back", `document.querySelector(".history .ahead")`)
	shoot("steps")
	if strings.Contains(eval[string](p, `document.querySelector(".room .lines").textContent`), "lime tree") {
		t.Error("a step is in the room before it was kept")
	}
	p.do(chromedp.Click("//button[contains(., 'Keep up to here')]"))
	p.until("the kept line", `document.querySelector(".room .lines").textContent.includes("lime tree")`)

	// A room of votes, made by the form.
	p.click(".back")
	p.see(".rooms")
	p.do(chromedp.Click("//button[contains(., 'New room')]"))
	p.see(".make")
	p.fill(".make input", "Lunch on Friday")
	p.fill(".make textarea", "Ana, Ben, Cy, Di, Eve")
	eval[bool](p, `(() => { const s = document.querySelectorAll(".make select"); s[0].value = "poll"; s[0].dispatchEvent(new Event("change", { bubbles: true })); s[1].value = "vote-teller"; s[1].dispatchEvent(new Event("change", { bubbles: true })); return true })()`)
	p.shot("council-make")
	p.do(chromedp.Click("//button[. = 'Make the room']"))
	p.see(".columns")
	p.seat("Ana")
	p.click(".open-item")
	p.see(".item.contribute")
	p.fill(".item.contribute label:nth-child(1) input", "What do we eat?")
	p.fill(".item.contribute label:nth-child(2) input", "Soup, Salad, Dumplings")
	p.do(chromedp.Click("//button[. = 'Open']"))
	p.see(".ballot")
	p.do(chromedp.Click(`//div[@class="ballot"]//button[contains(., 'Soup')]`))
	p.until("the vote", `document.querySelector(".ballot [aria-checked=true]")?.textContent === "Soup"`)
	p.seat("Ben")
	p.see(".ballot")
	if eval[bool](p, `!!document.querySelector(".ballot [aria-checked=true]")`) {
		t.Error("Ben sees a vote that is not his")
	}
	p.until("the turnout", `document.querySelector(".item").textContent.includes("1 of 5")`)
	p.do(chromedp.Click(`//div[@class="ballot"]//button[contains(., 'Salad')]`))
	p.until("the second vote", `document.querySelector(".item").textContent.includes("2 of 5")`)
	shoot("poll")
}
