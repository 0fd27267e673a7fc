package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/chat"
)

var conv = chat.Address{Space: chat.Session, ID: "x"}

func outputs(t testing.TB, opts OutputsOptions) *Outputs {
	t.Helper()
	if opts.Workspace == "" {
		opts.Workspace = t.TempDir()
	}
	o, err := NewOutputs(opts)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// show captures and returns the text.
func show(t *testing.T, o *Outputs, out, errs string) string {
	t.Helper()
	c := o.Capture(conv)
	defer c.Close()
	for _, w := range []struct {
		to   interface{ Write([]byte) (int, error) }
		text string
	}{{c.Stdout(), out}, {c.Stderr(), errs}} {
		for text := w.text; len(text) > 0; {
			n := min(len(text), 32<<10)
			if got, err := w.to.Write([]byte(text[:n])); got != n || err != nil {
				t.Fatalf("Write = %d, %v", got, err)
			}
			text = text[n:]
		}
	}
	got := c.Text()
	if !utf8.ValidString(got) {
		t.Error("not valid UTF-8")
	}
	if len(got) > MaxBytes+1000 || strings.Count(got, "\n") > MaxLines+10 {
		t.Errorf("%d bytes in %d lines are too much", len(got), strings.Count(got, "\n"))
	}
	return got
}

var fullOutput = regexp.MustCompile(`Full output: (\S+)\]$`)

// full returns the file the notice of a text names.
func full(t *testing.T, text string) string {
	t.Helper()
	m := fullOutput.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no file in %q", text[max(0, len(text)-300):])
	}
	data, err := os.ReadFile(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// notice is what follows the last empty line, without the path.
func notice(text string) string {
	i := strings.LastIndex(text, "\n\n[")
	return fullOutput.ReplaceAllString(text[i+2:], "Full output: P]")
}

func TestCaptureWithinLimits(t *testing.T) {
	o := outputs(t, OutputsOptions{})
	for _, c := range []struct{ out, err, want string }{
		{"", "", ""}, {"out\n", "", "out\n"}, {"", "err", "err"}, {"out", "err", "out\nerr"}, {"a\xffb", "", "a\uFFFDb"},
		{lines(2000) + "\n", "", lines(2000) + "\n"},
	} {
		if got := show(t, o, c.out, c.err); got != c.want {
			t.Errorf("(%q, %q) = %q, want %q", c.out, c.err, got, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(o.opts.Workspace, "SESSION-x")); err == nil {
		t.Error("a file was written for nothing")
	}
}

// TestCaptureNotices has the three notices word for word, and a real file for
// each: for many short lines below 50 KiB too.
func TestCaptureNotices(t *testing.T) {
	o := outputs(t, OutputsOptions{})
	for name, c := range map[string]struct{ out, err, text, notice string }{
		"many short lines": {out: lines(2001) + "\n", text: strings.TrimPrefix(lines(2001), "1\n"), notice: "[Showing lines 2-2001 of 2001. Full output: P]"},
		"bytes":            {out: strings.Repeat(strings.Repeat("x", 1023)+"\n", 60), text: strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 1023)+"\n", 50), "\n"), notice: "[Showing lines 11-60 of 60 (50.0KB limit). Full output: P]"},
		"long line":        {out: "a\n" + strings.Repeat("é", 30<<10), text: strings.Repeat("é", 25<<10), notice: "[Showing last 50.0KB of line 2 (line is 60.0KB). Full output: P]"},
		"both streams":     {out: lines(1500), err: lines(1000), text: strings.TrimPrefix(lines(1500), lines(500)+"\n") + "\n" + lines(1000), notice: "[Showing lines 501-2500 of 2500. Full output: P]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := show(t, o, c.out, c.err)
			if n := notice(got); n != c.notice {
				t.Errorf("notice %q, want %q", n, c.notice)
			}
			if text := got[:strings.LastIndex(got, "\n\n[")]; text != c.text {
				t.Errorf("text of %d bytes, want %d", len(text), len(c.text))
			}
			want := c.out
			if c.err != "" {
				want += "\n" + c.err
			}
			if full(t, got) != want {
				t.Error("the file does not hold the whole output")
			}
		})
	}
}

func TestCaptureFileName(t *testing.T) {
	o := outputs(t, OutputsOptions{Path: func(host string) string { return "/box" + host }})
	text := lines(3000)
	sum := sha256.Sum256([]byte(text))
	want := filepath.Join(o.opts.Workspace, "SESSION-x", "tool-output", hex.EncodeToString(sum[:])[:16]+".txt")
	if got := o.Fit(conv, text); !strings.HasSuffix(got, "Full output: /box"+want+"]") {
		t.Errorf("notice %q, want the path /box%s", notice(got), want)
	}
	if data, err := os.ReadFile(want); err != nil || string(data) != text {
		t.Errorf("file: %d bytes, %v", len(data), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(want), ".part-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestCaptureHuge keeps the tail of what does not fit into memory, says what is
// missing, and has all of it on disk.
func TestCaptureHuge(t *testing.T) {
	o := outputs(t, OutputsOptions{})
	line := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
	t.Run("50 MB", func(t *testing.T) {
		out := strings.Repeat(line, 50) + "the end\n"
		got := show(t, o, out, "")
		if want := "[The output was 50.0MB; its beginning is only in the file.]\n[Showing lines 3274802-3276801 of 3276801. Full output: P]"; notice(got) != want {
			t.Errorf("notice %q, want %q", notice(got), want)
		}
		if !strings.Contains(got, "abcde\nthe end\n\n[") || full(t, got) != out {
			t.Error("tail or file is wrong")
		}
	})
	t.Run("both streams", func(t *testing.T) {
		out, errs := strings.Repeat(line, 11), strings.Repeat(line, 12)+"last"
		got := show(t, o, out, errs)
		if want := "[Showing lines 1505331-1507330 of 1507330."; !strings.Contains(notice(got), want) {
			t.Errorf("notice %q, want %q", notice(got), want)
		}
		if full(t, got) != out+"\n"+errs {
			t.Error("the file does not hold both")
		}
	})
	t.Run("only stderr", func(t *testing.T) {
		got := show(t, o, "short\n", strings.Repeat(line, 11))
		if full(t, got) != "short\n\n"+strings.Repeat(line, 11) {
			t.Error("the file does not hold both")
		}
	})
	t.Run("one line of 11 MB", func(t *testing.T) {
		out := "first\n" + strings.Repeat("é", 11<<19) + "\n"
		got := show(t, o, out, "")
		if !strings.HasPrefix(got, strings.Repeat("é", 25<<10)+"\n\n[") || !strings.Contains(notice(got), "[Showing last 50.0KB of line 2 (line is 11.0MB).") {
			t.Errorf("notice %q", notice(got))
		}
	})
	t.Run("one line of 5 MB", func(t *testing.T) {
		got := show(t, o, strings.Repeat("x", 5<<20), "")
		if want := "[Showing last 50.0KB of line 1 (line is 5.0MB). Full output: P]"; notice(got) != want {
			t.Errorf("notice %q, want %q", notice(got), want)
		}
	})
	t.Run("invalid UTF-8", func(t *testing.T) {
		out := strings.Repeat("\xff\xfe\x80ab\n", 2<<20)
		if got := show(t, o, out, ""); !strings.Contains(got, "\uFFFDab") || full(t, got) != out {
			t.Error("text or file is wrong")
		}
	})
}

func TestCaptureFileIsBounded(t *testing.T) {
	o := outputs(t, OutputsOptions{MaxFile: 100 << 10})
	for name, c := range map[string][2]string{
		"stdout": {strings.Repeat("x", 150<<10), "more"},
		"stderr": {strings.Repeat("x", 60<<10), strings.Repeat("y", 90<<10)},
		"spill":  {strings.Repeat("x", 11<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := full(t, show(t, o, c[0], c[1]))
			if len(text) > 101<<10 || !strings.Contains(text, "[This file holds the first 100.0KB; ") {
				t.Errorf("file of %d bytes ends %q", len(text), text[max(0, len(text)-100):])
			}
		})
	}
}

func TestCaptureJSON(t *testing.T) {
	o := outputs(t, OutputsOptions{})
	text := "[" + strings.Repeat("{\"a\":1},\n", 9999) + "{}]\n"
	got := show(t, o, text, "")
	if !strings.Contains(got, `"_arrayLength": 10000`) || !strings.Contains(notice(got), "[JSON of 87.9KB, summarized. Full output: P]") || full(t, got) != text {
		t.Errorf("got %q", got)
	}
	if small := show(t, o, "[1,2,3,4,5]", ""); small != "[1,2,3,4,5]" {
		t.Errorf("JSON within the limits became %q", small)
	}
}

func TestCaptureSweeps(t *testing.T) {
	o := outputs(t, OutputsOptions{Keep: time.Hour})
	dir := filepath.Join(o.opts.Workspace, conv.Dir(), outputDir)
	old := time.Now().Add(-2 * time.Hour)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Time{"old.txt": old, "new.txt": time.Now(), ".part-old": old, "notes.md": old} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	o.Fit(conv, lines(2500))
	for name, want := range map[string]bool{"old.txt": false, "new.txt": true, ".part-old": false, "notes.md": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
}

// TestCaptureStaysInside puts a link to elsewhere where the outputs go.
func TestCaptureStaysInside(t *testing.T) {
	o := outputs(t, OutputsOptions{})
	elsewhere := t.TempDir()
	if err := os.MkdirAll(filepath.Join(o.opts.Workspace, conv.Dir()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(o.opts.Workspace, conv.Dir(), outputDir)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3000, 6 << 20} {
		if got := show(t, o, strings.Repeat("x\n", n), ""); !strings.Contains(got, "The full output could not be kept: ") {
			t.Errorf("notice %q", notice(got))
		}
	}
	if list, _ := os.ReadDir(elsewhere); len(list) > 0 {
		t.Errorf("wrote %v outside of the workspace", list)
	}
}

func TestNewOutputsRefuses(t *testing.T) {
	if _, err := NewOutputs(OutputsOptions{Workspace: "data"}); err == nil {
		t.Error("a relative workspace is no error")
	}
}

// TestCaptureClose leaves nothing when Text was never called.
func TestCaptureClose(t *testing.T) {
	o := outputs(t, OutputsOptions{})
	c := o.Capture(conv)
	_, _ = c.Stdout().Write(bytes.Repeat([]byte("x"), 12<<20))
	c.Close()
	c.Close()
	if list, err := os.ReadDir(filepath.Join(o.opts.Workspace, conv.Dir(), outputDir)); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

func BenchmarkCapture(b *testing.B) {
	var text []byte
	for i := 0; len(text) < 1_300_000; i++ {
		text = fmt.Appendf(text, "line %d of a build that says a lot about what it does\n", i)
	}
	o := outputs(b, OutputsOptions{})
	for b.Loop() {
		c := o.Capture(conv)
		_, _ = c.Stdout().Write(text)
		_ = c.Text()
		c.Close()
	}
}
