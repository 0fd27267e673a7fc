package schedule

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestStore(t *testing.T) {
	root := t.TempDir()
	s := NewStore(root)
	s.now = func() time.Time { return time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC) }
	it, err := s.Add(Event{Type: Periodic, ChannelID: "C1", Text: "hi", Schedule: "30 2 * * *", Timezone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	// 02:30 does not exist on the 28th.
	if it.Next == nil || !it.Next.Equal(time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("next %v", it.Next)
	}
	if info, err := os.Stat(filepath.Join(root, it.File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}
	for _, name := range []string{it.Name, it.File, strings.TrimSuffix(it.Name, ".json")} {
		if found, err := s.Find(name); err != nil || found.File != it.File {
			t.Errorf("Find(%q) = %+v, %v", name, found, err)
		}
	}
	for _, name := range []string{"", "x", "../events/" + it.Name, "events"} {
		if _, err := s.Find(name); !errors.Is(err, ErrUnknown) {
			t.Errorf("Find(%q) = %v", name, err)
		}
	}
	if _, err := s.Add(Event{Type: OneShot, ChannelID: "C1", Text: "hi", At: "tomorrow"}); err == nil {
		t.Error("Add takes a bad date")
	}
	if _, err := s.Add(Event{Type: OneShot, ChannelID: "C1", Text: "hi", At: "2027-03-27T11:59:59Z"}); !errors.Is(err, ErrPast) {
		t.Errorf("Add of what is over = %v", err)
	}
	if ran, err := s.Run(it.Name); err != nil || ran.Event.Type != Immediate || ran.Event.Text != "hi" {
		t.Errorf("Run = %+v, %v", ran, err)
	}
	if all, err := s.List(); err != nil || len(all) != 2 {
		t.Errorf("List = %v, %v", all, err)
	}
	if gone, err := s.Cancel(it.Name); err != nil || gone.File != it.File {
		t.Errorf("Cancel = %+v, %v", gone, err)
	}
	if _, err := s.Cancel(it.Name); !errors.Is(err, ErrUnknown) {
		t.Errorf("Cancel again = %v", err)
	}
}

func TestPauseKeepsWhatOthersWrote(t *testing.T) {
	root := t.TempDir()
	s := NewStore(root)
	file := filepath.Join(root, "events", "x.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"type":"periodic","channelId":"C1","text":"hi","schedule":"0 9 * * *","timezone":"UTC","meta":{"by":"cron"}}`), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, paused := range []bool{true, false} {
		it, err := s.Pause("x", paused)
		if err != nil || it.Event.Paused != paused || paused != (it.Next == nil) {
			t.Fatalf("Pause(%v) = %+v, %v", paused, it, err)
		}
		data, _ := os.ReadFile(file)
		info, _ := os.Stat(file)
		if !strings.Contains(string(data), `"by":"cron"`) && !strings.Contains(string(data), `"by": "cron"`) || info.Mode().Perm() != 0o640 {
			t.Errorf("file %s, mode %v", data, info.Mode())
		}
	}
}

func TestSameNameInTwoDirectories(t *testing.T) {
	root := t.TempDir()
	for _, dir := range Dirs()[:2] {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "x.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := NewStore(root)
	if _, err := s.Cancel("x"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("Cancel = %v", err)
	}
	it, err := s.Find("slack/events/x.json")
	if err != nil || it.Problem == "" {
		t.Errorf("Find = %+v, %v", it, err)
	}
	if _, err := s.Run("events/x.json"); err == nil {
		t.Error("Run takes a broken file")
	}
}

func TestManyAddAtTheSameMoment(t *testing.T) {
	s := NewStore(t.TempDir())
	s.now = func() time.Time { return time.Unix(1, 0) }
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := s.Add(Event{Type: Immediate, ChannelID: "C1", Text: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if items, err := s.List(); err != nil || len(items) != 50 {
		t.Errorf("%d items, %v", len(items), err)
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(immediate))
	f.Add([]byte(`{"type":"periodic","channelId":"C1","text":"x","schedule":"0 9 * * 1-5","timezone":"Europe/Berlin","quiet":"22:00-06:00"}`))
	f.Add([]byte(`{"type":"one-shot","channelId":"tg-1:5","text":"x","at":"2027-01-01T00:00:00+01:00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEvent(data)
		if err != nil {
			return
		}
		if _, err := e.Next(time.Unix(1800000000, 0), 3); err != nil {
			t.Errorf("a checked event has no times: %v", err)
		}
	})
}

// What was set aside is listed with its reason, loses its name to a living file,
// cannot be run or paused, and goes with its reason.
func TestStoreShowsWhatWasSetAside(t *testing.T) {
	root := t.TempDir()
	s := NewStore(root)
	put := func(file, content string) {
		t.Helper()
		full := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := `{"type":"periodic","channelId":"C1","text":"hi","schedule":"0 9 * * *","timezone":"UTC"}`
	for _, name := range []string{"a", "b"} {
		put("events/"+name+".json", good)
		if _, err := setAside(root, "events/"+name+".json", "because of "+name); err != nil {
			t.Fatal(err)
		}
	}
	put("events/a.json", good)
	all, err := s.List()
	if err != nil || len(all) != 3 {
		t.Fatalf("List = %v, %v", all, err)
	}
	if it, err := s.Find("a.json"); err != nil || it.File != "events/a.json" || it.Problem != "" {
		t.Errorf("Find = %+v, %v", it, err)
	}
	it, err := s.Find("b")
	if err != nil || it.File != "events/failed/b.json" || it.Problem != "because of b" || it.Event.Text != "hi" || it.Next != nil {
		t.Errorf("Find = %+v, %v", it, err)
	}
	if _, err := s.Run("b"); !errors.Is(err, ErrBroken) {
		t.Errorf("Run = %v", err)
	}
	if _, err := s.Pause("b", false); !errors.Is(err, ErrBroken) {
		t.Errorf("Pause = %v", err)
	}
	if _, err := s.Cancel("b"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(root, "events/failed/b*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.Remove(filepath.Join(root, "events/failed/a.reason.txt")); err != nil {
		t.Fatal(err)
	}
	if it, err := s.Find("events/failed/a.json"); err != nil || !strings.Contains(it.Problem, "reason is lost") {
		t.Errorf("Find = %+v, %v", it, err)
	}
}
