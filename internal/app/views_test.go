package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheFleetTellsNoSecrets: how the agents are is told without their tokens and
// the names of their secrets.
func TestTheFleetTellsNoSecrets(t *testing.T) {
	p, _ := besieged(t)
	var a answer
	until(t, "the agents have been asked", func() bool {
		a = p.do("GET", "/agents", "")
		return strings.Count(a.body, `"ok":false`) == 2
	})
	for _, name := range []string{"stolen", "other"} {
		if !strings.Contains(a.body, `"name":"`+name+`"`) {
			t.Errorf("@%s is missing: %s", name, a.body)
		}
	}
	for _, word := range []string{stolen, "token-of-the-other", "token", "ALLOWED_ONE", "PROXY-ONE", "OTHER-CANARY", "canary-"} {
		if strings.Contains(a.body, word) {
			t.Errorf("GET /agents tells %q: %s", word, a.body)
		}
	}
}

// TestWhatIsPlannedOverHTTPWakesIris: an event that was planned over HTTP, and
// one that is run besides its times, wake their conversation.
func TestWhatIsPlannedOverHTTPWakesIris(t *testing.T) {
	p := newPlace(t)
	p.serve()
	add := func(body string) string {
		t.Helper()
		a := p.do("POST", "/schedules", body)
		var made struct{ Name, File string }
		if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != http.StatusCreated {
			t.Fatalf("POST /schedules = %v", a)
		}
		if _, err := os.Stat(filepath.Join(p.workspace, made.File)); err != nil && !strings.Contains(body, "immediate") {
			t.Errorf("the event is not in the workspace: %v", err)
		}
		return made.Name
	}
	said := func(text string) func() bool {
		return func() bool { return strings.Contains(p.do("GET", "/page/threads/plans/history", "").body, text) }
	}
	add(`{"type":"immediate","channelId":"WEBUI-plans","text":"help now"}`)
	until(t, "the immediate event wakes her", said("help now"))
	yearly := add(`{"type":"periodic","channelId":"WEBUI-plans","text":"help yearly","schedule":"0 0 1 1 *","timezone":"Europe/Berlin"}`)
	if a := p.do("POST", "/schedules/"+yearly, `{"action":"run"}`); a.status != http.StatusOK {
		t.Fatalf("run: %v", a)
	}
	until(t, "the run wakes her", said("help yearly"))
	if a := p.do("GET", "/schedules", ""); !strings.Contains(a.body, yearly) {
		t.Errorf("the event is gone after a run: %s", a.body)
	}
}
