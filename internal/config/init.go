package config

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed template.toml
var template []byte

// Init writes a file to begin with, which only its owner can read, and returns its
// path: that of IRIS_CONFIG, else in the workspace, where Load looks first. It never
// overwrites one.
func Init(src Source) (path string, err error) {
	environ := split(src.Environ)
	for k, v := range src.Flags {
		environ[k] = v
	}
	if path = environ["IRIS_CONFIG"]; path == "" {
		workspace := firstOf(src.Workspace, environ["IRIS_WORKSPACE"], "~/.iris")
		path = filepath.Join(workspace, FileName)
	}
	path = expand(path, src)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s is there already, and stays as it is", path)
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(template)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return path, nil
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}
