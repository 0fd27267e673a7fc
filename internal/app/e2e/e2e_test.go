//go:build e2e

// Package e2e holds the tests of the web page in a real Chromium, against the
// real program and against a stage on which turns follow a script. It has no
// code of its own. scripts/e2e.sh runs it.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the program once for all tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "iris-e2e-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	if shots = os.Getenv("IRIS_E2E_SHOTS"); shots == "" {
		shots, err = os.MkdirTemp("", "iris-screens-")
	} else {
		err = os.MkdirAll(shots, 0o755)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("screenshots are written to", shots)
	binary = filepath.Join(dir, "iris")
	build := exec.Command("go", "build", "-o", binary, "github.com/iris-operator/iris/cmd/iris")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("build cmd/iris: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
