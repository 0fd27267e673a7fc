package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestCouncilDemo plays the council: six people, a private word, a no, a yes,
// and the very words in the room, in under a second.
func TestCouncilDemo(t *testing.T) {
	var out strings.Builder
	began := time.Now()
	if err := CouncilDemo(context.Background(), CouncilDemoOptions{Out: &out}); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("the play took %v of machine time", d)
	}
	text := out.String()
	at := 0
	for _, want := range []string{
		"Ida, Jonas, Mara, Noor, Pavel, Tilda", "┆ Iris to Noor: ", "┆ Noor to Iris: Smoke is hard for me",
		"[yes] [no]", "Noor presses: [no]", "Noor presses: [yes]",
		"Iris I was asked to bring this in: For one of us this matters: a fire needs 20", "“Who builds it?”", "decided: a long table",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("%q is not in the play, or too early:\n%s", want, text)
		}
		at += i
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "lungs") && !strings.Contains(line, "┆") {
			t.Errorf("a private word is in the room: %s", line)
		}
		if visible(line) > 3*width/2 {
			t.Errorf("a line is too long to read: %s", line)
		}
	}
}

type brokenOut struct{}

func (brokenOut) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestCouncilDemoEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := CouncilDemo(ctx, CouncilDemoOptions{Out: &strings.Builder{}, Pause: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled play = %v", err)
	}
	if err := CouncilDemo(context.Background(), CouncilDemoOptions{Out: brokenOut{}}); err == nil {
		t.Error("a play nobody can read ended well")
	}
}
