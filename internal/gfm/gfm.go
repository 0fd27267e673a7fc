// Package gfm reads what GitHub's Markdown has beyond CommonMark: tables,
// strikethrough and boxes of tasks. It is parts for goldmark's parser and makes
// the nodes of goldmark's own extensions; it draws nothing.
//
// goldmark has the same in its package extension, which every program that
// imports it pays for at its start: with expressions for links, footnotes and
// typography, 5 ms of the 30 that Iris has.
package gfm

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Strikethrough reads ~this~ and ~~this~~.
func Strikethrough() parser.InlineParser { return tildes{} }

type tildes struct{}

func (tildes) Trigger() []byte { return []byte("~") }

func (t tildes) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	run := parser.ScanDelimiter(line, before, 1, t)
	if run == nil || before == '~' || run.OriginalLength > 2 {
		return nil
	}
	run.Segment = segment.WithStop(segment.Start + run.OriginalLength)
	pc.PushDelimiter(run)
	block.Advance(run.OriginalLength)
	return run
}

func (tildes) CloseBlock(ast.Node, parser.Context) {}

func (tildes) IsDelimiter(b byte) bool { return b == '~' }

func (tildes) CanOpenCloser(opener, closer *parser.Delimiter) bool { return opener.Char == closer.Char }

func (tildes) OnMatch(int) ast.Node { return east.NewStrikethrough() }

// Tasks reads the box at the beginning of a list's item. It has to come before
// the parser of links.
func Tasks() parser.InlineParser { return boxes{} }

type boxes struct{}

func (boxes) Trigger() []byte { return []byte("[") }

func (boxes) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	item, ok := parent.Parent().(*ast.ListItem)
	if !ok || item.FirstChild() != parent || parent.HasChildren() {
		return nil
	}
	line, _ := block.PeekLine()
	if len(line) < 3 || line[0] != '[' || line[2] != ']' || !bytes.ContainsRune([]byte(" \t\nxX"), rune(line[1])) {
		return nil
	}
	after := bytes.TrimLeft(line[3:], spaces)
	block.Advance(len(line) - len(after))
	return east.NewTaskCheckBox(line[1] == 'x' || line[1] == 'X')
}

const spaces = " \t\n\f\r"
