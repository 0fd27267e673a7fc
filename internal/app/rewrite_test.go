package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPruneFollowsTheLinkOfTheOperator(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, ".env")
	if err := errors.Join(os.WriteFile(real, []byte("KEY=secret\n"), 0o644), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(link, []byte("\n")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(real)
	if err != nil || info.Size() != 1 || info.Mode() != 0o600 {
		t.Errorf("what the link leads to: %v, %v; want one byte, readable by its owner", info, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
}
