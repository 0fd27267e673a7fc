package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/sandbox/host"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/tool/tooltest"
)

// A judge denies .env and what is below state, and holds writes to "held".
type judge struct{ ws string }

func (j judge) Path(access policy.Access, path, _ string) policy.Verdict {
	switch {
	case filepath.Base(path) == ".env":
		return policy.Verdict{Decision: policy.Deny, Rule: "secret-file", Reason: "path is a secret file (.env)"}
	case strings.HasPrefix(path, filepath.Join(j.ws, "state")+"/"):
		return policy.Verdict{Decision: policy.Deny, Rule: "state", Reason: "path is Iris's own state"}
	case access == policy.Write && filepath.Base(path) == "held":
		return policy.Verdict{Decision: policy.Confirm, Rule: "held", Reason: "path is a system file"}
	}
	return policy.Verdict{Decision: policy.Allow}
}

type record struct {
	mu      sync.Mutex
	entries []audit.Entry
}

func (r *record) Append(e audit.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
}

// A bench is the tools in a workspace.
type bench struct {
	t     *testing.T
	ws    string
	tools map[string]tool.Tool
	audit *record
}

func open(t *testing.T, change func(*Options)) bench {
	t.Helper()
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	box, err := host.New(host.Options{Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	b := bench{t: t, ws: ws, tools: map[string]tool.Tool{}, audit: &record{}}
	opts := Options{Sandbox: box, Judge: judge{ws}, Audit: b.audit, Workspace: ws}
	if change != nil {
		change(&opts)
	}
	tools, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tools {
		b.tools[one.Spec().Name] = one
	}
	return b
}

func (b bench) path(name string) string { return filepath.Join(b.ws, name) }

func (b bench) put(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) get(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b bench) link(to, name string) {
	b.t.Helper()
	if err := os.Symlink(to, b.path(name)); err != nil {
		b.t.Fatal(err)
	}
}

type args map[string]any

func (a args) call(t *testing.T) tool.Call {
	t.Helper()
	if _, ok := a["label"]; !ok {
		a["label"] = "test"
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return tooltest.Call(string(text))
}

func (b bench) do(name string, a args) tool.Result {
	b.t.Helper()
	return b.tools[name].Call(b.t.Context(), a.call(b.t))
}

// wants checks for an error or a success that contains text.
func wants(t *testing.T, got tool.Result, isError bool, text string) {
	t.Helper()
	if got.IsError != isError || !strings.Contains(got.Text, text) {
		t.Errorf("error %v, %.300q; want error %v, %q", got.IsError, got.Text, isError, text)
	}
}

func TestSuite(t *testing.T) {
	for name, s := range map[string]tooltest.Subject{
		"read":   {Good: `{"label":"x","path":"small.txt"}`, Big: `{"label":"x","path":"big.txt"}`},
		"write":  {Good: `{"label":"x","path":"new.txt","content":"hello"}`},
		"attach": {Good: `{"label":"x","path":"small.txt"}`},
	} {
		t.Run(name, func(t *testing.T) {
			tooltest.Run(t, func(t *testing.T) tooltest.Subject {
				b := open(t, nil)
				b.put("small.txt", "hello\n")
				b.put("big.txt", strings.Repeat("\xff many words\n", 1<<18))
				s.Tool = b.tools[name]
				return s
			})
		})
	}
}

func TestReadText(t *testing.T) {
	b := open(t, nil)
	var many, wide strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&many, "%d\n", i+1)
	}
	for range 100 {
		wide.WriteString(strings.Repeat("x", 1023) + "\n")
	}
	b.put("three", "a\nb\nc")
	b.put("newline", "a\nb\n")
	b.put("many", many.String())
	b.put("exact", strings.Repeat("x\n", 1999)+"x")
	b.put("wide", wide.String())
	b.put("it's long", "short\n"+strings.Repeat("y", 60<<10)+"\nend")
	b.put("empty", "")
	b.put("blank", "\n")
	b.put("broken", "a\xffb")
	for name, c := range map[string]struct {
		args args
		want string
	}{
		"whole":             {args{"path": "three"}, "a\nb\nc"},
		"absolute":          {args{"path": b.path("three")}, "a\nb\nc"},
		"offset":            {args{"path": "three", "offset": 2}, "b\nc"},
		"offset below 1":    {args{"path": "three", "offset": -5}, "a\nb\nc"},
		"limit":             {args{"path": "three", "limit": 1}, "a\n\n[2 more lines in file. Use offset=2 to continue]"},
		"offset and limit":  {args{"path": "three", "offset": 2, "limit": 1}, "b\n\n[1 more lines in file. Use offset=3 to continue]"},
		"limit is exact":    {args{"path": "three", "offset": 2, "limit": 2}, "b\nc"},
		"limit is larger":   {args{"path": "three", "limit": 99}, "a\nb\nc"},
		"final newline":     {args{"path": "newline", "limit": 2}, "a\nb\n\n[1 more lines in file. Use offset=3 to continue]"},
		"2000 lines":        {args{"path": "exact"}, strings.Repeat("x\n", 1999) + "x"},
		"2500 lines":        {args{"path": "many"}, many.String()[:strings.Index(many.String(), "\n2001\n")] + "\n\n[Showing lines 1-2000 of 2501. Use offset=2001 to continue]"},
		"the next page":     {args{"path": "many", "offset": 2499}, "2499\n2500\n"},
		"a page from 10":    {args{"path": "many", "offset": 10, "limit": 2}, "10\n11\n\n[2490 more lines in file. Use offset=12 to continue]"},
		"bytes":             {args{"path": "wide"}, strings.TrimSuffix(wide.String()[:50<<10], "\n") + "\n\n[Showing lines 1-50 of 101 (50.0KB limit). Use offset=51 to continue]"},
		"bytes from 11":     {args{"path": "wide", "offset": 11, "limit": 80}, strings.TrimSuffix(wide.String()[:50<<10], "\n") + "\n\n[Showing lines 11-60 of 101 (50.0KB limit). Use offset=61 to continue]"},
		"line too long":     {args{"path": "it's long", "offset": 2}, `[Line 2 is 60.0KB, exceeds 50.0KB limit. Use bash: sed -n '2p' 'it'\''s long' | head -c 51200]`},
		"before a long one": {args{"path": "it's long"}, "short\n\n[Showing lines 1-1 of 3 (50.0KB limit). Use offset=2 to continue]"},
		"empty":             {args{"path": "empty"}, "(empty file)"},
		"blank last line":   {args{"path": "blank", "offset": 2}, "(an empty line)"},
		"invalid UTF-8":     {args{"path": "broken"}, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tool.Result{Text: c.want}, b.do("read", c.args)); diff != "" {
				t.Errorf("-want +got:\n%.2000s", diff)
			}
		})
	}
	wants(t, b.do("read", args{"path": "three", "offset": 4}), true, "Offset 4 is beyond end of file (3 lines total)")
	wants(t, b.do("read", args{"path": "none"}), true, "no such file or directory")
	wants(t, b.do("read", args{"path": "."}), true, "is a directory")
	wants(t, b.do("read", args{"path": "three", "limit": 0}), true, `"limit"`)
}

// TestReadSplitCharacters reads a file whose characters lie across the places
// where it is read in pieces.
func TestReadSplitCharacters(t *testing.T) {
	b := open(t, nil)
	text := "x" + strings.Repeat("é\n", 2*piece/3+1000) // across sniffed and piece
	b.put("f", text)
	for _, line := range []int{1367, 1398, 1366 + piece/3, 1368 + piece/3, 1367 + piece/3} {
		if got := b.do("read", args{"path": "f", "offset": line, "limit": 1}); !strings.HasPrefix(got.Text, "é\n") || strings.Contains(got.Text, "\uFFFD") {
			t.Errorf("line %d: %.20q", line, got.Text)
		}
	}
}

func TestReadJSON(t *testing.T) {
	b := open(t, nil)
	b.put("a.json", "["+strings.Repeat("{\"a\":1},\n", 9999)+"{}]\n")
	got := b.do("read", args{"path": "a.json"})
	wants(t, got, false, `"_arrayLength": 10000`)
	wants(t, got, false, "[JSON of 87.9KB in 10001 lines, summarized. Use offset and limit to read its text]")
	wants(t, b.do("read", args{"path": "a.json", "offset": 9999}), false, "{\"a\":1},\n{}]")
	b.put("bad.json", "["+strings.Repeat("{\"a\":1},\n", 9999))
	wants(t, b.do("read", args{"path": "bad.json"}), false, "[Showing lines 1-2000 of 10000. Use offset=2001 to continue]")
}

func TestReadImage(t *testing.T) {
	b := open(t, nil)
	encode := func(w, h int) string {
		var buf bytes.Buffer
		if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
			t.Fatal(err)
		}
		return buf.String()
	}
	small := encode(3, 3)
	b.put("picture.txt", small) // the name says nothing
	b.put("large.png", encode(3000, 30))
	b.put("broken.png", small[:20])
	b.put("broken large.png", small[:20]+strings.Repeat("x", 5<<20))
	b.put("text.png", "not an image")
	b.put("doc.pdf", "%PDF-1.7\n")

	want := tool.Result{Text: "Read image file [image/png]", Images: []tool.Image{{Mime: "image/png", Data: []byte(small)}}}
	if diff := cmp.Diff(want, b.do("read", args{"path": "picture.txt"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got := b.do("read", args{"path": "large.png"})
	wants(t, got, false, "Read image file [image/png]\nThe image was scaled from 3000 × 30 to 2000 × 20 pixels.")
	if len(got.Images) != 1 {
		t.Errorf("%d images", len(got.Images))
	}
	if got := b.do("read", args{"path": "broken.png"}); got.IsError || len(got.Images) != 1 || string(got.Images[0].Data) != small[:20] {
		t.Errorf("what cannot be decoded is sent as it is: %+v", got)
	}
	wants(t, b.do("read", args{"path": "broken large.png"}), true, "cannot be decoded and is too large")
	wants(t, b.do("read", args{"path": "text.png"}), false, "not an image")
	wants(t, b.do("read", args{"path": "doc.pdf"}), false, "%PDF-1.7")

	call := args{"path": "picture.txt"}.call(t)
	call.Images = false
	blind := b.tools["read"].Call(t.Context(), call)
	if diff := cmp.Diff(tool.Result{Text: "The file is an image (image/png), and the active model cannot take images."}, blind); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWrite(t *testing.T) {
	b := open(t, nil)
	wants(t, b.do("write", args{"path": "deep/er/f.txt", "content": "é\n"}), false, "Successfully wrote 3 bytes to deep/er/f.txt")
	if got := b.get("deep/er/f.txt"); got != "é\n" {
		t.Errorf("content %q", got)
	}
	wants(t, b.do("write", args{"path": "deep/er/f.txt", "content": ""}), false, "Successfully wrote 0 bytes")
	wants(t, b.do("write", args{"path": "deep", "content": "x"}), true, "is a directory")
	big := strings.Repeat("0123456789", 1<<17) // far beyond what an argument can hold
	wants(t, b.do("write", args{"path": "big", "content": big}), false, "Successfully wrote 1310720 bytes")
	if b.get("big") != big {
		t.Error("the big file is another one")
	}
}

// TestRedactionMarks shows that a mark which stands for a secret is never
// written over it, and that the rest of the file stays editable.
func TestRedactionMarks(t *testing.T) {
	b := open(t, nil)
	b.put("conf", "key=s3cret\nport=1\n")
	wants(t, b.do("edit", args{"path": "conf", "oldText": "port=1", "newText": "key=[REDACTED-SECRET]"}), true, "[REDACTED-SECRET]")
	wants(t, b.do("write", args{"path": "conf", "content": "key=[REDACTED-SECRET]\nport=2\n"}), true, "[REDACTED-SECRET]")
	wants(t, b.do("edit", args{"path": "conf", "oldText": "port=1", "newText": "port=2"}), false, "Successfully")
	if got := b.get("conf"); got != "key=s3cret\nport=2\n" {
		t.Errorf("content %q", got)
	}
	b.put("doc", "it prints [REDACTED-SECRET]")
	wants(t, b.do("write", args{"path": "doc", "content": "It prints [REDACTED-SECRET]."}), false, "Successfully")
}

// TestMemoryGuard shows that memory files change only with consent of the
// guard, which sees the old and the new text.
func TestMemoryGuard(t *testing.T) {
	var seen []string
	b := open(t, func(o *Options) {
		o.Memory = func(path, old, new string) error {
			seen = append(seen, filepath.Base(path)+" "+old+" > "+new)
			if len(new) < len(old) {
				return errors.New("that would lose most of the memory")
			}
			return nil
		}
	})
	b.put("MEMORY.md", "a long memory")
	b.link("MEMORY.md", "alias")
	wants(t, b.do("write", args{"path": "MEMORY.md", "content": "short"}), true, "that would lose most of the memory")
	wants(t, b.do("edit", args{"path": "alias", "oldText": "a long ", "newText": ""}), true, "that would lose most of the memory")
	if got := b.get("MEMORY.md"); got != "a long memory" {
		t.Errorf("content %q", got)
	}
	wants(t, b.do("edit", args{"path": "MEMORY.md", "oldText": "long", "newText": "longer"}), false, "Successfully")
	wants(t, b.do("write", args{"path": "C1/SYSTEM.md", "content": "new"}), false, "Successfully")
	wants(t, b.do("write", args{"path": "other.md", "content": ""}), false, "Successfully")
	want := []string{"MEMORY.md a long memory > short", "MEMORY.md a long memory > memory", "MEMORY.md a long memory > a longer memory", "SYSTEM.md  > new"}
	if !slices.Equal(seen, want) {
		t.Errorf("guard saw %q, want %q", seen, want)
	}
}

// TestPolicyCoversFiles shows that no file tool reaches what the policy
// refuses, by name or through a link, and that refusals are recorded.
func TestPolicyCoversFiles(t *testing.T) {
	b := open(t, nil)
	b.put(".env", "TOKEN=canary")
	b.put("state/journal", "canary")
	b.put("held", "x")
	b.link(".env", "innocent")
	b.link("state", "dir")
	for _, path := range []string{".env", b.path(".env"), "x/../.env", "innocent", "state/journal", "dir/journal"} {
		for name, a := range map[string]args{
			"read": {"path": path}, "write": {"path": path, "content": "x"}, "attach": {"path": path},
			"edit": {"path": path, "oldText": "canary", "newText": "x"},
		} {
			before := len(b.audit.entries)
			got := b.do(name, a)
			wants(t, got, true, "Path refused by policy: path is ")
			if strings.Contains(got.Text+got.Display, "canary") {
				t.Errorf("%s %s leaks the content", name, path)
			}
			if n := len(b.audit.entries); n != before+1 || b.audit.entries[n-1].Decision != audit.Denied || b.audit.entries[n-1].Channel != "SESSION-tooltest" {
				t.Errorf("%s %s: audit %+v", name, path, b.audit.entries[before:])
			}
		}
	}
	if b.get(".env") != "TOKEN=canary" || b.get("state/journal") != "canary" {
		t.Error("a refused file was changed")
	}
	wants(t, b.do("write", args{"path": "held", "content": "y"}), true, "Path held by policy: path is a system file.")
	if b.audit.entries[len(b.audit.entries)-1].Decision != audit.ConfirmationRequired {
		t.Error("the held write is not in the record")
	}
	off := open(t, func(o *Options) { o.PolicyOff = true })
	off.put(".env", "open")
	wants(t, off.do("read", args{"path": ".env"}), false, "open")
}

func TestNewRefuses(t *testing.T) {
	box, err := host.New(host.Options{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	whole := Options{Sandbox: box, Judge: judge{}, Audit: &record{}, Workspace: "/w"}
	for name, drop := range map[string]func(*Options){
		"sandbox":   func(o *Options) { o.Sandbox = nil },
		"judge":     func(o *Options) { o.Judge = nil },
		"audit":     func(o *Options) { o.Audit = nil },
		"workspace": func(o *Options) { o.Workspace = "w" },
	} {
		opts := whole
		drop(&opts)
		if _, err := New(opts); err == nil {
			t.Errorf("without %s: no error", name)
		}
	}
}
