package terminal

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/turn"
)

// drawn is what a screen wrote: replies and notes apart.
type drawn struct{ Out, Notes string }

// stories are turns with what three kinds of screen show of them: a pipe, a
// terminal that cannot rewrite its line, and one with colors.
var stories = []struct {
	name        string
	events      []turn.Event
	pipe        drawn
	plain, full string
}{
	{
		name:   "pieces and the final text they add up to",
		events: []turn.Event{{Kind: turn.Thinking}, part("Hel"), part("lo\n"), part("you"), final("Hello\nyou")},
		pipe:   drawn{Out: "Hello\nyou\n"},
		plain:  "Hello\nyou\n",
		full:   "<dim>…<0><wipe><dim>thinking…<0><wipe>Hello\nyou\n",
	}, {
		name:   "no pieces",
		events: []turn.Event{final("Hello")},
		pipe:   drawn{Out: "Hello\n"},
		plain:  "Hello\n",
		full:   "<dim>…<0><wipe>Hello\n",
	}, {
		name:   "the final text is longer than its pieces",
		events: []turn.Event{part("Hello "), final("Hello you\n\n[cut]")},
		pipe:   drawn{Out: "Hello you\n\n[cut]\n"},
		plain:  "Hello you\n\n[cut]\n",
		full:   "<dim>…<0><wipe>Hello you\n\n[cut]\n",
	}, {
		name:   "the final text is another one",
		events: []turn.Event{part("Hullo"), final("Hello")},
		pipe:   drawn{Out: "Hello\n"},
		plain:  "Hullo\nHello\n",
		full:   "<dim>…<0><wipe>Hullo\nHello\n",
	}, {
		name:   "white space at the end of the pieces",
		events: []turn.Event{part("Hello\n\n"), final("Hello")},
		pipe:   drawn{Out: "Hello\n"},
		plain:  "Hello\n\n",
		full:   "<dim>…<0><wipe>Hello\n\n",
	}, {
		name:   "void: the model was asked again",
		events: []turn.Event{part("Hel"), {Kind: turn.Text, Void: true}, {Kind: turn.Status, Label: "Retrying (1/3)..."}, part("Good day"), final("Good day")},
		pipe:   drawn{Out: "Good day\n"},
		plain:  "Hel\n(starting again)\nGood day\n",
		full:   "<dim>…<0><wipe>Hel\n<dim>(starting again)<0>\n<dim>Retrying (1/3)...<0><wipe>Good day\n",
	}, {
		name:   "void before any piece",
		events: []turn.Event{{Kind: turn.Text, Void: true}, final("a")},
		pipe:   drawn{Out: "a\n"}, plain: "a\n", full: "<dim>…<0><wipe>a\n",
	}, {
		name: "an intermediate text, a tool and the answer",
		events: []turn.Event{part("Let me "), part("look."), whole("Let me look."), {Kind: turn.Status, Label: "→ list"},
			started("1", "list"), ended("1", "list", "a\nb", false), part("Two"), final("Two files.")},
		pipe:  drawn{Out: "Two files.\n"},
		plain: "Let me look.\n→ list\n✓ list 1.25s\nTwo files.\n",
		full:  "<dim>…<0><wipe>Let me look.\n<dim>→ list<0><wipe><green>✓ <0><dim>list 1.25s<0>\nTwo files.\n",
	}, {
		name:   "an intermediate text that came whole",
		events: []turn.Event{whole("Let me look."), final("Done.")},
		pipe:   drawn{Out: "Done.\n"},
		plain:  "Let me look.\nDone.\n",
		full:   "<dim>…<0><wipe>Let me look.\nDone.\n",
	}, {
		name:   "a tool that fails",
		events: []turn.Event{started("1", ""), ended("1", "", "1\n2\n3\n4\n5\n6\n", true), final("x")},
		pipe:   drawn{Out: "x\n"},
		plain:  "→ bash\n✗ bash 1.25s\n  1\n  2\n  3\n  4\n  5\n  …\nx\n",
		full:   "<dim>…<0><wipe><dim>→ bash<0><wipe><red>✗ bash<0><dim> 1.25s<0>\n<dim>  1\n  2\n  3\n  4\n  5\n  …<0>\nx\n",
	}, {
		name:   "two tools at once",
		events: []turn.Event{started("1", "a"), started("2", "b"), ended("1", "a", "", false), ended("2", "b", "", false), final("x")},
		pipe:   drawn{Out: "x\n"},
		plain:  "→ a\n→ b\n✓ a 1.25s\n✓ b 1.25s\nx\n",
		full:   "<dim>…<0><wipe><dim>→ a<0>\n<dim>→ b<0>\n<green>✓ <0><dim>a 1.25s<0>\n<green>✓ <0><dim>b 1.25s<0>\nx\n",
	}, {
		name:   "stopped: the text of the turn is there already",
		events: []turn.Event{whole("One."), part("Two"), {Kind: turn.Final, Text: "One.\n\nTwo", Stopped: true}},
		pipe:   drawn{Out: "One.\n\nTwo\n", Notes: "(stopped)\n"},
		plain:  "One.\nTwo\n(stopped)\n",
		full:   "<dim>…<0><wipe>One.\nTwo\n<dim>(stopped)<0>\n",
	}, {
		name:   "stopped in a tool",
		events: []turn.Event{started("1", "sleep"), {Kind: turn.Final, Stopped: true}},
		pipe:   drawn{Notes: "(stopped)\n"},
		plain:  "→ sleep\n(stopped)\n",
		full:   "<dim>…<0><wipe><dim>→ sleep<0>\n<dim>(stopped)<0>\n",
	}, {
		name:   "failed in the middle of a line",
		events: []turn.Event{part("Hel"), {Kind: turn.Failed, Error: "the model is overloaded", Code: turn.CodeModel, Text: "Hel"}},
		pipe:   drawn{Notes: "error: the model is overloaded\n"},
		plain:  "Hel\nerror: the model is overloaded\n",
		full:   "<dim>…<0><wipe>Hel\n<red>error: the model is overloaded<0>\n",
	}, {
		name:   "failed without words, and stopped before any text",
		events: []turn.Event{{Kind: turn.Failed}, {Kind: turn.Failed, Code: turn.CodeStopped}},
		pipe:   drawn{Notes: "error: the turn failed\n(stopped)\n"},
		plain:  "error: the turn failed\n(stopped)\n",
		full:   "<dim>…<0><wipe><red>error: the turn failed<0>\n<dim>(stopped)<0>\n",
	}, {
		name:   "silent",
		events: []turn.Event{{Kind: turn.Final, Silent: true, Text: "[SILENT]"}},
		full:   "<dim>…<0><wipe>",
	}, {
		name:   "usage",
		events: []turn.Event{{Kind: turn.Final, Text: "x", Usage: &turn.Usage{Model: "m", Input: 10, CacheRead: 5, CacheWrite: 1, Output: 2, Cost: 0.5}}, {Kind: turn.Final, Usage: &turn.Usage{Model: "m"}}},
		pipe:   drawn{Out: "x\n"},
		plain:  "x\nm · 16 tokens in · 2 out · $0.5000\nm · 0 tokens in · 0 out\n",
		full:   "<dim>…<0><wipe>x\n<dim>m · 16 tokens in · 2 out · $0.5000<0>\n<dim>m · 0 tokens in · 0 out<0>\n",
	}, {
		name: "a file and a question",
		events: []turn.Event{{Kind: turn.FileOut, Filename: "../plot.png", Local: "out/plot.png"}, {Kind: turn.FileOut, Title: "A\nplot", Local: "out/p.png"},
			{Kind: turn.AskFor, Ask: &turn.Ask{Text: "May I?", Command: "rm -rf x\nls"}}, {Kind: turn.AskFor, Ask: &turn.Ask{Text: "Sure?"}}, {Kind: turn.AskFor}, {Kind: turn.ToolUse}, final("x")},
		pipe:  drawn{Out: "x\n", Notes: "file: plot.png (out/plot.png)\nA plot: p.png (out/p.png)\n? May I?\n  rm -rf x\n  ls\n? Sure?\n"},
		plain: "file: plot.png (out/plot.png)\nA plot: p.png (out/p.png)\n? May I?\n  rm -rf x\n  ls\n? Sure?\nx\n",
		full: "<dim>…<0><wipe><dim>file: plot.png (out/plot.png)<0>\n<dim>A plot: p.png (out/p.png)<0>\n" +
			"<bold>? May I?<0>\n  rm -rf x\n  ls\n<bold>? Sure?<0>\nx\n",
	}, {
		name: "control characters",
		events: []turn.Event{part("a\x1b[2Jb\r\a"), whole("a\x1b[2Jb\r\a"), started("1", "x\x1b]0;t\ay\nz"), ended("1", "x", "\x1b[31mred\u202e", true),
			{Kind: turn.AskFor, Ask: &turn.Ask{Text: "\x1bq", Command: "ls \u2066x"}}, {Kind: turn.Status, Label: "\u009b2J"}, {Kind: turn.Failed, Error: "e\x1bf"}},
		pipe:  drawn{Notes: "? q\n  ls x\nerror: ef\n"},
		plain: "a[2Jb\n→ x]0;ty z\n✗ x 1.25s\n  [31mred\n? q\n  ls x\nerror: ef\n",
		full: "<dim>…<0><wipe>a[2Jb\n<dim>→ x]0;ty z<0><wipe><red>✗ x<0><dim> 1.25s<0>\n<dim>  [31mred<0>\n<bold>? q<0>\n  ls x\n" +
			"<dim>2J<0><wipe><red>error: ef<0>\n",
	},
}

// named makes escape sequences readable.
var named = strings.NewReplacer(wipe, "<wipe>", dim, "<dim>", red, "<red>", green, "<green>", bold, "<bold>", cyan, "<cyan>", plain, "<0>")

func play(s *screen, events []turn.Event) {
	s.begin()
	for _, e := range events {
		s.draw(e)
	}
}

func TestScreen(t *testing.T) {
	for _, c := range stories {
		t.Run(c.name, func(t *testing.T) {
			var out, notes strings.Builder
			play(&screen{out: &out, notes: &notes}, c.events)
			if d := cmp.Diff(c.pipe, drawn{out.String(), notes.String()}); d != "" {
				t.Errorf("pipe (-want +got)\n%s", d)
			}
			for _, kind := range []struct {
				ansi bool
				want string
			}{{false, c.plain}, {true, c.full}} {
				var b strings.Builder
				play(&screen{out: &b, notes: &b, live: true, ansi: kind.ansi, color: kind.ansi}, c.events)
				if d := cmp.Diff(kind.want, named.Replace(b.String())); d != "" {
					t.Errorf("ansi %v (-want +got)\n%s", kind.ansi, d)
				}
			}
		})
	}
}

// TestScreenNoColor: without colors the cursor may still move.
func TestScreenNoColor(t *testing.T) {
	var b strings.Builder
	play(&screen{out: &b, notes: &b, live: true, ansi: true}, []turn.Event{started("1", "a"), ended("1", "a", "", false), final("x")})
	if got := named.Replace(b.String()); got != "…<wipe>→ a<wipe>✓ a 1.25s\nx\n" {
		t.Errorf("drawn %q", got)
	}
}

// TestScreenLinesThatAreRewrittenDoNotWrap: a wrapped line cannot be wiped.
func TestScreenLinesThatAreRewrittenDoNotWrap(t *testing.T) {
	var b strings.Builder
	s := &screen{out: &b, notes: &b, live: true, ansi: true, width: func() int { return 14 }}
	s.draw(started("1", strings.Repeat("x", 50)))
	if got := b.String(); got != "→ xxxxxx…" {
		t.Errorf("drawn %q", got)
	}
}

func TestScreenBetweenEvents(t *testing.T) {
	var b strings.Builder
	s := &screen{out: &b, notes: &b, live: true, ansi: true, color: true}
	s.begin()
	s.note("a note")
	s.draw(part("text"))
	s.interrupted("(stopping)")
	s.draw(started("1", "a"))
	s.interrupted("(stopping)")
	s.draw(part("more"))
	s.entered()
	s.draw(part("and more"))
	s.trouble(errors.New("bad\x1b"))
	s.answer("_Stopping..._")
	s.begin()
	s.rest()
	const want = "<dim>…<0><wipe><dim>a note<0>\ntext\n<dim>(stopping)<0>\n<dim>→ a<0>\n<wipe><dim>(stopping)<0>\nmore" + // Enter was echoed here
		"and more\n<red>error: bad<0>\nStopping...\n<dim>…<0><wipe>"
	if d := cmp.Diff(want, named.Replace(b.String())); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in      string
		columns int
		want    string
	}{
		{"hello", 0, "hello"}, {"hello", 5, "hello"}, {"hello", 4, "hel…"}, {"hello", 1, "…"},
		{"計画計画", 8, "計画計画"}, {"計画計画", 7, "計画計…"}, {"計画計画", 6, "計画…"}, {"", 3, ""},
	} {
		if got := cut(c.in, c.columns); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.in, c.columns, got, c.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31m\u202eb\x9b\xff\r\n\t")
	f.Fuzz(func(t *testing.T, in string) {
		got := clean(in)
		for _, r := range got {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("clean(%q) = %q keeps %q", in, got, r)
			}
		}
		if clean(got) != got {
			t.Errorf("clean is not stable on %q", in)
		}
	})
}
