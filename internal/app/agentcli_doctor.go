package app

import (
	"strings"
)

// examineCLI lists the agent programs that people can talk to through Iris. None is
// needed.
func examineCLI(environ []string) finding {
	f := finding{what: "agent CLIs", result: "none on PATH (claude, copilot, pi, hermes and gemini would be)"}
	var found []string
	for _, p := range cliPrograms() {
		if path := programPath(environ, p.name); path != "" {
			found = append(found, p.about+" at "+path)
		}
	}
	if len(found) > 0 {
		f.result = strings.Join(found, ", ")
	}
	return f
}

// firstCLI names the program that answers where no model is configured, "" if
// there is none.
func firstCLI(environ []string) string {
	for _, p := range cliPrograms() {
		if programPath(environ, p.name) != "" {
			return p.about
		}
	}
	return ""
}
