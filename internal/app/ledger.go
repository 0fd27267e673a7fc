package app

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/fleet/health"
	"github.com/iris-operator/iris/internal/turn"
)

// ledger is what the process can say of its own work since it started. A parent
// asks its agents for it.
type ledger struct {
	started time.Time

	// mu guards the fields below.
	mu      sync.Mutex
	running map[turn.ID]health.Turn
	last    *health.Ended
	turns   int64
	cost    float64
}

func newLedger() *ledger {
	return &ledger{started: time.Now(), running: map[turn.ID]health.Turn{}}
}

func (l *ledger) begin(t engine.TurnInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[t.Turn] = health.Turn{Channel: t.Conversation.Channel(), Since: time.Now()}
}

func (l *ledger) end(t engine.TurnInfo, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, t.Turn)
	l.last = &health.Ended{Channel: t.Conversation.Channel(), At: time.Now(), Outcome: outcome}
	l.turns++
	if t.Usage != nil {
		l.cost += t.Usage.Cost
	}
}

func (l *ledger) report(version string) health.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	running := slices.SortedFunc(maps.Values(l.running), func(a, b health.Turn) int { return a.Since.Compare(b.Since) })
	return health.Report{Version: version, Started: l.started, Running: running, Last: l.last, Turns: l.turns, Cost: l.cost, Memory: residentMemory()}
}

// residentMemory is what the process takes, in bytes; 0: unknown.
func residentMemory() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
