package open_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/internal/open"
)

// trusted may open sealed values, each for the reason given.
var trusted = map[string]string{
	"internal/open":  "is the opener",
	"flow":           "builds labelled texts and hands prompts to models",
	"release":        "mints the consent",
	"room":           "merges sealed deltas",
	"view":           "writes prompts of one level from the state of that level",
	"journal":        "encrypts sealed bodies",
	"mind/offline":   "is a model",
	"mind/adversary": "is a model that means harm",
	"mind/script":    "is a model that replays",
	"mind":           "names the box of a file in the contract",
	"audit":          "reads the journal for the operator",
	"beat":           "decodes what a model wrote, at the level it was written",
	"tool":           "reads the guard state, which is self-level, to say when to be quiet",
	".":              "is the engine",
}

func TestOnlyTheTrustedBaseImportsTheOpener(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			if strings.HasSuffix(strings.Trim(imp.Path.Value, `"`), "facilitate/internal/open") {
				rel, _ := filepath.Rel(root, filepath.Dir(p))
				seen[filepath.ToSlash(rel)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range seen {
		if strings.HasSuffix(dir, "test") {
			continue
		}
		if trusted[dir] == "" {
			t.Errorf("%s imports the opener: work with labelled texts, or add it to the trusted base with its reason", dir)
		}
	}
}

func TestBox(t *testing.T) {
	if got := open.Open(open.Seal("x")); got != "x" {
		t.Errorf("Open(Seal(x)) = %q", got)
	}
	if got := open.Open(open.Box[int]{}); got != 0 {
		t.Errorf("Open(zero) = %d", got)
	}
	b := open.Seal("x")
	if got := []string{b.String(), b.GoString(), b.LogValue().String()}; slices.ContainsFunc(got, func(s string) bool { return s != "[sealed]" }) {
		t.Errorf("a box says %q", got)
	}
}

func TestGrantAllowsOnlyItsOwnerAndWords(t *testing.T) {
	g := open.Consent("ana", "h")
	for _, c := range []struct {
		g           open.Grant
		owner, hash string
		want        bool
	}{
		{g, "ana", "h", true}, {g, "ben", "h", false}, {g, "ana", "i", false},
		{open.Grant{}, "", "", false}, {open.Grant{}, "ana", "h", false}, {open.Consent("", ""), "", "", false},
	} {
		if got := c.g.Allows(c.owner, c.hash); got != c.want {
			t.Errorf("Allows(%q, %q) = %v", c.owner, c.hash, got)
		}
	}
}
