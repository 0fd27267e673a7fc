package gfm

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Tables makes tables of paragraphs: a row of heads, a rule with as many columns
// below it, and what follows. Lines before the heads stay a paragraph.
func Tables() parser.ParagraphTransformer { return tables{} }

type tables struct{}

func (tables) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	src, lines := reader.Source(), p.Lines()
	for i := 1; i < lines.Len(); i++ {
		rule := lines.At(i)
		columns := columns(rule.Value(src))
		if columns == nil {
			continue
		}
		heads := cells(src, lines.At(i-1))
		if len(heads) > len(columns) {
			return
		}
		t := east.NewTable()
		t.Alignments = columns
		t.AppendChild(t, east.NewTableHeader(row(heads, columns)))
		for k := i + 1; k < lines.Len(); k++ {
			t.AppendChild(t, row(cells(src, lines.At(k)), columns))
		}
		p.Parent().InsertAfter(p.Parent(), p, t)
		lines.SetSliced(0, i-1)
		if n := lines.Len(); n > 0 {
			last := lines.At(n - 1)
			lines.Set(n-1, last.TrimRightSpace(src))
		} else {
			p.Parent().RemoveChild(p.Parent(), p)
		}
		return
	}
}

// row makes a row as wide as its table: cells beyond that are left out.
func row(cells []text.Segment, columns []east.Alignment) *east.TableRow {
	r := east.NewTableRow(columns)
	for i, align := range columns {
		c := east.NewTableCell()
		if i < len(cells) {
			c.Alignment = align
			c.Lines().Append(cells[i])
		}
		r.AppendChild(r, c)
	}
	return r
}

// cells takes a line apart. A bar behind a backslash is text.
func cells(src []byte, line text.Segment) (all []text.Segment) {
	line = line.TrimLeftSpace(src)
	line = line.TrimRightSpace(src)
	at, end := line.Start, line.Stop
	if at < end && src[at] == '|' {
		at++
	}
	if at < end && src[end-1] == '|' && src[end-2] != '\\' {
		end--
		if at == end {
			all = append(all, text.NewSegment(at, at))
		}
	}
	for at < end {
		from := at
		for at < end && (src[at] != '|' || at > from && src[at-1] == '\\') {
			at++
		}
		c := text.NewSegment(from, at)
		c = c.TrimLeftSpace(src)
		all = append(all, c.TrimRightSpace(src))
		at++
	}
	return all
}

// Bars takes the backslash from bars within the code of a table, where Markdown
// otherwise has no escapes. It goes with Tables.
func Bars() parser.ASTTransformer { return bars{} }

type bars struct{}

func (bars) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	src := reader.Source()
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if c, ok := n.(*ast.CodeSpan); ok && entering && inCell(c) {
			for t := c.FirstChild(); t != nil; t = t.NextSibling() {
				unescape(src, c, t)
			}
		}
		return ast.WalkContinue, nil
	})
}

func inCell(n ast.Node) bool {
	for n = n.Parent(); n != nil; n = n.Parent() {
		if _, ok := n.(*east.TableCell); ok {
			return true
		}
	}
	return false
}

// unescape cuts the first backslash before a bar out of a text: what follows it
// becomes the next text.
func unescape(src []byte, code *ast.CodeSpan, n ast.Node) {
	t, ok := n.(*ast.Text)
	if !ok {
		return
	}
	i := bytes.Index(t.Segment.Value(src), []byte(`\|`))
	if i < 0 {
		return
	}
	cut := t.Segment.Start + i
	code.InsertAfter(code, t, ast.NewRawTextSegment(t.Segment.WithStart(cut+1)))
	t.Segment = t.Segment.WithStop(cut)
}

// columns reads a rule, such as |---|:-:|; nil if it is none.
func columns(line []byte) (all []east.Alignment) {
	if bytes.HasPrefix(line, []byte("    ")) || bytes.HasPrefix(line, []byte("\t")) {
		return nil // as deep as code
	}
	line = bytes.Trim(line, spaces)
	if len(bytes.Trim(line, "-")) == 0 {
		return nil // of a heading, or nothing
	}
	line = bytes.TrimPrefix(line, []byte("|"))
	line = bytes.TrimSuffix(line, []byte("|"))
	for _, c := range bytes.Split(line, []byte("|")) {
		c = bytes.Trim(c, spaces)
		dashes := bytes.TrimSuffix(bytes.TrimPrefix(c, []byte(":")), []byte(":"))
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) != 0 {
			return nil
		}
		all = append(all, alignment(c[0] == ':', c[len(c)-1] == ':'))
	}
	return all
}

func alignment(left, right bool) east.Alignment {
	switch {
	case left && right:
		return east.AlignCenter
	case left:
		return east.AlignLeft
	case right:
		return east.AlignRight
	}
	return east.AlignNone
}
