//go:build e2e

package e2e

import "testing"

// TestScreens takes pictures for people to look at, in both themes and on a
// small screen, and checks that nothing needs to be scrolled sideways.
func TestScreens(t *testing.T) {
	s := startIris(t)
	s.write("notes.md", "# Notes\n\n- water the plants\n- renew the certificate of `mail.example.org`\n")
	p := openBrowser(t).tab()
	p.enter(s.link)
	for _, scheme := range []string{"light", "dark"} {
		p.screen(1280, 800, scheme)
		p.shot("empty-" + scheme)
		p.screen(375, 720, scheme)
		p.shot("empty-small-" + scheme)
	}
	p.screen(1280, 800, "light")
	p.say("What is in this folder and how big is it?")
	p.done(1)
	p.say("run df -h")
	p.done(2)
	p.say("read notes.md")
	p.done(3)
	p.say("help")
	p.say("run ls /nowhere")
	p.done(4)
	for _, scheme := range []string{"light", "dark"} {
		p.screen(1280, 800, scheme)
		p.shot("thread-" + scheme)
		p.screen(375, 720, scheme)
		p.shot("thread-small-" + scheme)
		if w := eval[int](p, `document.documentElement.scrollWidth`); w > 375 {
			t.Errorf("the page is %d pixels wide on a screen of 375", w)
		}
	}
}
