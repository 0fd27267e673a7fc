package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/caarlos0/env/v11"
	"github.com/joho/godotenv"
)

// FileName is the name of the configuration file.
const FileName = "iris.config.toml"

// A Source is where Load looks. Nothing else is read.
type Source struct {
	// Flags override the environment under the names of its variables.
	Flags map[string]string
	// Environ is the environment, as os.Environ gives it.
	Environ []string
	// Dir is the current directory: .env and the file are looked for in it.
	Dir string
	// Home is the user's home directory.
	Home string
	// Workspace is the command-line argument, empty if not given.
	Workspace string
}

// Load reads the configuration: flags over the environment over credentials of
// the service manager over .env over the file. warnings are for the operator to read once. An
// error names the file or variable, what is wrong with it and the way out.
func Load(src Source) (cfg *Config, warnings []string, err error) {
	environ := split(src.Environ)
	if err := addCredentials(environ, environ["CREDENTIALS_DIRECTORY"]); err != nil {
		return nil, nil, err
	}
	warnings, err = addDotEnv(environ, filepath.Join(src.Dir, ".env"))
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(environ, src.Flags)
	if src.Workspace != "" {
		environ["IRIS_WORKSPACE"] = src.Workspace
	}
	// The names that Slack's own documentation has for the two tokens.
	for _, name := range []string{"SLACK_APP_TOKEN", "SLACK_BOT_TOKEN"} {
		if environ["IRIS_"+name] == "" && environ[name] != "" {
			environ["IRIS_"+name] = environ[name]
		}
	}
	cfg = &Config{environ: environ, Bridge: bridgeDefaults(), AgentPrograms: programDefaults()}
	more, err := cfg.readFile(src, environ)
	if err != nil {
		return nil, nil, err
	}
	warnings = append(append(warnings, more...), mistyped(environ)...)
	if err := cfg.readEnviron(environ); err != nil {
		return nil, nil, err
	}
	cfg.fill(src)
	if cfg.Closed() {
		warnings = append(warnings, "no project names allow_channels or allow_users: nobody reaches an agent from a chat")
	}
	if err := cfg.check(); err != nil {
		return nil, nil, err
	}
	return cfg, warnings, nil
}

func split(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			out[k] = v
		}
	}
	return out
}

// addDotEnv adds what .env says about Iris and about providers; variables that
// are already set win. Other names in the file are left alone: commands must
// not come to see them through us.
func addDotEnv(environ map[string]string, path string) (warnings []string, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		warnings = append(warnings, fmt.Sprintf("%s can be read by other users (mode %04o): chmod 600 it", path, info.Mode().Perm()))
	}
	vars, err := godotenv.Read(path)
	if err != nil {
		// The error may quote the line, which may be a secret.
		return nil, fmt.Errorf("%s is not a list of NAME=value lines", path)
	}
	for k, v := range vars {
		if _, set := environ[k]; !set && forUs(k) {
			environ[k] = v
		}
	}
	return warnings, nil
}

// maxCredential bounds a credential: keys and tokens are short.
const maxCredential = 64 << 10

// credential is the name of a credential that stands for a variable.
var credential = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
})

// addCredentials adds what the service manager gives the process in files of
// their own (LoadCredential= of systemd): a file called as a variable is that
// variable, less one line end. Variables that are set already win.
func addCredentials(environ map[string]string, dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the credentials of the service: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if _, set := environ[name]; set || !credential().MatchString(name) || !forUs(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("read the credentials of the service: %w", err)
		}
		if len(data) > maxCredential {
			return fmt.Errorf("the credential %s has %d bytes, at most %d are allowed", name, len(data), maxCredential)
		}
		environ[name] = strings.TrimSuffix(string(data), "\n")
	}
	return nil
}

func forUs(name string) bool {
	for _, p := range []string{"IRIS_", "LANGFUSE_", "AWS_", "AZURE_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	for _, s := range []string{"_API_KEY", "_BASE_URL", "_KEY", "_TOKEN"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return name == "TZ"
}

// expand makes a path absolute; "~/" is the home directory.
func expand(path string, src Source) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		path = filepath.Join(src.Home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(src.Dir, path)
	}
	return filepath.Clean(path)
}

// mistyped warns of variables that are none of ours but look much like one. Any
// other IRIS_* may belong to a skill or a script.
func mistyped(environ map[string]string) (warnings []string) {
	known := []string{"CONFIG"}
	for _, f := range Fields() {
		if name, ours := strings.CutPrefix(f.Env, "IRIS_"); ours {
			known = append(known, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		bare, ours := strings.CutPrefix(name, "IRIS_")
		if !ours || slices.Contains(known, bare) {
			continue
		}
		if near := Near(bare, known); near != "" {
			warnings = append(warnings, fmt.Sprintf("the environment sets %s, which is no setting: the nearest is IRIS_%s", name, near))
		}
	}
	return warnings
}

// readEnviron lays the variables over what the file said.
func (c *Config) readEnviron(environ map[string]string) error {
	// A set but empty variable is the same as none.
	set := map[string]string{}
	for k, v := range environ {
		if v != "" {
			set[k] = v
		}
	}
	err := env.ParseWithOptions(c, env.Options{Environment: set})
	var agg env.AggregateError
	if errors.As(err, &agg) && len(agg.Errors) > 0 {
		var perr env.ParseError
		if errors.As(agg.Errors[0], &perr) {
			if i := slices.IndexFunc(Fields(), func(f Field) bool { return f.path == perr.Name || strings.HasSuffix(f.path, "."+perr.Name) }); i >= 0 {
				f := Fields()[i]
				return fmt.Errorf("%s=%q is not %s", f.Env, set[f.Env], kindName(perr.Type.Kind()))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	return nil
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "valid"
}

// fill sets what is still zero. For these settings 0 means the default.
func (c *Config) fill(src Source) {
	def(&c.Workspace, "~/.iris")
	c.Workspace = expand(c.Workspace, src)
	def(&c.Sandbox, "host")
	c.fillProjects(src)
	if c.Env != "preview" {
		c.Env = "prod"
	}
	def(&c.API.Host, "127.0.0.1")
	def(&c.API.Port, 3000)
	def(&c.API.Timeout, 600_000)
	def(&c.Web.Host, "127.0.0.1")
	def(&c.Bridge.Host, "127.0.0.1")
	def(&c.Model.Timeout, 90)
	def(&c.Model.Retries, 3)
	def(&c.Model.Base, 500)
	def(&c.Compact.Threshold, 0.7)
	def(&c.Compact.Target, 0.1)
	def(&c.Budget.Calls, 100)
	def(&c.Turns.MaxAge, 4)
	def(&c.Turns.Grace, 10)
	def(&c.Turns.Attachments, 10_000)
	def(&c.Slack.MaxChars, 4000)
	if c.Slack.API != "" {
		c.Slack.API = strings.TrimRight(c.Slack.API, "/") + "/"
	}
	def(&c.Bash.AuditFile, filepath.Join(c.Workspace, "meta", "bash-audit.log"))
	c.Bash.AuditFile = expand(c.Bash.AuditFile, src)
	def(&c.Policy.InstallRoot, "/iris")
	def(&c.Isolation.Network, "none")
	def(&c.Isolation.Processes, 1024)
	def(&c.Isolation.MemoryMiB, 4096)
	def(&c.Isolation.FileMiB, 4096)
	def(&c.Isolation.TmpMiB, 512)
	def(&c.Isolation.DiskMiB, 512)
	c.Firecracker.fill()
	c.fillSecrets(src)
	def(&c.Log.Level, "info")
	def(&c.Log.Format, "text")
	def(&c.Journal.MaxAge, 168)
	def(&c.Journal.MaxMiB, 1024)
	def(&c.Delivery.StatusEvery, 3)
	def(&c.Delivery.MaxAge, 24)
	def(&c.Delivery.Keep, 168)
	c.Telegram.fill()
	def(&c.Agents.Registry, filepath.Join(c.Workspace, "agents.json"))
	c.Agents.Registry = expand(c.Agents.Registry, src)
	beside := c.Workspace
	if filepath.Base(beside) == "data" {
		beside = filepath.Dir(beside)
	}
	def(&c.Agents.Dir, filepath.Join(beside, "agents"))
	c.Agents.Dir = expand(c.Agents.Dir, src)
	if c.Agents.Repo != "" {
		c.Agents.Repo = expand(c.Agents.Repo, src)
	}
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Nearest returns the candidate with the smallest edit distance, the first of
// several, "" if there are none.
func Nearest(word string, candidates []string) string {
	best, min := "", 1<<30
	for _, c := range candidates {
		if d := distance(word, c); d < min {
			best, min = c, d
		}
	}
	return best
}

// Near returns the nearest candidate if a slip of the fingers explains the
// difference, "" if none is that near.
func Near(word string, candidates []string) string {
	best := Nearest(word, candidates)
	if d := distance(word, best); d > 2 && d > len(word)/4 || 2*d > len(word) {
		return ""
	}
	return best
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, diag+1)
		}
	}
	return row[len(b)]
}
