package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/config"
)

// A backup needs no key of the store: it opens with its passphrase in another
// store, and with no other.
func TestExportUnderAPassphrase(t *testing.T) {
	run := func(p *place, in string, do func(app.SecretOptions) error) (string, error) {
		t.Helper()
		environ := append([]string{"HOME=" + p.home, "IRIS_WORKSPACE=" + p.workspace}, p.environ...)
		cfg, _, err := config.Load(config.Source{Environ: environ, Dir: p.home, Home: p.home})
		if err != nil {
			t.Fatal(err)
		}
		typed := filepath.Join(t.TempDir(), "typed")
		if err := os.WriteFile(typed, []byte(in+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(typed)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var out bytes.Buffer
		err = do(app.SecretOptions{Options: app.Options{Config: cfg, Environ: environ, Out: &out, Err: &out}, In: f, Work: 10})
		return out.String(), err
	}
	const phrase, word = "correct horse battery staple", "wörd \"of\" many\nlines"
	from, _ := vaulted(t, []string{"plain", word})
	backup, err := run(from, phrase, func(o app.SecretOptions) error { return app.ExportSecrets(t.Context(), o, nil) })
	if err != nil || strings.Contains(backup, "plain") || !strings.HasPrefix(backup, "age-encryption.org/v1\n") {
		t.Fatalf("export = %.60q, %v", backup, err)
	}
	file := filepath.Join(t.TempDir(), "backup.age")
	if err := os.WriteFile(file, []byte(backup), 0o600); err != nil {
		t.Fatal(err)
	}
	to, store := vaulted(t, nil)
	imports := func(o app.SecretOptions) error { return app.ImportSecrets(t.Context(), o, file, "") }
	if _, err := run(to, "correct horse battery stable", imports); err == nil || !strings.Contains(err.Error(), "does not open") {
		t.Errorf("import with another passphrase = %v", err)
	}
	if said, err := run(to, phrase, imports); err != nil || said != "Imported 2 secrets\n" {
		t.Errorf("import = %q, %v", said, err)
	}
	if v, m, err := store.Get(t.Context(), "S1"); err != nil || v.Reveal() != word || m.Name != "S1" {
		t.Errorf("S1 = %q, %+v, %v", v.Reveal(), m, err)
	}
	if err := os.WriteFile(file, []byte(backup[:len(backup)-3]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(to, phrase, imports); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("import of a cut file = %v", err)
	}
}
