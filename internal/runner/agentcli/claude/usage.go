package claude

import (
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// totals are the sums of a process at its last result: Claude adds up what models
// and sub-agents cost, and begins again at zero when a session is resumed.
type totals struct {
	models map[string]modelUse
	cost   float64
}

// since returns what has been used since the last result and remembers m. Where a
// version gives no sums per model, the numbers of the turn stand in.
func (t *totals) since(m message, model string) *agentcli.Usage {
	u := &agentcli.Usage{Model: model, Took: time.Duration(m.Duration * float64(time.Millisecond)), Cost: m.Cost}
	if m.Cost >= t.cost {
		u.Cost = m.Cost - t.cost
	}
	t.cost = m.Cost
	var most int64 = -1
	for name, now := range m.Models {
		was := t.models[name]
		if now.Input < was.Input || now.Output < was.Output {
			was = modelUse{}
		}
		out := now.Output - was.Output
		u.Input += now.Input - was.Input
		u.Output += out
		u.CacheRead += max(now.CacheRead-was.CacheRead, 0)
		u.CacheWrite += max(now.CacheWrite-was.CacheWrite, 0)
		if name == model || model == "" && out > most {
			u.Model, u.Window, most = name, now.Window, out
		}
	}
	if m.Models == nil {
		u.Input, u.Output, u.CacheRead, u.CacheWrite = m.Usage.Input, m.Usage.Output, m.Usage.CacheRead, m.Usage.CacheWrite
	}
	t.models = m.Models
	return u
}
