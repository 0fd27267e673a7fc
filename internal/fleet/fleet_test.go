package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/secret"
)

// registry writes text as agents.json and opens it. The log is returned.
func registry(t *testing.T, text string) (*Registry, string, *bytes.Buffer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if text != "" {
		put(t, path, text)
	}
	var log bytes.Buffer
	r, err := Open(Options{Path: path, Reserved: []string{"native"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return r, path, &log
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// equal compares agents with their tokens.
var equal = cmp.Comparer(func(a, b secret.Value) bool { return a.Reveal() == b.Reveal() })

const two = `{
  "billing": {"bridge_url": "http://127.0.0.1:4200", "description": "invoices", "secrets": ["STRIPE-KEY"], "token": "tok-billing"},
  "ops": {"bridge_url": "http://127.0.0.1:4201"}
}
`

func TestReadsTheRegistry(t *testing.T) {
	r, _, log := registry(t, two)
	billing := Agent{Name: "billing", BridgeURL: "http://127.0.0.1:4200", Description: "invoices", Secrets: []string{"STRIPE-KEY"}, Token: secret.New("tok-billing")}
	want := []Agent{billing, {Name: "ops", BridgeURL: "http://127.0.0.1:4201"}}
	if diff := cmp.Diff(want, r.List(), equal); diff != "" {
		t.Error(diff)
	}
	if got, ok := r.Get("billing"); !ok || cmp.Diff(billing, got, equal) != "" || got.Port() != 4200 {
		t.Errorf("Get = %v, %v", got, ok)
	}
	if _, ok := r.Get("Billing"); ok {
		t.Error("Get takes another spelling")
	}
	got, _ := r.Get("billing")
	got.Secrets[0] = "changed"
	if !r.Allows("billing", "STRIPE-KEY") {
		t.Error("a caller can change what the registry holds")
	}
	if log.Len() != 0 {
		t.Errorf("log: %s", log)
	}
}

func TestTheTokenSaysWho(t *testing.T) {
	r, path, _ := registry(t, two)
	for token, want := range map[string]string{"tok-billing": "billing", "": "", "tok-billin": "", "tok-billing ": "", "TOK-BILLING": "", "null": ""} {
		if a, ok := r.ByToken(token); a.Name != want || ok != (want != "") {
			t.Errorf("ByToken(%q) = %q, %v", token, a.Name, ok)
		}
	}
	put(t, path, `{"a": {"token": "same"}, "b": {"token": "same"}, "c": {"token": ""}, "d": {"Token": "other"}}`)
	for _, token := range []string{"same", "", "other"} {
		if a, ok := r.ByToken(token); ok {
			t.Errorf("ByToken(%q) = %s: nobody can say whose it is", token, a.Name)
		}
	}
}

func TestAllowListsKnowBothSpellings(t *testing.T) {
	r, _, _ := registry(t, `{"a": {"secrets": ["GITHUB-TOKEN", "AWS_KEY", "*", ""]}, "b": {"secrets": []}, "c": {}}`)
	for _, c := range []struct {
		agent, name string
		want        bool
	}{
		{"a", "GITHUB-TOKEN", true}, {"a", "GITHUB_TOKEN", true}, {"a", "AWS-KEY", true}, {"a", "AWS_KEY", true},
		{"a", "github-token", false}, {"a", "GITHUB-TOKEN2", false}, {"a", "GITHUB", false}, {"a", "", false}, {"a", "*", false},
		{"a", "GITHUB-TOKEN\n", false}, {"a", "../GITHUB-TOKEN", false}, {"a", "GITHUB%2DTOKEN", false},
		{"b", "GITHUB-TOKEN", false}, {"c", "GITHUB-TOKEN", false}, {"nobody", "GITHUB-TOKEN", false}, {"A", "GITHUB-TOKEN", false},
	} {
		if got := r.Allows(c.agent, c.name); got != c.want {
			t.Errorf("Allows(%q, %q) = %v", c.agent, c.name, got)
		}
	}
}

func TestReadAgainWhenChanged(t *testing.T) {
	r, path, _ := registry(t, "")
	if len(r.List()) != 0 || r.Err() != nil {
		t.Fatal("a missing file is an empty registry")
	}
	// Same length, same moment, same inode: nothing but a fresh look tells them
	// apart.
	for i := range 50 {
		name := fmt.Sprintf("a%02d", i)
		put(t, path, `{"`+name+`": {}}`)
		if _, ok := r.Get(name); !ok {
			t.Fatalf("%s is not seen", name)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if len(r.List()) != 0 {
		t.Error("a removed file still has agents")
	}
}

// TestAnUnchangedFileIsNotRead: the file is changed behind the back of its times.
func TestAnUnchangedFileIsNotRead(t *testing.T) {
	r, path, _ := registry(t, `{"old": {}}`)
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	r.List()
	r.mu.Lock()
	r.agents = append(r.agents, Agent{Name: "planted"})
	r.mu.Unlock()
	if _, ok := r.Get("planted"); !ok {
		t.Error("the file was parsed again though nothing had changed")
	}
}

func TestABrokenEditKeepsTheLastGoodState(t *testing.T) {
	for name, broken := range map[string]string{
		"half":           two[:60],
		"empty":          "",
		"list":           "[]",
		"null":           "null",
		"twice":          `{"a": {}, "a": {}}`,
		"twice inside":   `{"a": {"token": "x", "token": "y"}}`,
		"behind":         "{} {}",
		"wrong type":     `{"a": {"secrets": "ALL"}}`,
		"token a number": `{"a": {"token": 12345}}`,
		"not UTF-8":      "{\"a\xff\": {}}",
	} {
		t.Run(name, func(t *testing.T) {
			r, path, log := registry(t, two)
			put(t, path, broken)
			for range 3 {
				if _, ok := r.ByToken("tok-billing"); !ok || len(r.List()) != 2 {
					t.Fatalf("the last good state is lost: %v", r.List())
				}
			}
			if err := r.Err(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Errorf("Err = %v", err)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != 1 {
				t.Errorf("said %d times:\n%s", n, log)
			}
			if strings.Contains(log.String(), "12345") {
				t.Errorf("the log quotes a token:\n%s", log)
			}
			before := read(t, path)
			if err := r.Register(Agent{Name: "new"}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Register = %v, want ErrCorrupt", err)
			}
			if _, err := r.Remove("ops"); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Remove = %v, want ErrCorrupt", err)
			}
			if read(t, path) != before {
				t.Error("a corrupt file was overwritten")
			}
			put(t, path, `{"only": {}}`)
			if all := r.List(); len(all) != 1 || r.Err() != nil {
				t.Errorf("after the repair: %v, %v", all, r.Err())
			}
		})
	}
}

func TestWhatAPersonShouldLookAt(t *testing.T) {
	r, path, log := registry(t, `{"a": {"token": "same"}, "b": {"token": "same"}, "not a name": {}, "text": "x", "_note": "mine", "$schema": "y"}`)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	r.List()
	for _, want := range []string{"the same token", `entry="not a name"`, "entry=text", "chmod 600"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, log)
		}
	}
	for _, no := range []string{"_note", "schema", "same\n"} {
		if strings.Contains(log.String(), no) {
			t.Errorf("%q is in the log:\n%s", no, log)
		}
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(r.Err(), ErrCorrupt) {
		t.Errorf("a directory: Err = %v", r.Err())
	}
	if err := r.Register(Agent{Name: "a"}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a directory: Register = %v", err)
	}
	big := filepath.Join(dir, "big.json")
	put(t, big, `{"a": {"description": "`+strings.Repeat("x", maxFile)+`"}}`)
	if r, _ = Open(Options{Path: big}); !errors.Is(r.Err(), ErrCorrupt) {
		t.Errorf("too big: Err = %v", r.Err())
	}
	if r, _ = Open(Options{Path: filepath.Join(big, "below")}); r.Err() == nil {
		t.Error("below a file: no error")
	}
	if _, err := Open(Options{}); err == nil {
		t.Error("no path: no error")
	}
}

func TestNoTokenIsPrinted(t *testing.T) {
	r, _, _ := registry(t, two)
	a, _ := r.Get("billing")
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", a, a, a, b); strings.Contains(s, "tok-billing") {
		t.Errorf("printed: %s", s)
	}
}
