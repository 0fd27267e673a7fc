package app

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/config"
)

func TestJudgeDisk(t *testing.T) {
	for name, c := range map[string]struct {
		free, files int64
		counted     bool
		fix, bad    bool
	}{
		"plenty":             {10 << 30, 1 << 20, true, false, false},
		"little":             {1 << 30, 1 << 20, true, true, false},
		"none":               {1 << 20, 1 << 20, true, true, true},
		"few files":          {10 << 30, 100, true, true, false},
		"no files":           {10 << 30, 0, true, true, true},
		"files not counted":  {10 << 30, 0, false, false, false},
		"the limit is below": {lowDisk, 1000, true, false, false},
	} {
		if f := judgeDisk(c.free, c.files, c.counted); (f.fix != "") != c.fix || f.bad != c.bad {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestAdvice(t *testing.T) {
	for _, c := range []struct{ err, result, fix string }{
		{"/t can be read (mode 0644): chmod 600 it, or delete it", "/t can be read (mode 0644)", "chmod 600 it, or delete it"},
		{"no key: set X", "no key", "set X"},
		{"open /t: permission denied", "open /t: permission denied", "otherwise"},
		{"plain", "plain", "otherwise"},
	} {
		if result, fix := advice(errors.New(c.err), "otherwise"); result != c.result || fix != c.fix {
			t.Errorf("advice(%q) = %q, %q", c.err, result, fix)
		}
	}
}

func TestExamineFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := examineWorkspace(filepath.Join(dir, "a", "b")); f.bad || !strings.Contains(f.result, "not there yet") {
		t.Errorf("a workspace to be made: %+v", f)
	}
	for _, ws := range []string{file, filepath.Join(file, "ws")} {
		if f := examineWorkspace(ws); !f.bad || f.fix == "" {
			t.Errorf("workspace %s: %+v", ws, f)
		}
	}
	cfg := &config.Config{Workspace: filepath.Join(dir, "ws")}
	for path, bad := range map[string]bool{
		filepath.Join(dir, "ws", "meta", "audit"): false, filepath.Join(dir, "audit"): false, file: false,
		dir: true, filepath.Join(file, "audit"): true,
	} {
		cfg.Bash.AuditFile = path
		if f := examineAudit(cfg); f.bad != bad {
			t.Errorf("audit %s: %+v", path, f)
		}
	}
	cfg.Bash.AuditFile, cfg.Bash.Policy = file, "off"
	if f := examineAudit(cfg); f.bad || f.fix == "" {
		t.Errorf("policy off: %+v", f)
	}
	if f := examineDisk(filepath.Join(dir, "not", "yet")); f.bad || !strings.Contains(f.result, "GiB free") {
		t.Errorf("disk: %+v", f)
	}
}

func TestReportSum(t *testing.T) {
	for want, c := range map[string][3]int{
		"\n2 of 9 checks failed.\n":              {9, 2, 1},
		"\nNothing is broken; 3 notes above.\n":  {9, 0, 3},
		"\nNothing is broken; one note above.\n": {9, 0, 1},
		"\nAll is well.\n":                       {9, 0, 0},
	} {
		var b bytes.Buffer
		newReport(&b, nil).sum(c[0], c[1], c[2])
		if b.String() != want {
			t.Errorf("sum%v = %q, want %q", c, b.String(), want)
		}
	}
}

func TestServerURL(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "http://127.0.0.1:1", "0.0.0.0": "http://127.0.0.1:1", "::": "http://[::1]:1", "::1": "http://[::1]:1", "localhost": "http://localhost:1",
	} {
		if got := serverURL(host, 1); got != want {
			t.Errorf("serverURL(%q) = %q, want %q", host, got, want)
		}
	}
}
