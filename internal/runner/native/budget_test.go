package native

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// wide is a model whose window no usage of these tests fills.
var wide = llm.Info{Provider: "p", Model: "m", Window: 1 << 40, Price: info.Price}

// endless calls a tool in each answer.
func endless(i llm.Info) *scripted.Model {
	return scripted.Func(i, func(int, llm.Request) scripted.Step {
		s := scripted.Tools(scripted.Call("echo", `{}`))
		s.Usage = &llm.Usage{Input: 600_000, Output: 200_000}
		return s
	})
}

func TestBudgetsOfATurnStopWithAPlainNotice(t *testing.T) {
	for name, c := range map[string]struct {
		budget Budget
		asked  int
		want   string
	}{
		"calls":   {Budget{CallsPerTurn: 3}, 3, "limit of 3 model calls per turn"},
		"tokens":  {Budget{TokensPerTurn: 1_000_000}, 2, "limit of 1000000 tokens per turn is reached (1600000 used)"},
		"cost":    {Budget{CostPerTurn: 1.5}, 2, "limit of $1.50 per turn is reached ($2.00 spent)"},
		"default": {Budget{}, 200, "limit of 200 model calls"},
	} {
		t.Run(name, func(t *testing.T) {
			m := endless(wide)
			b := newBed(t, one(m), func(o *Options) { o.Budget = c.budget; tools(echo("echo"))(o) })
			_, err := b.run(b.accept("go"))
			var e *runner.Error
			if !errors.As(err, &e) || e.Code != turn.CodeBudget || !strings.Contains(e.Text, c.want) {
				t.Fatalf("Run = %v, want %q", err, c.want)
			}
			if n := len(m.Requests()); n != c.asked {
				t.Errorf("%d requests, want %d", n, c.asked)
			}
			if _, err := b.run(b.accept("go on")); !errors.As(err, &e) {
				t.Fatalf("the next turn: %v", err)
			}
			if n := len(m.Requests()); n != 2*c.asked {
				t.Errorf("the next turn made %d requests, want as many again", n-c.asked)
			}
			valid(t, last(t, m))
		})
	}
}

func TestBudgetsOfADaySurviveARestartAndEndAtMidnight(t *testing.T) {
	now := time.Date(2026, 1, 2, 23, 30, 0, 0, mustZone(t, "Europe/Berlin"))
	dir := t.TempDir()
	m := scripted.Func(wide, func(int, llm.Request) scripted.Step {
		return scripted.Step{Text: []string{"ok"}, Usage: &llm.Usage{Input: 500_000}}
	})
	b := newBed(t, one(m), func(o *Options) {
		o.Now, o.Location, o.UsageDir = func() time.Time { return now }, now.Location(), dir
		o.Budget = Budget{CostPerDay: 1}
	})
	b.say("one")
	// A line that was torn by a crash.
	f, err := os.OpenFile(filepath.Join(dir, "2026-01-02.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"at":"2026-01-02T22:`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	b.restart()
	b.say("two")
	b.restart()
	_, err = b.run(b.accept("three"))
	var e *runner.Error
	if !errors.As(err, &e) || e.Code != turn.CodeBudget || e.Text != "The limit of $1.00 per day is reached ($1.00 spent). It starts anew at midnight, Europe/Berlin." {
		t.Fatalf("Run = %v", err)
	}
	now = now.Add(time.Hour)
	b.say("four")
	b.restart()
	b.opts.Budget = Budget{TokensPerDay: 500_000}
	b.restart()
	if _, err := b.run(b.accept("five")); err == nil || !strings.Contains(err.Error(), "500000 tokens per day") {
		t.Errorf("Run = %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(mustRead(t, filepath.Join(dir, "2026-01-02.jsonl")))), "\n")
	if len(lines) != 3 {
		t.Errorf("ledger of the first day: %q", lines)
	}
}

func TestLedgerThatCannotBeWrittenStillCounts(t *testing.T) {
	dir := t.TempDir()
	m := scripted.Func(wide, func(int, llm.Request) scripted.Step {
		return scripted.Step{Text: []string{"ok"}, Usage: &llm.Usage{Input: 500_000}}
	})
	b := newBed(t, one(m), func(o *Options) { o.UsageDir, o.Budget = dir, Budget{CostPerDay: 0.5} })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b.say("one")
	if _, err := b.run(b.accept("two")); err == nil {
		t.Error("the limit of the day is not kept")
	}
}

func TestLedgerDirectoryMustBeUsable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLedger(filepath.Join(file, "usage"), time.UTC, time.Now); err == nil {
		t.Error("openLedger below a file = nil")
	}
}

// A resumed turn goes on with what it has spent.
func TestUsageOfAResumedTurnIsThatOfAllAttempts(t *testing.T) {
	m := scripted.New(info,
		scripted.Step{Calls: []llm.Call{scripted.Call("echo", `{}`)}, Usage: &llm.Usage{Input: 10, Output: 1}},
		scripted.Step{Text: []string{"done"}, Usage: &llm.Usage{Input: 20, Output: 2}})
	b := newBed(t, one(m), tools(echo("echo")))
	req := b.accept("go")
	s := b.sink(req)
	s.before = func(what string) error {
		if what == "status" {
			return errDisk
		}
		return nil
	}
	if err := b.n.Run(t.Context(), req, s); !errors.Is(err, errDisk) {
		t.Fatalf("Run = %v", err)
	}
	b.restart()
	req.Attempt = 2
	again, err := b.run(req)
	if err != nil {
		t.Fatal(err)
	}
	if u := again.End().Usage; u.Calls != 2 || u.Input != 30 || u.Output != 3 {
		t.Errorf("usage = %+v", u)
	}
}
