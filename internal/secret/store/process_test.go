package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/iris-operator/iris/internal/secret"
)

// childEnv makes the test binary a writer: "dir first-number count".
const childEnv = "STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		os.Exit(writer(args))
	}
	os.Exit(m.Run())
}

// writer puts secrets and says each name when it is on disk.
func writer(args string) int {
	var dir string
	var first, count int
	if _, err := fmt.Sscan(args, &first, &count, &dir); err != nil {
		return 2
	}
	s, err := New(Options{File: filepath.Join(dir, "secrets.json.enc"), Key: filepath.Join(dir, "secret.key")})
	if err != nil {
		return 2
	}
	for i := first; i < first+count; i++ {
		name := "N" + strconv.Itoa(i)
		if _, err := s.Put(context.Background(), name, secret.New("value-of-"+name), secret.Put{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(name)
	}
	return 0
}

func start(t *testing.T, p place, first, count int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s", childEnv, first, count, filepath.Dir(p.file)))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func TestTwoProcessesWriteAtOnce(t *testing.T) {
	p := newPlace(t)
	const each = 60
	one, outOne := start(t, p, 0, each)
	two, outTwo := start(t, p, 1000, each)
	s := p.open(t)
	for i := range each / 2 { // and this one, the third
		set(t, s, "M"+strconv.Itoa(i), "value")
	}
	for outOne.Scan() || outTwo.Scan() {
	}
	for _, cmd := range []*exec.Cmd{one, two} {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != each*2+each/2 {
		t.Errorf("%d secrets, %v; want %d", len(list), err, each*2+each/2)
	}
}

// A writer that is killed at any moment leaves a store that opens and has
// everything it said was stored.
func TestKilledWhileWriting(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	stored := map[string]bool{}
	for round := range 25 {
		cmd, out := start(t, p, round*1000, 1000)
		for range 1 + round%4 {
			if out.Scan() {
				stored[out.Text()] = true
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() {
			stored[out.Text()] = true
		}
		_ = cmd.Wait() // killed
		if err := s.Check(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	for name := range stored {
		if v, _, err := s.Get(t.Context(), name); err != nil || !v.Equal("value-of-"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(stored) < 25 {
		t.Errorf("only %d secrets were stored", len(stored))
	}
	set(t, s, "AFTER", "the lock is free")
}
