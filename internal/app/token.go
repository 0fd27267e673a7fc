package app

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/secret"
)

// tokenPath is where the operator's token is kept when none is configured:
// outside of every workspace, so that no agent's file tool is pointed at it.
func tokenPath(environ []string) (string, error) {
	dir := lookup(environ, "XDG_CONFIG_HOME")
	if dir == "" {
		home := lookup(environ, "HOME")
		if home == "" {
			return "", errors.New("neither HOME nor XDG_CONFIG_HOME is set: set IRIS_API_TOKEN instead of keeping a token")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "iris", "token"), nil
}

func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// readToken returns the token kept at path; fs.ErrNotExist if there is none.
func readToken(path string) (secret.Value, error) {
	info, err := os.Stat(path)
	if err != nil {
		return secret.Value{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return secret.Value{}, fmt.Errorf("%s can be read by other users (mode %04o): chmod 600 it, or delete it to get a new token", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return secret.Value{}, err
	}
	text := strings.TrimSpace(string(data))
	if len(text) < 32 {
		return secret.Value{}, fmt.Errorf("%s does not hold a token: delete it to get a new one", path)
	}
	return secret.New(text), nil
}

// keepToken returns the token kept at path and makes one if there is none.
// Two processes that start at once agree on one token.
func keepToken(path string) (secret.Value, error) {
	v, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return secret.Value{}, fmt.Errorf("keep the operator's token: %w", err)
	}
	var raw [24]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return secret.Value{}, err
	}
	// Another process may be faster; its token counts then.
	err = durable.Create(path, []byte(hex.EncodeToString(raw[:])+"\n"), durable.Exactly(0o600))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return secret.Value{}, fmt.Errorf("keep the operator's token: %w", err)
	}
	return readToken(path)
}
