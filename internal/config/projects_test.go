package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProjects(t *testing.T) {
	src := source(t, `
model = "opus"
permission_mode = "acceptEdits"
idle_ttl_min = 0
log_level = "warn"
pi_bin = "/opt/pi"

[slack]
bot_token = "xoxb-file"

[[projects]]
name = "web"
work_dir = "~/web"
allow_channels = [" C1 ", 5, "", "C2"]
allow_users = ["U1"]
args = ["--verbose"]

[[projects]]
work_dir = "api"
agent = "pi"
model = "fake/fake-1"
permission_mode = "auto"

[[projects]]
name = "any"
work_dir = "."
agent = "acp"
bin = "my-agent"
`, "SLACK_BOT_TOKEN=xoxb-env")
	for _, dir := range []string{filepath.Join(src.Home, "web"), filepath.Join(src.Dir, "api")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c, warnings, err := Load(src)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("Load() = %v, %v", warnings, err)
	}
	want := []Project{
		{Name: "web", WorkDir: filepath.Join(src.Home, "web"), Agent: "claude", Mode: "acceptEdits", Model: "opus", Bin: "claude", Args: Words{"--verbose"}, AllowChannels: Words{"C1", "C2"}, AllowUsers: Words{"U1"}},
		{Name: "project-1", WorkDir: filepath.Join(src.Dir, "api"), Agent: "pi", Mode: "auto", Model: "fake/fake-1", Bin: "/opt/pi"},
		{Name: "any", WorkDir: src.Dir, Agent: "acp", Mode: "acceptEdits", Bin: "my-agent"},
	}
	if diff := cmp.Diff(want, c.Projects); diff != "" {
		t.Error(diff)
	}
	if c.IdleTTL != 0 || c.Progress != 800 || c.Log.Level != "warn" || c.Model.Name != "" || c.AgentPrograms.Model != "opus" || c.Slack.BotToken.Reveal() != "xoxb-env" {
		t.Errorf("Load() = %+v, log %s, slack %s", c.AgentPrograms, c.Log.Level, c.Slack.BotToken.Reveal())
	}
}

// TestModelIsATextOrATable: the name means the model of agent programs, or the
// table of the native one.
func TestModelIsATextOrATable(t *testing.T) {
	c, _, err := Load(source(t, "agent_model = \"opus\"\n[model]\nname = \"x\"\n"))
	if err != nil || c.Model.Name != "x" || c.AgentPrograms.Model != "opus" {
		t.Errorf("a table: %q, %q, %v", c.Model.Name, c.AgentPrograms.Model, err)
	}
	c, _, err = Load(source(t, "model = \"opus\"\n", "IRIS_MODEL=y"))
	if err != nil || c.Model.Name != "y" || c.AgentPrograms.Model != "opus" {
		t.Errorf("a text: %+v, %v", c, err)
	}
	if _, _, err := Load(source(t, "[model]\nnaem = \"x\"\n")); err == nil || !strings.Contains(err.Error(), `"model.name"`) {
		t.Errorf("a slip in the table: %v", err)
	}
}

func TestEnvironmentBeatsProgramsInFile(t *testing.T) {
	c, _, err := Load(source(t, "idle_ttl_min = 5\nagent = \"pi\"\n", "IRIS_IDLE_TTL_MIN=7", "IRIS_LOG_LEVEL=debug"))
	if err != nil || c.IdleTTL != 7 || c.Agent != "pi" || c.Log.Level != "debug" {
		t.Errorf("%+v, %v", c.AgentPrograms, err)
	}
}

func TestClosedProjectsAreWarnedOf(t *testing.T) {
	const project = "[[projects]]\nwork_dir = \".\"\n"
	if _, warnings, err := Load(source(t, project)); err != nil || len(warnings) != 0 {
		t.Errorf("where there is no chat: %q, %v", warnings, err)
	}
	_, warnings, err := Load(source(t, project+"[slack]\nbot_token = \"xoxb-1\"\napp_token = \"xapp-1\"\n"))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "allow_channels") {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestProjectsThatCannotBeMeant(t *testing.T) {
	const ok = "[[projects]]\nname = \"a\"\nwork_dir = \".\"\n"
	for name, c := range map[string]struct{ body, env, want string }{
		"agent":               {`agent = "cluade"`, "", `"cluade" is not one of claude, pi, hermes, copilot, gemini, acp; the nearest is "claude"`},
		"mode":                {`permission_mode = "acceptedits"`, "", `the nearest is "acceptEdits"`},
		"log level":           {`log_level = "warning"`, "", `the nearest is "warn"`},
		"progress of 0":       {`bash_progress_max = 0`, "", "bash_progress_max=0"},
		"progress, a text":    {`bash_progress_max = "many"`, "", "bash_progress_max"},
		"idle":                {`idle_ttl_min = -1`, "", "idle_ttl_min=-1"},
		"idle, a fraction":    {`idle_ttl_min = 1.5`, "", "idle_ttl_min"},
		"idle in the env":     {"", "IRIS_IDLE_TTL_MIN=soon", `IRIS_IDLE_TTL_MIN="soon" is not a whole number`},
		"no directory":        {"[[projects]]\nname = \"a\"\n", "", "project a: work_dir is missing"},
		"directory not there": {"[[projects]]\nname = \"a\"\nwork_dir = \"./none\"\n", "", "none: no such file"},
		"directory is a file": {"[[projects]]\nwork_dir = \"" + FileName + "\"\n", "", "is no directory"},
		"same name":           {ok + strings.Replace(ok, `"a"`, `"A"`, 1), "", `two projects are called "A"`},
		"name":                {strings.Replace(ok, `"a"`, `"a b"`, 1), "", "letters, digits"},
		"unknown key":         {ok + "allow_chanels = []\n", "", `the nearest is "projects.allow_channels"`},
		"wrong table":         {"[slack]\npermission_mode = \"auto\"\n", "", `no setting "slack.permission_mode"`},
		"project's agent":     {ok + "agent = \"copilo\"\n", "", `the nearest is "copilot"`},
		"project's mode":      {ok + "permission_mode = \"yolo\"\n", "", "project a: permission_mode"},
		"acp without a bin":   {ok + "agent = \"acp\"\n", "", "bin is missing"},
		"pi's model":          {ok + "agent = \"pi\"\nmodel = \"sonnet\"\n", "", "Pi needs provider/id"},
		"a list that is none": {ok + "allow_users = \"U1\"\n", "", `allow_users: U1 is no list of texts, as in ["U1"]`},
		"a letter missing":    {"[[project]]\nname = \"a\"\n", "", `no setting "project"; the nearest is "projects"`},
		"one bracket":         {"[projects]\nname = \"a\"\n", "", "[[projects]], in two brackets"},
		"two kinds of model":  {"model = \"opus\"\n[model]\nname = \"x\"\n", "", "write agent_model"},
		"model of no kind":    {"model = 5\n", "", "model"},
	} {
		src := source(t, c.body+"\n", c.env)
		if _, _, err := Load(src); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Load() says %v, want %q", name, err, c.want)
		}
	}
}
