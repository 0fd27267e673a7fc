package app_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sixAtDinner = `{"id":"dinner","topic":"Friday dinner","participants":[{"id":"ana"},{"id":"ben"},{"id":"cy"},{"id":"di"},{"id":"eve"}]}`

// event lets something happen in the room dinner and returns what Iris said to
// everybody.
func (p *place) event(body string) string {
	p.t.Helper()
	a := p.do("POST", "/rooms/dinner/events", body)
	if a.status != http.StatusOK {
		p.t.Fatalf("event %s = %v", body, a)
	}
	return a.field(p, "text")
}

// TestRoomInTheServer plays a room over HTTP with a kill in the middle, and
// greps for what was told privately: 0 hits in the workspace outside of
// state/rooms, in streams, logs, the page's data and the sides of others.
func TestRoomInTheServer(t *testing.T) {
	// Not a constant: the workspace holds a copy of the program.
	canary := fmt.Sprintf("okapi%d", time.Now().UnixNano())
	p := newPlace(t)
	s := p.serve()
	if a := p.do("POST", "/rooms", sixAtDinner); a.status != http.StatusCreated {
		t.Fatalf("POST /rooms = %v", a)
	}
	if a := p.do("POST", "/rooms", strings.Replace(sixAtDinner, "dinner", "native", 1)); a.status != http.StatusBadRequest {
		t.Errorf("a room with a runner's name = %v", a)
	}
	p.event(`{"type":"message","author":"ana","text":"Where do we eat on Friday?"}`)
	p.event(`{"type":"message","author":"di","text":"Somewhere with a terrace"}`)
	p.event(`{"type":"message","author":"ben","text":"I propose the steak house"}`)
	p.event(`{"type":"caucus","author":"eve","text":"` + canary + `: my doctor forbids meat, tell nobody"}`)
	p.event(`{"type":"caucus","author":"cy","text":"quagga: I can spend at most 15 euros"}`)
	p.event(`{"type":"consent","author":"cy","release":"r1","yes":true}`)
	s.kill()
	s = p.serve()
	said := p.event(`{"type":"message","author":"eve","text":"I propose the noodle bar"}`)
	if !strings.Contains(said, "15 euros") {
		t.Errorf("after a kill Iris said %q to the room", said)
	}
	p.event(`{"type":"message","author":"ben","text":"So be it"}`)
	var room struct {
		Lines []struct{ Text string }
	}
	if err := json.Unmarshal([]byte(p.do("GET", "/rooms/dinner", "").body), &room); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range room.Lines {
		if strings.Contains(l.Text, "15 euros") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the released words are %d times in the room: %+v", n, room.Lines)
	}
	// Eve's words were never released: they are nowhere else.
	// A session may be one more way into the room.
	session := p.do("POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1.1","runner":"dinner"}`)
	if a := p.do("POST", "/sessions/"+session.field(p, "sessionId")+"/message", `{"text":"A line by the session","user":"di"}`); a.status != http.StatusOK {
		t.Errorf("a message to a session of the room = %v", a)
	}
	if !strings.Contains(p.do("GET", "/rooms/dinner", "").body, "A line by the session") {
		t.Error("what was said in the session is not in the room")
	}
	for what, text := range map[string]string{
		"the room": p.do("GET", "/rooms/dinner", "").body, "Ben's side": p.do("GET", "/rooms/dinner?as=ben", "").body,
		"Cy's side": p.do("GET", "/rooms/dinner?as=cy", "").body, "the rooms": p.do("GET", "/rooms", "").body,
		"the threads": p.do("GET", "/page/threads", "").body, "the history": p.do("GET", "/page/threads/SESSION-room-dinner/history", "").body,
		"the channels": p.do("GET", "/channels", "").body, "a session": session.body, "the metrics": p.do("GET", "/metrics", "").body,
		"the log": s.stderr.String(),
	} {
		if strings.Contains(text, canary) {
			t.Errorf("%s holds a private word", what)
		}
	}
	if !strings.Contains(p.do("GET", "/rooms/dinner?as=eve", "").body, canary) || !strings.Contains(p.do("GET", "/rooms/dinner?as=self", "").body, canary) {
		t.Error("Eve and the operator do not see Eve's words: the check would find nothing anywhere")
	}
	own := filepath.Join(p.workspace, "state", "rooms")
	err := filepath.WalkDir(p.workspace, func(path string, d fs.DirEntry, err error) error {
		if path == own {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), canary) {
			t.Errorf("%s holds a private word", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s.stop()
}
