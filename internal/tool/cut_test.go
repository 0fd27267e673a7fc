package tool

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// lines returns n lines, without a newline at the end.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i+1)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestTail(t *testing.T) {
	for name, c := range map[string]struct {
		text            string
		lines, bytes    int
		want            string
		by              Limit
		total, kept     int
		partial         bool
		lineBytes, size int
	}{
		"empty":                    {text: "", lines: 3, bytes: 10, want: "", total: 1, kept: 1},
		"exactly both limits":      {text: "abc\ndef\ng", lines: 3, bytes: 9, want: "abc\ndef\ng", total: 3, kept: 3, size: 9},
		"final newline kept":       {text: "abc\ndef\ng\n", lines: 3, bytes: 9, want: "abc\ndef\ng\n", total: 3, kept: 3, size: 10},
		"one line too many":        {text: "a\nb\nc\nd", lines: 3, bytes: 99, want: "b\nc\nd", by: ByLines, total: 4, kept: 3, size: 5},
		"one byte too many":        {text: "abc\ndef\ngh", lines: 9, bytes: 9, want: "def\ngh", by: ByBytes, total: 3, kept: 2, size: 6},
		"whole lines fill exactly": {text: "xxxx\nabc\ndef", lines: 9, bytes: 7, want: "abc\ndef", by: ByBytes, total: 3, kept: 2, size: 7},
		"lines before bytes":       {text: "a\nb\nccc", lines: 1, bytes: 3, want: "ccc", by: ByLines, total: 3, kept: 1, size: 3},
		"last line too long":       {text: "a\n0123456789\n", lines: 9, bytes: 4, want: "6789", by: ByBytes, total: 2, kept: 1, partial: true, lineBytes: 10, size: 4},
		"last line fits exactly":   {text: "a\n0123", lines: 9, bytes: 4, want: "0123", by: ByBytes, total: 2, kept: 1, size: 4},
		"only line too long":       {text: "0123456789", lines: 9, bytes: 3, want: "789", by: ByBytes, total: 1, kept: 1, partial: true, lineBytes: 10, size: 3},
		"empty lines":              {text: "\n\n\n\n\n", lines: 2, bytes: 9, want: "\n", by: ByLines, total: 5, kept: 2, size: 1},
		"2-byte characters":        {text: "ééééé", lines: 9, bytes: 5, want: "éé", by: ByBytes, total: 1, kept: 1, partial: true, lineBytes: 10, size: 4},
		"3-byte characters":        {text: "報告概要", lines: 9, bytes: 8, want: "概要", by: ByBytes, total: 1, kept: 1, partial: true, lineBytes: 12, size: 6},
		"4-byte characters":        {text: "😀😀😀", lines: 9, bytes: 7, want: "😀", by: ByBytes, total: 1, kept: 1, partial: true, lineBytes: 12, size: 4},
	} {
		t.Run(name, func(t *testing.T) {
			want := Cut{Text: c.want, By: c.by, TotalLines: c.total, TotalBytes: len(c.text), Lines: c.kept, Bytes: c.size, Partial: c.partial, LineBytes: c.lineBytes}
			if got := Tail(c.text, c.lines, c.bytes); got != want {
				t.Errorf("Tail = %+v, want %+v", got, want)
			}
		})
	}
}

func TestHead(t *testing.T) {
	for name, c := range map[string]struct {
		text         string
		lines, bytes int
		want         Cut
	}{
		"empty":                        {"", 3, 10, Cut{TotalLines: 1, Lines: 1}},
		"exactly both limits":          {"abc\ndef\ng", 3, 9, Cut{Text: "abc\ndef\ng", TotalLines: 3, Lines: 3, Bytes: 9}},
		"a final newline is a line":    {"a\nb\nc\n", 3, 9, Cut{Text: "a\nb\nc", By: ByLines, TotalLines: 4, Lines: 3, Bytes: 5}},
		"one line too many":            {"a\nb\nc\nd", 3, 99, Cut{Text: "a\nb\nc", By: ByLines, TotalLines: 4, Lines: 3, Bytes: 5}},
		"one byte too many":            {"abc\ndef\ngh", 9, 9, Cut{Text: "abc\ndef", By: ByBytes, TotalLines: 3, Lines: 2, Bytes: 7}},
		"whole lines fill exactly":     {"abc\ndef\nxxxx", 9, 7, Cut{Text: "abc\ndef", By: ByBytes, TotalLines: 3, Lines: 2, Bytes: 7}},
		"first line too large":         {"0123456789\nb", 9, 4, Cut{By: ByBytes, TotalLines: 2, TooLong: true, LineBytes: 10}},
		"only line too large":          {"0123456789", 9, 4, Cut{By: ByBytes, TotalLines: 1, TooLong: true, LineBytes: 10}},
		"never part of a second line":  {"ab\ncdefgh", 9, 5, Cut{Text: "ab", By: ByBytes, TotalLines: 2, Lines: 1, Bytes: 2}},
		"empty first line is one line": {"\nabcdef", 9, 3, Cut{Text: "", By: ByBytes, TotalLines: 2, Lines: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.TotalBytes = len(c.text)
			if got := Head(c.text, c.lines, c.bytes); got != c.want {
				t.Errorf("Head = %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestCutLimits pins the numbers of the contract.
func TestCutLimits(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		by   Limit
	}{
		"2000 lines": {lines(2000), Uncut}, "2001 lines": {lines(2001), ByLines},
		"51200 bytes": {strings.Repeat("x", 51200), Uncut}, "51201 bytes": {strings.Repeat("x", 51201), ByBytes},
	} {
		if got := Tail(c.text, MaxLines, MaxBytes).By; got != c.by {
			t.Errorf("Tail of %s: cut by %q, want %q", name, got, c.by)
		}
		if got := Head(c.text, MaxLines, MaxBytes).By; got != c.by {
			t.Errorf("Head of %s: cut by %q, want %q", name, got, c.by)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1.0KB", 51200: "50.0KB", 1<<20 - 1: "1024.0KB", 1 << 20: "1.0MB", 5<<20 + 1<<19: "5.5MB", 3 << 30: "3072.0MB",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestValid(t *testing.T) {
	for in, want := range map[string]string{"ok é": "ok é", "a\xff\xfeb": "a\uFFFDb", "\xe5\xa0": "\uFFFD", "": ""} {
		if got := Valid(in); got != want {
			t.Errorf("Valid(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("a\nb\nc", 2, 3)
	f.Add("é\n\n😀報", 5, 2)
	f.Fuzz(func(t *testing.T, text string, maxLines, maxBytes int) {
		maxLines, maxBytes = 1+maxLines&0xf, 4+maxBytes&0x3f
		text = Valid(text)
		tail, head := Tail(text, maxLines, maxBytes), Head(text, maxLines, maxBytes)
		end := text
		if tail.By != Uncut {
			end = strings.TrimSuffix(text, "\n")
		}
		if !strings.HasPrefix(text, head.Text) || !strings.HasSuffix(end, tail.Text) {
			t.Errorf("of %q: head %q, tail %q", text, head.Text, tail.Text)
		}
		for name, c := range map[string]Cut{"head": head, "tail": tail} {
			if !utf8.ValidString(c.Text) || c.Bytes != len(c.Text) || c.Lines > maxLines || c.By != Uncut && len(c.Text) > maxBytes {
				t.Errorf("%s of %q: %+v", name, text, c)
			}
			if whole := c.By == Uncut; whole != (c.Text == text) && c.Text+"\n" != text {
				t.Errorf("%s of %q: %+v", name, text, c)
			}
		}
	})
}
