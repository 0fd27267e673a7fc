package audit

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var testKey = []byte("a key that commands cannot read")

// marked writes n lines with a key, after some without, and returns the record
// and the path of its head.
func marked(t *testing.T, plain, n int) (file, head string) {
	t.Helper()
	file, head = filepath.Join(t.TempDir(), "audit.log"), filepath.Join(t.TempDir(), "keys", "head")
	for i := range plain + n {
		opts := Options{File: file, Key: testKey, Head: head}
		if i < plain {
			opts = Options{File: file}
		}
		l, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		l.Append(Entry{Command: strings.Repeat("x", i+1), Decision: Executed})
	}
	return file, head
}

// TestMarkedRecord: whoever can write the record and not read the key cannot change
// it unseen: not with a whole new chain either.
func TestMarkedRecord(t *testing.T) {
	file, headFile := marked(t, 2, 3)
	head, err := ReadHead(headFile, testKey)
	if err != nil {
		t.Fatal(err)
	}
	whole := read(t, file)
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	lines[4] += "\n"
	// chain writes entries anew, as one would who knows everything but the key.
	chain := func(key []byte, entries ...string) (text string) {
		prev := ""
		for _, line := range entries {
			var e Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			e.Command = strings.ReplaceAll(e.Command, "xxxx", "echo")
			sealed, hash, err := seal(e, prev, key)
			if err != nil {
				t.Fatal(err)
			}
			prev, text = hash, text+string(sealed)
		}
		return text
	}
	more, _, err := seal(Entry{Command: "last words"}, head.Hash, testKey)
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := seal(Entry{Command: "forged"}, head.Hash, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		line int // 0: fine
	}{
		"whole":                     {whole, 0},
		"died before the head":      {whole + string(more), 0},
		"torn end":                  {whole + string(more[:20]), 0},
		"cut":                       {strings.Join(lines[:4], ""), 5},
		"empty":                     {"", 1},
		"written anew without key":  {chain(nil, lines...), 6},
		"written anew, other key":   {chain([]byte("other"), lines...), 1},
		"end written anew":          {strings.Join(lines[:3], "") + chain(nil, lines[3:]...), 4},
		"line put behind it":        {whole + string(forged), 6},
		"an old line changed":       {strings.Replace(whole, `"x"`, `"y"`, 1), 1},
		"an old line, and its hash": {chain(nil, lines[:2]...) + strings.Join(lines[2:], ""), 0}, // nothing was changed by it
	} {
		err := VerifyMarked(strings.NewReader(c.text), testKey, &head)
		var bad *ChainError
		if errors.As(err, &bad) != (c.line > 0) || bad != nil && bad.Line != c.line {
			t.Errorf("%s: %v, want line %d", name, err, c.line)
		}
		// Without the head only the marks count, without the key only the chain.
		if name == "written anew without key" {
			if err := VerifyMarked(strings.NewReader(c.text), testKey, nil); err != nil {
				t.Errorf("%s, no head: %v", name, err)
			}
			if err := Verify(strings.NewReader(c.text)); err != nil {
				t.Errorf("%s, no key: %v", name, err)
			}
		}
	}
	if err := Verify(strings.NewReader(whole)); err != nil {
		t.Errorf("without the key: %v", err)
	}
}

// TestHeads: a head that somebody else wrote is none, and a file that begins anew
// says what it follows.
func TestHeads(t *testing.T) {
	file, head := marked(t, 0, 2)
	if _, err := ReadHead(head, []byte("other")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key: %v", err)
	}
	if _, err := ReadHead(head+"x", testKey); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no head: %v", err)
	}
	before, err := ReadHead(head, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{File: file, Key: testKey, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	l.Append(Entry{Command: "new"})
	l.Append(Entry{Command: "newer"})
	var first, second Entry
	lines := strings.Split(read(t, file), "\n")
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[1]), &second)); err != nil {
		t.Fatal(err)
	}
	if first.After != before.Hash || second.After != "" {
		t.Errorf("the new file follows %q and %q, want %q", first.After, second.After, before.Hash)
	}
	now, err := ReadHead(head, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyMarked(strings.NewReader(read(t, file)), testKey, &now); err != nil {
		t.Error(err)
	}
	if err := VerifyMarked(strings.NewReader(read(t, file+".1")), testKey, nil); err != nil {
		t.Error(err)
	}
}
