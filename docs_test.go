package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// symbol finds names such as `engine.Engine.Submit` in a text.
var symbol = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z]*)(?:\\.([A-Z][A-Za-z]*))?`")

// TestTourNamesExist keeps docs/tour.md in step with the code.
func TestTourNamesExist(t *testing.T) {
	text, err := os.ReadFile("docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	_, files := read(t)
	names := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.path, "_test.go") {
			declare(t, names, f)
		}
	}
	found := symbol.FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Fatalf("only %d names in the tour", len(found))
	}
	for _, m := range found {
		name := m[1] + "." + m[2]
		if m[3] != "" {
			name += "." + m[3]
		}
		if !names[name] {
			t.Errorf("docs/tour.md speaks of %s, which does not exist", name)
		}
	}
}

// declare collects the exported names of a file: package.Name for everything at
// the top level, package.Type.Name for methods and fields.
func declare(t *testing.T, names map[string]bool, f source) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg := tree.Name.Name
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := pkg + "."
			if d.Recv != nil {
				name += receiver(d.Recv.List[0].Type) + "."
			}
			names[name+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				declareSpec(names, pkg, s)
			}
		}
	}
}

func declareSpec(names map[string]bool, pkg string, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[pkg+"."+n.Name] = true
		}
	case *ast.TypeSpec:
		names[pkg+"."+s.Name.Name] = true
		var fields *ast.FieldList
		switch typ := s.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				names[pkg+"."+s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// testName finds the tests that a document names.
var testName = regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Za-z0-9_]+)")

// TestRequirementsAreTested checks that every test that the documents about tests
// name exists.
func TestRequirementsAreTested(t *testing.T) {
	_, files := read(t)
	names := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names[fn.Name.Name] = true
			}
		}
	}
	for name, least := range map[string]int{"docs/requirements.md": 100, "docs/facilitation.md": 30, "docs/facilitation-parity.md": 60} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := testName.FindAllStringSubmatch(string(text), -1)
		if len(found) < least {
			t.Fatalf("%s names only %d tests", name, len(found))
		}
		for _, m := range found {
			if !names[m[1]] {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}

// link finds relative links in Markdown.
var link = regexp.MustCompile(`\]\(([^)#:]+)\)`)

// TestLinksLead checks that relative links of the documentation exist.
func TestLinksLead(t *testing.T) {
	docs := []string{"README.md"}
	entries, err := os.ReadDir("docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".md") {
			docs = append(docs, "docs/"+e.Name())
		}
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(path.Join(path.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}
