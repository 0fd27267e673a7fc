package api

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/schedule"
	"github.com/iris-operator/iris/internal/turn"
)

// planning gives a house the event files of a workspace of its own.
func planning(t *testing.T) (*house, string) {
	t.Helper()
	dir := t.TempDir()
	return openHouse(t, func(o *Options) { o.Schedules, o.Zone = schedule.NewStore(dir), "Europe/Berlin" }), dir
}

func (h *house) planned() []map[string]any {
	h.t.Helper()
	var all []map[string]any
	for _, it := range h.want(200, "GET", "/schedules", "").json["schedules"].([]any) {
		all = append(all, it.(map[string]any))
	}
	return all
}

func putEvent(t *testing.T, dir, file, content string) {
	t.Helper()
	at := filepath.Join(dir, file)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSchedulesOverHTTP: what is planned can be made, seen with its next times,
// held, run besides its times and taken back.
func TestSchedulesOverHTTP(t *testing.T) {
	h, dir := planning(t)
	if r := h.want(200, "GET", "/schedules", ""); r.str("zone") != "Europe/Berlin" || len(r.json["schedules"].([]any)) != 0 {
		t.Fatalf("an empty workspace: %s", r.raw)
	}
	made := h.want(201, "POST", "/schedules", `{"type":"periodic","channelId":"WEBUI-t","text":"look at the tickets","schedule":"0 9 * * 1-5"}`)
	name := made.str("name")
	event := made.json["event"].(map[string]any)
	if event["timezone"] != "Europe/Berlin" || len(made.json["upcoming"].([]any)) != upcoming {
		t.Errorf("made: %s", made.raw)
	}
	if _, err := os.Stat(filepath.Join(dir, made.str("file"))); err != nil {
		t.Errorf("it is not on disk: %v", err)
	}
	at := "/schedules/" + name
	if r := h.want(200, "POST", at, `{"action":"pause"}`); r.json["next"] != nil || len(r.json["upcoming"].([]any)) != 0 {
		t.Errorf("paused: %s", r.raw)
	}
	if all := h.planned(); len(all) != 1 || all[0]["event"].(map[string]any)["paused"] != true {
		t.Errorf("planned: %v", all)
	}
	if r := h.want(200, "POST", at, `{"action":"resume"}`); r.json["next"] == nil {
		t.Errorf("resumed: %s", r.raw)
	}
	run := h.want(200, "POST", at, `{"action":"run"}`)
	if e := run.json["event"].(map[string]any); e["type"] != "immediate" || e["text"] != "look at the tickets" || run.str("name") == name {
		t.Errorf("run: %s", run.raw)
	}
	if n := len(h.planned()); n != 2 {
		t.Errorf("%d are planned after a run, want the event and its run", n)
	}
	h.want(200, "POST", at, `{"action":"cancel"}`)
	h.want(404, "POST", at, `{"action":"cancel"}`)
	h.want(404, "POST", at, `{"action":"run"}`)
	if all := h.planned(); len(all) != 1 || all[0]["name"] != run.str("name") {
		t.Errorf("planned: %v", all)
	}
}

// TestScheduleIDsAreNames: an id is compared with the names that are there and
// leads to no other file.
func TestScheduleIDsAreNames(t *testing.T) {
	h, dir := planning(t)
	const good = `{"type":"one-shot","channelId":"WEBUI-t","text":"x","at":"2099-01-02T09:00:00+01:00"}`
	for _, file := range []string{"events/a.json", "slack/events/a.json", "events/odd name?.json"} {
		putEvent(t, dir, file, good)
	}
	putEvent(t, dir, "events/bad.json", `{"type":"periodic"`)
	putEvent(t, dir, "events/list.json", `null`)
	putEvent(t, dir, "secret.json", good)
	for name, c := range map[string]struct {
		id, action string
		status     int
	}{
		"with or without the ending":   {"odd name?", "pause", 200},
		"a path tells two apart":       {"slack/events/a.json", "pause", 200},
		"two of one name":              {"a.json", "cancel", 409},
		"unknown":                      {"b.json", "run", 404},
		"out of the directory":         {"../secret.json", "cancel", 400},
		"a path below the workspace":   {"secret.json", "cancel", 404},
		"an absolute path":             {filepath.Join(dir, "secret.json"), "cancel", 400},
		"what has failed is no event":  {"events/failed/x.json", "run", 404},
		"broken cannot run":            {"bad.json", "run", 409},
		"broken cannot be held":        {"bad.json", "pause", 409},
		"no object cannot be held":     {"list.json", "pause", 409},
		"an action that is none":       {"a.json", "delete", 400},
		"an action that is not a word": {"a.json", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			h.want(c.status, "POST", "/schedules/"+url.PathEscape(c.id), `{"action":"`+c.action+`"}`)
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "secret.json")); err != nil {
		t.Errorf("a file that is no event is gone: %v", err)
	}
	var problems int
	for _, it := range h.planned() {
		if it["problem"] != nil {
			problems++
		}
	}
	if problems != 2 {
		t.Errorf("%d problems are listed, want 2", problems)
	}
	h.want(200, "POST", "/schedules/bad.json", `{"action":"cancel"}`)
}

func TestScheduleRefusesWhatCanNeverRun(t *testing.T) {
	h, dir := planning(t)
	for name, body := range map[string]string{
		"nothing":           `{}`,
		"no text":           `{"type":"immediate","channelId":"WEBUI-t"}`,
		"a bad channel":     `{"type":"immediate","channelId":"WEBUI-../x","text":"x"}`,
		"no date":           `{"type":"one-shot","channelId":"WEBUI-t","text":"x","at":"tomorrow"}`,
		"over":              `{"type":"one-shot","channelId":"WEBUI-t","text":"x","at":"2020-01-01T00:00:00Z"}`,
		"never due":         `{"type":"periodic","channelId":"WEBUI-t","text":"x","schedule":"0 0 30 2 *"}`,
		"an unknown zone":   `{"type":"periodic","channelId":"WEBUI-t","text":"x","schedule":"0 0 * * *","timezone":"Mars"}`,
		"not an object":     `[]`,
		"a field of a kind": `{"type":7}`,
	} {
		t.Run(name, func(t *testing.T) { h.want(400, "POST", "/schedules", body) })
	}
	if all := h.planned(); len(all) != 0 {
		t.Errorf("planned: %v in %s", all, dir)
	}
}

// TestSchedulesAreForPeople: agents and turns plan through the tool, for
// themselves; these routes show and change what everybody has planned.
func TestSchedulesAreForPeople(t *testing.T) {
	h, _ := planning(t)
	id := h.session("")
	pending := h.say(id, "hold a")
	h.begun("a")
	own := h.api.opts.Tokens.Mint(turn.Request{ID: runningTurn(t, h, id), Conversation: chat.Address{Space: chat.Session, ID: id}}).Reveal()
	const event = `{"type":"immediate","channelId":"WEBUI-t","text":"x"}`
	for who, c := range map[string]struct {
		auth   string
		status int
	}{"nobody": {"", 401}, "an agent": {"Bearer agent-token", 403}, "a turn": {"Bearer " + own, 403}} {
		t.Run(who, func(t *testing.T) {
			h.want(c.status, "GET", "/schedules", "", "Authorization", c.auth)
			h.want(c.status, "POST", "/schedules", event, "Authorization", c.auth)
			h.want(c.status, "POST", "/schedules/x", `{"action":"run"}`, "Authorization", c.auth)
		})
	}
	if all := h.planned(); len(all) != 0 {
		t.Errorf("planned: %v", all)
	}
	h.script.release("a")
	<-pending
}

func TestNothingCanBePlannedWithoutAStore(t *testing.T) {
	h := openHouse(t, nil)
	if r := h.want(200, "GET", "/schedules", ""); r.str("zone") != "UTC" || !strings.Contains(r.raw, `"schedules":[]`) {
		t.Errorf("schedules: %s", r.raw)
	}
	h.want(503, "POST", "/schedules", `{"type":"immediate","channelId":"WEBUI-t","text":"x"}`)
	h.want(503, "POST", "/schedules/x", `{"action":"run"}`)
}

func TestUpcomingIsInTheZoneOfTheEvent(t *testing.T) {
	h := openHouse(t, func(o *Options) {
		o.Now = func() time.Time { return time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC) }
	})
	next := time.Now()
	p := h.api.plannedOf(schedule.Item{Next: &next, Event: schedule.Event{
		Type: schedule.Periodic, ChannelID: "WEBUI-t", Text: "x", Schedule: "0 9 * * *", Timezone: "Europe/Berlin",
	}})
	var got []string
	for _, at := range p.Upcoming {
		got = append(got, at.Format(time.RFC3339))
	}
	if want := "2027-03-28T09:00:00+02:00 2027-03-29T09:00:00+02:00 2027-03-30T09:00:00+02:00"; strings.Join(got, " ") != want {
		t.Errorf("upcoming = %v, want %s", got, want)
	}
}
