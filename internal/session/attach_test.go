package session

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
)

func (b *bed) add(name, content string) chat.File {
	b.Helper()
	f, err := b.store.AddFile(b.Context(), b.addr, name, strings.NewReader(content), 0)
	if err != nil {
		b.Fatalf("AddFile(%q): %v", name, err)
	}
	return f
}

func TestAddFile(t *testing.T) {
	b := newBed(t)
	f := b.add("report.pdf", "%PDF")
	if !regexp.MustCompile(`^SESSION-s1/attachments/\d+_report\.pdf$`).MatchString(f.Local) || f.Original != "report.pdf" {
		t.Errorf("AddFile = %+v", f)
	}
	data, err := os.ReadFile(filepath.Join(b.root, f.Local))
	if err != nil || string(data) != "%PDF" {
		t.Errorf("on disk: %q, %v", data, err)
	}
	if twin := b.add("report.pdf", "other"); twin.Local == f.Local {
		t.Errorf("two equal names became one file: %s", twin.Local)
	}
	checked, err := b.store.CheckFiles(b.addr, []string{f.Local})
	if err != nil || len(checked) != 1 || checked[0] != f {
		t.Errorf("CheckFiles = %v, %v, want %v", checked, err, f)
	}
	if got, err := b.store.CheckFiles(b.addr, nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("CheckFiles of nothing = %v, %v, want an empty list", got, err)
	}
}

func TestAddFileRefuses(t *testing.T) {
	b := newBed(t)
	for name, want := range map[string]error{"": ErrBadFile, "  ": ErrBadFile, "a/b": ErrBadFile, "../../x": ErrBadFile, `..\\x`: ErrBadFile, "a..b": ErrBadFile} {
		if _, err := b.store.AddFile(t.Context(), b.addr, name, strings.NewReader("x"), 0); !errors.Is(err, want) {
			t.Errorf("AddFile(%q) = %v, want %v", name, err, want)
		}
	}
	_, err := b.store.AddFile(t.Context(), b.addr, "a", strings.NewReader(""), 0)
	if !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), "empty") {
		t.Errorf("empty file: %v", err)
	}
	if _, err := b.store.AddFile(t.Context(), b.addr, "a", strings.NewReader("12345"), 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := b.store.AddFile(t.Context(), b.addr, "a", strings.NewReader("1234"), 4); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	broken := errors.New("broken")
	if _, err := b.store.AddFile(t.Context(), b.addr, "a", iotest.ErrReader(broken), 0); !errors.Is(err, broken) {
		t.Errorf("reader fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.store.AddFile(ctx, b.addr, "a", strings.NewReader("x"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("ctx ended: %v", err)
	}
	left, _ := os.ReadDir(b.path(attachments))
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := b.store.AddFile(t.Context(), chat.Address{Space: chat.Session, ID: "../x"}, "a", strings.NewReader("x"), 0); !errors.Is(err, chat.ErrBadID) {
		t.Errorf("bad address: %v", err)
	}
}

// Field report F51, for files that a platform hands over.
func TestNamesAreKeptApart(t *testing.T) {
	b := newBed(t)
	names := []string{
		"../../x", `..\\x`, "nul\x00byte", "報告.pdf", "概要.pdf", "a\u202Fb.txt", strings.Repeat("長", 100) + ".pdf",
		"a]\n.png", "CON", "twice.png", "twice.png", ".hidden", "\xff\xfe", strings.Repeat("x", 300) + ".jpeg", "e\u0301.txt",
	}
	seen := map[string]bool{}
	var locals []string
	for _, name := range names {
		f, err := b.store.Receive(t.Context(), b.addr, "msg42", name, strings.NewReader(name), 0)
		if err != nil {
			t.Fatalf("Receive(%q): %v", name, err)
		}
		if seen[f.Local] || !regexp.MustCompile(`^SESSION-s1/attachments/msg42(-\d+)?_[A-Za-z0-9._-]{1,120}$`).MatchString(f.Local) {
			t.Errorf("Receive(%q) = %q", name, f.Local)
		}
		seen[f.Local] = true
		locals = append(locals, f.Local)
		if data, err := os.ReadFile(filepath.Join(b.root, f.Local)); err != nil || string(data) != name {
			t.Errorf("%q holds %q, %v", f.Local, data, err)
		}
	}
	files, err := b.store.CheckFiles(b.addr, locals)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{}, names...)
	want[6] = strings.Repeat("長", 85)
	want[12] = "\uFFFD"
	want[13] = strings.Repeat("x", 255)
	want[14] = "\u00e9.txt"
	for i, f := range files {
		if f.Original != want[i] {
			t.Errorf("original of %q = %q, want %q", names[i], f.Original, want[i])
		}
	}
	outside, _ := os.ReadDir(b.root)
	if len(outside) != 1 {
		t.Errorf("written beside the conversation: %v", outside)
	}
	if _, err := b.store.Receive(t.Context(), b.addr, "../msg", "x", strings.NewReader("x"), 0); !errors.Is(err, chat.ErrBadID) {
		t.Errorf("stem with a path: %v", err)
	}
}

// Operator §7.4 and the path guard of §2.
func TestCheckFilesRefuses(t *testing.T) {
	b := newBed(t)
	b.add("mine.txt", "x")
	secret := filepath.Join(t.TempDir(), "secret")
	for _, f := range []string{secret, filepath.Join(b.root, "SESSION-s2", "file")} {
		os.MkdirAll(filepath.Dir(f), 0o755)
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"out": secret, "sibling": "../SESSION-s2/file", "dir": filepath.Dir(secret), "dangling": "nowhere", "fine": "attachments",
	} {
		if err := os.Symlink(target, b.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	for local, want := range map[string]string{
		"SESSION-s2/file":               "is not inside SESSION-s1",
		"slack/C1/attachments/1_x":      "is not inside SESSION-s1",
		"../SESSION-s1/x":               "is not inside SESSION-s1",
		"/etc/passwd":                   "is not inside SESSION-s1",
		"SESSION-s1":                    "is not inside SESSION-s1",
		"":                              "is not inside SESSION-s1",
		"http://x/y":                    "is not inside SESSION-s1",
		"SESSION-s1/../SESSION-s2/file": "escapes the session directory",
		"SESSION-s1/a/../../x":          "escapes the session directory",
		"SESSION-s1/out":                "escapes the session directory",
		"SESSION-s1/sibling":            "escapes the session directory",
		"SESSION-s1/dir/secret":         "escapes the session directory",
		"SESSION-s1/dangling":           "does not exist",
		"SESSION-s1/attachments/1_gone": "does not exist",
		"SESSION-s1/nul\x00":            "does not exist",
		"SESSION-s1/attachments":        "is not a file",
		"SESSION-s1/":                   "is not a file",
		"SESSION-s1/none/such":          "does not exist",
	} {
		_, err := b.store.CheckFiles(b.addr, []string{local})
		if !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), shown(local)) {
			t.Errorf("CheckFiles(%q) = %v, want %q", local, err, want)
		}
	}
	other := chat.Address{Space: chat.Session, ID: "none"}
	if _, err := b.store.CheckFiles(other, []string{"SESSION-none/x"}); !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("in a session without a directory: %v", err)
	}
}

func TestPathGuard(t *testing.T) {
	b := newBed(t)
	f := b.add("a.txt", "content")
	outside := t.TempDir()
	os.MkdirAll(filepath.Join(b.root, "state", "rooms"), 0o700)
	os.WriteFile(filepath.Join(b.root, "state", "rooms", "x"), []byte("sealed"), 0o600)
	for name, target := range map[string]string{"out": outside, "in": filepath.Base(f.Local), "seal": "../../state/rooms/x"} {
		if err := os.Symlink(target, b.path("attachments/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for local, want := range map[string]error{
		f.Local: nil, "SESSION-s1/attachments/in": nil, "SESSION-s1": nil,
		"SESSION-s1/attachments/none": ErrNotFound,
		"SESSION-s1/attachments/out":  ErrBadFile, "SESSION-s1/attachments/seal": ErrBadFile,
		"state/rooms/x": ErrBadFile, "./state/rooms/x": ErrBadFile, "../x": ErrBadFile, "/etc/passwd": ErrBadFile, "": ErrBadFile,
		"SESSION-s1/../../x": ErrBadFile,
	} {
		got, err := b.store.Path(local)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("Path(%q) = %q, %v, want %v", local, got, err, want)
		}
	}
	got, err := b.store.Path("SESSION-s1/attachments/in")
	if base, _ := filepath.EvalSymlinks(b.root); err != nil || got != filepath.Join(base, f.Local) {
		t.Errorf("Path of a link = %q, %v", got, err)
	}
	file, err := b.store.OpenFile("SESSION-s1/attachments/in")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var buf bytes.Buffer
	if buf.ReadFrom(file); buf.String() != "content" {
		t.Errorf("OpenFile read %q", buf.String())
	}
	if _, err := b.store.OpenFile("state/rooms/x"); !errors.Is(err, ErrBadFile) {
		t.Errorf("OpenFile of state = %v", err)
	}
}

func TestNothingOfAttachmentsLeavesThroughALink(t *testing.T) {
	b := newBed(t)
	outside := t.TempDir()
	b.write("x", "")
	if err := os.Symlink(outside, b.path(attachments)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.AddFile(t.Context(), b.addr, "a", strings.NewReader("x"), 0); err == nil {
		t.Error("AddFile wrote through a link")
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("written outside: %v", left)
	}
}

func FuzzStoredName(f *testing.F) {
	for _, s := range []string{"報告.pdf", "../x", "a\x00b", strings.Repeat("é", 300), ".", ""} {
		f.Add(s)
	}
	ok := regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
	f.Fuzz(func(t *testing.T, name string) {
		original := originalName(name)
		if len(original) > maxOriginal {
			t.Errorf("original of %q has %d bytes", name, len(original))
		}
		if cmp.Diff(original, strings.ToValidUTF8(original, "")) != "" {
			t.Errorf("original of %q is not UTF-8", name)
		}
		if got := storedName(original); !ok.MatchString(got) || len(got) > maxStored {
			t.Errorf("storedName(%q) = %q", original, got)
		}
	})
}
