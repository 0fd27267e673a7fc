package schedule

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

const immediate = `{"type":"immediate","channelId":"WEBUI-a","text":"look","user":"ana","meta":{"x":1}}`

func TestImmediateRunsAndIsDeleted(t *testing.T) {
	bubble(t, func(b *bench) {
		b.start()
		for _, dir := range Dirs() {
			b.put(dir+"/now.json", immediate)
		}
		b.pass(2 * time.Second)
		text := "[EVENT:now.json:immediate:immediate] look"
		b.want(text, text, text)
		s := b.runs()[0]
		if s.Origin != turn.FromEvent || s.Message.From.ID != "ana" || s.Message.From.Name != "EVENT" || s.Address.Channel() != "WEBUI-a" || s.Turn == "" || s.Proven {
			t.Errorf("submission %+v", s)
		}
		for _, dir := range Dirs() {
			if b.there(dir + "/now.json") {
				t.Errorf("%s/now.json is still there", dir)
			}
		}
		if left, _ := os.ReadDir(filepath.Join(b.root, "state", "schedule")); len(left) > 0 {
			t.Errorf("claims are left: %v", left)
		}
	})
}

func TestTheSameFileAgainRunsAgain(t *testing.T) {
	bubble(t, func(b *bench) {
		b.start()
		for range 3 {
			b.put("events/deploy.json", immediate)
			b.pass(3 * time.Second)
		}
		if len(b.runs()) != 3 {
			t.Errorf("%d runs, want 3", len(b.runs()))
		}
	})
}

func TestImmediateWrittenWhileDownRuns(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put("events/selfheal-1.json", `{"type":"immediate","channelId":"ESCALATE-web","text":"disk full"}`)
		time.Sleep(30 * time.Hour)
		b.start()
		b.pass(2 * time.Second)
		b.want("[EVENT:selfheal-1.json:immediate:immediate] disk full")
		if b.runs()[0].Origin != turn.FromEscalation {
			t.Errorf("origin %s", b.runs()[0].Origin)
		}
	})
}

func TestOneShotRunsAtItsTimeHoweverFar(t *testing.T) {
	bubble(t, func(b *bench) {
		at := time.Now().AddDate(0, 3, 0).Truncate(time.Second) // beyond 2³¹ ms
		b.put("events/far.json", `{"type":"one-shot","channelId":"tg-1","text":"renew","at":"`+at.Format(time.RFC3339)+`"}`)
		b.start()
		b.pass(time.Until(at) - time.Minute)
		b.want()
		b.pass(2 * time.Minute)
		b.want("[EVENT:far.json:one-shot:" + at.Format(time.RFC3339) + "] renew")
		if late := b.times()[0].Sub(at); late < 0 || late > time.Second {
			t.Errorf("ran %v after its time", late)
		}
		if b.there("events/far.json") {
			t.Error("the file is still there")
		}
	})
}

func TestMissedOneShot(t *testing.T) {
	for _, c := range []struct {
		name, missed string
		down         time.Duration
		runs, kept   bool
	}{
		{"a restart", "", 5 * time.Minute, true, false},
		{"skip is the default", "", time.Hour, false, true},
		{"skip", Skip, time.Hour, false, true},
		{"run-once", RunOnce, time.Hour, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				at := time.Now().Add(time.Minute)
				b.put("events/x.json", `{"type":"one-shot","channelId":"tg-1","text":"call","missed":"`+c.missed+`","at":"`+at.Format(time.RFC3339)+`"}`)
				time.Sleep(time.Minute + c.down)
				b.start()
				b.pass(5 * time.Second)
				if got := len(b.runs()) == 1; got != c.runs {
					t.Errorf("ran: %v", b.texts())
				}
				if c.runs && strings.Contains(b.runs()[0].Message.Text, "Late") != (c.down > DefaultGrace) {
					t.Errorf("text %q", b.runs()[0].Message.Text)
				}
				if b.there("events/failed/x.json") != c.kept || c.kept != (len(b.told()) == 1) {
					t.Errorf("kept %v, told %q", b.there("events/failed/x.json"), b.told())
				}
			})
		})
	}
}

func TestPeriodicRunsOncePerSlot(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put("slack/events/p.json", `{"type":"periodic","channelId":"C123","text":"stand-up","schedule":"30 9 * * *","timezone":"Europe/Berlin"}`)
		b.start()
		for range 3 { // restarts in the middle of things
			b.pass(30 * time.Hour)
			b.stop()
			b.start()
		}
		b.pass(time.Minute)
		var days []string
		for i, at := range b.times() {
			days = append(days, at.In(location(t, "Europe/Berlin")).Format("15:04:05"))
			if b.runs()[i].Origin != turn.FromSchedule {
				t.Errorf("origin %s", b.runs()[i].Origin)
			}
		}
		if want := []string{"09:30:00", "09:30:00", "09:30:00", "09:30:00"}; !slices.Equal(days[:3], want[:3]) || len(days) < 3 || len(days) > 4 {
			t.Errorf("ran at %v", days)
		}
		if b.repeats() > 0 {
			t.Errorf("%d occurrences were submitted twice", b.repeats())
		}
		b.want(slices.Repeat([]string{"[EVENT:p.json:periodic:30 9 * * *] stand-up"}, len(b.runs()))...)
	})
}

func TestMissedPeriodic(t *testing.T) {
	for _, c := range []struct {
		missed string
		want   int
		late   bool
	}{{"", 0, false}, {Skip, 0, false}, {RunOnce, 1, true}} {
		t.Run("missed="+c.missed, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.put("events/p.json", `{"type":"periodic","channelId":"C1","text":"x","missed":"`+c.missed+`","schedule":"0 * * * *","timezone":"UTC"}`)
				b.start()
				b.pass(90 * time.Minute)
				b.stop()
				before := len(b.runs())
				time.Sleep(7 * time.Hour) // 02:30 … 08:30: six are missed, 08:00 is 30 min old
				b.start()
				b.pass(time.Minute)
				if got := len(b.runs()) - before; got != c.want {
					t.Fatalf("%d ran after the pause, want %d", got, c.want)
				}
				if c.late && !strings.Contains(b.runs()[before].Message.Text, "(Late: this was due at 2000-01-01T08:00:00Z.)") {
					t.Errorf("text %q", b.runs()[before].Message.Text)
				}
				b.pass(time.Hour)
				if got := len(b.runs()) - before; got != c.want+1 {
					t.Errorf("the next slot does not run: %d", got)
				}
			})
		})
	}
}

func TestQuietHours(t *testing.T) {
	for _, c := range []struct {
		name, own string
		want      []string
	}{
		{"configured", "", []string{"06:00", "07:00"}},
		{"off", "off", []string{"01:00", "02:00", "03:00", "04:00", "05:00", "06:00", "07:00"}},
		{"its own", "02:00-04:30", []string{"01:00", "04:30", "05:00", "06:00", "07:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.opts.Quiet = "22:00-06:00"
				b.put("events/p.json", `{"type":"periodic","channelId":"C1","text":"x","quiet":"`+c.own+`","schedule":"0 * * * *","timezone":"UTC"}`)
				b.start()
				b.pass(3*time.Hour + 30*time.Minute)
				b.stop() // a restart in the quiet hours loses nothing
				b.start()
				b.pass(4 * time.Hour)
				var got []string
				for _, at := range b.times() {
					got = append(got, at.UTC().Format("15:04"))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("ran at %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestBadFilesAreSetAsideWithTheReason(t *testing.T) {
	for name, c := range map[string]struct{ content, reason string }{
		"half written": {`{"type":"immediate","chan`, "not an event"},
		"empty":        {"", "empty"},
		"no channel":   {`{"type":"immediate","text":"x"}`, "channelId is required"},
		"bad channel":  {`{"type":"immediate","text":"x","channelId":"../../etc"}`, "channelId"},
		"no text":      {`{"type":"immediate","channelId":"C1","text":" "}`, "text is required"},
		"text 7":       {`{"type":"immediate","channelId":"C1","text":7}`, "not an event"},
		"bad type":     {`{"type":"hourly","channelId":"C1","text":"x"}`, `type is "hourly"`},
		"bad date":     {`{"type":"one-shot","channelId":"C1","text":"x","at":"tomorrow"}`, "with an offset"},
		"no offset":    {`{"type":"one-shot","channelId":"C1","text":"x","at":"2027-01-01T10:00:00"}`, "with an offset"},
		"bad cron":     {`{"type":"periodic","channelId":"C1","text":"x","timezone":"UTC","schedule":"61 * * * *"}`, "not a schedule"},
		"never due":    {`{"type":"periodic","channelId":"C1","text":"x","timezone":"UTC","schedule":"0 0 30 2 *"}`, "never due"},
		"no zone":      {`{"type":"periodic","channelId":"C1","text":"x","schedule":"0 9 * * *"}`, "IANA"},
		"bad zone":     {`{"type":"periodic","channelId":"C1","text":"x","timezone":"Mars/Base","schedule":"0 9 * * *"}`, "IANA"},
		"too large":    {`{"type":"immediate","channelId":"C1","text":"` + strings.Repeat("x", MaxFile) + `"}`, "more than"},
		"long text":    {`{"type":"immediate","channelId":"C1","text":"` + strings.Repeat("x", MaxText+1) + `"}`, "more than"},
		"bad missed":   {`{"type":"immediate","channelId":"C1","text":"x","missed":"always"}`, "run-once"},
		"bad quiet":    {`{"type":"immediate","channelId":"C1","text":"x","quiet":"night"}`, "quiet hours"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.put("events/failed/bad.json", "an older one")
				b.put("events/bad.json", c.content)
				b.start()
				b.pass(5 * time.Second)
				why, err := os.ReadFile(filepath.Join(b.root, "events/failed/bad.1.reason.txt"))
				if err != nil || !strings.Contains(string(why), c.reason) {
					t.Errorf("reason %q, %v; want %q", why, err, c.reason)
				}
				if kept, _ := os.ReadFile(filepath.Join(b.root, "events/failed/bad.1.json")); string(kept) != c.content {
					t.Error("the content is not kept")
				}
				if b.there("events/bad.json") || len(b.runs()) > 0 {
					t.Error("still there, or run")
				}
				if len(b.told()) != 1 || !strings.Contains(b.told()[0], "events/bad.json") {
					t.Errorf("told %q", b.told())
				}
			})
		})
	}
}

func TestAWriterThatTakesItsTime(t *testing.T) {
	bubble(t, func(b *bench) {
		b.start()
		b.put("events/slow.json", immediate[:20])
		b.pass(250 * time.Millisecond) // read once, broken
		b.put("events/slow.json", immediate)
		b.pass(time.Second)
		b.want("[EVENT:slow.json:immediate:immediate] look")
		if len(b.told()) > 0 {
			t.Errorf("told %q", b.told())
		}
	})
}

func TestOnlyRegularJSONFiles(t *testing.T) {
	bubble(t, func(b *bench) {
		b.start()
		outside := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(outside, []byte(immediate), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(b.root, "events/link.json")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(b.root, "events/dir.json"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a.json.tmp", ".hidden.json", "notes.txt", ".json"} {
			b.put("events/"+name, immediate)
		}
		b.pass(5 * time.Second)
		b.want()
	})
}

func TestAFullQueueKeepsTheFile(t *testing.T) {
	bubble(t, func(b *bench) {
		b.refuse = func(n int) error {
			if n <= 4 {
				return transport.ErrBusy
			}
			return nil
		}
		b.put("events/now.json", immediate)
		b.start()
		b.pass(4 * time.Second)
		if !b.there("events/now.json") {
			t.Fatal("the file is gone")
		}
		b.pass(5 * time.Minute)
		b.want("[EVENT:now.json:immediate:immediate] look")
	})
}

func TestUnknownRunner(t *testing.T) {
	bubble(t, func(b *bench) {
		b.refuse = func(int) error { return transport.ErrUnknownRunner }
		b.put("events/now.json", immediate)
		b.put("events/p.json", `{"type":"periodic","channelId":"C1","text":"x","schedule":"0 * * * *","timezone":"UTC"}`)
		b.start()
		b.pass(150 * time.Minute)
		if !b.there("events/failed/now.json") || !b.there("events/p.json") {
			t.Error("the immediate file is kept as failed, the periodic one stays")
		}
		if len(b.told()) != 3 {
			t.Errorf("told %q", b.told())
		}
	})
}

func TestModifyPauseDelete(t *testing.T) {
	bubble(t, func(b *bench) {
		hourly := func(text, more string) string {
			return `{"type":"periodic","channelId":"C1","text":"` + text + `","schedule":"0 * * * *","timezone":"UTC"` + more + `}`
		}
		b.put("events/p.json", hourly("one", ""))
		b.start()
		b.pass(61 * time.Minute)
		b.put("events/p.json", hourly("two", ""))
		b.pass(time.Hour)
		b.put("events/p.json", hourly("three", `,"paused":true`))
		b.pass(2 * time.Hour)
		b.put("events/p.json", hourly("four", ""))
		b.pass(time.Hour)
		if err := os.Remove(filepath.Join(b.root, "events/p.json")); err != nil {
			t.Fatal(err)
		}
		b.changed()
		b.pass(3 * time.Hour)
		label := "[EVENT:p.json:periodic:0 * * * *] "
		b.want(label+"one", label+"two", label+"four")
		if left, _ := os.ReadDir(filepath.Join(b.root, "state", "schedule")); len(left) > 0 {
			t.Errorf("claims are left: %v", left)
		}
	})
}

// A crash after the claim, or after the message was accepted, runs the occurrence
// once.
func TestClaimedButNotDone(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		bubble(t, func(b *bench) {
			b.put("events/p.json", `{"type":"periodic","channelId":"C1","text":"x","schedule":"0 1 * * *","timezone":"UTC"}`)
			b.refuse = func(int) error { return transport.ErrClosing }
			b.start()
			b.pass(time.Hour + time.Second)
			b.stop()
			b.refuse = nil
			if accepted { // the engine has it, the ledger does not know
				files, err := os.ReadDir(filepath.Join(b.root, "state", "schedule"))
				if err != nil || len(files) != 1 {
					t.Fatalf("claims %v, %v", files, err)
				}
				var c claim
				data, _ := os.ReadFile(filepath.Join(b.root, "state", "schedule", files[0].Name()))
				if err := json.Unmarshal(data, &c); err != nil || c.Done || c.Turn == "" {
					t.Fatalf("claim %+v, %v", c, err)
				}
				key, _ := cutJSON(files[0].Name())
				id := "event-" + key + "-" + "946688400000"
				b.inbox.put(transport.Submission{Address: chat.Address{Space: chat.Slack, ID: "C1"}, Turn: c.Turn, Message: chat.Message{ID: id, Text: "before"}})
			}
			b.start()
			b.pass(time.Minute)
			if len(b.runs()) != 1 || b.repeats() != map[bool]int{false: 0, true: 1}[accepted] {
				t.Errorf("accepted=%v: %v, again %d", accepted, b.texts(), b.repeats())
			}
			b.pass(24 * time.Hour)
			if len(b.runs()) != 2 {
				t.Errorf("accepted=%v: the next slot: %v", accepted, b.texts())
			}
		})
	}
}

func TestACorruptClaimIsTriedAgainAndNothingRuns(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put("events/p.json", `{"type":"periodic","channelId":"C1","text":"x","schedule":"* * * * *","timezone":"UTC"}`)
		e := &entry{file: "events/p.json"}
		e.ev.Type = Periodic
		b.put("state/schedule/"+e.key()+".json", "{broken")
		b.start()
		b.pass(10 * time.Minute)
		b.want()
		if err := os.Remove(filepath.Join(b.root, "state/schedule", e.key()+".json")); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * time.Minute)
		if len(b.runs()) == 0 {
			t.Error("does not run after the claim was mended")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	b := newBench(t)
	for name, change := range map[string]func(*Options){
		"no workspace": func(o *Options) { o.Workspace = "" },
		"no inbox":     func(o *Options) { o.Inbox = nil },
		"no leases":    func(o *Options) { o.Leases = nil },
		"bad quiet":    func(o *Options) { o.Quiet = "late" },
	} {
		opts := b.opts
		change(&opts)
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// With the real notifications and the real clock a file runs within a moment.
func TestNotificationsOfTheFileSystem(t *testing.T) {
	b := newBench(t)
	b.opts.Watch, b.opts.Rescan = nil, time.Hour
	taken := make(chan struct{}, 1)
	b.refuse = func(int) error {
		select {
		case taken <- struct{}{}:
		default:
		}
		return nil
	}
	b.start()
	b.put("events/now.json", immediate)
	select {
	case <-taken:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody noticed the file")
	}
}
