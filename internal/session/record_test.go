package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
)

func create(t *testing.T, s *Store, ses Session) Session {
	t.Helper()
	out, err := s.Create(t.Context(), ses)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return out
}

func TestSessionRoundTrip(t *testing.T) {
	b := newBed(t)
	made := create(t, b.store, Session{
		Integrations: Integrations{Slack: SlackThread{OriginChannel: "C1", OriginThreadTS: "1.2"}},
		Metadata:     map[string]any{"n": json.Number("12345678901234567890")},
	})
	if made.ID == "" || made.CreatedAt.IsZero() || made.Address() != (chat.Address{Space: chat.Session, ID: made.ID}) {
		t.Errorf("Create filled in %+v", made)
	}
	b.reopen()
	got, err := b.store.Get(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(b.root, recordPath(made.ID)))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.root, sessionsDir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSessionErrors(t *testing.T) {
	b := newBed(t)
	create(t, b.store, Session{ID: "one"})
	if _, err := b.store.Create(t.Context(), Session{ID: "one"}); !errors.Is(err, ErrExists) {
		t.Errorf("Create of a taken id: %v, want ErrExists", err)
	}
	if _, err := b.store.Create(t.Context(), Session{ID: "../one"}); !errors.Is(err, chat.ErrBadID) {
		t.Errorf("Create of ../one: %v, want ErrBadID", err)
	}
	for _, id := range []string{"two", "../one", "", "a/b", "."} {
		if _, err := b.store.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get(%q) = %v, want ErrNotFound", id, err)
		}
		if _, err := b.store.Patch(t.Context(), id, nil, nil, nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("Patch(%q) = %v, want ErrNotFound", id, err)
		}
	}
}

// Operator §16 #15.
func TestCorruptSessionIsRefusedAndNeverOverwritten(t *testing.T) {
	b := newBed(t)
	create(t, b.store, Session{ID: "good"})
	for id, text := range map[string]string{"cut": `{"sessionId":"cu`, "empty": "", "other": `{"sessionId":"good"}`} {
		p := filepath.Join(b.root, recordPath(id))
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := b.store.Get(t.Context(), id)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), recordPath(id)) {
			t.Errorf("%s: Get = %v, want ErrCorrupt with the path", id, err)
		}
		if _, err := b.store.Patch(t.Context(), id, map[string]any{"a": 1}, nil, nil); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Patch = %v, want ErrCorrupt", id, err)
		}
		if _, err := b.store.Create(t.Context(), Session{ID: id}); !errors.Is(err, ErrExists) {
			t.Errorf("%s: Create = %v, want ErrExists", id, err)
		}
		if got, _ := os.ReadFile(p); string(got) != text {
			t.Errorf("%s: file became %q", id, got)
		}
	}
	all, err := b.store.List(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != "good" {
		t.Errorf("List = %v, %v", all, err)
	}
}

func TestPatch(t *testing.T) {
	b := newBed(t)
	made := create(t, b.store, Session{
		ID:           "s",
		Integrations: Integrations{Slack: SlackThread{OriginChannel: "C1", OriginThreadTS: "1"}, Email: Email{ClientEmail: "a@x"}},
		Metadata:     map[string]any{"keep": "k", "change": "old", "deep": map[string]any{"a": "1"}},
	})
	if err := os.Chmod(filepath.Join(b.root, recordPath("s")), 0o640); err != nil {
		t.Fatal(err)
	}
	runner := "billing"
	got, err := b.store.Patch(t.Context(), "s", map[string]any{"change": "new", "deep": map[string]any{"b": "2"}},
		json.RawMessage(`{"slack":{"workingChannel":"C2"},"email":{"clientEmail":"b@x"},"sessionId":"evil"}`), &runner)
	if err != nil {
		t.Fatal(err)
	}
	want := made
	want.Metadata = map[string]any{"keep": "k", "change": "new", "deep": map[string]any{"b": "2"}}
	want.Integrations.Slack.WorkingChannel = "C2"
	want.Integrations.Email.ClientEmail = "b@x"
	want.Runner = "billing"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Patch (-want +got):\n%s", diff)
	}
	if read, err := b.store.Get(t.Context(), "s"); err != nil || cmp.Diff(want, read) != "" {
		t.Errorf("Get after Patch: %v, %s", err, cmp.Diff(want, read))
	}
	if info, _ := os.Stat(filepath.Join(b.root, recordPath("s"))); info.Mode().Perm() != 0o640 {
		t.Errorf("mode became %v", info.Mode())
	}
	if _, err := b.store.Patch(t.Context(), "s", nil, json.RawMessage(`{"slack":7}`), nil); err == nil {
		t.Error("integrations of the wrong shape were accepted")
	}
	same := func(ses *Session) error { ses.ID, ses.CreatedAt = "other", epoch; return nil }
	if kept, err := b.store.Change(t.Context(), "s", same); err != nil || cmp.Diff(want, kept) != "" {
		t.Errorf("id or createdAt changed: %v, %s", err, cmp.Diff(want, kept))
	}
	if kept, _ := b.store.Patch(t.Context(), "s", nil, nil, nil); cmp.Diff(want, kept) != "" {
		t.Errorf("empty Patch changed something: %s", cmp.Diff(want, kept))
	}
}

// Two stores stand for two processes: their locks meet only on the file.
func TestConcurrentPatchesAllTakeEffect(t *testing.T) {
	b := newBed(t)
	create(t, b.store, Session{ID: "s"})
	other, err := Open(Options{Root: b.root})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const n = 8
	var wg sync.WaitGroup
	for i := range n {
		for j, s := range []*Store{b.store, other} {
			wg.Go(func() {
				if _, err := s.Patch(t.Context(), "s", map[string]any{fmt.Sprint(i, "-", j): true}, nil, nil); err != nil {
					t.Errorf("Patch: %v", err)
				}
			})
		}
	}
	wg.Wait()
	got, err := b.store.Get(t.Context(), "s")
	if err != nil || len(got.Metadata) != 2*n {
		t.Errorf("%d keys survived, want %d (%v)", len(got.Metadata), 2*n, err)
	}
}

func TestFindAndList(t *testing.T) {
	b := newBed(t)
	if all, err := b.store.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("List of nothing = %v, %v", all, err)
	}
	thread := func(id, oc, ot, wc, wt, mail string, n int64) {
		create(t, b.store, Session{ID: id, CreatedAt: clock(n), Integrations: Integrations{
			Slack: SlackThread{OriginChannel: oc, OriginThreadTS: ot, WorkingChannel: wc, WorkingThreadTS: wt}, Email: Email{ClientEmail: mail},
		}})
	}
	thread("a", "C1", "1", "C2", "2", "x@y", 2)
	thread("b", "C1", "9", "", "", "x@y", 3)
	thread("c", "C3", "1", "", "", "", 1)
	for _, c := range []struct{ channel, ts, want string }{
		{"C1", "1", "a"}, {"C2", "2", "a"}, {"C1", "9", "b"}, {"C1", "2", ""}, {"C2", "1", ""}, {"", "", ""},
	} {
		got, err := b.store.FindByThread(t.Context(), c.channel, c.ts)
		if got.ID != c.want || (c.want == "") != errors.Is(err, ErrNotFound) {
			t.Errorf("FindByThread(%q, %q) = %q, %v, want %q", c.channel, c.ts, got.ID, err, c.want)
		}
	}
	for mail, want := range map[string]string{"x@y": "b", "X@y": "", "": ""} {
		if got, _ := b.store.FindByEmail(t.Context(), mail); got.ID != want {
			t.Errorf("FindByEmail(%q) = %q, want %q", mail, got.ID, want)
		}
	}
	if _, err := b.store.Patch(t.Context(), "c", nil, json.RawMessage(`{"email":{"clientEmail":"c@y"}}`), nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.store.FindByEmail(t.Context(), "c@y"); got.ID != "c" {
		t.Errorf("after Patch: %q", got.ID)
	}
	os.Remove(filepath.Join(b.root, recordPath("b")))
	if got, _ := b.store.FindByEmail(t.Context(), "x@y"); got.ID != "a" {
		t.Errorf("after the newest was removed: %q", got.ID)
	}
	all, err := b.store.List(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "c" || all[1].ID != "a" {
		t.Errorf("List = %v, %v, want c, a", all, err)
	}
}

func TestSettings(t *testing.T) {
	b := newBed(t)
	on := true
	if got, err := b.store.Settings(t.Context(), b.addr); err != nil || got.VerboseTools != nil {
		t.Errorf("Settings = %+v, %v", got, err)
	}
	b.write(settingsFile, `{"later":{"x":1},"verboseTools":false}`)
	if err := b.store.SetSettings(t.Context(), b.addr, Settings{VerboseTools: &on}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.store.Settings(t.Context(), b.addr); err != nil || got.VerboseTools == nil || !*got.VerboseTools {
		t.Errorf("Settings = %+v, %v", got, err)
	}
	if got := b.read(settingsFile); !strings.Contains(got, `"later":{"x":1}`) {
		t.Errorf("unknown key was dropped: %s", got)
	}
	b.write(settingsFile, `null`)
	if err := b.store.SetSettings(t.Context(), b.addr, Settings{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("SetSettings over a corrupt file: %v, want ErrCorrupt", err)
	}
	if got := b.read(settingsFile); got != "null" {
		t.Errorf("corrupt file became %q", got)
	}
}

func TestConversationsAndThreads(t *testing.T) {
	b := newBed(t)
	for _, dir := range []string{"slack/C1", "slack/D2", "slack/events", "telegram/tg-5", "WEBUI-a", "WEBUI-b", "WEBUI-empty", "SESSION-x", "skills"} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for space, want := range map[chat.Space]string{
		chat.Slack: "[C1 D2]", chat.Telegram: "[tg-5]", chat.Session: "[SESSION-x]", chat.Web: "[WEBUI-a WEBUI-b WEBUI-empty]", chat.Bridge: "[]",
	} {
		if got, err := b.store.Conversations(t.Context(), space); err != nil || fmt.Sprint(got) != want {
			t.Errorf("Conversations(%s) = %v, %v, want %s", space, got, err, want)
		}
	}
	if got, err := (&Store{root: b.store.root}).Conversations(t.Context(), "moon"); err != nil || len(got) != 0 {
		t.Errorf("Conversations(moon) = %v, %v", got, err)
	}
	b.addr = chat.Address{Space: chat.Web, ID: "a"}
	b.answer("0", "hello, I am here")
	b.hear("1", "first\n words "+strings.Repeat("é", 200))
	b.hear("2", "later words")
	b.addr.ID = "b"
	b.hear("3", "other")
	got, err := b.store.Threads(t.Context())
	if err != nil || len(got) != 2 || got[0].Title != "other" || !got[0].Updated.Equal(clock(4)) {
		t.Fatalf("Threads = %+v, %v", got, err)
	}
	if title := got[1].Title; !strings.HasPrefix(title, "first words éé") || len([]rune(title)) != maxTitle || !strings.HasSuffix(title, "…") {
		t.Errorf("title = %q", title)
	}
}

func TestLogPages(t *testing.T) {
	b := newBed(t)
	for _, id := range []string{"1", "2", "3", "4"} {
		b.hear(id, id)
	}
	b.write(logFile, b.read(logFile)+"not json\n"+`{"ts":"hand","user":"U9","text":"by hand"}`+"\n")
	b.reopen()
	for _, c := range []struct {
		opts LogOptions
		want []string
	}{
		{LogOptions{}, []string{"U2: 1", "U2: 2", "U2: 3", "U2: 4", "U9: by hand"}},
		{LogOptions{Limit: 2}, []string{"U2: 4", "U9: by hand"}},
		{LogOptions{Limit: 2, Before: 4}, []string{"U2: 2", "U2: 3"}},
		{LogOptions{Before: 2}, []string{"U2: 1"}},
		{LogOptions{Before: 1}, nil},
	} {
		if diff := cmp.Diff(c.want, b.texts(c.opts)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.opts, diff)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(Options{}); err == nil {
		t.Error("Open without a workspace succeeded")
	}
	if _, err := Open(Options{Root: filepath.Join(t.TempDir(), "missing")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a missing workspace: %v", err)
	}
}

func BenchmarkCreate(b *testing.B) {
	s, err := Open(Options{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if _, err := s.Create(b.Context(), Session{}); err != nil {
			b.Fatal(err)
		}
	}
}
