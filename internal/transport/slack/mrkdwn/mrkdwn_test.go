package mrkdwn

import (
	"fmt"
	"strings"
	"testing"
)

func TestRender(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"bold, thin, struck":   {"**b** and *i* and _i_ and ~~s~~", "*b* and _i_ and _i_ and ~s~"},
		"heading":              {"# The **big** one\n\ntext", "*The big one*\n\ntext"},
		"escapes":              {"a < b && c > d &amp; \\*x", "a &lt; b &amp;&amp; c &gt; d &amp; *x"},
		"link":                 {"see [the docs](https://example.org/?a=1&b=2)", "see <https://example.org/?a=1&amp;b=2|the docs>"},
		"link elsewhere":       {"[x](../y.md) [z](javascript:alert)", "x (../y.md) z (javascript:alert)"},
		"auto link":            {"<https://example.org>", "<https://example.org>"},
		"image":                {"![alt](https://example.org/i.png)", "<https://example.org/i.png|alt>"},
		"fence untouched":      {"```go\nif a < b { **x** }\n\n  y\n```", "```\nif a &lt; b { **x** }\n\n  y\n```"},
		"open fence":           {"```\nx", "```\nx\n```"},
		"code span":            {"`a<b`", "`a&lt;b`"},
		"code span with ticks": {"`` a`b ``", "a`b"},
		"list":                 {"- a\n- b\n  - c\n\n3. x\n4. y", "• a\n• b\n    • c\n\n3. x\n4. y"},
		"quote":                {"> a\n> b\n\nc", "> a\n> b\n\nc"},
		"table":                {"| name | n |\n|---|---|\n| **ann** | 1 |\n| b | 22 |", "```\nname | n\n-----|---\nann  | 1\nb    | 22\n```"},
		"mass mentions":        {"<!channel> <@U123> @here @everyone", "&lt;!channel&gt; &lt;@U123&gt; @\u200bhere @\u200beveryone"},
		"inside a word":        {"a**b**c", "a\u200b*b*\u200bc"},
		"bold over two lines":  {"**a\nb**", "*a*\n*b*"},
		"escaped fence":        {"\\`\\`\\`", "`\u200b`\u200b`"},
		"html":                 {"<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"},
		"only a definition":    {"[a]: https://example.org", "[a]: https://example.org"},
		"rule":                 {"a\n\n---\n\nb", "a\n\n───\n\nb"},
		"fence in a list":      {"- x\n\n  ```\n  a\n    b\n  ```\n- y", "• x\n\n```\na\n  b\n```\n• y"},
	} {
		got := Render(c.in, 4000)
		if len(got) != 1 || got[0].Text != c.want || got[0].Source != c.in {
			t.Errorf("%s: Render(%q) = %+q, want %q", name, c.in, got, c.want)
		}
	}
}

func TestNothingIsRenderedAsNothing(t *testing.T) {
	for _, in := range []string{"", " \n\n "} {
		if got := Render(in, 100); len(got) != 0 {
			t.Errorf("Render(%q) = %+v", in, got)
		}
	}
}

func TestSplitAtParagraphs(t *testing.T) {
	in := strings.Repeat("word ", 10) + "\n\n" + strings.Repeat("more ", 10) + "\n\nend"
	got := Render(in, 64)
	if len(got) != 2 || !strings.HasPrefix(got[1].Text, "more") || !strings.HasSuffix(got[1].Text, "end") {
		t.Errorf("pieces %+q", got)
	}
}

func TestASplitFenceStaysAFence(t *testing.T) {
	var b strings.Builder
	b.WriteString("before\n\n```go\n")
	for i := range 50 {
		fmt.Fprintf(&b, "line %02d <>\n", i)
	}
	b.WriteString("```\n\nafter")
	got := Render(b.String(), 200)
	if len(got) < 4 {
		t.Fatalf("%d pieces", len(got))
	}
	all := ""
	for _, p := range got {
		if n := Length(p.Text); n > 200 || strings.Count(p.Text, "```")%2 != 0 {
			t.Errorf("%d characters, %d fences: %q", n, strings.Count(p.Text, "```"), p.Text)
		}
		all += p.Text
	}
	for i := range 50 {
		if strings.Count(all, fmt.Sprintf("line %02d", i)) != 1 {
			t.Errorf("line %02d is not there once", i)
		}
	}
}

func TestPlainKeepsEverything(t *testing.T) {
	got := Plain("**a** <b> ```", 100)
	if len(got) != 1 || got[0].Text != "**a** &lt;b&gt; `\u200b`\u200b`" {
		t.Errorf("Plain = %+q", got)
	}
}
