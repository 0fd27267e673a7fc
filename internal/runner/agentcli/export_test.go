package agentcli

import "context"

// Reap is a look of the reaper.
func Reap(p *Pool) { p.reap(context.Background()) }

// Label, Rule and Reply are what the tests of the inside look at.
var (
	LabelOf = label
	ReplyOf = reply
	LevelOf = levelOf
)

// RuleOf judges a call in a work directory.
func RuleOf(j Judge, m Mode, dir string, readable []string, t Tool) (verdict, reason string) {
	r := rule(j, scene{mode: m, dir: dir, readable: readable}, t)
	return string(r.verdict), r.reason
}
