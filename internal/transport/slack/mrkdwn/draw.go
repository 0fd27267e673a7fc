package mrkdwn

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/gfm"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown is CommonMark with tables and strikethrough.
var markdown = sync.OnceValue(func() parser.Parser {
	p := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...))
	p.AddOptions(
		parser.WithParagraphTransformers(util.Prioritized(gfm.Tables(), 200)),
		parser.WithASTTransformers(util.Prioritized(gfm.Bars(), 0)),
		parser.WithInlineParsers(util.Prioritized(gfm.Strikethrough(), 500)),
	)
	return p
})

// one draws a text as one piece.
func one(source string) string {
	src := []byte(source)
	d := drawing{src: src}
	out := strings.Trim(d.blocks(markdown().Parse(text.NewReader(src)), "\n\n"), "\n")
	if strings.TrimSpace(out) == "" { // nothing but definitions
		out = Escape(strings.TrimSpace(source))
	}
	return out
}

// A drawing draws one document.
type drawing struct {
	src []byte
	// The marks that are open, and how deep in lists it is.
	bold, thin, struck bool
	list               int
	quoted             bool
}

// blocks draws the children of n that are blocks.
func (d *drawing) blocks(n ast.Node, gap string) string {
	var all []string
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if s := d.block(c); s != "" {
			all = append(all, s)
		}
	}
	return strings.Join(all, gap)
}

func (d *drawing) block(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Heading:
		was := d.bold
		d.bold = true
		s := d.inline(n)
		if d.bold = was; was {
			return s
		}
		return marked("*", s)
	case *ast.Paragraph, *ast.TextBlock:
		return d.inline(n)
	case *ast.Blockquote:
		return d.quote(n)
	case *ast.List:
		return d.items(n)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return code(string(n.Lines().Value(d.src)))
	case *ast.HTMLBlock:
		s := string(n.Lines().Value(d.src))
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(d.src))
		}
		return calm(Escape(strings.Trim(s, "\n")))
	case *ast.ThematicBreak:
		return "───"
	case *extast.Table:
		return d.table(n)
	}
	return d.blocks(n, "\n")
}

// code is a block of code.
func code(s string) string { return "```\n" + Escape(strings.TrimSuffix(s, "\n")) + "\n```" }

func (d *drawing) quote(n ast.Node) string {
	sign, was := "> ", d.quoted
	if d.list > 0 {
		sign = "&gt; "
	}
	d.quoted = true
	s := d.blocks(n, "\n\n")
	if d.quoted = was; was || s == "" {
		return s
	}
	return indent(s, sign, sign)
}

func (d *drawing) items(n *ast.List) string {
	gap := "\n"
	if !n.IsTight {
		gap = "\n\n"
	}
	var all []string
	number := n.Start
	d.list++
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		sign := "• "
		if n.IsOrdered() {
			sign = fmt.Sprintf("%d. ", number)
			number++
		}
		all = append(all, indent(d.blocks(c, gap), sign, "    "))
	}
	d.list--
	return strings.Join(all, "\n")
}

// indent puts first before the first line and rest before all others but those
// of code, which stay as they are.
func indent(s, first, rest string) string {
	var b strings.Builder
	in := false
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		fence := strings.Count(line, "```")%2 == 1
		switch {
		case in, i > 0 && (line == "" && rest != "> " || fence):
		case i == 0:
			if fence && first == "> " {
				break
			}
			b.WriteString(first)
		default:
			b.WriteString(rest)
		}
		b.WriteString(line)
		in = in != fence
	}
	return b.String()
}

// table is a block of code with columns.
func (d *drawing) table(n ast.Node) string {
	var rows [][]string
	var wide []int
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		var row []string
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			cell := strings.ReplaceAll(d.words(c), "\n", " ")
			if len(row) == len(wide) {
				wide = append(wide, 1)
			}
			wide[len(row)] = max(wide[len(row)], min(utf8.RuneCountInString(cell), maxColumn))
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			if j > 0 {
				line.WriteString(" | ")
			}
			line.WriteString(cell)
			if j < len(row)-1 {
				line.WriteString(strings.Repeat(" ", max(0, wide[j]-utf8.RuneCountInString(cell))))
			}
		}
		b.WriteString(line.String() + "\n")
		if i == 0 {
			for j, w := range wide {
				if j > 0 {
					b.WriteString("-|-")
				}
				b.WriteString(strings.Repeat("-", w))
			}
			b.WriteByte('\n')
		}
	}
	return code(b.String())
}

// maxColumn is how wide a column is drawn; a longer cell sticks out.
const maxColumn = 60

// inline draws the children of n.
func (d *drawing) inline(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		s := d.span(c)
		// Marks are marks only at the edge of a word.
		if isMark(s) && word(lastRune(b.String())) || word(firstRune(s)) && endsMarked(c.PreviousSibling()) {
			b.WriteString("\u200b")
		}
		b.WriteString(s)
	}
	return apart(b.String()) // code spans may have met
}

func isMark(s string) bool { return s != "" && strings.ContainsRune("*_~", rune(s[0])) }

func endsMarked(n ast.Node) bool {
	switch n.(type) {
	case *ast.Emphasis, *extast.Strikethrough:
		return true
	}
	return false
}

func lastRune(s string) rune  { r, _ := utf8.DecodeLastRuneInString(s); return r }
func firstRune(s string) rune { r, _ := utf8.DecodeRuneInString(s); return r }
func word(r rune) bool        { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

func (d *drawing) span(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		s := d.literal(n.Segment.Value(d.src), n.IsRaw())
		if n.SoftLineBreak() || n.HardLineBreak() {
			s += "\n"
		}
		return s
	case *ast.String:
		return d.literal(n.Value, n.IsRaw() || n.IsCode())
	case *ast.CodeSpan:
		return codeSpan(d.words(n))
	case *ast.Emphasis:
		if n.Level >= 2 {
			return d.mark(n, "*", &d.bold)
		}
		return d.mark(n, "_", &d.thin)
	case *extast.Strikethrough:
		return d.mark(n, "~", &d.struck)
	case *ast.Link:
		return link(string(n.Destination), d.words(n))
	case *ast.Image:
		return link(string(n.Destination), d.words(n))
	case *ast.AutoLink:
		return link(string(n.URL(d.src)), string(n.Label(d.src)))
	case *ast.RawHTML:
		return calm(Escape(string(n.Segments.Value(d.src))))
	}
	return d.inline(n)
}

// mark draws n between marks, unless they are open already.
func (d *drawing) mark(n ast.Node, sign string, open *bool) string {
	if *open {
		return d.inline(n)
	}
	*open = true
	s := d.inline(n)
	*open = false
	return marked(sign, s)
}

// marked puts marks around every line of s: they do not reach over its end.
func marked(sign, s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if core := strings.TrimSpace(line); core != "" && !strings.Contains(core, sign) {
			lines[i] = sign + core + sign
		}
	}
	return strings.Join(lines, "\n")
}

func codeSpan(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if strings.Contains(s, "`") || strings.TrimSpace(s) == "" {
		return calm(Escape(s))
	}
	return "`" + calm(Escape(s)) + "`"
}

// mass are the words that call everybody where a client turns them into calls.
var mass = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)@(channel|here|everyone|group)\b`) })

// literal is text with its references resolved.
func (d *drawing) literal(b []byte, raw bool) string {
	s := string(b)
	if raw {
		s = Escape(s)
	} else {
		var buf bytes.Buffer
		w := bufio.NewWriter(&buf)
		html.DefaultWriter.Write(w, b)
		_ = w.Flush() // into memory
		s = strings.ReplaceAll(buf.String(), "&quot;", `"`)
	}
	return calm(s)
}

// calm keeps a text from calling everybody.
func calm(s string) string { return mass().ReplaceAllString(s, "@\u200b$1") }

// words is the bare text below n, not escaped.
func (d *drawing) words(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			if _, in := n.(*ast.CodeSpan); in {
				b.Write(c.Segment.Value(d.src))
			} else {
				b.WriteString(unescaper().Replace(d.literal(c.Segment.Value(d.src), c.IsRaw())))
			}
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte('\n')
			}
		case *ast.String:
			b.Write(c.Value)
		case *ast.AutoLink:
			b.Write(c.Label(d.src))
		case *ast.RawHTML:
			b.Write(c.Segments.Value(d.src))
		default:
			b.WriteString(d.words(c))
		}
	}
	return b.String()
}

func unescaper() *strings.Replacer {
	return strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">")
}

// link is a link where Slack makes one of it, else its words and where it goes.
func link(to, words string) string {
	label := strings.TrimSpace(strings.ReplaceAll(words, "\n", " "))
	u, err := url.Parse(to)
	scheme := ""
	if err == nil {
		scheme = strings.ToLower(u.Scheme)
	}
	switch {
	case err == nil && (scheme == "http" || scheme == "https") && u.Host != "", scheme == "mailto", scheme == "tel":
	case to == "" || to == label:
		return calm(Escape(label))
	default:
		return calm(Escape(strings.TrimSpace(label + " (" + to + ")")))
	}
	if !strings.HasPrefix(to, scheme) {
		to = scheme + to[len(scheme):]
	}
	safe := Escape(strings.NewReplacer(" ", "%20", "|", "%7C", "<", "%3C", ">", "%3E", "`", "%60", "\"", "%22").Replace(to))
	safe = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return -1
		}
		return r
	}, safe)
	if label == "" || label == to {
		return "<" + safe + ">"
	}
	return "<" + safe + "|" + calm(Escape(label)) + ">"
}
