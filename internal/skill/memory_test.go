package skill

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Operator §13.5: placement of memory.
func TestMemoryUnderItsHeadings(t *testing.T) {
	b := newBench(t, Options{})
	memory := func(want string) {
		t.Helper()
		got, err := b.lib.Memory(slackC1)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Memory (-want +got):\n%s", diff)
		}
	}
	memory("")
	b.write("slack/C1/MEMORY.md", "\nowns billing\n")
	memory("### Channel-Specific Memory\nowns billing")
	b.write("MEMORY.md", "likes tea\n")
	memory("### Global Workspace Memory\nlikes tea\n\n### Channel-Specific Memory\nowns billing")
	b.write("slack/C1/MEMORY.md", "  \n")
	memory("### Global Workspace Memory\nlikes tea")
}

func TestConstitutionAndSystemLog(t *testing.T) {
	b := newBench(t, Options{MaxBytes: 21})
	if c, err := b.lib.Constitution(); c != "" || err != nil {
		t.Errorf("Constitution = %q, %v", c, err)
	}
	b.write("CONSTITUTION.md", "Be kind.\n")
	if c, err := b.lib.Constitution(); c != "Be kind." || err != nil {
		t.Errorf("Constitution = %q, %v", c, err)
	}
	b.write("CONSTITUTION.md", strings.Repeat("é", 20))
	c, err := b.lib.Constitution()
	if err != nil || !strings.HasPrefix(c, strings.Repeat("é", 10)+"\n[The last 19 of 40 bytes are left out; CONSTITUTION.md") {
		t.Errorf("cut constitution = %q, %v", c, err)
	}
	b.write("SYSTEM.md", strings.Repeat("é", 20))
	s, err := b.lib.SystemLog()
	if err != nil || !strings.HasPrefix(s, "[The first 19 of 40 bytes are left out; SYSTEM.md") || !strings.HasSuffix(s, "]\n"+strings.Repeat("é", 10)) {
		t.Errorf("cut system log = %q, %v", s, err)
	}
}

// What the model can plant must not bring other files into its prompt.
func TestMemoryFollowsNoLinks(t *testing.T) {
	b := newBench(t, Options{})
	secret := filepath.Join(t.TempDir(), "token")
	os.WriteFile(secret, []byte("s3cret"), 0o600)
	b.write("state/rooms/x", "s3cret")
	for _, target := range []string{secret, "../../state/rooms/x"} {
		b.link(target, "slack/C1/MEMORY.md")
		b.write("MEMORY.md", "fine")
		got, err := b.lib.Memory(slackC1)
		if err == nil || strings.Contains(got, "s3cret") || !strings.Contains(got, "fine") {
			t.Errorf("Memory over a link to %s = %q, %v", target, got, err)
		}
		os.Remove(filepath.Join(b.root, "slack/C1/MEMORY.md"))
	}
	os.MkdirAll(filepath.Join(b.root, "CONSTITUTION.md"), 0o755)
	if _, err := b.lib.Constitution(); err == nil {
		t.Error("a directory was read as a constitution")
	}
}

// Field report F31.
func TestCutAnswerDoesNotReplaceMemory(t *testing.T) {
	b := newBench(t, Options{})
	old := strings.Repeat("a fact worth keeping\n", 485)[:10180]
	p := b.write("MEMORY.md", old)
	cut := []byte(old[:171])
	err := Guard(p, []byte(old), cut)
	if !errors.Is(err, ErrShrinks) || !strings.Contains(err.Error(), "10180") || !strings.Contains(err.Error(), "edit") {
		t.Errorf("Guard = %v, want ErrShrinks with the sizes and the way out", err)
	}
	if got, _ := os.ReadFile(p); string(got) != old {
		t.Error("memory changed")
	}
	// A write that passes leaves the previous text behind.
	if err := b.lib.Keep(p); err != nil {
		t.Fatal(err)
	}
	b.write("MEMORY.md", old[:6000])
	versions, err := b.lib.Versions("MEMORY.md")
	if err != nil || len(versions) != 1 || versions[0].Size != 10180 || !versions[0].At.Equal(b.now) {
		t.Fatalf("Versions = %+v, %v", versions, err)
	}
	if got, _ := os.ReadFile(filepath.Join(b.root, versions[0].Path)); string(got) != old {
		t.Error("the version is not the previous text")
	}
}

func TestGuard(t *testing.T) {
	big := make([]byte, 4000)
	for _, c := range []struct {
		path     string
		old, new int
		ok       bool
	}{
		{"MEMORY.md", 4000, 1999, false}, {"MEMORY.md", 4000, 2000, true}, {"/ws/slack/C1/MEMORY.md", 4000, 0, false}, {"SYSTEM.md", 4000, 1, false},
		{"CONSTITUTION.md", 4000, 1, false}, {"MEMORY.md", 1024, 0, true}, {"MEMORY.md", 1025, 0, false}, {"notes.md", 4000, 0, true}, {"MEMORY.md", 0, 10, true},
	} {
		if err := Guard(c.path, big[:c.old], big[:c.new]); (err == nil) != c.ok {
			t.Errorf("Guard(%s, %d, %d) = %v, want ok %v", c.path, c.old, c.new, err, c.ok)
		}
	}
	// Piece by piece everything can go.
	steps := 0
	for size := 4000; size > 0; size /= 2 {
		if err := Guard("MEMORY.md", big[:size], big[:(size+1)/2]); err != nil {
			t.Fatalf("step from %d: %v", size, err)
		}
		steps++
	}
	if steps < 2 {
		t.Error("nothing was tried")
	}
}

func TestVersionsAreBounded(t *testing.T) {
	b := newBench(t, Options{})
	if err := b.lib.Keep("MEMORY.md"); err != nil {
		t.Errorf("Keep of nothing = %v", err)
	}
	for i := range 30 {
		b.write("slack/C1/MEMORY.md", strings.Repeat("x", i+1))
		if i%2 == 0 {
			b.now = b.now.Add(time.Minute)
		}
		for range 2 { // the second time there is nothing new
			if err := b.lib.Keep(filepath.Join(b.root, "slack/C1/MEMORY.md")); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.write("slack/C1/.versions/MEMORY.md/notes.txt", "of somebody")
	versions, err := b.lib.Versions("slack/C1/MEMORY.md")
	if err != nil || len(versions) != maxVersions || versions[0].Size != 30 || versions[19].Size != 11 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
	for _, p := range []string{"../MEMORY.md", "/etc/MEMORY.md", "", ".", "slack/"} {
		if err := b.lib.Keep(p); err == nil {
			t.Errorf("Keep(%q) succeeded", p)
		}
		if _, err := b.lib.Versions(p); err == nil {
			t.Errorf("Versions(%q) succeeded", p)
		}
	}
}

func TestKeepStaysInside(t *testing.T) {
	b := newBench(t, Options{})
	secret := filepath.Join(t.TempDir(), "MEMORY.md")
	os.WriteFile(secret, []byte("s3cret"), 0o600)
	b.link(secret, "MEMORY.md")
	if err := b.lib.Keep("MEMORY.md"); err == nil {
		t.Error("Keep read through a link")
	}
}
