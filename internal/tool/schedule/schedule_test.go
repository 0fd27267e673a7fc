package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	events "github.com/iris-operator/iris/internal/schedule"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/tool/tooltest"
)

func open(t *testing.T) (*Tool, *events.Store) {
	t.Helper()
	store := events.NewStore(t.TempDir())
	s, err := New(Options{Store: store, Zone: "Europe/Berlin", Max: 100})
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}

func TestTool(t *testing.T) {
	tooltest.Run(t, func(t *testing.T) tooltest.Subject {
		s, store := open(t)
		for range 40 {
			if _, err := store.Add(events.Event{Type: events.Periodic, ChannelID: "SESSION-tooltest", Text: strings.Repeat("long ", 1000), Schedule: "0 9 * * *", Timezone: "UTC"}); err != nil {
				t.Fatal(err)
			}
		}
		return tooltest.Subject{Tool: s, Good: `{"action":"every","cron":"0 9 * * 1-5","text":"stand-up"}`, Big: `{"action":"list"}`}
	})
}

func call(s *Tool, conv, args string) tool.Result {
	c := tooltest.Call(args)
	c.Request.Conversation = chat.Address{Space: chat.Session, ID: conv}
	return s.Call(context.Background(), c)
}

func TestScheduleAndManage(t *testing.T) {
	s, store := open(t)
	r := call(s, "a", `{"action":"every","cron":"0 9 * * 1-5","text":"stand-up"}`)
	if r.IsError || !strings.Contains(r.Text, "09:00 CE") || strings.Count(r.Text, "UTC") != 3 {
		t.Fatalf("every: %+v", r)
	}
	at := time.Now().AddDate(1, 0, 0).UTC().Format("2006-01-02") + "T09:00"
	if r = call(s, "a", `{"action":"once","at":"`+at+`","text":"renew"}`); r.IsError || !strings.Contains(r.Text, "09:00 CE") {
		t.Fatalf("once: %+v", r)
	}
	all, err := store.List()
	if err != nil || len(all) != 2 || all[0].Event.ChannelID != "SESSION-a" || all[0].Event.User != "U1" {
		t.Fatalf("list %+v, %v", all, err)
	}
	name := all[0].Name
	for _, step := range []struct{ args, want string }{
		{`{"action":"list"}`, name},
		{`{"action":"pause","name":"` + name + `"}`, "paused"},
		{`{"action":"list"}`, "paused"},
		{`{"action":"resume","name":"` + strings.TrimSuffix(name, ".json") + `"}`, "runs again"},
		{`{"action":"cancel","name":"` + name + `"}`, "Cancelled"},
	} {
		if r := call(s, "a", step.args); r.IsError || !strings.Contains(r.Text, step.want) {
			t.Errorf("%s: %+v, want %q", step.args, r, step.want)
		}
	}
}

func TestOtherConversationsAreOutOfReach(t *testing.T) {
	s, store := open(t)
	it, err := store.Add(events.Event{Type: events.Periodic, ChannelID: "SESSION-b", Text: "canary", Schedule: "0 9 * * *", Timezone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	if r := call(s, "a", `{"action":"list"}`); strings.Contains(r.Text, "canary") {
		t.Errorf("list shows %s", r.Text)
	}
	for _, action := range []string{"pause", "cancel"} {
		for _, name := range []string{it.Name, it.File} {
			if r := call(s, "a", fmt.Sprintf(`{"action":%q,"name":%q}`, action, name)); !r.IsError {
				t.Errorf("%s %s: %+v", action, name, r)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	s, _ := open(t)
	s.opts.Max = 1
	for args, want := range map[string]string{
		`{"action":"sometimes"}`:                                               "can be",
		`{"action":"every","text":"x","cron":"61 * * * *"}`:                    "not a schedule",
		`{"action":"every","text":"x","cron":"0 0 30 2 *"}`:                    "never due",
		`{"action":"every","text":"x","cron":"0 9 * * *","timezone":"Mars/B"}`: "IANA",
		`{"action":"every","cron":"0 9 * * *"}`:                                "text",
		`{"action":"once","text":"x","at":"tomorrow"}`:                         "date and time",
		`{"action":"once","text":"x","at":"2020-01-01T00:00"}`:                 "past",
		`{"action":"once","text":"x","at":"2027-03-28T02:30"}`:                 "does not exist",
		`{"action":"once","text":"x"}`:                                         "at",
		`{"action":"cancel"}`:                                                  "name",
		`{"action":"cancel","name":"x"}`:                                       "no schedule",
	} {
		if r := call(s, "a", args); !r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
	call(s, "a", `{"action":"every","text":"x","cron":"0 9 * * *"}`)
	if r := call(s, "a", `{"action":"every","text":"x","cron":"0 9 * * *"}`); !r.IsError || !strings.Contains(r.Text, "cancel one first") {
		t.Errorf("one too many: %+v", r)
	}
	if !json.Valid(s.Spec().Schema) {
		t.Error("the schema is not JSON")
	}
}
