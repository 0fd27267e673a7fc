package claude

import (
	"encoding/json"
	"net/url"
	"path"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// The tools that are questions to the person.
const (
	askTool  = "AskUserQuestion"
	planTool = "ExitPlanMode"
)

// asked are the names of ask rules: with them Claude asks about every call, and Iris
// decides. Without, it lets pass what it holds to be harmless (ls, a file that is
// read) and what a settings file of the machine allows. A rule to ask beats one to
// allow. Names that a version does not know cost a line on its stderr.
var asked = []string{
	"Bash", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "WebFetch", "WebSearch",
	"Agent", "Skill", "SendMessage", "Workflow", "EnterPlanMode", "EnterWorktree", "ExitWorktree",
	"CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "ReportFindings",
	"TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop", "TaskUpdate", "mcp__*",
}

// input are the fields of tools that say what is touched.
type input struct {
	Command      string `json:"command"`
	FilePath     string `json:"file_path"`
	NotebookPath string `json:"notebook_path"`
	Path         string `json:"path"`
	Pattern      string `json:"pattern"`
	URL          string `json:"url"`
}

// describe says what a call does, by the tool's name.
func describe(id, name string, raw json.RawMessage) agentcli.Tool {
	t := agentcli.Tool{ID: id, Name: name, Input: object(raw), What: agentcli.Other}
	var in input
	_ = lenient(json.Unmarshal(t.Input, &in)) // an odd field is an empty one
	switch name {
	case "Bash", "PowerShell", "Monitor":
		t.What, t.Command = agentcli.Execute, in.Command
	case "Read", "NotebookRead":
		t.What, t.Paths = agentcli.Read, filled(in.FilePath, in.NotebookPath)
	case "LS", "Grep":
		t.What, t.Paths = agentcli.Read, filled(in.Path)
	case "Glob":
		t.What, t.Paths = agentcli.Read, filled(globbed(in.Path, in.Pattern))
	case "Edit", "Write", "MultiEdit", "NotebookEdit":
		t.What, t.Paths = agentcli.Edit, filled(in.FilePath, in.NotebookPath)
	case "WebFetch", "WebSearch":
		t.What = agentcli.Fetch
	default:
		t.Paths = pathLike(t.Input)
	}
	return t
}

// object returns raw if it is a JSON object, else an empty one: Claude takes nothing
// else back as a tool's input.
func object(raw json.RawMessage) json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return json.RawMessage("{}")
	}
	return raw
}

func filled(all ...string) (some []string) {
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}

// globbed is the directory a pattern looks into, empty for the work directory.
func globbed(dir, pattern string) string {
	fixed := pattern
	if i := strings.IndexAny(pattern, "*?[{"); i >= 0 {
		fixed = path.Dir(pattern[:i] + "x")
	}
	if fixed == "." {
		fixed = ""
	}
	if path.IsAbs(fixed) || dir == "" {
		return fixed
	}
	return path.Join(dir, fixed)
}

// pathLike are the strings of a call nobody knows that look like paths.
func pathLike(raw json.RawMessage) (paths []string) {
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields) // an object, see describe
	for _, v := range fields {
		s, _ := v.(string)
		for _, p := range []string{"/", "~", "./", "../"} {
			if strings.HasPrefix(s, p) && !strings.ContainsAny(s, "\n\x00") && len(s) < 4096 {
				paths = append(paths, s)
				break
			}
		}
	}
	return paths
}

// like is what a person allows with "for the rest of this session": the same command;
// edits (or reads) in the work directory; the same site; the same tool. Empty where
// every call is a question of its own.
func like(t agentcli.Tool) string {
	switch {
	case t.Outside:
		return ""
	case t.What == agentcli.Execute:
		return t.Name + " " + t.Command
	case t.What == agentcli.Fetch:
		var in input
		_ = lenient(json.Unmarshal(t.Input, &in)) // as in describe
		if u, err := url.Parse(in.URL); err == nil && u.Host != "" {
			return t.Name + " " + u.Host
		}
		return t.Name
	case t.What == agentcli.Other && len(t.Paths) > 0:
		return ""
	case t.What == agentcli.Other:
		return t.Name
	}
	return string(t.What)
}
