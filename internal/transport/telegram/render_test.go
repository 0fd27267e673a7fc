package telegram

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
	"github.com/iris-operator/iris/internal/turn"
)

// TestHTML holds the rules of spec §10.3.
func TestHTML(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"escape":                        {"a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"},
		"an entity is resolved once":    {"&amp;lt; &copy;", "&amp;lt; ©"},
		"bold":                          {"**b** and __c__", "<b>b</b> and <b>c</b>"},
		"italic at word boundaries":     {"_i_ snake_case_name *j*", "<i>i</i> snake_case_name <i>j</i>"},
		"both":                          {"***x***", "<i></i><b><i>x</i></b>"},
		"strike":                        {"~~no~~", "<s>no</s>"},
		"inline code":                   {"run `a < b & c`", "run <code>a &lt; b &amp; c</code>"},
		"code drops other looks":        {"**bold `code`**", "<b>bold </b><code>code</code>"},
		"a fence":                       {"```go\nif a < b {\n}\n```", "<pre><code class=\"language-go\">if a &lt; b {\n}</code></pre>"},
		"a fence of no language":        {"```\nx\n```", "<pre>x</pre>"},
		"a language that is no name":    {"```a\"b\nx\n```", "a\"b\n\n<pre>x</pre>"},
		"a fence is not read":           {"```\n**b** _i_ [t](http://x)\n```", "<pre>**b** _i_ [t](http://x)</pre>"},
		"an open fence":                 {"```\nopen", "<pre>open</pre>"},
		"a link":                        {`[t](http://e.org/?a=1&b="2")`, `<a href="http://e.org/?a=1&amp;b=&quot;2&quot;">t</a>`},
		"a secure link":                 {`[t](https://e.org)`, `<a href="https://e.org">t</a>`},
		"another link is its label":     {`[t](file:///etc/passwd) [u](tg://user?id=1) [v](javascript:x)`, "t u v"},
		"an image":                      {`![alt](https://e.org/x.png)`, `<a href="https://e.org/x.png">alt</a>`},
		"a heading":                     {"# Title\n\ntext", "<b>Title</b>\n\ntext"},
		"a list":                        {"- a\n- b\n  - c\n\n1. x\n2. y", "• a\n• b\n  • c\n\n1. x\n2. y"},
		"tasks":                         {"- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"},
		"a quote":                       {"> a\n> b\n\nc", "<blockquote>a\nb</blockquote>\n\nc"},
		"a table":                       {"| a | b |\n|---|---|\n| 1 | 22 |", "<pre>a │ b\n──┼───\n1 │ 22</pre>"},
		"tags are text":                 {"<b>x</b> <script>y", "&lt;b&gt;x&lt;/b&gt; &lt;script&gt;y"},
		"a block of tags is text":       {"<div>\nx\n</div>", "&lt;div&gt;\nx\n&lt;/div&gt;"},
		"a comment is text":             {"<!-- x -->", "&lt;!-- x --&gt;"},
		"a link definition stays":       {"[a]: http://x.org", "[a]: http://x.org"},
		"a break":                       {"a\\\nb\nc", "a\nb\nc"},
		"a rule":                        {"a\n\n---\n\nb", "a\n\n———\n\nb"},
		"nobody is mentioned":           {"@ann and a@b.org `@c`", "@\u2060ann and a@b.org <code>@c</code>"},
		"a sentinel cannot be imitated": {"\x00CODE0\x00 \x1b[0m", "\uFFFDCODE0\uFFFD \uFFFD[0m"},
		"no UTF-8":                      {"a\xffb", "a\uFFFDb"},
		"backslashes":                   {`\*a\* \_ C:\dir`, `*a* _ C:\dir`},
	} {
		t.Run(name, func(t *testing.T) {
			got := render(transport.View{Show: transport.ShowReply, Text: c.in})
			want := strings.ReplaceAll(c.want, "<i></i>", "")
			if len(got) != 1 || got[0].Text != want {
				t.Fatalf("render(%q) = %+v, want %q", c.in, got, want)
			}
			if _, _, err := telegramtest.Parse(got[0].Text, got[0].Format); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestViews holds what is shown beside a reply.
func TestViews(t *testing.T) {
	ask := &turn.Ask{ID: strings.Repeat("0123456789abcdef", 5), Text: "Run it?", Command: "rm -r <x>"}
	for name, c := range map[string]struct {
		in          transport.View
		text, extra string
	}{
		"progress": {transport.View{Show: transport.ShowProgress, Note: "→ list <files>"}, "<i>→ list &lt;files&gt;...</i>", ""},
		"stopped":  {transport.View{Show: transport.ShowReply, Text: "half", Note: "Stopped"}, "half\n\n<i>Stopped</i>", ""},
		"nothing":  {transport.View{Show: transport.ShowReply, Text: " \n"}, "(empty)", ""},
		"plain":    {transport.View{Show: transport.ShowReply, Text: "**a** <b>", Plain: true, Note: "x & y"}, "**a** <b>\n\nx & y", ""},
		"question": {transport.View{Show: transport.ShowQuestion, Text: "Run it?", Ask: ask}, "Run it?\n\n<pre>rm -r &lt;x&gt;</pre>",
			`{"inline_keyboard":[[{"text":"✅ Approve once","callback_data":"y0123456789abcdef0123456789abcdef01234567"},{"text":"❌ Decline","callback_data":"n0123456789abcdef0123456789abcdef01234567"}]]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := render(c.in)
			if len(got) != 1 || got[0].Text != c.text || string(got[0].Extra) != c.extra {
				t.Errorf("render = %q %s, want %q %s", got[0].Text, got[0].Extra, c.text, c.extra)
			}
		})
	}
}

// TestSplit holds where a text is cut.
func TestSplit(t *testing.T) {
	para := strings.Repeat("word ", 400)
	code := strings.Repeat("x := 1 // <&>\n", 500)
	for name, c := range map[string]struct {
		in    string
		parts int
		check func(t *testing.T, bodies []transport.Body)
	}{
		"between paragraphs": {para + "\n\n" + para + "\n\n" + para, 2, func(t *testing.T, b []transport.Body) {
			if !strings.HasSuffix(b[0].Text, "word") || !strings.HasPrefix(b[1].Text, "word") {
				t.Errorf("cut at %q | %q", b[0].Text[len(b[0].Text)-20:], b[1].Text[:20])
			}
		}},
		"a fence that is too long is fenced again": {"before\n\n```go\n" + code + "```\nafter", 4, func(t *testing.T, b []transport.Body) {
			for i, x := range b {
				if n := strings.Count(x.Text, "<pre>"); n != 1 && i > 0 {
					t.Errorf("part %d has %d code blocks", i, n)
				}
				if n := strings.Count("\n"+x.Source, "\n```"); n%2 != 0 {
					t.Errorf("part %d: the source has %d fences:\n%s", i, n, x.Source)
				}
				if again := render(transport.View{Text: x.Source}); len(again) != 1 || !strings.Contains(again[0].Text, "language-go") {
					t.Errorf("part %d is not rendered again as it was: %d parts", i, len(again))
				}
			}
		}},
		"one long word": {strings.Repeat("é", 9000), 3, nil},
		"astral letters are not cut": {strings.Repeat("🙂", 5000), 3, func(t *testing.T, b []transport.Body) {
			for _, x := range b {
				if strings.Contains(x.Text, "\uFFFD") {
					t.Error("half a letter")
				}
			}
		}},
		"escapes count": {strings.Repeat("&", 4000), 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := render(transport.View{Show: transport.ShowReply, Text: c.in})
			if len(got) != c.parts {
				t.Errorf("%d parts, want %d", len(got), c.parts)
			}
			sound(t, c.in, transport.View{Show: transport.ShowReply, Text: c.in})
			if c.check != nil {
				c.check(t, got)
			}
		})
	}
}

var wordMark = regexp.MustCompile(`q[0-9]{4}z`)

// sound checks what holds for every document: nothing is refused, nothing of its
// words is lost or said twice, sources are whole.
func sound(t *testing.T, src string, v transport.View) {
	t.Helper()
	var shown, sources strings.Builder
	bodies := render(v)
	for _, b := range bodies {
		visible, _, err := telegramtest.Parse(b.Text, b.Format)
		if err != nil {
			t.Fatalf("%v\nsent: %q\nof: %q", err, b.Text, src)
		}
		if n := telegramtest.Units(transport.RepeatLabel + "\n" + b.Text); n > 4096 {
			t.Fatalf("%d units with the label, of %q", n, src)
		}
		shown.WriteString(visible + "\n")
		sources.WriteString(b.Source)
	}
	want := wordMark.FindAllString(src, -1)
	if got := wordMark.FindAllString(shown.String(), -1); !slices.Equal(got, want) {
		t.Fatalf("%d words shown, want %d, in order\nof: %q\nshown: %q", len(got), len(want), src, shown.String())
	}
	// The language of a block that is cut is there once more.
	got := wordMark.FindAllString(sources.String(), -1)
	seen := map[string]bool{}
	got = slices.DeleteFunc(got, func(w string) bool { again := seen[w]; seen[w] = true; return again })
	if !slices.Equal(got, want) {
		var all []string
		for _, b := range bodies {
			all = append(all, b.Source)
		}
		t.Fatalf("the sources of %q have %d words, want %d: %q", src, len(got), len(want), all)
	}
	for _, b := range bodies {
		for _, again := range render(transport.View{Show: v.Show, Text: b.Source, Plain: true}) {
			if _, _, err := telegramtest.Parse(again.Text, again.Format); err != nil {
				t.Fatalf("plain: %v: %q", err, again.Text)
			}
		}
	}
}

// anyDocument is random Markdown, often broken, with numbered words.
func anyDocument(r *rand.Rand) string {
	var b strings.Builder
	n := 0
	word := func() string { n++; return fmt.Sprintf("q%04dz", n) }
	bits := []func() string{
		func() string { return "**" }, func() string { return "_" }, func() string { return "`" }, func() string { return "\n" },
		func() string { return "\n\n" }, func() string { return "\n```" + []string{"", "go", "c++", `"><b>`}[r.IntN(4)] + "\n" },
		func() string { return "\n> " }, func() string { return "\n- " }, func() string { return "\n  1. " }, func() string { return "\n# " },
		func() string {
			return "<" + []string{"b", "/b", "script", "a href='x'", "!-- ", "pre"}[r.IntN(6)] + ">"
		},
		func() string { return "[" + word() + "](http://e.org/" + string(rune('a'+r.IntN(26))) + "?x=1&y=\"<>)" },
		func() string { return "[" + word() + "](https://e.org)" }, func() string { return "![" + word() + "](x)" },
		func() string {
			return "&" + []string{"amp;", "lt;", "#60;", "copy;", ";", "#x0;", "nosuch;"}[r.IntN(7)]
		},
		func() string { return "~~" }, func() string { return "\\" }, func() string { return "\n| " + word() + " | " + word() + " |\n|---|---|\n| " + word() + " | x |\n" },
		func() string { return "\x00" }, func() string { return "\xff\xfe" }, func() string { return "\u202e\u200b" }, func() string { return "🙂報告" },
		func() string { return "\n    " }, func() string { return "\t" }, func() string { return "***" }, func() string { return "\n---\n" },
		func() string { return "@ann " }, func() string { return "\n```\n" + strings.Repeat("<&> code\n", r.IntN(300)) + "```\n" },
		func() string { return strings.Repeat(string(rune(' '+r.IntN(95))), r.IntN(2500)) + "\n" }, func() string { return "\r\n" },
		func() string { return "<https://e.org/" + word() + ">" }, func() string { return "\n~~~\n" },
	}
	for range r.IntN(60) {
		if r.IntN(2) == 0 {
			b.WriteString(word() + []string{" ", "", "\n"}[r.IntN(3)])
			continue
		}
		b.WriteString(bits[r.IntN(len(bits))]())
	}
	// A word right behind a fence is the language, which is not shown.
	return fenceWord.ReplaceAllString(b.String(), "$1\nq")
}

var fenceWord = regexp.MustCompile("([~`]{3,} *)q")

// TestDocumentsAreNeverRefused sends random documents to the strict parser.
func TestDocumentsAreNeverRefused(t *testing.T) {
	for seed := range uint64(documents) {
		r := rand.New(rand.NewPCG(seed, 7))
		src := anyDocument(r)
		v := transport.View{Show: transport.ShowReply, Text: src}
		if seed%3 == 0 {
			v.Note = "Stopped <&>"
		}
		if seed%5 == 0 {
			v.Limit = 1024
		}
		sound(t, src, v)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("**a** `b` <c> [d](http://e)", 0, false)
	f.Add("```go\nx\n```\n> q\n- l", 300, true)
	f.Fuzz(func(t *testing.T, src string, limit int, plain bool) {
		for _, b := range render(transport.View{Show: transport.ShowReply, Text: src, Limit: limit, Plain: plain}) {
			if _, _, err := telegramtest.Parse(b.Text, b.Format); err != nil {
				t.Fatalf("%v: %q", err, b.Text)
			}
		}
	})
}
