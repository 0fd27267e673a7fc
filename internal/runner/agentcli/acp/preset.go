package acp

// A Preset is what is particular about an agent. The zero value is any agent
// that speaks the protocol; its command line is Setup.Bin and Setup.Args.
type Preset struct {
	args, env []string
	// modelFlag names the model at the start, for agents that offer no choice
	// inside of the protocol.
	modelFlag string
	// check are arguments with which the program says whether it can work.
	check   []string
	carrier carrier
	// auth are the logins that may be taken without a person, best first.
	auth []string
	// asking is the agent's mode in which it asks; it is set where a session
	// starts in another one. off are options of a session that would let it stop
	// asking.
	asking string
	off    map[string]string
	// keeps says that what is always allowed lands in a file of the project, so
	// that it is remembered here instead, for the session.
	keeps bool
	// meta goes with a new session.
	meta func(manual bool) map[string]any
	// asides are the beginnings of what the agent says about itself among the words
	// of its model; faults those of why there is no answer.
	asides, faults []string
	// silence is what a turn without a word means.
	silence string
}

// A carrier says how our part of the system prompt gets there.
type carrier int

const (
	carryPrompt       carrier = iota // before the first prompt
	carryMeta                        // in the session's _meta, as the claude adapter takes it
	carryInstructions                // a file of instructions
	carryHome                        // a file in a home of the agent's own
)

// Copilot is GitHub's CLI. It asks about every command, and does not say when
// its model failed: the turn ends without a word.
func Copilot() Preset {
	return Preset{
		args: []string{"--acp", "--log-level", "error", "--no-auto-update"}, env: []string{"COPILOT_AUTO_UPDATE=false"},
		modelFlag: "--model", carrier: carryInstructions,
		off:     map[string]string{"allow_all": "off"},
		asides:  []string{"Info: Request failed", "Info: Operation cancelled"},
		faults:  []string{"Error: Failed to get response from the AI model", "Error: Authentication failed with provider"},
		silence: "the agent ended without a word; its model could not be reached, or refused",
	}
}

// ClaudeCode is the adapter that puts Claude Code behind the protocol. In manual
// mode it reads no settings in which the person allowed something before.
func ClaudeCode() Preset {
	return Preset{carrier: carryMeta, asking: "default", keeps: true, meta: func(manual bool) map[string]any {
		if !manual {
			return nil
		}
		return map[string]any{"claudeCode": map[string]any{"options": map[string]any{
			"settingSources": []string{},
			"extraArgs":      map[string]any{"settings": `{"permissions":{"ask":["Bash","Read","Write","Edit","Glob","Grep","WebFetch","WebSearch","Task","NotebookEdit"]}}`},
		}}}
	}}
}

// Hermes is the Hermes agent, in a home of its own.
func Hermes() Preset {
	return Preset{args: []string{"acp"}, check: []string{"acp", "--check"}, carrier: carryHome}
}

// Gemini is Google's CLI. Its key, where there is one, is in its environment.
func Gemini() Preset {
	return Preset{args: []string{"--acp"}, modelFlag: "--model", asking: "default", auth: []string{"gemini-api-key", "vertex-ai"}}
}
