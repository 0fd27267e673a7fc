package claude

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// longest is the length of a sentence that people are shown of an error.
const longest = 300

// sentence cuts a text of the program's to one line for people.
func sentence(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > longest {
		cut := longest
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}

func retrying(m message) string {
	what := "cannot be reached"
	if m.ErrorStatus != 0 {
		what = fmt.Sprintf("answered %d", m.ErrorStatus)
		if m.Error != "" && m.Error != "unknown" {
			what += " (" + strings.ReplaceAll(sentence(m.Error), "_", " ") + ")"
		}
	}
	wait := time.Duration(m.RetryDelay) * time.Millisecond
	return fmt.Sprintf("The API %s; Claude tries again in %s (%d of %d).", what, max(wait.Round(time.Second), time.Second), m.Attempt, m.MaxRetries)
}

func compacted(c compact) string {
	if c.Before > 0 {
		return fmt.Sprintf("The conversation was summarised to make room (it had %d tokens).", c.Before)
	}
	return "The conversation was summarised to make room."
}

// reason is Claude's word for how a turn ended.
func reason(m message) string {
	if m.Terminal != "" && m.Terminal != "completed" {
		return m.Terminal
	}
	if m.Subtype != "success" {
		return m.Subtype
	}
	return ""
}

// apiError is how Claude puts an error of its API into a text.
var apiError = regexp.MustCompile(`(?:^|\. )API Error:? ?(\d{3})? ?(.*)$`)

// failure says in a sentence why there is no good answer.
func failure(m message) string {
	text := sentence(m.Result)
	switch {
	case strings.HasPrefix(text, "Not logged in"):
		return "Claude Code is not logged in: run it once on this machine and log in, or give it ANTHROPIC_API_KEY."
	case text != "":
		if f := apiError.FindStringSubmatch(text); f != nil {
			return apiFailure(m, f[1], f[2])
		}
		return text
	}
	for _, e := range m.Errors {
		if !strings.HasPrefix(e, "[ede_diagnostic]") { // notes to its makers
			return sentence(e)
		}
	}
	return "Claude ended the turn without an answer (" + m.Subtype + ")."
}

// apiFailure takes the message out of the JSON that Claude quotes.
func apiFailure(m message, status, rest string) string {
	if status == "" && m.APIStatus != 0 {
		status = fmt.Sprint(m.APIStatus)
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if at := strings.IndexByte(m.Result, '{'); at >= 0 && json.Unmarshal([]byte(strings.TrimSpace(m.Result[at:])), &body) == nil && body.Error.Message != "" {
		rest = body.Error.Message
	}
	rest = sentence(rest)
	if status == "" {
		return "The API failed: " + rest
	}
	return fmt.Sprintf("The API answered %s: %s", status, rest)
}

// unknownSession reports whether a result says that there is nothing to go on with.
func unknownSession(m message) bool {
	if !m.IsError {
		return false
	}
	for _, e := range m.Errors {
		if lostSession(e) {
			return true
		}
	}
	return false
}

const forgotten = "Claude does not know this session any more."

func lostSession(text string) bool {
	return strings.Contains(text, "No conversation found") || strings.Contains(text, "--resume requires a valid session")
}

// Explain implements agentcli.Explainer.
func (*Claude) Explain(stderr string) (failure string, noSession bool) {
	switch {
	case lostSession(stderr):
		return forgotten, true
	case strings.Contains(stderr, "is already in use"):
		return "The session's id is in use by another process of Claude.", false
	case strings.Contains(stderr, "cannot be used with root"):
		return "Claude refuses to run as root with its permission checks off.", false
	}
	for line := range strings.Lines(stderr) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "Error: "); ok {
			return "Claude Code ended: " + sentence(rest), false
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "error: "); ok {
			return "Claude Code could not be started so: " + sentence(rest), false
		}
	}
	return "", false
}

// choices are the questions of AskUserQuestion.
func choices(raw json.RawMessage) (all []agentcli.Choices) {
	var in struct {
		Questions []struct {
			Question string `json:"question"`
			Header   string `json:"header"`
			Options  []struct {
				Label       string `json:"label"`
				Description string `json:"description"`
			} `json:"options"`
			Many bool `json:"multiSelect"`
		} `json:"questions"`
	}
	_ = lenient(json.Unmarshal(raw, &in)) // an object, see describe
	for _, q := range in.Questions {
		c := agentcli.Choices{Question: q.Question, Header: q.Header, Many: q.Many}
		for _, o := range q.Options {
			c.Options = append(c.Options, agentcli.Option{Label: o.Label, About: o.Description})
		}
		all = append(all, c)
	}
	return all
}

// planned is the text of a plan.
func planned(raw json.RawMessage) string {
	var in struct {
		Plan string `json:"plan"`
	}
	_ = lenient(json.Unmarshal(raw, &in)) // as in choices
	return in.Plan
}
