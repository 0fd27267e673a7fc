package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/config"
)

// TestAuditKey: iris audit verify finds a record that somebody wrote anew, cut or
// took away who could not read the key; a record without one is verified as before.
func TestAuditKey(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(t.TempDir(), "audit.log")
	var out bytes.Buffer
	opts := Options{Config: &config.Config{Bash: config.Bash{AuditFile: file}}, Environ: []string{"HOME=" + home}, Out: &out, Err: &out}
	write := func(key []byte, head string, commands ...string) {
		t.Helper()
		l, err := audit.New(audit.Options{File: file, Key: key, Head: head})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			l.Append(audit.Entry{Command: c, Decision: audit.Executed})
		}
	}
	check := func(what, want string) {
		t.Helper()
		out.Reset()
		got := ""
		if err := VerifyAudit(opts); err != nil {
			got = err.Error()
		}
		if got += out.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("nothing", "No command has run yet")
	write(nil, "", "old", "older")
	check("no key", "2 entries, every line follows the one before it. There is no key here")
	key, head, err := auditKey(opts, true)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := auditKey(opts, false); err != nil || !bytes.Equal(key, again) {
		t.Errorf("the key again: %v", err)
	}
	if info, err := os.Stat(filepath.Join(home, ".config", "iris", "audit.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	check("old record, new key", "Nothing says where it ended")
	write(key, head, "rm -rf x", "ls")
	check("whole", "4 entries, every line follows the one before it. It was written with the key of this Iris, to its end.")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	restore := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	restore(nil)
	write(nil, "", "old", "older", "ls", "ls")
	check("written anew", "lines that it had are gone")
	restore(whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1])
	check("cut", "audit line 4 is where the record ends")
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	check("taken away", "is gone: it had")
	write(key, head, "after")
	check("a new file", "It follows a file that was taken away, whose last line has the hash ")
	if err := os.WriteFile(head, []byte(`{"size":1,"hash":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	check("a forged head", "was not written with this key")
}
