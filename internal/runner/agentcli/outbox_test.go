package agentcli_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/turn"
)

// A box is an Outbox with one file in it.
type box struct {
	s        *stage
	prepared []string
	broken   error
}

func (b *box) Prepare(workDir string, _ chat.Address) (string, error) {
	b.prepared = append(b.prepared, workDir)
	return "CONTRACT", b.broken
}

func (b *box) Collect(ctx context.Context, workDir string, conv chat.Address, emit func(turn.Event) error) error {
	if _, limited := ctx.Deadline(); workDir != b.s.work || conv != thread || !limited {
		b.s.t.Errorf("Collect(%q, %v) with a limit: %v", workDir, conv, limited)
	}
	if err := emit(turn.Event{Kind: turn.FileOut, Filename: "a.txt", Local: "kept/a.txt"}); err != nil {
		return err
	}
	return b.broken
}

// seeing notes the setup of each launch.
type seeing struct {
	agentcli.Driver
	setups *[]agentcli.Setup
}

func (d seeing) Launch(s agentcli.Setup) (agentcli.Launch, error) {
	*d.setups = append(*d.setups, s)
	return d.Driver.Launch(s)
}

// TestFilesComeBeforeTheEndOfATurn: also of a stopped one, and what is wrong with the
// place of files is no reason to fail.
func TestFilesComeBeforeTheEndOfATurn(t *testing.T) {
	for name, broken := range map[string]error{"a place for files": nil, "a broken one": errors.New("a link")} {
		t.Run(name, func(t *testing.T) {
			b := &box{broken: broken}
			var setups []agentcli.Setup
			s := newStage(t, func(o *agentcli.Options) {
				o.Outbox = b
				o.Projects[0].Driver = seeing{o.Projects[0].Driver, &setups}
				o.Projects[0].System = func(chat.Address) string { return "OURS" }
			})
			b.s = s
			g := s.start("hello")
			if end, err := g.wait(); err != nil || end.Kind != turn.Final {
				t.Fatalf("%v, %+v", err, end)
			}
			events := g.Events()
			i := slices.IndexFunc(events, func(e turn.Event) bool { return e.Kind == turn.FileOut })
			if i < 0 || i >= len(events)-1 {
				t.Errorf("events %+v, want the file before the end", events)
			}
			if !slices.Equal(b.prepared, []string{s.work}) {
				t.Errorf("prepared %q, want the work directory once", b.prepared)
			}
			if told := strings.Contains(setups[0].System, "CONTRACT"); told != (broken == nil) || !strings.HasPrefix(setups[0].System, "OURS") {
				t.Errorf("the program is told %q", setups[0].System)
			}
		})
	}
}
