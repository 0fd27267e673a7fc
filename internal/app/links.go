package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// commands are the names of the binary that models and skills call.
var commands = []string{"iris", "iris-secret", "get-secret", "set-secret"}

// linkCommands puts links to the running binary into <workspace>/meta/bin and
// returns that directory. They are made anew when the binary has moved.
func linkCommands(workspace string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(workspace, "meta", "bin")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range commands {
		link := filepath.Join(dir, name)
		if to, err := os.Readlink(link); err == nil && to == self {
			continue
		}
		// A link of another name first, so that there is never none.
		next := link + ".new"
		if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := errors.Join(os.Symlink(self, next), os.Rename(next, link)); err != nil {
			return "", fmt.Errorf("link %s: %w", name, err)
		}
	}
	return dir, nil
}

// withCommands adds a directory to the end of PATH, where it hides nothing.
func withCommands(environ []string, dir string) []string {
	out := make([]string, 0, len(environ)+1)
	for _, v := range environ {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			v = "PATH=" + strings.TrimSuffix(path, ":") + ":" + dir
		}
		out = append(out, v)
	}
	return out
}
