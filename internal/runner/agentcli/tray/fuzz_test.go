package tray

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzNames: whatever a sender calls a file, it is one file in its directory, and one
// line for people.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a.txt", "計画.pdf", "../../etc/passwd", "", ".", "\x00", "a\xff.png", strings.Repeat("é", 400) + ".jpeg", "x." + strings.Repeat("y", 300)} {
		f.Add(name)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string) {
		for _, got := range []string{readable(name), shown(name)} {
			if strings.ContainsAny(got, "/\\\n\r\x00") || !utf8.ValidString(got) {
				t.Fatalf("%q becomes %q", name, got)
			}
		}
		got := readable(name)
		if !filepath.IsLocal(got) || strings.HasPrefix(got, ".") || len(got) > 200 {
			t.Fatalf("%q becomes the file %q", name, got)
		}
		path := filepath.Join(dir, got)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		os.Remove(path)
	})
}
