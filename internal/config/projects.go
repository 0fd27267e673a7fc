package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
)

// The agent programs that a project may name.
const (
	agentClaude = "claude"
	agentACP    = "acp"
)

var (
	agentNames = []string{agentClaude, "pi", "hermes", "copilot", "gemini", agentACP}
	modeNames  = []string{"manual", "acceptEdits", "auto"}
	logLevels  = []string{"debug", "info", "warn", "error"}
)

// AgentPrograms are the settings of agent programs that hold for every project
// without its own. They stand before all tables of the file.
type AgentPrograms struct {
	Claude  string `toml:"claude_bin" env:"IRIS_CLAUDE_BIN" default:"claude" help:"Claude Code: a path, or a name on PATH"`
	Pi      string `toml:"pi_bin" env:"IRIS_PI_BIN" default:"pi" help:"Pi: a path, or a name on PATH"`
	Hermes  string `toml:"hermes_bin" env:"IRIS_HERMES_BIN" default:"hermes" help:"Hermes: a path, or a name on PATH"`
	Copilot string `toml:"copilot_bin" env:"IRIS_COPILOT_BIN" default:"copilot" help:"GitHub Copilot: a path, or a name on PATH"`
	Agent   string `toml:"agent" env:"IRIS_AGENT" default:"claude" help:"agent program of projects: claude, pi, hermes, copilot, gemini or acp"`
	Mode    string `toml:"permission_mode" env:"IRIS_PERMISSION_MODE" default:"manual" help:"what agent programs may do without asking: manual, acceptEdits or auto"`
	// Model is set by a text called model in the file, where no table is called so.
	Model    string `toml:"agent_model" env:"IRIS_AGENT_MODEL" default:"the program's own" help:"model of agent programs, in their words; model = \"…\" before all tables means the same"`
	LogLevel string `toml:"log_level" env:"IRIS_LOG_LEVEL" default:"info" help:"the same as log.level"`
	// Progress bounds the command that a line of progress shows.
	Progress int `toml:"bash_progress_max" env:"IRIS_BASH_PROGRESS_MAX" default:"800" help:"most characters of a command in a line of progress"`
	IdleTTL  int `toml:"idle_ttl_min" env:"IRIS_IDLE_TTL_MIN" default:"1440" help:"minutes after which an idle agent program is ended, to go on with the next message; 0 lets it stay"`
	// MemoryMiB and Processes bound a program and what it starts.
	MemoryMiB int `toml:"agent_memory_mib" env:"IRIS_AGENT_MEMORY_MIB" default:"0" help:"MiB of private memory that each process of an agent program may have; 0 is no limit"`
	Processes int `toml:"agent_processes" env:"IRIS_AGENT_PROCESSES" default:"0" help:"processes that the user of agent programs may have in all; 0 is no limit"`
}

// A Project is a directory in which an agent program works, and who may have it do
// so from a chat.
type Project struct {
	Name    string `toml:"name"`
	WorkDir string `toml:"work_dir"`
	// Agent, Mode and Model are those of AgentPrograms where the file names none.
	Agent string `toml:"agent"`
	Mode  string `toml:"permission_mode"`
	Model string `toml:"model"`
	// Bin is the program; the file needs it only for acp.
	Bin           string `toml:"bin"`
	Args          Words  `toml:"args"`
	PassEnv       Words  `toml:"pass_env"`
	AllowChannels Words  `toml:"allow_channels"`
	AllowUsers    Words  `toml:"allow_users"`
}

// Words is a list of texts. What is no text is dropped, as is what is empty.
type Words []string

// UnmarshalTOML takes any list.
func (w *Words) UnmarshalTOML(v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%v is no list of texts, as in [%q]", v, fmt.Sprint(v))
	}
	*w = nil
	for _, one := range list {
		if text, ok := one.(string); ok && strings.TrimSpace(text) != "" {
			*w = append(*w, strings.TrimSpace(text))
		}
	}
	return nil
}

// programDefaults is what holds where nothing is set and 0 means something.
func programDefaults() AgentPrograms { return AgentPrograms{Progress: 800, IdleTTL: 1440} }

// projectKeys are the names of a project's settings in the file.
func projectKeys() (out []string) {
	t := reflect.TypeFor[Project]()
	for i := range t.NumField() {
		out = append(out, "projects."+t.Field(i).Tag.Get("toml"))
	}
	return out
}

func (c *Config) fillProjects(src Source) {
	p := &c.AgentPrograms
	def(&p.Claude, agentClaude)
	def(&p.Pi, "pi")
	def(&p.Hermes, "hermes")
	def(&p.Copilot, "copilot")
	def(&p.Agent, agentClaude)
	def(&p.Mode, "manual")
	def(&c.Log.Level, p.LogLevel)
	for i := range c.Projects {
		one := &c.Projects[i]
		def(&one.Name, fmt.Sprintf("project-%d", i))
		def(&one.Agent, p.Agent)
		def(&one.Mode, p.Mode)
		if one.Model == "" && one.Agent == p.Agent {
			one.Model = p.Model
		}
		def(&one.Bin, p.bin(one.Agent))
		if one.WorkDir != "" {
			one.WorkDir = expand(one.WorkDir, src)
		}
	}
}

// bin is the program of an agent, empty if there is none by that name.
func (p AgentPrograms) bin(agent string) string {
	return map[string]string{agentClaude: p.Claude, "pi": p.Pi, "hermes": p.Hermes, "copilot": p.Copilot, "gemini": "gemini"}[agent]
}

// projectName is what a name looks like: "@name" calls it, and it is a directory.
func projectName() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`) }

// checkProjects refuses what cannot be meant.
func (c *Config) checkProjects() error {
	p := c.AgentPrograms
	if err := word("agent", p.Agent, agentNames); err != nil {
		return err
	}
	if err := word("permission_mode", p.Mode, modeNames); err != nil {
		return err
	}
	if p.LogLevel != "" {
		if err := word("log_level", p.LogLevel, logLevels); err != nil {
			return err
		}
	}
	if p.Progress <= 0 {
		return fmt.Errorf("bash_progress_max=%d: it must be above 0", p.Progress)
	}
	if p.MemoryMiB < 0 || p.Processes < 0 {
		return fmt.Errorf("agent_memory_mib=%d and agent_processes=%d must not be negative; 0 is no limit", p.MemoryMiB, p.Processes)
	}
	if p.IdleTTL < 0 {
		return fmt.Errorf("idle_ttl_min=%d (IRIS_IDLE_TTL_MIN) is negative; 0 lets programs stay", p.IdleTTL)
	}
	names := map[string]bool{}
	valid := projectName()
	for i, one := range c.Projects {
		if !valid.MatchString(one.Name) {
			return fmt.Errorf("projects[%d]: the name %q must be letters, digits, _ and -, at most 64", i, one.Name)
		}
		if key := strings.ToLower(one.Name); names[key] {
			return fmt.Errorf("two projects are called %q: names are unique, whatever their case", one.Name)
		} else {
			names[key] = true
		}
		if err := one.check(); err != nil {
			return fmt.Errorf("project %s: %w", one.Name, err)
		}
	}
	return nil
}

func (p Project) check() error {
	if err := word("agent", p.Agent, agentNames); err != nil {
		return err
	}
	if err := word("permission_mode", p.Mode, modeNames); err != nil {
		return err
	}
	if p.WorkDir == "" {
		return fmt.Errorf("work_dir is missing: it is where the agent works")
	}
	info, err := os.Stat(p.WorkDir)
	if err != nil {
		return fmt.Errorf("work_dir: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("work_dir: %s is no directory", p.WorkDir)
	}
	if p.Bin == "" {
		return fmt.Errorf("bin is missing: agent = %q needs the program", p.Agent)
	}
	if provider, id, _ := strings.Cut(p.Model, "/"); p.Agent == "pi" && p.Model != "" && (provider == "" || id == "") {
		return fmt.Errorf("model = %q: Pi needs provider/id", p.Model)
	}
	return nil
}

// word refuses a value that is none of those allowed, with the nearest.
func word(name, v string, allowed []string) error {
	err := oneOf(name, v, allowed...)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; the nearest is %q", err, Nearest(v, allowed))
}

// Closed reports that there are projects and a chat platform, and that none of the
// projects is open to anybody there.
func (c *Config) Closed() bool {
	if c.Slack.BotToken.IsZero() && c.Telegram.Token.IsZero() {
		return false
	}
	for _, p := range c.Projects {
		if len(p.AllowChannels)+len(p.AllowUsers) > 0 {
			return false
		}
	}
	return len(c.Projects) > 0
}
