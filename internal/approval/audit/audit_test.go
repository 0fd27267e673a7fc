package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.FixedZone("", 3600))

func open(t *testing.T, file string, logs *bytes.Buffer) *Log {
	t.Helper()
	opts := Options{File: file, Now: func() time.Time { return noon }}
	if logs != nil {
		opts.Logger = slog.New(slog.NewTextHandler(logs, nil))
	}
	l, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// record writes n lines and returns the file.
func record(t *testing.T, n int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, file, nil)
	for i := range n {
		l.Append(Entry{Channel: "tg-1", Command: strings.Repeat("x", i+1), Decision: Executed, ExitCode: &i})
	}
	return file
}

func TestAppendLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meta", "deep", "audit.log")
	l := open(t, file, nil)
	code := 0
	l.Append(Entry{Channel: "tg-123", Command: "terraform destroy && echo > x", Decision: Confirmed, By: "anna 17"})
	l.Append(Entry{Channel: "tg-123", Command: "terraform destroy && echo > x", Decision: Executed, ExitCode: &code})
	got := strings.Split(read(t, file), "\n")
	if want := `{"date":"2026-03-04T11:00:00Z","channelId":"tg-123","command":"terraform destroy && echo > x","decision":"confirmed","exitCode":null,"by":"anna 17","prev":"","hash":"`; !strings.HasPrefix(got[0], want) {
		t.Errorf("line 1 = %s, want it to begin %s", got[0], want)
	}
	var one, two Entry
	if err := errors.Join(json.Unmarshal([]byte(got[0]), &one), json.Unmarshal([]byte(got[1]), &two)); err != nil {
		t.Fatal(err)
	}
	if two.Prev != one.Hash || two.ExitCode == nil || *two.ExitCode != 0 || len(one.Hash) != 64 {
		t.Errorf("entries %+v and %+v are not a chain", one, two)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestVerify(t *testing.T) {
	lines := strings.SplitAfter(strings.TrimSuffix(read(t, record(t, 5)), "\n"), "\n")
	lines[4] += "\n"
	join := func(list ...string) string { return strings.Join(list, "") }
	other := read(t, record(t, 2))
	old := `{"date":"2025-01-01T00:00:00Z","channelId":"C1","command":"ls","decision":"executed","exitCode":0}` + "\n"
	for name, c := range map[string]struct {
		text string
		line int // 0: fine
	}{
		"whole":          {join(lines...), 0},
		"empty":          {"", 0},
		"edited":         {join(lines[0], lines[1], strings.Replace(lines[2], `"xxx"`, `"xyx"`, 1), lines[3], lines[4]), 3},
		"edited hash":    {join(lines[0], lines[1], strings.Replace(lines[2], `"hash":"`, `"hash":"0`, 1)), 3},
		"removed":        {join(lines[0], lines[1], lines[3], lines[4]), 3},
		"first removed":  {join(lines[1:]...), 1},
		"swapped":        {join(lines[0], lines[2], lines[1], lines[3]), 2},
		"repeated":       {join(lines[0], lines[1], lines[1]), 3},
		"line put in":    {join(lines[0], old, lines[1]), 2},
		"other chain":    {join(lines[0], other), 2},
		"torn end":       {join(lines[0], lines[1], lines[2][:40]), 0},
		"torn middle":    {join(lines[0], lines[1], lines[2][:40]+"\n", lines[2]), 0},
		"garbage for it": {join(lines[0], "{garbage\n", lines[2]), 3},
		"too long":       {join(lines[0], strings.Repeat("x", maxLine+1)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			err := Verify(strings.NewReader(c.text))
			var chain *ChainError
			if errors.As(err, &chain) != (c.line > 0) || chain != nil && chain.Line != c.line {
				t.Errorf("Verify: %v, want line %d", err, c.line)
			}
		})
	}
}

func TestVerifyReadError(t *testing.T) {
	file, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var chain *ChainError
	if err := Verify(file); err == nil || errors.As(err, &chain) {
		t.Errorf("Verify of a directory: %v", err)
	}
}

// TestContinues shows that the chain goes on over restarts, torn lines, lines
// of another program, and files that were moved away.
func TestContinues(t *testing.T) {
	long := strings.Repeat("\x01", 60<<10) // six bytes each in JSON: longer than a chunk
	for name, c := range map[string]struct {
		change func(text string) string
	}{
		"restart":    {func(s string) string { return s }},
		"torn":       {func(s string) string { return s + `{"date":"2026` }},
		"torn alone": {func(string) string { return `{"date":"2026` }},
		"other":      {func(string) string { return `{"command":"ls","exitCode":0}` + "\n" }},
		"empty":      {func(string) string { return "" }},
		"long torn":  {func(s string) string { return s + strings.Repeat("x", 200<<10) }},
	} {
		t.Run(name, func(t *testing.T) {
			file := record(t, 2)
			write(t, file, c.change(read(t, file)))
			for range 2 {
				l := open(t, file, nil)
				l.Append(Entry{Command: long, Decision: Denied})
				l.Append(Entry{Command: "short", Decision: Denied})
			}
			text := read(t, file)
			if err := Verify(strings.NewReader(text)); err != nil {
				t.Error(err)
			}
			if n := strings.Count(text, `"decision":"denied"`); n != 4 {
				t.Errorf("%d lines, want 4", n)
			}
		})
	}
}

func TestMovedAway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, file, nil)
	l.Append(Entry{Command: "one"})
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	l.Append(Entry{Command: "two"})
	l.Append(Entry{Command: "three"})
	for _, name := range []string{file, file + ".1"} {
		if err := Verify(strings.NewReader(read(t, name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFailureIsHarmless logs once per streak and recovers.
func TestFailureIsHarmless(t *testing.T) {
	dir := t.TempDir()
	blocker := filepath.Join(dir, "meta")
	write(t, blocker, "a file where the directory should be")
	var logs bytes.Buffer
	l := open(t, filepath.Join(blocker, "audit.log"), &logs)
	for range 3 {
		l.Append(Entry{Command: "lost"})
	}
	if n := strings.Count(logs.String(), "audit record cannot be written"); n != 1 {
		t.Errorf("%d log lines, want 1:\n%s", n, &logs)
	}
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	l.Append(Entry{Command: "kept"})
	if err := os.RemoveAll(blocker); err != nil {
		t.Fatal(err)
	}
	write(t, blocker, "")
	l.Append(Entry{Command: "lost"})
	if n := strings.Count(logs.String(), "audit record cannot be written"); n != 2 {
		t.Errorf("%d log lines, want 2:\n%s", n, &logs)
	}
}

func TestConcurrent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, file, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { l.Append(Entry{Command: "echo", Decision: Executed}) })
	}
	wg.Wait()
	text := read(t, file)
	if err := Verify(strings.NewReader(text)); err != nil || strings.Count(text, "\n") != 20 {
		t.Errorf("%v, %d lines", err, strings.Count(text, "\n"))
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no file is no error")
	}
}

func FuzzVerify(f *testing.F) {
	line, _, err := seal(Entry{Command: "x", Date: noon}, "", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte("{}\n" + string(line)))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = Verify(bytes.NewReader(text))
		if _, _, err := last(bytes.NewReader(text), int64(len(text))); err != nil {
			t.Errorf("last: %v", err)
		}
	})
}
