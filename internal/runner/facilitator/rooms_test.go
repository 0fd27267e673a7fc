package facilitator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// TestConsentReachesTheRoomOnce is the whole arc through the engine: a private
// word, the question, a yes by the button, and the words in the room behind the
// next line, once.
func TestConsentReachesTheRoomOnce(t *testing.T) {
	s := newStage(t)
	s.create("")
	s.dinner()
	cy := s.view("cy").Private
	if len(cy.Consents) != 1 || !strings.Contains(cy.Consents[0].Wording, "15 euros") {
		t.Fatalf("the question on Cy's line = %+v", cy)
	}
	if said := s.do(facilitate.Consent("cy", cy.Consents[0].ID, true)); said != "" {
		t.Errorf("right behind the yes Iris said %q to the room", said)
	}
	if g := s.view("cy").Private.Granted; len(g) != 1 {
		t.Errorf("granted = %+v", g)
	}
	said := s.do(facilitate.Message("eve", "I propose the noodle bar"))
	if !strings.Contains(said, "15 euros") {
		t.Errorf("behind the next line Iris said %q", said)
	}
	s.do(facilitate.Message("ben", "Agreed, the noodle bar"))
	v := s.view("")
	n := 0
	for _, l := range v.Lines {
		if strings.Contains(l.Text, "15 euros") {
			n++
		}
	}
	if n != 1 || len(v.Statements) != 1 {
		t.Errorf("the words are %d times in the room, statements %q", n, v.Statements)
	}
	if v.Board[0].Fields["resolution"] != "the noodle bar" || !v.Board[0].Closed {
		t.Errorf("board = %+v", v.Board)
	}
}

// TestPrivateWordsAreNowhereElse greps for what was told privately: 0 hits in the
// workspace outside of state/rooms, in what a watcher of the room gets, and in
// what everybody and everybody else may look at.
func TestPrivateWordsAreNowhereElse(t *testing.T) {
	s := newStage(t)
	spec := s.create("")
	s.dinner()
	s.do(facilitate.Caucus("eve", "okapi is my doctor's word, do not tell"))
	s.do(facilitate.Contribution("ana", "where-do-we-eat-on-friday", map[string]any{"stance": "narwhal"}))
	s.do(facilitate.Message("ben", "So what now?"))
	canaries := []string{"quagga", "okapi", "narwhal"}
	var watched strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	for seen, err := range s.engine.Watch(ctx, spec.Address(), 0) {
		must(t, err)
		data, err := json.Marshal(seen.Record)
		must(t, err)
		watched.Write(data)
		if !seen.More {
			break
		}
	}
	cancel()
	if !strings.Contains(watched.String(), "steak house") {
		t.Fatalf("the watcher saw nothing of the room: %s", watched.String())
	}
	look := func(what, text string, hidden ...string) {
		for _, c := range hidden {
			if strings.Contains(text, c) {
				t.Errorf("%s holds %q", what, c)
			}
		}
	}
	draw := func(viewer string) string {
		data, err := json.Marshal(s.view(viewer))
		must(t, err)
		return string(data)
	}
	look("the stream of the room", watched.String(), append(canaries, `"cy"`)...)
	look("the room", draw(""), canaries...)
	look("Ben's side", draw("ben"), canaries...)
	look("Cy's side", draw("cy"), "okapi", "narwhal")
	look("Eve's side", draw("eve"), "quagga", "narwhal")
	for viewer, own := range map[string]string{"cy": "quagga", "eve": "okapi", facilitator.Self: "okapi"} {
		if !strings.Contains(draw(viewer), own) {
			t.Errorf("%s does not see %q: the check would find nothing anywhere", viewer, own)
		}
	}
	if found := s.outside(canaries...); len(found) > 0 {
		t.Errorf("outside of state/rooms: %q", found)
	}
	s.end()
	if found := s.outside(canaries...); len(found) > 0 {
		t.Errorf("outside of state/rooms, after the end: %q", found)
	}
	if found := s.outside("steak house"); len(found) == 0 {
		t.Error("a public word is not found either: the check finds nothing")
	}
}

// TestRoomSurvivesRestart ends everything between the yes and the line behind
// which the words are said.
func TestRoomSurvivesRestart(t *testing.T) {
	s := newStage(t)
	s.create("")
	s.dinner()
	s.do(facilitate.Consent("cy", s.view("cy").Private.Consents[0].ID, true))
	before := len(s.view("").Lines)
	s.end()
	s.begin()
	if n := len(s.view("").Lines); n != before {
		t.Errorf("lines after the restart = %d, want %d", n, before)
	}
	if said := s.do(facilitate.Message("eve", "I propose the noodle bar")); !strings.Contains(said, "15 euros") {
		t.Errorf("after the restart Iris said %q", said)
	}
}

// TestSealedOnAPrivateLine submits at the address of a private line, as a chat
// platform does.
func TestSealedOnAPrivateLine(t *testing.T) {
	s := newStage(t)
	spec, err := s.rooms.Create(facilitator.Spec{ID: "dinner", Channel: "C1", Participants: []facilitator.Person{
		{ID: "ana", User: "UANA", Channel: "DANA"}, {ID: "ben", User: "UBEN", Channel: "DBEN"},
	}})
	must(t, err)
	say := func(channel, user, id, text string) transport.Receipt {
		t.Helper()
		a, err := chat.Parse(channel)
		must(t, err)
		r, err := s.engine.Submit(t.Context(), transport.Submission{Address: a, Message: chat.Message{ID: id, From: chat.Person{ID: user}, Text: text}})
		must(t, err)
		if r.Turn != "" {
			s.wait(r.Turn)
		}
		return r
	}
	say("C1", "UANA", "1", "Where shall we go?")
	say("DBEN", "UBEN", "2", "quagga, not the lake")
	if r := say("DBEN", "UBEN", "2", "quagga, not the lake"); !r.Duplicate {
		t.Errorf("a repeat = %+v", r)
	}
	if said := s.wait(say("C1", "USTRANGER", "3", "let me in").Turn); !strings.Contains(said, "participants") {
		t.Errorf("a stranger is told %q", said)
	}
	if said := s.wait(say("C1", "UANA", "4", "/edit 99 nothing").Turn); !strings.Contains(said, "does not work") {
		t.Errorf("an impossible edit is told %q", said)
	}
	say("C1", "UANA", "5", "/edit 1 Where shall we swim?")
	say("DBEN", "UBEN", "6", "/opt-out record")
	room, ben := s.view(""), s.view("ben")
	if len(room.Lines) != 1 || room.Lines[0].Text != "Where shall we swim?" || !room.Lines[0].Edited {
		t.Errorf("lines = %+v", room.Lines)
	}
	mine := 0
	for _, l := range ben.Private.Lines {
		if l.From == "ben" {
			mine++
		}
	}
	if mine != 1 || len(ben.Private.OptOut) != 1 {
		t.Errorf("Ben's line = %+v", ben.Private)
	}
	if found := s.outside("quagga", "DBEN"); len(found) > 0 {
		t.Errorf("outside of state/rooms: %q", found)
	}
	if spec.Address().Channel() != "C1" {
		t.Errorf("address = %v", spec.Address())
	}
	_, err = s.engine.Submit(t.Context(), transport.Submission{Address: chat.Address{Space: chat.Slack, ID: "DBEN"}, Origin: turn.FromSchedule, Message: chat.Message{ID: "7", Text: "x"}})
	if !errors.Is(err, transport.ErrNotAllowed) {
		t.Errorf("a schedule on a private line = %v", err)
	}
}

// TestWords does by words what a page does with buttons.
func TestWords(t *testing.T) {
	s := newStage(t)
	_, err := s.rooms.Create(facilitator.Spec{ID: "dinner", Surface: "poll", Policy: "vote-teller", Participants: []facilitator.Person{{ID: "ana"}, {ID: "ben"}, {ID: "cy"}, {ID: "di"}, {ID: "eve"}}})
	must(t, err)
	say := func(person, text string) {
		t.Helper()
		id := "room-dinner"
		if person != "" {
			id += "--" + person
		}
		from := person
		if person == "" {
			from = "ana"
		}
		r, err := s.engine.Submit(t.Context(), transport.Submission{Address: chat.Address{Space: chat.Session, ID: id}, Message: chat.Message{ID: person + text, From: chat.Person{ID: from}, Text: text}, Origin: turn.FromAPI})
		must(t, err)
		s.wait(r.Turn)
	}
	say("", "/open Lunch?: Soup | Salad")
	say("ben", "/vote soup")
	say("cy", "/vote lunch: Salad")
	v := s.view("")
	if len(v.Board) != 1 || !strings.HasPrefix(v.Board[0].Result["turnout"], "2 of 5") {
		t.Fatalf("board = %+v", v.Board)
	}
	if c := s.view("ben").Private.Contributions["lunch"]["vote"]; c != "Soup" {
		t.Errorf("Ben's vote = %v", c)
	}
	if strings.Contains(fmt.Sprint(s.view("cy")), "Soup:") {
		t.Error("Cy sees the count")
	}
	say("", "a line of mine")
	say("", "/delete 1")
	say("di", "/leave")
	say("ben", "/erase")
	v = s.view("")
	if l := v.Lines[0]; !l.Deleted || l.Text != "" {
		t.Errorf("line = %+v", l)
	}
	for _, p := range v.People {
		if p.Away != (p.ID == "di") {
			t.Errorf("%s away: %v", p.ID, p.Away)
		}
	}
	if c := s.view("ben").Private.Contributions; len(c) != 0 {
		t.Errorf("after the erasure Ben's side = %v", c)
	}
	say("di", "/join")
	if s.view("").People[3].Away {
		t.Error("Di is not back")
	}
}

// TestConsentByWords answers the question with words, and takes them back.
func TestConsentByWords(t *testing.T) {
	s := newStage(t)
	s.create("")
	s.dinner()
	line := chat.Address{Space: chat.Session, ID: "room-dinner--cy"}
	for i, text := range []string{"/yes", "/revoke r1"} {
		r, err := s.engine.Submit(t.Context(), transport.Submission{Address: line, Origin: turn.FromAPI, Message: chat.Message{ID: fmt.Sprint(i), From: chat.Person{ID: "cy"}, Text: text}})
		must(t, err)
		s.wait(r.Turn)
		if g := s.view("cy").Private.Granted; len(g) != 1-i {
			t.Errorf("after %s granted = %+v", text, g)
		}
	}
	if said := s.do(facilitate.Message("eve", "I propose the noodle bar")); strings.Contains(said, "15 euros") {
		t.Errorf("revoked words were said: %q", said)
	}
}

// TestTimerSaysWhatWasGranted: nobody speaks, and the words come with the timer.
func TestTimerSaysWhatWasGranted(t *testing.T) {
	s := newStage(t)
	s.end()
	s.opts.TickAfter = 20 * time.Millisecond
	s.begin()
	s.create("")
	s.dinner()
	if c := s.view("cy").Private.Consents; len(c) == 1 {
		s.do(facilitate.Consent("cy", c[0].ID, true))
	}
	deadline := time.Now().Add(30 * time.Second)
	for len(s.view("").Statements) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the words were never said")
		}
		time.Sleep(5 * time.Millisecond) // the timer is what is tested
	}
}

// TestResumedTurnShowsItsPostOnce: the process died between the delivery of a
// post and the end of its turn.
func TestResumedTurnShowsItsPostOnce(t *testing.T) {
	s := newStage(t)
	s.create("")
	r, ok := s.rooms.Runner("dinner")
	if !ok {
		t.Fatal("no runner")
	}
	req := runnertest.Request(chat.Address{Space: chat.Session, ID: "room-dinner"}, "hello all")
	req.Message.From.ID = "ana"
	sink := runnertest.NewSink(t)
	req.Attempt, req.Resume = 2, []json.RawMessage{json.RawMessage(`{"effect":"e1","text":"what I had said"}`), json.RawMessage(`{"effect":"e2","text":"and this"}`)}
	must(t, r.Run(t.Context(), req, sink))
	if end := sink.End(); end == nil || end.Text != "what I had said\n\nand this" {
		t.Errorf("end = %+v", end)
	}
	again := runnertest.NewSink(t)
	must(t, r.Run(t.Context(), req, again))
	if n := len(s.view("").Lines); n != 1 {
		t.Errorf("the message of a resumed turn is %d times in the room", n)
	}
}

// TestStepsReachTheRoomOnCommit drives the room by hand, goes back, and commits.
func TestStepsReachTheRoomOnCommit(t *testing.T) {
	s := newStage(t)
	s.create("")
	step := func(o facilitator.Order) *facilitator.Steps {
		t.Helper()
		st, err := s.rooms.Step(t.Context(), "dinner", o)
		must(t, err)
		return st
	}
	say := func(who facilitate.ID, text string) *facilitate.Event {
		ev := facilitate.Message(who, text)
		return &ev
	}
	step(facilitator.Order{Op: "start"})
	step(facilitator.Order{Op: "next", Event: say("ana", "Where do we eat?")})
	step(facilitator.Order{Op: "next"})
	st := step(facilitator.Order{Op: "prev"})
	if !st.CanRedo || st.Cursor != 1 || !strings.Contains(st.Room, "Where do we eat?") {
		t.Errorf("after a step back = %+v", st)
	}
	if n := len(s.view("").Lines); n != 0 {
		t.Errorf("a step that was not committed is in the room: %d lines", n)
	}
	st = step(facilitator.Order{Op: "next", Event: say("ben", "At home")})
	if len(st.Branches) != 2 || s.view(facilitator.Self).Steps == nil {
		t.Errorf("branches = %q", st.Branches)
	}
	step(facilitator.Order{Op: "switch", Branch: "main"})
	step(facilitator.Order{Op: "goto", N: 1})
	if st = step(facilitator.Order{Op: "commit"}); st != nil {
		t.Errorf("after the commit = %+v", st)
	}
	if l := s.view("").Lines; len(l) != 1 || l[0].From != "ana" {
		t.Errorf("lines = %+v", l)
	}
	if _, err := s.rooms.Step(t.Context(), "dinner", facilitator.Order{Op: "dance"}); !errors.Is(err, facilitate.ErrStepper) {
		t.Errorf("an unknown order = %v", err)
	}
	step(facilitator.Order{Op: "stop"})
	if s.view(facilitator.Self).Steps != nil {
		t.Error("the stepper is still there")
	}
}

// TestRoomsAreRefused lists what cannot be a room, and says why.
func TestRoomsAreRefused(t *testing.T) {
	s := newStage(t)
	s.end()
	s.opts.Taken = func(name string) bool { return name == "billing" }
	s.begin()
	s.create("")
	two := []facilitator.Person{{ID: "ana"}, {ID: "ben"}}
	for name, c := range map[string]struct {
		spec facilitator.Spec
		want string
	}{
		"no id":             {facilitator.Spec{Participants: two}, "id"},
		"a path":            {facilitator.Spec{ID: "../x", Participants: two}, "id"},
		"long":              {facilitator.Spec{ID: strings.Repeat("a", 41), Participants: two}, "id"},
		"nobody":            {facilitator.Spec{ID: "a"}, "participants"},
		"reserved":          {facilitator.Spec{ID: "a", Participants: []facilitator.Person{{ID: "iris"}}}, "reserved"},
		"twice":             {facilitator.Spec{ID: "a", Participants: []facilitator.Person{{ID: "ana"}, {ID: "ana"}}}, "twice"},
		"surface":           {facilitator.Spec{ID: "a", Surface: "moods", Participants: two}, "decisions"},
		"policy":            {facilitator.Spec{ID: "a", Policy: "tyrant", Participants: two}, "facilitator"},
		"channel":           {facilitator.Spec{ID: "a", Channel: "tg-x", Participants: two}, "channel"},
		"channel twice":     {facilitator.Spec{ID: "a", Channel: "C1", Participants: []facilitator.Person{{ID: "ana", Channel: "C1"}}}, "twice"},
		"channel of a room": {facilitator.Spec{ID: "a", Channel: "SESSION-room-dinner", Participants: two}, "dinner"},
		"there already":     {facilitator.Spec{ID: "dinner", Channel: "C9", Participants: []facilitator.Person{{ID: "x"}}}, "already"},
		"an agent's":        {facilitator.Spec{ID: "billing", Participants: two}, "agent"},
	} {
		if _, err := s.rooms.Create(c.spec); !errors.Is(err, facilitator.ErrSpec) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(s.rooms.List()); n != 1 {
		t.Errorf("%d rooms", n)
	}
	if _, err := s.rooms.View(t.Context(), "nowhere", ""); !errors.Is(err, facilitator.ErrUnknown) {
		t.Errorf("a room that is not there = %v", err)
	}
	if _, err := s.rooms.View(t.Context(), "dinner", "stranger"); !errors.Is(err, facilitator.ErrUnknown) {
		t.Errorf("the side of a stranger = %v", err)
	}
	if _, err := s.rooms.Do(t.Context(), "dinner", facilitate.Message("stranger", "hi")); !errors.Is(err, facilitate.ErrEvent) {
		t.Errorf("an event by a stranger = %v", err)
	}
	if _, ok := s.rooms.Runner("nowhere"); ok {
		t.Error("a runner for no room")
	}
	file := filepath.Join(s.dir, "state", "rooms", "rooms.json")
	must(t, os.WriteFile(file, []byte("{"), 0o600))
	if _, err := facilitator.New(s.opts); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken list = %v", err)
	}
}
