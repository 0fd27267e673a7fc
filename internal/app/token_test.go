package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestTokenIsKept(t *testing.T) {
	dir := t.TempDir()
	path, err := tokenPath([]string{"HOME=/nowhere", "XDG_CONFIG_HOME=" + dir})
	if err != nil || path != filepath.Join(dir, "iris", "token") {
		t.Fatalf("tokenPath() = %q, %v", path, err)
	}
	if _, err := readToken(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("readToken() = %v, want not there", err)
	}
	first, err := keepToken(path)
	if err != nil || len(first.Reveal()) != 48 {
		t.Fatalf("keepToken() = %d characters, %v", len(first.Reveal()), err)
	}
	again, err := keepToken(path)
	if err != nil || again.Reveal() != first.Reveal() {
		t.Errorf("keepToken() again gives another token, %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "iris", ".token-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTokenRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 48)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keepToken(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable token: %v", err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("short"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := keepToken(path); err == nil || !strings.Contains(err.Error(), "does not hold a token") {
		t.Errorf("short token: %v", err)
	}
	if _, err := tokenPath(nil); err == nil || !strings.Contains(err.Error(), "IRIS_API_TOKEN") {
		t.Errorf("no home: %v", err)
	}
}

func TestTokenRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "iris", "token")
	var mu sync.Mutex
	got := map[string]bool{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			v, err := keepToken(path)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[v.Reveal()] = true
		})
	}
	wg.Wait()
	if len(got) != 1 {
		t.Errorf("%d different tokens", len(got))
	}
}
