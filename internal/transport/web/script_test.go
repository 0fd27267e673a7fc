package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPageScripts runs the tests of the page's scripts that need no browser, in
// a copy that tells node they are modules, as the page does.
func TestPageScripts(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "page", "js"), os.DirFS("page/js")); err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.mjs")
	if err != nil || len(tests) == 0 {
		t.Fatalf("tests of the scripts: %v, %v", tests, err)
	}
	for _, name := range tests {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{"--test"}, tests...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
