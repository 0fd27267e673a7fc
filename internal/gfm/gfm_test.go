package gfm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

func reads(strike, tasks parser.InlineParser, tables parser.ParagraphTransformer, more ...util.PrioritizedValue) parser.Parser {
	return parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(append(parser.DefaultInlineParsers(), util.Prioritized(strike, 500), util.Prioritized(tasks, 0))...),
		parser.WithParagraphTransformers(util.Prioritized(tables, 200)), parser.WithASTTransformers(more...))
}

func ours() parser.Parser {
	return reads(Strikethrough(), Tasks(), Tables(), util.Prioritized(Bars(), 0))
}

func theirs() parser.Parser {
	return reads(extension.NewStrikethroughParser(), extension.NewTaskCheckBoxParser(), extension.NewTableParagraphTransformer(),
		util.Prioritized(extension.NewTableASTTransformer(), 0))
}

// tree writes a document down: kinds, and texts joined where a parser may have
// cut them.
func tree(p parser.Parser, src string) string {
	var b strings.Builder
	var walk func(n ast.Node)
	walk = func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value([]byte(src)))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteString("↵")
			}
			return
		case *east.TaskCheckBox:
			fmt.Fprintf(&b, "[%t]", n.IsChecked)
			return
		case *east.TableCell:
			fmt.Fprintf(&b, "<%s", n.Alignment)
		}
		fmt.Fprintf(&b, "<%s:", n.Kind())
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			walk(c)
		}
		b.WriteString(">")
	}
	walk(p.Parse(text.NewReader([]byte(src))))
	return b.String()
}

func TestWhatIsRead(t *testing.T) {
	for src, want := range map[string]string{
		"|a|b|\n|-|-:|\n|1|2|":        "<Document:<Table:<TableHeader:<none<TableCell:a><right<TableCell:b>><TableRow:<none<TableCell:1><right<TableCell:2>>>>",
		"a | b\n:-: | :-\n1":          "<Document:<Table:<TableHeader:<center<TableCell:a><left<TableCell:b>><TableRow:<center<TableCell:1><none<TableCell:>>>>",
		"say:\n|a|\n|-|\n|1|2|":       "<Document:<Paragraph:say:><Table:<TableHeader:<none<TableCell:a>><TableRow:<none<TableCell:1>>>>",
		"a\n|-|-|":                    "<Document:<Table:<TableHeader:<none<TableCell:a><none<TableCell:>>>>",
		"|a|b|\n|-|\n":                "<Document:<Paragraph:|a|b|↵|-|>>",
		"|`x\\|y\\|`|\n|-|":           "<Document:<Table:<TableHeader:<none<TableCell:<CodeSpan:x|y|>>>>>",
		"|x \\||\n|-|":                "<Document:<Table:<TableHeader:<none<TableCell:x \\|>>>>",
		"a\n---":                      "<Document:<Heading:a>>",
		"~~a~~ ~b~ ~~~c~~~ ~d":        "<Document:<Paragraph:<Strikethrough:a> <Strikethrough:b> ~~~c~~~ ~d>>",
		"- [ ] a\n- [x] b\n- [y] c":   "<Document:<List:<ListItem:<TextBlock:[false]a>><ListItem:<TextBlock:[true]b>><ListItem:<TextBlock:[y] c>>>>",
		"[x] a\n\n- a [ ] b\n\n|\n|-": "<Document:<Paragraph:[x] a><List:<ListItem:<TextBlock:a [ ] b>>><Table:<TableHeader:<none<TableCell:>>>>",
	} {
		if got := tree(ours(), src); got != want {
			t.Errorf("%q:\n got %s\nwant %s", src, got, want)
		}
	}
}

// What goldmark's own extensions make of the same text, ours make of it, with two
// exceptions: an escaped bar at the end of a row, which they take for the row's
// border, and dashes alone, which they may take for a rule.
func TestOursAgreesWithGoldmarks(t *testing.T) {
	words := []string{"|", "|", "\\|", "`", "a", "b c", " ", "-", "--", ":", "\n", "\n", "|-|-|\n", "|:-|-:|\n", "| a | b |\n", "~", "~~", "**", "*", "- [ ] ", "- [x] ", "> ", "[l](u)", "    ", "\\\\", "\n\n", "<b>", "é"}
	rng := rand.New(rand.NewPCG(7, 7))
	tables := 0
	for range 5000 {
		var b strings.Builder
		for range 1 + rng.IntN(24) {
			b.WriteString(words[rng.IntN(len(words))])
		}
		src := b.String()
		agree(t, src)
		if strings.Contains(tree(ours(), src), "<Table:") {
			tables++
		}
	}
	if tables < 200 {
		t.Errorf("only %d of the texts had a table", tables)
	}
}

func agree(t *testing.T, src string) {
	t.Helper()
	for _, line := range strings.Split(src, "\n") {
		line = strings.Trim(line, " \t>")
		if strings.HasSuffix(line, "\\|") || line != "" && strings.Trim(line, "-") == "" {
			return
		}
	}
	if got, want := tree(ours(), src), tree(theirs(), src); got != want {
		t.Errorf("%q:\n  ours %s\ntheirs %s", src, got, want)
	}
}

func FuzzNothingPanics(f *testing.F) {
	f.Add("|a|b|\n|-|-|\n|`\\|`|")
	f.Fuzz(func(_ *testing.T, src string) { tree(ours(), src) })
}
