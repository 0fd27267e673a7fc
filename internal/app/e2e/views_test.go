//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/fleet/health"
	"github.com/iris-operator/iris/internal/schedule"
)

// plan puts an event into the workspace of a stage.
func (s *stage) plan(t *testing.T, e schedule.Event) schedule.Item {
	t.Helper()
	it, err := schedule.NewStore(s.dir).Add(e)
	must(t, err)
	return it
}

// planned is how many events there are.
func (s *stage) planned(t *testing.T) int {
	t.Helper()
	all, err := schedule.NewStore(s.dir).List()
	must(t, err)
	return len(all)
}

// zone sets the time zone of the person who looks.
func (p *tab) zone(name string) {
	p.t.Helper()
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
}

// fits takes a view's pictures in both themes on a large and a small screen, and
// checks that all texts can be read and nothing is to be scrolled sideways.
func (p *tab) fits(name string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.screen(1280, 800, scheme)
		p.shot(name + "-" + scheme)
		if bad := eval[[]string](p, contrast); len(bad) > 0 {
			p.t.Errorf("%s %s: %s", name, scheme, strings.Join(bad, "\n"))
		}
		p.screen(390, 844, scheme)
		p.shot(name + "-small-" + scheme)
		if w := eval[int](p, `Math.max(document.documentElement.scrollWidth, document.querySelector(".scroll").scrollWidth)`); w > 390 {
			p.t.Errorf("%s: the page is %d pixels wide on a screen of 390", name, w)
		}
	}
	p.screen(1280, 800, "light")
}

func planSome(t *testing.T, s *stage) (tickets schedule.Item) {
	t.Helper()
	tickets = s.plan(t, schedule.Event{Type: schedule.Periodic, ChannelID: "WEBUI-ops", Schedule: "0 9 * * 1-5", Timezone: "Europe/Berlin",
		Text: "Look at the open tickets and say which are urgent. Answer [SILENT] when there is none."})
	s.plan(t, schedule.Event{Type: schedule.OneShot, ChannelID: "C024BE91L", At: time.Now().Add(80 * time.Minute).UTC().Format(time.RFC3339),
		Text: "Renew the certificate of mail.example.org"})
	s.plan(t, schedule.Event{Type: schedule.Periodic, ChannelID: "tg-4711", Schedule: "*/15 * * * *", Timezone: "UTC", Paused: true,
		Text: "Check that the shop answers"})
	must(t, writeFile(s.dir, "events/hand-made.json", `{"type":"periodic","channelId":"WEBUI-ops","text":"count the logs","schedule":"0 0 30 2 *","timezone":"UTC"}`))
	return tickets
}

// TestPlannedView: what is planned is shown by the reader's clock and that of the
// event, and can be run, held, let go and taken back.
func TestPlannedView(t *testing.T) {
	s := newStage(t, nil)
	tickets := planSome(t, s)
	p := openBrowser(t).tab()
	p.zone("America/New_York")
	p.enter(s.link)
	p.open(s.url + "/#ops")
	p.connected()
	p.say("Watch the tickets with me")
	p.done(1)
	p.read(".row", "Watch the tickets")
	p.click(`.side-views a[href="#/planned"]`)
	p.until("four cards", `document.querySelectorAll(".card").length === 4`)
	p.read(".card.broken", "never due")
	card := `[...document.querySelectorAll(".card")].find((c) => c.innerText.includes("open tickets"))`
	for _, part := range []string{"Weekdays at 09:00", "in Europe/Berlin", "Watch the tickets with me", "then "} {
		if text := eval[string](p, card+`.innerText`); !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
			t.Errorf("the card does not say %q:\n%s", part, text)
		}
	}
	if text := eval[string](p, card+`.querySelector(".card-when").innerText`); !strings.Contains(strings.ReplaceAll(text, "\u202f", " "), "3:00 AM") {
		t.Errorf("nine in Berlin is shown as %q in New York", text)
	}
	p.fits("planned")

	button := func(name string) string {
		return fmt.Sprintf(`[...%s.querySelectorAll("button")].find((b) => b.textContent === %s)`, card, quote(name))
	}
	press := func(name string) {
		t.Helper()
		p.until(name, fmt.Sprintf(`%s && !%s.disabled`, button(name), button(name)))
		eval[bool](p, fmt.Sprintf(`(%s.click(), true)`, button(name)))
	}
	press("Pause")
	p.read(".view-said", "Paused")
	p.until("the card rests", card+`.classList.contains("paused")`)
	press("Resume")
	p.until("the card is due", card+`.classList.contains("due")`)
	press("Run now")
	p.read(".view-said", "runs once now")
	p.read(".card", "As soon as possible")
	if n := s.planned(t); n != 5 {
		t.Errorf("%d events after a run, want 5", n)
	}
	_, err := schedule.NewStore(s.dir).Cancel(newest(t, s))
	must(t, err)

	p.until("the run is gone, seen without a reload", `document.querySelectorAll(".card").length === 4`)
	press("Cancel")
	p.see("dialog.confirm")
	p.shot("planned-cancel-light")
	p.keys("\x1b")
	p.closed()
	if _, err := schedule.NewStore(s.dir).Find(tickets.Name); err != nil {
		t.Fatalf("it is gone without a yes: %v", err)
	}
	press("Cancel")
	p.click("dialog.confirm .primary")
	p.read(".view-said", "Cancelled")
	p.until("three cards", `document.querySelectorAll(".card").length === 3`)
	if _, err := schedule.NewStore(s.dir).Find(tickets.Name); err == nil {
		t.Error("a cancelled event is still there")
	}
	planByForm(t, s, p)
	p.click(`.card.broken a`)
	p.read(".bubble", "Watch the tickets with me")
}

// planByForm plans something in a form: what is wrong is said in it, and nothing is
// planned then.
func planByForm(t *testing.T, s *stage, p *tab) {
	t.Helper()
	fill := func(field, value string) {
		t.Helper()
		eval[bool](p, fmt.Sprintf(`(() => { const e = [...document.querySelectorAll("dialog.make label")].find((l) => l.textContent.startsWith(%s)).querySelector("input, select, textarea");
			e.value = %s; e.dispatchEvent(new Event(e.tagName === "SELECT" ? "change" : "input", { bubbles: true })); return true; })()`, quote(field), quote(value)))
	}
	p.click(".view-start .button")
	p.see("dialog.make")
	fill("What Iris", "Look at the certificates")
	fill("When", "cron")
	p.until("the field of a cron line", `[...document.querySelectorAll("dialog.make label")].some((l) => l.textContent.startsWith("Cron"))`)
	fill("Cron", "61 * * * *")
	p.shot("planned-form-light")
	p.expect("400 (Bad Request)")
	p.click("dialog.make .primary")
	p.read("dialog.make .wrong", "not a schedule")
	fill("When", "week")
	p.until("the weekday", `[...document.querySelectorAll("dialog.make label")].some((l) => l.textContent.startsWith("On"))`)
	fill("She answers", "WEBUI-ops")
	p.click("dialog.make .primary")
	p.closed()
	p.read(".view-said", "Planned")
	p.read(".card.due", "Look at the certificates")
	all, err := schedule.NewStore(s.dir).List()
	must(t, err)
	for _, it := range all {
		if e := it.Event; e.Text == "Look at the certificates" && (e.Schedule != "0 9 * * 1" || e.Timezone != "America/New_York" || e.ChannelID != "WEBUI-ops") {
			t.Errorf("planned as %+v", e)
		}
	}
}

// newest is the name of the event that was made last.
func newest(t *testing.T, s *stage) string {
	t.Helper()
	all, err := schedule.NewStore(s.dir).List()
	must(t, err)
	for _, it := range all {
		if it.Event.Type == schedule.Immediate {
			return it.File
		}
	}
	t.Fatal("there is no run")
	return ""
}

// TestPlannedIsEmpty: an empty list says how to plan something, and leads there.
func TestPlannedIsEmpty(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.open(s.url + "/#/planned")
	p.read(".nothing", "Nothing is planned")
	p.fits("planned-empty")
	p.click(".nothing .prompt")
	p.until("the words are in the box", `document.querySelector("#message")?.value.startsWith("Every weekday at nine")`)
}

// TestAgentsView: how each agent is, in words beside the dot, kept up to date,
// and a way to a thread that it answers.
func TestAgentsView(t *testing.T) {
	s := newStage(t, nil)
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	well := health.View{OK: true, Since: ago(50 * time.Hour), Report: health.Report{Turns: 41, Cost: 1.27, Memory: 38 << 20, Last: &health.Ended{Channel: "BRIDGE-7", At: ago(9 * time.Minute), Outcome: "final"}}}
	works := health.View{OK: true, Since: ago(3 * time.Hour), Restarts: 1, State: "running", Report: health.Report{
		Turns: 5, Cost: 0.0031, Memory: 61 << 20, Running: []health.Turn{{Channel: "BRIDGE-nightly", Since: ago(95 * time.Second)}},
		Last: &health.Ended{Channel: "BRIDGE-7", At: ago(26 * time.Hour), Outcome: "model"}}}
	s.staff(
		api.Agent{Name: "billing", Description: "Answers questions about invoices and payments", Health: well},
		api.Agent{Name: "deploys", Description: "Rolls releases out, one machine after the other, and says how each is", Health: works},
		api.Agent{Name: "search", Description: "Finds things in the wiki", Health: health.View{Since: ago(4 * time.Minute), State: "failed", Restarts: 3, Error: `Get "http://127.0.0.1:4210/health": dial tcp 127.0.0.1:4210: connect: connection refused`}},
		api.Agent{Name: "night", Description: "", Health: health.View{Since: ago(30 * time.Hour), State: "stopped"}},
		api.Agent{Name: "fresh", Description: "Was made a moment ago"},
	)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.click(`.side-views a[href="#/agents"]`)
	p.until("five cards", `document.querySelectorAll(".card").length === 5`)
	got := eval[[]string](p, `[...document.querySelectorAll(".card")].map((c) => c.querySelector(".card-when").innerText + " " + c.querySelector(".health").innerText.split("·")[0].trim())`)
	if want := "@search failed|@deploys working|@billing well|@fresh not asked yet|@night stopped"; strings.Join(got, "|") != want {
		t.Errorf("the cards say %v, want %s", got, want)
	}
	p.read(".card.busy", "nightly for 1 min")
	p.read(".card.good", "$1.27 · 41 turns")
	p.fits("agents")

	s.staff(api.Agent{Name: "billing", Description: "invoices", Health: well})
	p.until("the others are gone, seen without a reload", `document.querySelectorAll(".card").length === 1`)
	p.click(`.card a`)
	p.until("billing answers", `document.querySelector(".composer select")?.value === "billing"`)
	p.say("how much?")
	p.done(1)

	p.open(s.url + "/?agent=billing")
	p.connected()
	p.until("billing answers", `document.querySelector(".composer select").value === "billing" && location.search === "" && !document.querySelector(".bubble")`)
	p.open(s.url + "/?agent=nobody")
	p.read(".flash", "no agent “nobody”")
	s.staff()
	p.open(s.url + "/#/agents")
	p.read(".nothing", "There are no agents")
	p.fits("agents-empty")
}

// TestViewsByKeyboard: the views are reached and left without a mouse, and the
// way back of the browser leads through them.
func TestViewsByKeyboard(t *testing.T) {
	s := newStage(t, nil)
	planSome(t, s)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("first")
	p.done(1)
	thread := eval[string](p, `location.hash`)
	p.keys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	p.see("dialog.palette")
	p.do(chromedp.SendKeys(chromedp.CSS(".palette input"), "planned"))
	p.enterKey()
	p.until("the view", `location.hash === "#/planned" && document.title.startsWith("Planned") && document.querySelector(".card")`)
	p.until("one place is marked in the sidebar", `document.querySelectorAll(".side [aria-current]").length === 1 && document.activeElement.getAttribute("aria-label") === "Planned"`)
	p.keys("\x1b")
	p.until("the thread", fmt.Sprintf(`location.hash === %s && document.querySelector(".bubble") && document.activeElement.id === "message"`, quote(thread)))
	p.do(chromedp.NavigateBack())
	p.until("the view again", `document.querySelector(".card")`)
	p.do(chromedp.Reload())
	p.until("the view after a reload", `document.querySelector(".card")`)
	p.screen(390, 844, "light")
	p.click(`.top [aria-label="Threads"]`)
	p.until("the drawer", `document.querySelector(".desk.drawn")`)
	p.shot("views-drawer-small-light")
	p.click(`.side-views a[href="#/agents"]`)
	p.until("the drawer is shut", `!document.querySelector(".desk.drawn") && document.title.startsWith("Agents")`)
}
