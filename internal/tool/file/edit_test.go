package file

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/tool"
)

func TestEdit(t *testing.T) {
	b := open(t, nil)
	const text = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"
	b.put("f", text)
	got := b.do("edit", args{"path": "f", "oldText": "six\nsev", "newText": "SIX\nsev"})
	want := tool.Result{
		Text:    "Successfully replaced text in f. Changed 7 characters to 7 characters.",
		Display: "    ...\n  2 two\n  3 three\n  4 four\n  5 five\n- 6 six\n+ 6 SIX\n  7 seven\n  8 eight\n  9 nine\n 10 ten\n    ...",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, want := b.get("f"), strings.Replace(text, "six", "SIX", 1); got != want {
		t.Errorf("content %q", got)
	}
	wants(t, b.do("edit", args{"path": "f", "oldText": "ten\n", "newText": "zehn é"}), false, "Changed 4 characters to 6 characters.")

	b.put("g", "aaa\r\nb\r\n")
	for name, c := range map[string]struct{ old, new, want string }{
		"not found":    {"zzz", "y", "Could not find the exact text in g"},
		"line ends":    {"aaa\nb", "y", `The file ends its lines with \r\n.`},
		"several":      {"a", "y", "Found 3 occurrences of the text in g: it must be unique"},
		"overlapping":  {"aa", "y", "Found 2 occurrences of the text in g: it must be unique"},
		"no change":    {"b", "b", "No changes made to g"},
		"empty":        {"", "y", `"oldText" is empty`},
		"no such file": {"a", "b", "no such file or directory"},
	} {
		path := "g"
		if name == "no such file" {
			path = "none"
		}
		got := b.do("edit", args{"path": path, "oldText": c.old, "newText": c.new})
		if !got.IsError || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	if got := b.get("g"); got != "aaa\r\nb\r\n" {
		t.Errorf("a refused edit changed the file: %q", got)
	}
	for _, missing := range []string{"oldText", "newText", "path", "label"} {
		a := args{"label": "x", "path": "f", "oldText": "one", "newText": "two", missing: 7}
		wants(t, b.do("edit", a), true, missing)
	}
}

func TestEditKeepsBytes(t *testing.T) {
	b := open(t, nil)
	b.put("f", "\xff\x00\xfe word \x80")
	wants(t, b.do("edit", args{"path": "f", "oldText": "word", "newText": "WORD"}), false, "Successfully")
	if got := b.get("f"); got != "\xff\x00\xfe WORD \x80" {
		t.Errorf("content %q", got)
	}
}

// TestConcurrentEdits shows that no edit of a file is lost.
func TestConcurrentEdits(t *testing.T) {
	b := open(t, nil)
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "<%d>\n", i)
	}
	b.put("f", text.String())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			wants(t, b.do("edit", args{"path": "f", "oldText": fmt.Sprintf("<%d>", i), "newText": fmt.Sprintf("(%d)", i)}), false, "Successfully")
		})
	}
	wg.Wait()
	if want := strings.NewReplacer("<", "(", ">", ")").Replace(text.String()); b.get("f") != want {
		t.Errorf("content %q", b.get("f"))
	}
}

func TestLocks(t *testing.T) {
	l := locks{held: map[string]*lock{}}
	release := l.take(t.Context(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l.take(ctx, "f") != nil {
		t.Error("taken twice")
	}
	l.take(t.Context(), "g")()
	release()
	if len(l.held) > 0 {
		t.Errorf("left: %v", l.held)
	}
}

func TestDiff(t *testing.T) {
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%d\n", i)
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	far := strings.Replace(strings.Replace(lines(1, 30), "5\n", "five\n", 1), "\n25\n", "\n25\nnew\n", 1)
	for name, c := range map[string]struct{ before, after, want string }{
		"added":     {"a", "a\nb", " 1 a\n+2 b"},
		"removed":   {"a\nb", "b", "-1 a\n 1 b"},
		"to empty":  {"a", "", "-1 a\n+1 "},
		"both ends": {lines(1, 30), far, "  1 1\n  2 2\n  3 3\n  4 4\n- 5 5\n+ 5 five\n  6 6\n  7 7\n  8 8\n  9 9\n    ...\n 22 22\n 23 23\n 24 24\n 25 25\n+26 new\n 27 26\n 28 27\n 29 28\n 30 29\n    ..."},
	} {
		if got := diff(c.before, c.after); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, c.want)
		}
	}
	// Too many lines to compare one by one.
	if got := diff(lines(1, 2000), lines(3001, 5000)); strings.Count(got, "\n-") != 1999 || strings.Count(got, "\n+") != 2000 {
		t.Errorf("%d removed, %d added", strings.Count(got, "\n-"), strings.Count(got, "\n+"))
	}
}

func FuzzReplaced(f *testing.F) {
	f.Add("a\nb\nc", "b", "x\ny")
	f.Fuzz(func(t *testing.T, before, old, new string) {
		if old == "" || len(before) > 1<<12 {
			return
		}
		after, wrong := replaced("p", before, old, new)
		if wrong == "" && after == before || wrong != "" && after != "" {
			t.Errorf("replaced(%q, %q, %q) = %q, %q", before, old, new, after, wrong)
		}
		diff(before, after)
	})
}
