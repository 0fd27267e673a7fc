package tray

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var conv = chat.Address{Space: chat.Web, ID: "a b"}

// A desk is an out-tray, what was kept of it and what was shown.
type desk struct {
	t      *testing.T
	out    *Out
	work   string
	dir    string
	kept   map[string]string
	events []turn.Event
	fail   error // of Keep
	refuse error // of emit
	during func(name string)
}

func newDesk(t *testing.T, change func(*OutOptions)) *desk {
	t.Helper()
	d := &desk{t: t, work: t.TempDir(), kept: map[string]string{}}
	opts := OutOptions{Settle: 5 * time.Millisecond, Patience: 200 * time.Millisecond, Keep: d.keep}
	if change != nil {
		change(&opts)
	}
	out, err := NewOut(opts)
	if err != nil {
		t.Fatal(err)
	}
	d.out, d.dir = out, Dir(d.work, conv)
	contract, err := out.Prepare(d.work, conv)
	if err != nil || !strings.Contains(contract, d.dir) {
		t.Fatalf("Prepare = %q, %v; want the directory %s in it", contract, err, d.dir)
	}
	return d
}

func (d *desk) keep(_ context.Context, _ chat.Address, name string, r io.Reader, limit int64) (string, error) {
	if d.during != nil {
		d.during(name)
	}
	if d.fail != nil {
		return "", d.fail
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	d.kept[name] = string(data)
	return "kept/" + name, err
}

func (d *desk) emit(e turn.Event) error {
	if d.refuse != nil {
		return d.refuse
	}
	d.events = append(d.events, e)
	return nil
}

// collect returns the files and the lines that were shown.
func (d *desk) collect() (files, lines []string) {
	d.t.Helper()
	d.events = nil
	if err := d.out.Collect(d.t.Context(), d.work, conv, d.emit); err != nil {
		d.t.Fatalf("Collect: %v", err)
	}
	for _, e := range d.events {
		if e.Kind == turn.FileOut {
			files = append(files, e.Filename+e.Title)
			if e.Local != "kept/"+e.Filename {
				d.t.Errorf("file %+v lies elsewhere", e)
			}
		} else {
			lines = append(lines, e.Label)
		}
	}
	return files, lines
}

func (d *desk) write(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// left lists what lies in the tray.
func (d *desk) left(dir string) (names []string) {
	d.t.Helper()
	list, err := os.ReadDir(filepath.Join(d.dir, dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestFilesAreSentOnce(t *testing.T) {
	d := newDesk(t, nil)
	if info, err := os.Stat(d.dir); err != nil || info.Mode().Perm() != 0o700 || filepath.Base(d.dir) != "WEBUI-a_b" && !strings.HasSuffix(d.dir, "a_b") {
		t.Errorf("the tray %s: %v, %v; want 0700", d.dir, info, err)
	}
	if ignored, _ := os.ReadFile(filepath.Join(d.work, ".iris", ".gitignore")); string(ignored) != "*\n" {
		t.Errorf(".gitignore says %q", ignored)
	}
	d.write("b.txt", "two")
	d.write("計画 a.txt", "one")
	d.write("bad\x01\xff name.txt", "three")
	d.write(".hidden", "no")
	if err := os.Mkdir(filepath.Join(d.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	files, lines := d.collect()
	if diff := cmp.Diff([]string{"b.txt", "bad__ name.txt", "計画 a.txt"}, files); diff != "" || len(lines) != 0 {
		t.Errorf("sent (-want +got), lines %q:\n%s", lines, diff)
	}
	if d.kept["計画 a.txt"] != "one" || d.kept["b.txt"] != "two" {
		t.Errorf("kept %q", d.kept)
	}
	if diff := cmp.Diff([]string{".hidden", "sub"}, d.left("")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if files, _ := d.collect(); len(files) != 0 {
		t.Errorf("sent again: %q", files)
	}
	if err := d.out.Collect(t.Context(), t.TempDir(), conv, d.emit); err != nil {
		t.Errorf("a work directory without a tray: %v", err)
	}
}

// TestWhatMayNotBeSent tries what a program, or somebody else, can put there.
func TestWhatMayNotBeSent(t *testing.T) {
	d := newDesk(t, func(o *OutOptions) { o.MaxFile = 1 << 20 })
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(d.dir, name) }
	for _, err := range []error{
		os.Symlink(secret, at("link.txt")),
		os.Symlink("nowhere", at("dangling.txt")),
		os.Link(secret, at("hard.txt")),
		unix.Mkfifo(at("fifo.txt"), 0o600),
		os.WriteFile(at("large.txt"), bytes.Repeat([]byte("x"), 1<<20+1), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"not sent: dangling.txt (it is a link)", "not sent: fifo.txt (it is no plain file)", "not sent: hard.txt (it is another name of a file elsewhere)",
		"not sent: large.txt (it is larger than 1 MiB)", "not sent: link.txt (it is a link)",
	}
	odd := 5
	if os.Geteuid() == 0 {
		if err := unix.Mknod(at("device.txt"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err == nil { // /dev/zero
			want, odd = append(want, "not sent: device.txt (it is no plain file)"), odd+1
		}
		d.write("theirs.txt", "x")
		if err := os.Chown(at("theirs.txt"), 12345, -1); err != nil {
			t.Fatal(err)
		}
		want, odd = append(want, "not sent: theirs.txt (it belongs to another user)"), odd+1
	}
	if ln, err := net.Listen("unix", at("s")); err == nil {
		defer ln.Close()
		want, odd = append(want, "not sent: s (it is no plain file)"), odd+1
	}
	d.write("fine.txt", "fine")
	files, lines := d.collect()
	slices.Sort(want)
	slices.Sort(lines)
	if diff := cmp.Diff(want, lines); diff != "" || !slices.Equal(files, []string{"fine.txt"}) {
		t.Errorf("sent %q, lines (-want +got):\n%s", files, diff)
	}
	for name, text := range d.kept {
		if strings.Contains(text, "CANARY") {
			t.Errorf("%s holds the secret", name)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "CANARY" {
		t.Errorf("the file behind the link: %q, %v; want it untouched", text, err)
	}
	if got := d.left(aside); len(got) != odd {
		t.Errorf("put aside %q, want %d", got, odd)
	}
	if files, lines := d.collect(); len(files)+len(lines) != 0 {
		t.Errorf("the next turn tells of %q and %q again", files, lines)
	}
	// A second file of the same name is put aside beside the first.
	if err := os.Symlink(secret, at("link.txt")); err != nil {
		t.Fatal(err)
	}
	d.collect()
	if got := d.left(aside); !slices.Contains(got, "link.txt-1") {
		t.Errorf("put aside %q, want link.txt-1 too", got)
	}
}

// TestTheTrayItselfMayBeNoLink: neither it nor what leads to it.
func TestTheTrayItselfMayBeNoLink(t *testing.T) {
	for i := range len(below) + 1 {
		d := newDesk(t, nil)
		victim := t.TempDir()
		parts := append(slices.Clone(below), session(conv))
		path := filepath.Join(append([]string{d.work}, parts[:i+1]...)...)
		rest := filepath.Join(append([]string{victim}, parts[i+1:]...)...)
		if err := os.MkdirAll(rest, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(rest, "key"), []byte("CANARY"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, path+"-was"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
		if err := d.out.Collect(t.Context(), d.work, conv, d.emit); err == nil || len(d.events) != 0 {
			t.Errorf("%s is a link: Collect = %v, events %+v; want an error and none", path, err, d.events)
		}
		if _, err := d.out.Prepare(d.work, conv); err == nil {
			t.Errorf("%s is a link: Prepare has no error", path)
		}
		if _, err := os.Stat(filepath.Join(rest, "key")); err != nil {
			t.Errorf("behind the link: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.out.Prepare(d.work, conv); err == nil {
			t.Errorf("%s is a file: Prepare has no error", path)
		}
	}
}

func TestATrayOthersCouldWriteToIsMadePrivate(t *testing.T) {
	d := newDesk(t, nil)
	if err := os.Chmod(d.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d.collect()
	if info, _ := os.Stat(d.dir); info.Mode().Perm() != 0o700 {
		t.Errorf("the tray is %v, want 0700", info.Mode())
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(d.dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if err := d.out.Collect(t.Context(), d.work, conv, d.emit); err == nil {
		t.Error("a tray of another user: no error")
	}
}

func TestHalfWritten(t *testing.T) {
	d := newDesk(t, nil)
	path := d.write("grows.txt", "a")
	d.write("empty.txt", "")
	d.during = func(name string) { // while it is copied
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("b"); err != nil {
			t.Fatal(err)
		}
	}
	if files, lines := d.collect(); len(files)+len(lines) != 0 {
		t.Errorf("sent %q, lines %q; want nothing of what still changes", files, lines)
	}
	d.during = nil
	if files, _ := d.collect(); !slices.Equal(files, []string{"grows.txt"}) || d.kept["grows.txt"] != "ab" {
		t.Errorf("then sent %q with %q, want all of it", files, d.kept)
	}
	if diff := cmp.Diff([]string{"empty.txt"}, d.left("")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(d.dir, "empty.txt"), old, old); err != nil {
		t.Fatal(err)
	}
	if _, lines := d.collect(); !slices.Equal(lines, []string{"not sent: empty.txt (it is empty)"}) {
		t.Errorf("an old empty file: %q", lines)
	}
	// One from the future settles by staying as it is.
	d.write("future.txt", "x")
	if err := os.Chtimes(filepath.Join(d.dir, "future.txt"), old, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if files, _ := d.collect(); !slices.Equal(files, []string{"future.txt"}) {
		t.Errorf("a file from the future: sent %q", files)
	}
}

func TestASlowWriterIsWaitedFor(t *testing.T) {
	d := newDesk(t, func(o *OutOptions) { o.Settle, o.Patience = 60*time.Millisecond, 20*time.Second })
	path := d.write("slow.txt", "")
	go func() {
		for range 5 {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return
			}
			f.WriteString("x")
			f.Close()
			<-time.After(10 * time.Millisecond)
		}
	}()
	if files, _ := d.collect(); !slices.Equal(files, []string{"slow.txt"}) || d.kept["slow.txt"] != "xxxxx" {
		t.Errorf("sent %q, kept %q; want all five", files, d.kept)
	}
}

// TestSwapped: a name that gets another file while the first is copied.
func TestSwapped(t *testing.T) {
	d := newDesk(t, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := d.write("a.txt", "mine")
	d.during = func(string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(secret, path); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := d.collect()
	if len(files) != 0 || strings.Contains(d.kept["a.txt"], "CANARY") {
		t.Errorf("sent %q, kept %q", files, d.kept)
	}
	if to, err := os.Readlink(path); err != nil || to != secret {
		t.Errorf("the link is %q, %v; want it where it was until it is judged", to, err)
	}
	d.during = nil
	if _, lines := d.collect(); !slices.Equal(lines, []string{"not sent: a.txt (it is a link)"}) {
		t.Errorf("then %q", lines)
	}
	// Swapped for another plain file.
	path = d.write("b.txt", "old")
	d.during = func(string) {
		if err := os.WriteFile(path+".new", []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	if files, _ := d.collect(); len(files) != 0 {
		t.Errorf("sent %q of a file that was replaced", files)
	}
	d.during = nil
	if files, _ := d.collect(); !slices.Equal(files, []string{"b.txt"}) || d.kept["b.txt"] != "new" {
		t.Errorf("then sent %q, kept %q", files, d.kept)
	}
	// Gone while it is copied.
	path = d.write("c.txt", "x")
	d.during = func(string) { os.Remove(path) }
	if files, lines := d.collect(); len(files)+len(lines) != 0 {
		t.Errorf("sent %q, lines %q of a file that went", files, lines)
	}
}

func TestWhatFailsIsKeptAndThenPutAside(t *testing.T) {
	d := newDesk(t, nil)
	d.write("a.txt", "x")
	d.fail = errors.New("no room")
	for i := range 2 {
		if files, lines := d.collect(); len(files)+len(lines) != 0 || !slices.Equal(d.left(""), []string{"a.txt"}) {
			t.Errorf("attempt %d: sent %q, lines %q, left %q", i, files, lines, d.left(""))
		}
	}
	d.fail = nil
	if files, _ := d.collect(); !slices.Equal(files, []string{"a.txt"}) {
		t.Errorf("then sent %q", files)
	}
	d.write("a.txt", "x")
	d.fail = errors.New("no room")
	var lines []string
	for range 3 {
		_, lines = d.collect()
	}
	if !slices.Equal(lines, []string{"not sent: a.txt (it failed again and again)"}) || !slices.Equal(d.left(aside), []string{"a.txt"}) {
		t.Errorf("the third failure: %q, aside %q", lines, d.left(aside))
	}
	// A turn that cannot be told anything any more.
	d.fail, d.refuse = nil, errors.New("over")
	d.write("b.txt", "x")
	if err := d.out.Collect(t.Context(), d.work, conv, d.emit); !errors.Is(err, d.refuse) || !slices.Contains(d.left(""), "b.txt") {
		t.Errorf("Collect = %v, left %q; want the sink's error and the file", err, d.left(""))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.refuse, d.fail = nil, context.Canceled
	if err := d.out.Collect(ctx, d.work, conv, d.emit); !errors.Is(err, context.Canceled) {
		t.Errorf("Collect = %v, want the context's error", err)
	}
}

// TestARepeatIsLabelled: the process ended between showing a file and deleting it.
func TestARepeatIsLabelled(t *testing.T) {
	d := newDesk(t, nil)
	d.write(leaving+"a.txt", "x")
	if files, _ := d.collect(); !slices.Equal(files, []string{"a.txta.txt (perhaps sent before: Iris was restarted)"}) || len(d.left("")) != 0 {
		t.Errorf("sent %q, left %q", files, d.left(""))
	}
}

func TestMoreThanATurnSends(t *testing.T) {
	d := newDesk(t, func(o *OutOptions) { o.MaxFiles = 2 })
	for _, n := range []string{"a", "b", "c"} {
		d.write(n, n)
	}
	if files, lines := d.collect(); !slices.Equal(files, []string{"a", "b"}) || len(lines) != 1 {
		t.Errorf("sent %q, lines %q", files, lines)
	}
	if files, lines := d.collect(); !slices.Equal(files, []string{"c"}) || len(lines) != 0 {
		t.Errorf("then sent %q, lines %q", files, lines)
	}
	if _, err := NewOut(OutOptions{}); err == nil {
		t.Error("NewOut without Keep: no error")
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("計", 300) + ".txt"
	for name, want := range map[string]string{
		"plan.txt": "plan.txt", "Überblick 計画.pdf": "Überblick 計画.pdf", "../../etc/passwd": "_.._etc_passwd", "..": "file", "-rf": "rf",
		"a\u202Egnp.exe": "a_gnp.exe", "a\nb": "a_b", "$(x)`y`": "_(x)_y_", "": "file",
	} {
		if got := readable(name); got != want {
			t.Errorf("readable(%q) = %q, want %q", name, got, want)
		}
	}
	if got := readable(long); len(got) > 255 {
		t.Errorf("a long name has %d bytes", len(got))
	}
}

func given(name, text string) File {
	return File{name, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func TestPlace(t *testing.T) {
	if _, err := NewIn(InOptions{Dir: "relative"}); err == nil {
		t.Error("NewIn with a relative directory: no error")
	}
	in, err := NewIn(InOptions{Dir: filepath.Join(t.TempDir(), "in"), MaxFile: 100, MaxAll: 150, MaxFiles: 8})
	if err != nil {
		t.Fatal(err)
	}
	id := turn.NewID()
	page := "<!DOCTYPE html><html><body>Log in</body></html>"
	paths, missed, err := in.Place(t.Context(), conv, id, []File{
		given("計画.txt", "one"), given("計画.txt", "two"), given("a.png", page), given("b.html", page), given("large.bin", strings.Repeat("x", 101)),
		{"gone", func() (io.ReadCloser, error) { return nil, errors.New("gone") }}, given("c.txt", strings.Repeat("x", 99)), given("d.txt", strings.Repeat("x", 90)),
		given("ninth", "x"),
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(in.Dir(conv), string(id))
	want := []string{"計画.txt", "計画 (2).txt", "b.html"}
	for i := range want {
		want[i] = filepath.Join(dir, want[i])
	}
	want = append(want, filepath.Join(dir, "d.txt"))
	if len(page)+6+99 <= 150 {
		t.Fatal("the page is too short for this test")
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	for i, text := range []string{
		"a.png did not arrive: what came is a web page and not the file", "large.bin did not arrive: it is too large", "gone did not arrive: it could not be stored",
		"c.txt did not arrive: it is too large", "ninth did not arrive: a message may hold 8 files",
	} {
		if i >= len(missed) || missed[i] != text {
			t.Errorf("missed %q, want %q in place %d", missed, text, i)
		}
	}
	for _, p := range paths {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want 0600", p, info, err)
		}
	}
	if text, _ := os.ReadFile(paths[1]); string(text) != "two" {
		t.Errorf("the second says %q", text)
	}
	if paths, missed, err := in.Place(t.Context(), conv, id, nil); paths != nil || missed != nil || err != nil {
		t.Errorf("no files: %v %v %v", paths, missed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := in.Place(ctx, conv, id, []File{given("a", "b")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Place = %v, want the context's error", err)
	}
}

func TestMismatch(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n0000"
	for _, c := range []struct{ name, head, want string }{
		{"a.png", png, ""}, {"a.JPG", png, ""}, {"a.png", "plain text", "its content is not what its name says"},
		{"a.png", "", "it is empty"}, {"a.pdf", "%PDF-1.7", ""}, {"a.docx", "PK\x03\x04", ""}, {"a.docx", "<html><head>", "what came is a web page and not the file"},
		{"a.txt", "<html>", ""}, {"noext", "x", ""},
	} {
		if got := Mismatch(c.name, []byte(c.head)); got != c.want {
			t.Errorf("Mismatch(%q, %q) = %q, want %q", c.name, c.head, got, c.want)
		}
	}
}

func TestSweep(t *testing.T) {
	now := time.Now()
	in, err := NewIn(InOptions{Dir: filepath.Join(t.TempDir(), "in"), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Sweep(); err != nil {
		t.Errorf("nothing to sweep: %v", err)
	}
	paths, _, err := in.Place(t.Context(), conv, turn.NewID(), []File{given("a", "b")})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(paths[0]); err != nil {
		t.Errorf("a young file went: %v", err)
	}
	now = now.Add(8 * 24 * time.Hour)
	if err := in.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(in.Dir(conv)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old file stays: %v", err)
	}
}
