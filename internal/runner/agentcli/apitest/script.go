package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The words of a prompt, each at the start of a line or after a space; an argument
// goes to the end of its line. The last one counts.
//
//	RUN: cmd        one call of Bash; RUN2: a;;b two in one message
//	BASHLC: cmd     the same of bash, as Pi and Copilot call it
//	WRITE:path      a file with "written by the fake"; READ:path reads one
//	TOOL:name {…}   any call
//	ASKUSER         a question with the options Red and Blue
//	PLAN            a plan to approve
//	TASKME          a sub-agent with the prompt "RUN: touch from-sub", or the argument of TASKME:
//	THINK           reasoning, then a text
//	SLOW            two hundred words, a pause after each
//	HOLD            a few words, then nothing until Release, then the rest
//	SAY:text        just that
//	BIG:n           a text of n bytes in one piece
//	CUT             half an answer and a broken connection
//	ERR529*2        an error of that status (401, 403, 429, 500, 529), for the first two requests with this text; without *2 for all
//
// Anything else is echoed. Without tools in the request no word but ERR counts.
var words = regexp.MustCompile(`(?m)(?:^|\s)(?:(RUN2?|BASHLC|WRITE|READ|TOOL|TASKME|SAY|BIG):[ \t]*(.*)|(ASKUSER|PLAN|TASKME|THINK|SLOW|HOLD|CUT)\b|ERR(\d{3})(?:\*(\d+))?)`)

// slowWords is how long a SLOW answer is.
const slowWords = 200

// A block is a part of an answer. Pieces are sent one by one.
type block struct {
	kind   string // text, thinking, tool_use
	pieces []string
	tool   string // its name
}

// A script is an answer.
type script struct {
	blocks []block
	slow   bool // a pause after each piece of text
	hold   bool // nothing after the first piece until Release
	cut    bool
	status int
	kind   string
}

func text(s string) block { return block{kind: "text", pieces: split(s, 12)} }

func call(name string, input any) block {
	data, _ := json.Marshal(input)
	half := len(data) / 2
	return block{kind: "tool_use", tool: name, pieces: []string{string(data[:half]), string(data[half:])}}
}

// script chooses the answer.
func (s *Server) script(r *Request) script {
	if len(r.Results) > 0 && r.Text == "" {
		return script{blocks: []block{text("FINAL after tool: " + quote(r.Results))}}
	}
	found := words.FindAllStringSubmatch(r.Text, -1)
	if len(found) == 0 || strings.HasPrefix(r.Text, "Command:") {
		return script{blocks: []block{text("echo: " + r.Text)}}
	}
	m := found[len(found)-1]
	if m[4] != "" {
		return s.failure(r.Text, m[4], m[5])
	}
	if len(r.Tools) == 0 {
		return script{blocks: []block{text("echo: " + r.Text)}}
	}
	return compose(m[1]+m[3], strings.TrimSpace(m[2]), r)
}

// compose answers a word.
func compose(word, arg string, r *Request) script {
	switch word {
	case "RUN2":
		out := []block{text("two commands.")}
		for _, c := range strings.Split(arg, ";;") {
			out = append(out, call("Bash", map[string]any{"command": strings.TrimSpace(c), "description": "scripted"}))
		}
		return script{blocks: out}
	case "RUN":
		return script{blocks: []block{text("running it."), call("Bash", map[string]any{"command": arg, "description": "scripted"})}}
	case "BASHLC":
		return script{blocks: []block{text("lower-case bash."), call("bash", map[string]any{"command": arg, "description": "scripted"})}}
	case "WRITE", "READ":
		return script{blocks: []block{file(word, arg, r.Tools)}}
	case "TOOL":
		name, input, _ := strings.Cut(arg, " ")
		if !json.Valid([]byte(input)) {
			input = "{}"
		}
		return script{blocks: []block{call(name, json.RawMessage(input))}}
	case "ASKUSER":
		options := []map[string]any{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}}
		return script{blocks: []block{call("AskUserQuestion", map[string]any{"questions": []map[string]any{{"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": options}}})}}
	case "PLAN":
		return script{blocks: []block{call("ExitPlanMode", map[string]any{"plan": "do x"})}}
	case "TASKME":
		if arg == "" {
			arg = "RUN: touch from-sub"
		}
		return script{blocks: []block{call("Agent", map[string]any{"description": "sub job", "prompt": arg, "subagent_type": "general-purpose"})}}
	case "THINK":
		return script{blocks: []block{{kind: "thinking", pieces: split("let me think about it", 12)}, text("thought about it.")}}
	case "SLOW":
		return script{slow: true, blocks: []block{{kind: "text", pieces: slices.Repeat([]string{"word "}, slowWords)}}}
	case "HOLD":
		return script{hold: true, blocks: []block{{kind: "text", pieces: []string{"holding on", " and released"}}}}
	case "CUT":
		return script{cut: true, blocks: []block{text("this answer is cut off here")}}
	case "BIG":
		n, _ := strconv.Atoi(arg)
		return script{blocks: []block{{kind: "text", pieces: []string{strings.Repeat("x", n)}}}}
	}
	return script{blocks: []block{text(arg)}} // SAY
}

// file is a call that touches a file, in the words of whoever asks.
func file(word, path string, tools []string) block {
	lower := !slices.Contains(tools, "Write") && slices.Contains(tools, "write")
	input := map[string]any{"file_path": path}
	if lower {
		input = map[string]any{"path": path}
	}
	name := "Read"
	if word == "WRITE" {
		name, input["content"] = "Write", "written by the fake"
	}
	if lower {
		name = strings.ToLower(name)
	}
	return call(name, input)
}

// failure is an error answer, as long as the text has any left.
func (s *Server) failure(text_, status, times string) script {
	if times != "" {
		s.mu.Lock()
		s.failures[text_]++
		n := s.failures[text_]
		s.mu.Unlock()
		if most, _ := strconv.Atoi(times); n > most {
			return script{blocks: []block{text("recovered after " + times)}}
		}
	}
	code, _ := strconv.Atoi(status)
	kind := map[int]string{http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusTooManyRequests: "rate_limit_error", 529: "overloaded_error"}[code]
	if kind == "" {
		kind = "api_error"
	}
	return script{status: code, kind: kind}
}

// quote says what tools said.
func quote(results []Result) string {
	var out []string
	for _, r := range results {
		verdict := "OK "
		if r.Failed {
			verdict = "ERR "
		}
		out = append(out, verdict+r.Text)
	}
	return strings.Join(out, " | ")
}

// split cuts s into pieces of about n bytes, never inside a character.
func split(s string, n int) (out []string) {
	piece := ""
	for _, c := range s {
		if piece += string(c); len(piece) >= n {
			out, piece = append(out, piece), ""
		}
	}
	if piece != "" || len(out) == 0 {
		out = append(out, piece)
	}
	return out
}

// describe is what an error says.
func (s script) describe() string { return fmt.Sprintf("scripted error %d", s.status) }
