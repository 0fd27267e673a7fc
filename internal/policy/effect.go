package policy

// An effect is what a simple command would do to the world. Commands become
// effects; rules look at effects only.
type effect struct {
	kind kind
	// path is absolute and clean as far as it is known; for a connect it is the
	// host, for the rest what is told to people.
	path string
	// recursive deletes take directories, filtered ones only some of the files.
	recursive, filtered bool
}

type kind uint8

const (
	readFile kind = iota + 1
	writeFile
	deleteTree
	deleteFile
	format
	connect
	forcePush
	unitChange
	teardown
	accountChange
	copyTree
	openTree
	cleanTree
)

// The names of the rules.
const (
	ruleSecret    = "secret"
	ruleMetadata  = "metadata"
	ruleState     = "state"
	ruleRemove    = "rm"
	ruleDisk      = "mkfs-dd"
	ruleTeardown  = "terraform"
	rulePush      = "git-push"
	ruleProtected = "protected-file"
	ruleUnit      = "systemctl"
	ruleOperator  = "operator"
	rulePerson    = "person"
	ruleUnjudged  = "unjudged"
)

// rule judges one effect.
func (r *run) rule(e effect) Verdict {
	switch e.kind {
	case readFile:
		if name := r.j.secretPath(e.path); name != "" {
			return Verdict{Decision: Deny, Rule: ruleSecret, Reason: "command references a secret file (" + name + ")"}
		}
		return r.stateRule(e)
	case writeFile:
		return r.writeRule(e)
	case deleteTree:
		if what := r.precious(e.path, e.recursive, e.filtered); what != "" {
			return Verdict{Decision: Confirm, Rule: ruleRemove, Reason: "would delete " + what}
		}
		return r.writeRule(e)
	case deleteFile:
		return r.writeRule(e)
	case connect:
		if isMetadata(e.path) {
			return Verdict{Decision: Deny, Rule: ruleMetadata, Reason: "command targets a cloud instance metadata endpoint"}
		}
	case format:
		return Verdict{Decision: Confirm, Rule: ruleDisk, Reason: "would format " + e.path}
	case forcePush:
		return Verdict{Decision: Confirm, Rule: rulePush, Reason: "would " + e.path}
	case unitChange:
		return Verdict{Decision: Confirm, Rule: ruleUnit, Reason: "would " + e.path}
	case teardown:
		return Verdict{Decision: Confirm, Rule: ruleTeardown, Reason: "would tear down infrastructure with " + e.path}
	case copyTree:
		return Verdict{Decision: Confirm, Rule: ruleSecret, Reason: "would copy " + e.path}
	case openTree:
		if what := r.precious(e.path, false, e.filtered); what != "" {
			return Verdict{Decision: Confirm, Rule: ruleProtected, Reason: "would change who may use all of " + what}
		}
		return r.writeRule(e)
	case cleanTree:
		return Verdict{Decision: Confirm, Rule: ruleRemove, Reason: "would delete every ignored file of a repository, settings and data included"}
	case accountChange:
		return Verdict{Decision: Confirm, Rule: ruleProtected, Reason: "would change the system's accounts with " + e.path}
	}
	return Verdict{Decision: Allow}
}

func (r *run) stateRule(e effect) Verdict {
	if r.j.isState(e.path) {
		return Verdict{Decision: Deny, Rule: ruleState, Reason: "command touches Iris's own state"}
	}
	return Verdict{Decision: Allow}
}

func (r *run) writeRule(e effect) Verdict {
	if v := r.stateRule(e); v.Decision != Allow {
		return v
	}
	if r.j.keys(e.path) != "" {
		return Verdict{Decision: Confirm, Rule: ruleProtected, Reason: "would change " + show(e.path) + ", where the keys of Iris are"}
	}
	if r.j.protected(e.path) {
		return Verdict{Decision: Confirm, Rule: ruleProtected, Reason: "would change " + show(e.path) + ", " + r.j.guarded(e.path)}
	}
	if e.kind == writeFile && device(e.path) {
		return Verdict{Decision: Confirm, Rule: ruleDisk, Reason: "would write to the raw device " + show(e.path)}
	}
	return Verdict{Decision: Allow}
}

// unjudged holds what cannot be judged.
func unjudged(why string) Verdict {
	return Verdict{Decision: Confirm, Rule: ruleUnjudged, Reason: "the command cannot be judged: " + why}
}

// rank orders decisions.
func rank(d Decision) int {
	switch d {
	case Deny:
		return 2
	case Confirm:
		return 1
	}
	return 0
}
