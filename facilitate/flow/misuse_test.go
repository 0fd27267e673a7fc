package flow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const head = `package p

import (
	"context"
	"encoding/json"

	"github.com/iris-operator/iris/facilitate/flow"
)

var ctx = context.Background()
var js = json.RawMessage(nil)
var pub = flow.Public("p")
var sealed = flow.Private("ana", "s")
var inner = flow.Inner("i")

func post(flow.Text[flow.Room])      {}
func whisper(flow.Text[flow.Person]) {}
func tell(flow.Text[flow.Host])      {}

`

// misuse are bodies that must not compile, with the reason the compiler gives.
var misuse = []struct{ name, code, want string }{
	{"post a sealed text", `func f() { post(sealed) }`, "cannot use sealed"},
	{"post a thought", `func f() { post(inner) }`, "cannot use inner"},
	{"whisper a thought", `func f() { whisper(inner) }`, "cannot use inner"},
	{"whisper a public text unraised", `func f() { whisper(pub) }`, "cannot use pub"},
	{"convert sealed to room", `var x = flow.Text[flow.Room](sealed)`, "cannot convert"},
	{"convert self to room", `var x = flow.Text[flow.Room](inner)`, "cannot convert"},
	{"convert self to person", `var x = flow.Text[flow.Person](inner)`, "cannot convert"},
	{"convert a string", `var x = flow.Text[flow.Room]("x")`, "cannot convert"},
	{"text to string", `var x = string(sealed)`, "cannot convert"},
	{"reveal sealed", `var x = flow.Reveal(sealed)`, "in argument to flow.Reveal"},
	{"reveal self", `var x = flow.Reveal(inner)`, "in argument to flow.Reveal"},
	{"release a thought", `func f() { flow.Release(flow.Consent{}, inner) }`, "in argument to flow.Release"},
	{"release public", `func f() { flow.Release(flow.Consent{}, pub) }`, "in argument to flow.Release"},
	{"forge a consent", `var x = flow.Consent{owner: "ana"}`, "unknown field owner|cannot refer to unexported field owner"},
	{"forge a consent by position", `var x = flow.Consent{"ana", "h"}`, "implicit assignment to unexported field|too (many|few) values"},
	{"raise self to person", `var x = flow.ToPerson("ana", inner)`, "in argument to flow.ToPerson"},
	{"hand ana's to ben", `var x = flow.ToPerson("ben", sealed)`, "in argument to flow.ToPerson"},
	{"a level of one's own", `type mine struct{}; var x flow.Text[mine]`, "does not satisfy"},
	{"string as level", `var x flow.Text[string]`, "does not satisfy"},
	{"compare texts", `var x = sealed == sealed`, "cannot compare|cannot be compared|invalid operation"},
	{"text as map key", `var x map[flow.Text[flow.Room]]int`, "invalid map key"},
	{"open the box field", `var x = sealed.box`, "sealed.box undefined"},
	{"call the getter", `var x = sealed.Sealed().get`, "get undefined"},
	{"literal of fields", `var x = flow.Text[flow.Room]{box: sealed.Sealed()}`, "unknown field box|unexported field box"},
	{"sealed part in a room prompt", `var x, _ = flow.Ask[flow.Room]("", js, sealed)`, "cannot use sealed"},
	{"thought in a person prompt", `var x, _ = flow.Ask[flow.Person]("", js, inner)`, "cannot use inner"},
	{"mixed parts", `var x, _ = flow.Ask("", js, pub, sealed)`, "does not match inferred type|cannot use sealed"},
	{"prompt to room", `var x flow.Prompt[flow.Room]; func f(p flow.Prompt[flow.Self]) { x = p }`, "cannot use p"},
	{"convert a prompt", `func f(p flow.Prompt[flow.Self]) { _ = flow.Prompt[flow.Room](p) }`, "cannot convert"},
	{"post what a self prompt made", `func f(m flow.Model, p flow.Prompt[flow.Self]) { t, _, _ := flow.Complete(ctx, m, p); post(t) }`, "cannot use t"},
	{"complete at another level", `func f(m flow.Model, p flow.Prompt[flow.Self]) { flow.Complete[flow.Room](ctx, m, p) }`, "cannot use p"},
	{"assign across levels", `func f() { pub = flow.ToSelf(sealed) }`, "cannot use flow.ToSelf"},
	{"range the words", `func f() { for range sealed { } }`, "cannot range"},
	{"tell a sealed text to the host", `func f() { tell(flow.ToHost(sealed)) }`, "in argument to flow.ToHost|cannot use sealed"},
	{"tell a thought to the host", `func f() { tell(inner) }`, "cannot use inner"},
	{"post what the host is told", `func f() { post(flow.ToHost(pub)) }`, "cannot use flow.ToHost"},
	{"reveal what the host is told", `var x = flow.Reveal(flow.ToHost(pub))`, "in argument to flow.Reveal|cannot use flow.ToHost"},
	{"concatenate", `var x = sealed + pub`, "mismatched types|not defined"},
}

// fine are bodies that must compile.
var fine = []struct{ name, code string }{
	{"post public", `func f() { post(pub) }`},
	{"whisper private", `func f() { whisper(sealed) }`},
	{"raise to person", `func f() { whisper(flow.ToPerson("ana", pub)) }`},
	{"raise room to host", `func f() { tell(flow.ToHost(pub)) }`},
	{"raise room to self", `var x flow.Text[flow.Self] = flow.ToSelf(pub)`},
	{"raise person to self", `var x flow.Text[flow.Self] = flow.ToSelf(sealed)`},
	{"reveal public", `var x string = flow.Reveal(pub)`},
	{"release with consent", `func f(c flow.Consent) { if t, err := flow.Release(c, sealed); err == nil { post(t) } }`},
	{"complete keeps room", `func f(m flow.Model, p flow.Prompt[flow.Room]) { t, _, _ := flow.Complete(ctx, m, p); post(t) }`},
	{"complete keeps person", `func f(m flow.Model, p flow.Prompt[flow.Person]) { t, _, _ := flow.Complete(ctx, m, p); whisper(t) }`},
	{"ask of room parts", `var x, _ = flow.Ask("", js, pub, pub)`},
	{"ask of self parts", `var x, _ = flow.Ask("", js, inner, flow.ToSelf(sealed), flow.ToSelf(pub))`},
	{"generic over levels", `func f[L flow.Level](t flow.Text[L]) bool { return t.Empty() }; var x = f(sealed)`},
	{"owner and mark", `var x = sealed.Owner(); var y = sealed.String()`},
	{"any function is a model", `var m flow.Model = func(context.Context, flow.Request) (flow.Response, error) { return flow.Response{}, nil }`},
}

// TestMisuseDoesNotCompile builds every snippet as a package of a stranger, in
// one go build over an overlay that lies outside facilitate/.
func TestMisuseDoesNotCompile(t *testing.T) {
	if len(misuse) < 25 || len(fine) < 10 {
		t.Fatalf("%d misuses and %d legal uses", len(misuse), len(fine))
	}
	body := map[string]string{}
	for i, s := range misuse {
		body[fmt.Sprintf("bad%02d", i)] = head + s.code + "\n"
	}
	for i, s := range fine {
		body[fmt.Sprintf("good%02d", i)] = head + s.code + "\n"
	}
	said := build(t, body)
	for i, s := range misuse {
		if got := said[fmt.Sprintf("bad%02d", i)]; got == "" {
			t.Errorf("%s compiles: %s", s.name, s.code)
		} else if !regexp.MustCompile(s.want).MatchString(got) {
			t.Errorf("%s fails for another reason than %q:\n%s", s.name, s.want, got)
		}
	}
	for i, s := range fine {
		if got := said[fmt.Sprintf("good%02d", i)]; got != "" {
			t.Errorf("%s does not compile:\n%s", s.name, got)
		}
	}
}

func TestStrangersCannotImportTheOpener(t *testing.T) {
	said := build(t, map[string]string{"thief": `package p

import "github.com/iris-operator/iris/facilitate/internal/open"

var x = open.Consent("ana", "h")
`})
	if !strings.Contains(said[""], "use of internal package") {
		t.Errorf("importing the opener from outside: %q", said)
	}
}

// build returns what the compiler says of each package; what it says before it
// reaches one is under the empty name.
func build(t *testing.T, body map[string]string) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	dir := t.TempDir()
	replace := map[string]string{}
	var pkgs []string
	for name, text := range body {
		file := filepath.Join(dir, name+".go")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, "stranger", name, "p.go")] = file
		pkgs = append(pkgs, "./stranger/"+name)
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": replace})
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"build", "-overlay", file}, pkgs...)...)
	cmd.Dir = root
	text, _ := cmd.CombinedOutput()
	said, at := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^# .*/stranger/(\w+)`).FindStringSubmatch(line); m != nil {
			at = m[1]
			continue
		}
		said[at] += line
	}
	return said
}
