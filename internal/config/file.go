package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

// readFile decodes the first configuration file there is.
func (c *Config) readFile(src Source, environ map[string]string) (warnings []string, err error) {
	path, explicit := environ["IRIS_CONFIG"], true
	if path == "" {
		path, explicit = findFile(src, environ), false
	}
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		if explicit {
			return nil, fmt.Errorf("read the configuration named by IRIS_CONFIG: %w", err)
		}
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written by other users (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	md, err := c.decode(string(data))
	if err != nil {
		var perr toml.ParseError
		if errors.As(err, &perr) {
			return nil, fmt.Errorf("%s, line %d: %s", path, perr.Position.Line, plainly(perr))
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if unknown := md.Undecoded(); len(unknown) > 0 {
		key := unknown[0].String()
		return nil, fmt.Errorf("%s: there is no setting %q; the nearest is %q", path, key, Nearest(key, fileKeys()))
	}
	if info.Mode().Perm()&0o044 != 0 && (!c.API.Token.IsZero() || !c.Web.Password.IsZero() || !c.Bridge.Token.IsZero() || !c.Telegram.Token.IsZero() || !c.Slack.AppToken.IsZero() || !c.Slack.BotToken.IsZero() || !c.Secrets.BrokerToken.IsZero()) {
		warnings = append(warnings, fmt.Sprintf("%s holds a secret and can be read by other users (mode %04o): chmod 600 it", path, info.Mode().Perm()))
	}
	c.File = path
	return warnings, nil
}

// plainly is what the decoder found, with the way out where it has none.
func plainly(e toml.ParseError) string {
	switch {
	case strings.Contains(e.Message, "'model' has already been defined"):
		return "model is a text here and a table elsewhere: beside a [model] table write agent_model"
	case e.LastKey != "" && !strings.Contains(e.Message, e.LastKey):
		return e.LastKey + ": " + e.Message
	}
	return e.Message
}

// decode reads the file. "model" is a table, or a text: the model of agent
// programs.
func (c *Config) decode(text string) (toml.MetaData, error) {
	var kind struct{ Model, Projects any }
	if md, err := toml.Decode(text, &kind); err != nil {
		return md, err
	}
	if _, single := kind.Projects.(map[string]any); single {
		return toml.MetaData{}, errors.New("projects is a list: each begins with [[projects]], in two brackets")
	}
	// A field shadows what is deeper.
	table := struct {
		*Config
		*AgentPrograms
	}{c, &c.AgentPrograms}
	if _, plain := kind.Model.(string); !plain {
		return toml.Decode(text, &table)
	}
	named := struct {
		*Config
		*AgentPrograms
		Model *string `toml:"model"`
	}{c, &c.AgentPrograms, &c.AgentPrograms.Model}
	return toml.Decode(text, &named)
}

// Find returns the file that Load reads, "" if there is none. One that IRIS_CONFIG
// names need not be there.
func Find(src Source) string {
	environ := split(src.Environ)
	_, _ = addDotEnv(environ, filepath.Join(src.Dir, ".env")) // Load tells what is wrong with it
	maps.Copy(environ, src.Flags)
	if src.Workspace != "" {
		environ["IRIS_WORKSPACE"] = src.Workspace
	}
	if path := environ["IRIS_CONFIG"]; path != "" {
		return path
	}
	return findFile(src, environ)
}

func findFile(src Source, environ map[string]string) string {
	ws := environ["IRIS_WORKSPACE"]
	if ws == "" {
		ws = "~/.iris"
	}
	for _, dir := range []string{expand(ws, src), src.Dir, filepath.Join(src.Home, ".iris-slack")} {
		name := FileName
		if filepath.Base(dir) == ".iris-slack" {
			name = "config.toml"
		}
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}
