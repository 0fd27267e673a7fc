package llm

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packets is a stream that arrives in given pieces.
type packets struct {
	left   []string
	before func() // called before each
}

func (p *packets) Read(b []byte) (int, error) {
	if p.before != nil {
		p.before()
	}
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

// joinAll reads a stream whose frames are text, or thinking after a "~".
func joinAll(p *packets, yield func(Event) bool) error {
	frames := NewFrames(p)
	j := Join(frames, yield)
	for {
		f, err := frames.Next()
		if err != nil {
			if !j.Flush() {
				return errConsumer
			}
			return err
		}
		ev := Event{Text: string(f.Data)}
		if f.Data[0] == '~' {
			ev = Event{Thinking: string(f.Data[1:])}
		}
		if !j.Add(ev) {
			return errConsumer
		}
	}
}

func TestPiecesThatArriveTogetherAreOne(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want []Event
	}{
		{"one packet", []string{"data: a\n\ndata: b\n\ndata: c\n\n"}, []Event{{Text: "abc"}}},
		{"one by one", []string{"data: a\n\n", "data: b\n\n"}, []Event{{Text: "a"}, {Text: "b"}}},
		{"cut inside an event", []string{"data: a\n\ndata: b\n\ndat", "a: c\n\n"}, []Event{{Text: "ab"}, {Text: "c"}}},
		{"keep-alive behind", []string{"data: a\n\n: ping\n\n", "data: b\n\n"}, []Event{{Text: "a"}, {Text: "b"}}},
		{"kinds stay apart", []string{"data: ~x\n\ndata: ~y\n\ndata: a\n\ndata: ~z\n\n"}, []Event{{Thinking: "xy"}, {Text: "a"}, {Thinking: "z"}}},
		{"cut at the end", []string{"data: a\n\ndata: b"}, []Event{{Text: "a"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []Event
			_ = joinAll(&packets{left: tt.in}, func(ev Event) bool { got = append(got, ev); return true })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What has arrived is shown before more is waited for.
func TestNoPieceIsHeldBackWhileWaiting(t *testing.T) {
	shown := 0
	arrived := 0
	p := &packets{left: []string{"data: a\n\n", "data: b\n\n", "data: c\n\n"}}
	p.before = func() {
		if shown != arrived {
			t.Errorf("waiting for more with %d of %d pieces shown", shown, arrived)
		}
		arrived = min(arrived+1, 3)
	}
	_ = joinAll(p, func(Event) bool { shown++; return true })
	if shown != 3 {
		t.Errorf("%d pieces", shown)
	}
}

// A consumer that has stopped is not called again, whoever passes a piece on.
func TestJoinerStops(t *testing.T) {
	for name, in := range map[string][]string{
		"before a wait":       {"data: a\n\n", "data: b\n\n"},
		"at a change of kind": {"data: a\n\ndata: ~x\n\ndata: b\n\n"},
		"at the end":          {"data: a\n\ndata: b\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := joinAll(&packets{left: in}, func(Event) bool { calls++; return false })
			if calls != 1 || err != errConsumer {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
}

// A stream that is never waited for is passed on in pieces, and one that never
// ends is not read for ever.
func TestAnswerThatNeverEnds(t *testing.T) {
	frame := "data: " + strings.Repeat("x", 1000) + "\n\n"
	endless := &packets{left: []string{frame}}
	endless.before = func() { endless.left = []string{frame} }
	got, longest := 0, 0
	err := joinAll(endless, func(ev Event) bool {
		got += len(ev.Text)
		longest = max(longest, len(ev.Text))
		return true
	})
	if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), "longer than 8 MiB") {
		t.Errorf("err = %v, want that the answer is too long", err)
	}
	if got < maxAnswer || got > maxAnswer+2000 || longest > maxHeld+1000 {
		t.Errorf("passed on %d bytes, the longest piece %d", got, longest)
	}
}

func TestPiecesOfOnePacketAreBounded(t *testing.T) {
	all := strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n\n", 100)
	var sizes []int
	frames := NewFrames(strings.NewReader(all))
	frames.r = bufio.NewReaderSize(strings.NewReader(all), len(all))
	j := Join(frames, func(ev Event) bool {
		sizes = append(sizes, len(ev.Text))
		return true
	})
	for {
		f, err := frames.Next()
		if err != nil {
			break
		}
		j.Add(Event{Text: string(f.Data)})
	}
	j.Flush()
	if len(sizes) != 4 || slices.Max(sizes) > maxHeld+1000 {
		t.Errorf("pieces of %v bytes", sizes)
	}
}
