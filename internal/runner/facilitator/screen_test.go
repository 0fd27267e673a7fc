package facilitator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/transport"
)

// onWall is a stage whose room is a channel, with direct messages as private lines.
func onWall(t *testing.T, surface string) (*stage, *wall) {
	t.Helper()
	s := newStage(t)
	s.end()
	w := newWall(t)
	s.opts.Screen, s.opts.ShowEvery = w, time.Millisecond
	s.begin()
	var people []facilitator.Person
	for _, id := range []string{"ana", "ben", "cy", "di", "eve"} {
		people = append(people, facilitator.Person{ID: id, User: "U" + strings.ToUpper(id), Channel: "D" + strings.ToUpper(id)})
	}
	_, err := s.rooms.Create(facilitator.Spec{ID: "dinner", Topic: "Friday dinner", Surface: surface, Channel: "CROOM", Participants: people})
	must(t, err)
	return s, w
}

func (s *stage) press(who, value string) error {
	id := strings.ToUpper(who)
	r, err := s.rooms.Press(s.t.Context(), transport.Answer{Ask: value, Conversation: chat.Address{Space: chat.Slack, ID: "D" + id}, From: chat.Person{ID: "U" + id}, Yes: true, At: time.Now()})
	if err == nil {
		s.wait(r.Turn)
	}
	return err
}

func last(all []note) note {
	if len(all) == 0 {
		return note{}
	}
	return all[len(all)-1]
}

// TestConsentByButton: the question is on the private line with two buttons; a yes
// changes it, until the words are said it can be taken back, and nobody else
// answers it.
func TestConsentByButton(t *testing.T) {
	s, w := onWall(t, "")
	s.dinner()
	question := last(w.shown("DCY"))
	if len(question.buttons) != 2 || !strings.Contains(question.text, "15 euros") {
		t.Fatalf("the question is %+v", question)
	}
	yes := question.press("Yes, share it")
	if err := s.press("ben", yes); !errors.Is(err, transport.ErrUnknownAsk) {
		t.Errorf("pressed on another line: %v", err)
	}
	_, err := s.rooms.Press(t.Context(), transport.Answer{Ask: yes, Conversation: chat.Address{Space: chat.Slack, ID: "DCY"}, From: chat.Person{ID: "UBEN"}})
	if !errors.Is(err, transport.ErrNotAllowed) {
		t.Errorf("pressed by somebody else: %v", err)
	}
	must(t, s.press("cy", yes))
	if err := s.press("cy", yes); !errors.Is(err, transport.ErrUnknownAsk) {
		t.Errorf("pressed twice: %v", err)
	}
	card := func() note {
		for _, n := range w.shown("DCY") {
			if n.id == question.id {
				return n
			}
		}
		return note{}
	}
	w.until("the card offers to take it back", func() bool { return card().press("Take it back") != "" })
	if found := s.outside("quagga"); len(found) != 0 {
		t.Errorf("private words in %v", found)
	}
	said := s.do(facilitate.Message("eve", "I propose the noodle bar"))
	if !strings.Contains(said, "15 euros") {
		t.Errorf("Iris said %q", said)
	}
	w.until("the card is over", func() bool { return len(card().buttons) == 0 && strings.Contains(card().text, "It was said") })
	for _, c := range []string{"DANA", "DBEN", "DDI", "DEVE"} {
		for _, n := range w.shown(c) {
			if strings.Contains(n.text, "quagga") {
				t.Errorf("%s reads %q", c, n.text)
			}
		}
	}
	// The ledger says that things are there, and not what they say.
	data, err := os.ReadFile(filepath.Join(s.opts.Dir, "dinner.shown.json"))
	if err != nil || strings.Contains(string(data), "euros") || strings.Contains(string(data), "quagga") {
		t.Errorf("the ledger: %v %s", err, data)
	}
}

// TestARefusalAndARevocationByButton keep the words where they are.
func TestARefusalAndARevocationByButton(t *testing.T) {
	for _, button := range []string{"No", "Take it back"} {
		s, w := onWall(t, "")
		s.dinner()
		if button != "No" {
			must(t, s.press("cy", last(w.shown("DCY")).press("Yes, share it")))
			w.until("it can be taken back", func() bool {
				return slices.ContainsFunc(w.shown("DCY"), func(n note) bool { return n.press(button) != "" })
			})
		}
		for _, n := range w.shown("DCY") {
			if v := n.press(button); v != "" {
				must(t, s.press("cy", v))
			}
		}
		if said := s.do(facilitate.Message("eve", "I propose the noodle bar")); strings.Contains(said, "15 euros") {
			t.Errorf("%s: Iris said %q", button, said)
		}
		w.until("no button is left", func() bool {
			return !slices.ContainsFunc(w.shown("DCY"), func(n note) bool { return len(n.buttons) > 0 })
		})
		s.end()
	}
}

// TestBallotsAreButtons: an open vote is on everybody's line, shows one's own vote
// there and nowhere else, and is over with the vote.
func TestBallotsAreButtons(t *testing.T) {
	s, w := onWall(t, "poll")
	s.do(facilitate.OpenItem("ana", "lunch", "Lunch?", "Soup", "Salad"))
	ballot := func(who string) note { return last(w.shown("D" + who)) }
	for _, who := range []string{"ANA", "BEN", "CY", "DI", "EVE"} {
		w.until(who+" has a ballot", func() bool { return ballot(who).press("Soup") != "" && ballot(who).press("Salad") != "" })
	}
	must(t, s.press("cy", ballot("CY").press("Soup")))
	w.until("one's own vote shows", func() bool { return strings.Contains(ballot("CY").text, "Your vote: **Soup**") })
	must(t, s.press("cy", ballot("CY").press("Salad")))
	w.until("a vote can be changed", func() bool { return strings.Contains(ballot("CY").text, "Your vote: **Salad**") })
	for _, who := range []string{"ana", "ben", "di", "eve"} {
		must(t, s.press(who, ballot(strings.ToUpper(who)).press("Soup")))
	}
	w.until("the board has the turnout", func() bool { return strings.Contains(last(w.shown("CROOM")).text, "5 of 5") })
	if text := last(w.shown("CROOM")).text; strings.Contains(text, "winner: ") {
		t.Errorf("the outcome shows before the close: %s", text)
	}
	old := ballot("BEN").press("Salad")
	s.do(facilitate.Set("ana", "lunch", "status", "closed"))
	for _, who := range []string{"ANA", "BEN", "CY", "DI", "EVE"} {
		w.until("the ballot of "+who+" is over", func() bool { return len(ballot(who).buttons) == 0 && len(w.shown("D"+who)) == 1 })
	}
	w.until("the board has the outcome", func() bool { return strings.Contains(last(w.shown("CROOM")).text, "winner: Soup") })
	if err := s.press("ben", old); !errors.Is(err, transport.ErrUnknownAsk) {
		t.Errorf("voted after the close: %v", err)
	}
}

// TestTheBoardIsPinnedAndKeptUpToDate: one message, whatever happens to it, to the
// process and to the right to pin.
func TestTheBoardIsPinnedAndKeptUpToDate(t *testing.T) {
	s, w := onWall(t, "")
	board := func() note { return last(w.shown("CROOM")) }
	s.do(facilitate.Message("ana", "Where do we eat on Friday?"))
	w.until("the board is pinned", func() bool { return board().pinned && strings.Contains(board().text, "Where do we eat on Friday") })
	first := board().id
	s.do(facilitate.Message("ben", "I propose the steak house"))
	w.until("the board has the option", func() bool { return strings.Contains(board().text, "the steak house") && board().id == first })
	s.end()
	s.begin()
	s.rooms.Wake()
	s.do(facilitate.Message("eve", "I propose the noodle bar"))
	w.until("the board is the same after a restart", func() bool { return strings.Contains(board().text, "noodle bar") && board().id == first })
	if n := len(w.shown("CROOM")); n != 1 {
		t.Errorf("%d boards", n)
	}
	w.take("CROOM", 0)
	w.faults(func(method, _ string) (error, bool) {
		if method == "pin" {
			return &transport.SendError{Fault: transport.Refused, Err: errors.New("not enough rights")}, false
		}
		return nil, false
	})
	s.do(facilitate.Message("ben", "Agreed, the noodle bar"))
	w.until("a board that was deleted is there again", func() bool { return strings.Contains(board().text, "decided") && board().id != first })
	s.do(facilitate.Message("di", "What do we bring along?"))
	w.until("a board that cannot be pinned is kept up to date", func() bool { return strings.Contains(board().text, "bring along") && len(w.shown("CROOM")) == 1 })
}

// TestALineIsShownOnce: an answer of the platform that was lost makes no second
// message where it can tell what is there, and a labelled one where it cannot; what
// certainly had no effect is made again. The words are the room's to keep.
func TestALineIsShownOnce(t *testing.T) {
	for _, c := range []struct {
		name        string
		blind, had  bool
		maybe       bool
		want, label int
	}{
		{"it was posted, and it can be told", false, true, true, 1, 0},
		{"it was not posted, and it can be told", false, false, true, 1, 0},
		{"it was posted, and cannot be told", true, true, true, 2, 1},
		{"it was certainly not posted", true, false, false, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, w := onWall(t, "")
			w.blind = c.blind
			broken := 0
			w.faults(func(method, chat string) (error, bool) {
				if method == "post" && chat == "DCY" && broken == 0 {
					broken++
					return &transport.SendError{Fault: transport.Unreachable, Maybe: c.maybe, Err: errors.New("reset")}, c.had
				}
				return nil, false
			})
			s.do(facilitate.Message("ana", "Where do we eat on Friday?"))
			s.do(facilitate.Message("di", "Somewhere with a terrace"))
			s.do(facilitate.Message("ben", "I propose the steak house, Cy")) // Iris asks Cy
			s.end()                                                          // as a crash would
			s.begin()
			s.rooms.Wake()
			w.until("the line is there", func() bool { return len(w.shown("DCY")) >= c.want })
			s.do(facilitate.Message("ana", "let us see"))
			labels := 0
			for _, n := range w.shown("DCY") {
				if n.repeat {
					labels++
				}
			}
			if got := w.shown("DCY"); len(got) != c.want || labels != c.label {
				t.Errorf("shown %+v", got)
			}
		})
	}
}

// TestTheHostIsTold what the room asks for, and nobody else is.
func TestTheHostIsTold(t *testing.T) {
	s := newStage(t)
	s.end()
	told := make(chan string, 1)
	s.opts.Tell = func(_ context.Context, room, text string) error {
		told <- room + ": " + text
		return nil
	}
	s.begin()
	s.create("")
	s.do(facilitate.Message("ana", "Where do we eat on Friday?"))
	s.do(facilitate.Message("ben", "Iris, please get a human"))
	select {
	case got := <-told:
		if !strings.Contains(got, "dinner: ") {
			t.Errorf("told %q", got)
		}
	default:
		t.Error("the host was not told")
	}
}

// TestATickThatIrisAskedFor comes at its time, also when nobody says anything.
func TestATickThatIrisAskedFor(t *testing.T) {
	s, _ := onWall(t, "")
	s.do(facilitate.Message("ana", "Where do we eat on Friday?"))
	s.do(facilitate.Message("ben", "Iris, remind us later"))
	if inside := fmt.Sprint(s.view(facilitator.Self).Sealed.Pages); !strings.Contains(inside, "schedule") {
		t.Errorf("Iris did not plan: %s", inside)
	}
}

// TestAPostIsOnDiskBeforeItsReceipt: when what the turn saved cannot be made
// durable, the room's store still has the post to deliver, and the next turn shows
// it.
func TestAPostIsOnDiskBeforeItsReceipt(t *testing.T) {
	s := newStage(t)
	s.end()
	full, synced := true, 0
	s.opts.Sync = func(context.Context) error {
		if synced++; full {
			return errors.New("no room on the disk")
		}
		return nil
	}
	s.begin()
	s.create("")
	s.do(facilitate.Message("ana", "Where do we eat on Friday?"))
	if said := s.do(facilitate.Message("ben", "Iris, what do you think?")); said != "" || synced == 0 {
		t.Errorf("said %q after %d syncs", said, synced)
	}
	full = false
	if said := s.do(facilitate.Message("di", "Somewhere with a terrace")); !strings.Contains(said, "I have no vote") {
		t.Errorf("the next turn says %q", said)
	}
}
