package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLinkCommands(t *testing.T) {
	ws := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time one of them is wrong
		dir, err := linkCommands(ws)
		if err != nil {
			t.Fatal(err)
		}
		all, err := os.ReadDir(dir)
		if err != nil || len(all) != len(commands) {
			t.Fatalf("%v, %v", all, err)
		}
		for _, name := range commands {
			if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || to != self {
				t.Errorf("%s leads to %s, %v", name, to, err)
			}
		}
		if err := os.Remove(filepath.Join(dir, "get-secret")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/bin/false", filepath.Join(dir, "get-secret")); err != nil {
			t.Fatal(err)
		}
	}
	got := withCommands([]string{"HOME=/h", "PATH=/usr/bin:/bin"}, "/ws/meta/bin")
	if !slices.Equal(got, []string{"HOME=/h", "PATH=/usr/bin:/bin:/ws/meta/bin"}) {
		t.Errorf("environment %q", got)
	}
}
