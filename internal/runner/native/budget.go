package native

import (
	"fmt"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// afford returns an error when a limit has been reached.
func (r *run) afford() error {
	b, u := r.n.opts.Budget, r.usage
	tokens := u.Input + u.Output + u.CacheRead + u.CacheWrite
	switch {
	case b.CallsPerTurn > 0 && u.Calls >= b.CallsPerTurn:
		return spentAll("The limit of %d model calls per turn is reached. Say \"continue\" to go on.", b.CallsPerTurn)
	case b.TokensPerTurn > 0 && tokens >= b.TokensPerTurn:
		return spentAll("The limit of %d tokens per turn is reached (%d used). Say \"continue\" to go on.", b.TokensPerTurn, tokens)
	case b.CostPerTurn > 0 && u.Cost >= b.CostPerTurn:
		return spentAll("The limit of $%.2f per turn is reached ($%.2f spent). Say \"continue\" to go on.", b.CostPerTurn, u.Cost)
	}
	return r.n.affordDay()
}

// affordDay returns an error when a limit of the day has been reached.
func (n *Native) affordDay() error {
	b := n.opts.Budget
	if b.TokensPerDay <= 0 && b.CostPerDay <= 0 {
		return nil
	}
	tokens, cost := n.ledger.today()
	switch {
	case b.TokensPerDay > 0 && tokens >= b.TokensPerDay:
		return spentAll("The limit of %d tokens per day is reached (%d used). It starts anew at midnight, %s.", b.TokensPerDay, tokens, zone(n.opts.Now().In(n.opts.Location)))
	case b.CostPerDay > 0 && cost >= b.CostPerDay:
		return spentAll("The limit of $%.2f per day is reached ($%.2f spent). It starts anew at midnight, %s.", b.CostPerDay, cost, zone(n.opts.Now().In(n.opts.Location)))
	}
	return nil
}

func spentAll(format string, args ...any) error {
	return &runner.Error{Code: turn.CodeBudget, Text: fmt.Sprintf(format, args...)}
}

// spend writes an answer into the ledger. A ledger that cannot be written does
// not end a turn: what was spent still counts in memory.
func (n *Native) spend(conv chat.Address, id turn.ID, m llm.Info, u llm.Usage) {
	err := n.ledger.add(spending{
		At: n.opts.Now(), Conversation: conv.Channel(), Turn: string(id),
		Provider: m.Provider, Model: m.Model, Usage: u, Cost: m.Price.Of(u),
	})
	if err != nil {
		n.opts.Logger.Error("usage not written", "turn", id, "err", err)
	}
}
