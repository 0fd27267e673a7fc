package telegram

import (
	"html"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/gfm"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A look is how a piece of text looks. Looks are compared.
type look struct {
	bold, italic, strike, code, quote bool
	href                              string
	// block is the number of a code block, from 1; 0: none.
	block int
}

// A run is text of one look. at is where it begins in the source, -1 for what
// the source does not hold: a bullet, the space between two paragraphs.
type run struct {
	text string
	look
	at int
}

// A block is a code block. Only a fenced one is fenced again when it is split.
type block struct {
	language string
	fenced   bool
	// begin is where its first line, with the fence, begins in the source.
	begin int
}

// A document is Markdown as runs, in order.
type document struct {
	src    string
	runs   []run
	blocks []block
}

// newParser reads CommonMark with tables, strikethrough and task lists. There
// are no link reference definitions: they would vanish from what people see.
func newParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(append(parser.DefaultInlineParsers(),
			util.Prioritized(gfm.Strikethrough(), 500),
			util.Prioritized(gfm.Tasks(), 0))...),
		parser.WithParagraphTransformers(util.Prioritized(gfm.Tables(), 200)),
		parser.WithASTTransformers(util.Prioritized(gfm.Bars(), 0)),
	)
}

// maxNesting is how deep quotes and lists are followed; what is deeper is shown
// as it was written.
const maxNesting = 60

// parseMarkdown reads what a model wrote.
func parseMarkdown(src string) document {
	root := newParser().Parse(text.NewReader([]byte(src)))
	w := writer{src: []byte(src)}
	w.children(root, 0)
	return document{src, w.runs, w.blocks}
}

// A writer makes runs of a tree.
type writer struct {
	src    []byte
	runs   []run
	blocks []block

	look   look
	indent string
	marker string // of a list item, before its first text
	owed   int    // line breaks before the next text
	inLine bool
}

// gap asks for line breaks before the next text, if there was any.
func (w *writer) gap(n int) {
	if len(w.runs) > 0 {
		w.owed = max(w.owed, n)
	}
}

// put appends text.
func (w *writer) put(s string, at int) {
	if s == "" {
		return
	}
	between := look{quote: w.look.quote}
	if w.owed > 0 {
		if n := len(w.runs); n > 0 {
			between.quote = between.quote && w.runs[n-1].quote
		}
		w.runs = append(w.runs, run{strings.Repeat("\n", w.owed), between, -1})
		w.owed, w.inLine = 0, false
		between.quote = w.look.quote
	}
	if !w.inLine {
		lead := w.indent
		if w.marker != "" {
			lead, w.marker = w.marker, ""
		}
		if lead != "" && w.look.block == 0 {
			w.runs = append(w.runs, run{lead, between, -1})
		}
	}
	w.inLine = !strings.HasSuffix(s, "\n")
	w.runs = append(w.runs, run{s, w.look, at})
}

// with does f with another look.
func (w *writer) with(change func(*look), f func()) {
	old := w.look
	change(&w.look)
	f()
	w.look = old
}

func (w *writer) children(n ast.Node, depth int) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		// The parser puts a table before the underlined heading whose last lines
		// it was made of.
		if t, ok := c.(*east.Table); ok && c.NextSibling() != nil && position(c.NextSibling()) < position(t) {
			c = c.NextSibling()
			w.node(c, depth)
			w.node(t, depth)
			continue
		}
		w.node(c, depth)
	}
}

// position is where the first text of a node begins, far away if it has none.
func position(n ast.Node) int {
	if t, ok := n.(*ast.Text); ok {
		return t.Segment.Start
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if p := position(c); p < math.MaxInt {
			return p
		}
	}
	return math.MaxInt
}

func (w *writer) node(n ast.Node, depth int) {
	if depth > maxNesting {
		w.gap(1)
		//lint:ignore SA1019 all that is left of a tree this deep is its text, whatever its nodes are
		w.put(html.UnescapeString(string(n.Text(w.src))), -1)
		return
	}
	switch n := n.(type) {
	case *ast.Heading:
		w.gap(2)
		w.with(func(l *look) { l.bold = true }, func() { w.children(n, depth) })
	case *ast.Paragraph:
		w.gap(2)
		w.children(n, depth)
	case *ast.TextBlock:
		w.gap(1)
		w.children(n, depth)
	case *ast.Blockquote:
		w.gap(2)
		w.with(func(l *look) { l.quote = true }, func() { w.children(n, depth+1) })
	case *ast.List:
		w.list(n, depth)
	case *ast.ThematicBreak:
		w.gap(2)
		w.put("———", -1)
	case *ast.FencedCodeBlock:
		w.fenced(n)
	case *ast.CodeBlock:
		w.code(n.Lines(), "", false)
	case *ast.HTMLBlock:
		w.gap(2)
		w.literal(n.Lines())
		if n.HasClosure() {
			w.put(string(n.ClosureLine.Value(w.src)), n.ClosureLine.Start)
		}
		w.endLine()
	case *east.Table:
		w.table(n)
	default:
		w.inline(n, depth)
	}
}

// endLine takes the break off the end of the last run: what follows asks for its
// own.
func (w *writer) endLine() {
	if n := len(w.runs); n > 0 {
		w.runs[n-1].text = strings.TrimRight(w.runs[n-1].text, "\n")
		w.inLine = true
	}
}

func (w *writer) literal(lines *text.Segments) {
	for i := range lines.Len() {
		s := lines.At(i)
		w.put(string(s.Value(w.src)), s.Start)
	}
}

func (w *writer) list(n *ast.List, depth int) {
	gap := 2
	if n.IsTight {
		gap = 1
	}
	if _, nested := n.Parent().(*ast.ListItem); nested {
		w.gap(1)
	} else {
		w.gap(2)
	}
	number, old := n.Start, w.indent
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "• "
		if n.IsOrdered() {
			marker = strconv.Itoa(number) + ". "
			number++
		}
		if item != n.FirstChild() {
			w.gap(gap)
		}
		w.marker = old + marker
		if len(old) < 24 {
			w.indent = old + strings.Repeat(" ", len([]rune(marker)))
		}
		first := item.FirstChild()
		if first == nil {
			w.put(" ", -1)
		}
		for c := first; c != nil; c = c.NextSibling() {
			w.node(c, depth+1)
		}
		w.indent, w.marker = old, ""
	}
}

// fenced writes a fenced block. What stands beside its fence and is no language
// is text: a model may have meant anything by it.
func (w *writer) fenced(n *ast.FencedCodeBlock) {
	language := safeLanguage(string(n.Language(w.src)))
	if n.Info != nil {
		if info := strings.TrimSpace(string(n.Info.Segment.Value(w.src))); info != language {
			w.gap(2)
			w.put(info, n.Info.Segment.Start)
		}
	}
	w.code(n.Lines(), language, true)
}

func (w *writer) code(lines *text.Segments, language string, fenced bool) {
	w.gap(2)
	if w.marker != "" { // a list item that begins with code
		w.put(" ", -1)
		w.gap(1)
	}
	b := block{language: language, fenced: fenced}
	if lines.Len() > 0 {
		b.begin = lineStart(w.src, lines.At(0).Start)
		if fenced && b.begin > 0 {
			b.begin = lineStart(w.src, b.begin-1)
		}
	}
	w.blocks = append(w.blocks, b)
	w.with(func(l *look) { *l = look{block: len(w.blocks)} }, func() {
		w.literal(lines)
		w.endLine()
	})
}

func lineStart(src []byte, at int) int {
	for at > 0 && src[at-1] != '\n' {
		at--
	}
	return at
}

// safeLanguage keeps what may be an attribute.
func safeLanguage(s string) string {
	if len(s) > 32 || strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("+#._-", r)
	}) {
		return ""
	}
	return s
}

func (w *writer) inline(n ast.Node, depth int) {
	switch n := n.(type) {
	case *ast.Text:
		s := string(n.Segment.Value(w.src))
		if n.IsRaw() {
			w.put(s, n.Segment.Start)
		} else {
			resolve(s, func(piece string, at int) { w.put(piece, n.Segment.Start+at) })
		}
		if n.SoftLineBreak() || n.HardLineBreak() {
			w.owed = max(w.owed, 1)
		}
	case *ast.String:
		w.put(string(n.Value), -1)
	case *ast.CodeSpan:
		w.with(func(l *look) { *l = look{code: true, quote: l.quote} }, func() {
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					w.put(strings.ReplaceAll(string(t.Segment.Value(w.src)), "\n", " "), t.Segment.Start)
				}
			}
		})
	case *ast.Emphasis:
		w.with(func(l *look) {
			if n.Level == 1 {
				l.italic = true
			} else {
				l.bold = true
			}
		}, func() { w.children(n, depth+1) })
	case *east.Strikethrough:
		w.with(func(l *look) { l.strike = true }, func() { w.children(n, depth+1) })
	case *ast.Link:
		w.link(n, string(n.Destination), depth)
	case *ast.Image:
		w.link(n, string(n.Destination), depth)
	case *ast.AutoLink:
		w.put(string(n.Label(w.src)), -1)
	case *ast.RawHTML:
		w.literal(n.Segments)
	case *east.TaskCheckBox:
		sign := "☐ "
		if n.IsChecked {
			sign = "☑ "
		}
		w.put(sign, -1)
	default:
		w.children(n, depth+1)
	}
}

func (w *writer) link(n ast.Node, to string, depth int) {
	to = unescape(to)
	w.with(func(l *look) {
		if l.href == "" {
			l.href = safeLink(to)
		}
	}, func() {
		before := len(w.runs)
		w.children(n, depth+1)
		if len(w.runs) == before {
			w.put(to, -1)
		}
	})
}

// safeLink is the address if it may be linked to; tg: links, which may mention
// somebody, and all others that are not of the web are no links.
func safeLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError || r == '<' || r == '>' || r == '\\'
	}) {
		return ""
	}
	return s
}

// unescape resolves backslashes and character references.
func unescape(s string) string {
	var b strings.Builder
	resolve(s, func(piece string, _ int) { b.WriteString(piece) })
	return b.String()
}

// resolve cuts s into pieces that stand for themselves, and what backslashes and
// character references mean, each with its place in s.
func resolve(s string, f func(piece string, at int)) {
	from := 0
	for i := 0; i < len(s); {
		end, means := i+1, ""
		switch {
		case s[i] == '\\' && i+1 < len(s) && util.IsPunct(s[i+1]):
			end, means = i+2, s[i+1:i+2]
		case s[i] == '&':
			if n := strings.IndexByte(s[i:min(len(s), i+40)], ';'); n > 0 {
				if means = html.UnescapeString(s[i : i+n+1]); means == s[i:i+n+1] {
					means = ""
				} else {
					end = i + n + 1
				}
			}
		}
		if means != "" {
			if i > from {
				f(s[from:i], from)
			}
			f(clean(means), i)
			from = end
		}
		i = end
	}
	if from < len(s) {
		f(s[from:], from)
	}
}

// table draws a table as aligned text.
func (w *writer) table(n *east.Table) {
	type line struct {
		cells []string
		at    int
	}
	var rows []line
	var widths []int
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		row := line{at: -1}
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			cell := writer{src: w.src}
			cell.children(c, 0)
			var b strings.Builder
			for _, x := range cell.runs {
				b.WriteString(x.text)
				if row.at < 0 {
					row.at = x.at
				}
			}
			s := strings.Join(strings.Fields(b.String()), " ")
			if i := len(row.cells); i == len(widths) {
				widths = append(widths, 0)
			}
			widths[len(row.cells)] = max(widths[len(row.cells)], width(s))
			row.cells = append(row.cells, s)
		}
		rows = append(rows, row)
	}
	w.gap(2)
	w.blocks = append(w.blocks, block{})
	w.with(func(l *look) { *l = look{block: len(w.blocks)} }, func() {
		for k, row := range rows {
			var b strings.Builder
			for i, s := range row.cells {
				if i > 0 {
					b.WriteString(" │ ")
				}
				b.WriteString(s)
				if i < len(row.cells)-1 {
					b.WriteString(strings.Repeat(" ", min(60, widths[i])-min(60, width(s))))
				}
			}
			if k > 0 {
				w.put("\n", -1)
			}
			w.put(b.String(), row.at)
			if k == 0 && len(rows) > 1 {
				var rule []string
				for _, n := range widths {
					rule = append(rule, strings.Repeat("─", min(60, max(1, n))))
				}
				w.put("\n"+strings.Join(rule, "─┼─"), -1)
			}
		}
	})
}

// width is about how many columns s takes.
func width(s string) (n int) {
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r >= 0x1f300 && r < 0x1fb00:
			n += 2
		default:
			n++
		}
	}
	return n
}
