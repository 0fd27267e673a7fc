package builtin_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

func TestSixSurfacesInAtMostSixtyLines(t *testing.T) {
	if n := len(builtin.All()); n != 6 {
		t.Fatalf("%d surfaces", n)
	}
	for _, s := range builtin.All() {
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
		f, err := os.Open(filepath.Join("..", s.Name, s.Name+".go"))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for sc := bufio.NewScanner(f); sc.Scan(); {
			lines++
		}
		f.Close()
		if lines > 60 {
			t.Errorf("%s: %d lines", s.Name, lines)
		}
		if builtin.Named(s.Name).Name != s.Name {
			t.Errorf("%s is not found by name", s.Name)
		}
	}
	if builtin.Named("nope") != nil {
		t.Error("found a surface nobody declared")
	}
}

func TestContributionsAreValidated(t *testing.T) {
	lists := map[string][]string{"options": {"Red", "Blue"}, "slots": {"mon", "tue"}}
	for _, c := range []struct {
		surface string
		raw     map[string]any
		ok      bool
	}{
		{"poll", map[string]any{"vote": "red"}, true},
		{"poll", map[string]any{"vote": "green"}, false},
		{"poll", map[string]any{"vote": 3.0}, false},
		{"poll", map[string]any{"vote": nil}, false},
		{"poll", nil, false},
		{"poll", map[string]any{"other": "Red"}, false},
		{"tasks", map[string]any{"load": 5.0}, true},
		{"tasks", map[string]any{"load": 6.0}, false},
		{"tasks", map[string]any{"load": 1.5}, false},
		{"tasks", map[string]any{"load": "3"}, false},
		{"tasks", map[string]any{"can": true, "load": 2}, true},
		{"tasks", map[string]any{"can": "yes"}, false},
		{"tasks", map[string]any{}, false},
		{"availability", map[string]any{"free": []any{"mon", "MON"}}, true},
		{"availability", map[string]any{"free": []string{"tue"}}, true},
		{"availability", map[string]any{"free": []any{"wed"}}, false},
		{"availability", map[string]any{"free": "mon"}, false},
		{"concerns", map[string]any{"severity": "high", "text": "x"}, true},
		{"concerns", map[string]any{"severity": "huge"}, false},
		{"concerns", map[string]any{"severity": "low", "text": string(make([]byte, 3000))}, false},
		{"terms", map[string]any{"position": "live-with"}, true},
	} {
		v, err := builtin.Named(c.surface).Check(c.raw, lists)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, surface.ErrValue) {
			t.Errorf("%s %v: %v, %v", c.surface, c.raw, v, err)
		}
	}
	v, _ := builtin.Named("availability").Check(map[string]any{"free": []any{"MON"}}, lists)
	if got := v.Set("free"); len(got) != 1 || got[0] != "mon" {
		t.Errorf("labels are not made canonical: %v", got)
	}
}

func TestTallyIsTotalAndIgnoresOrder(t *testing.T) {
	s := &surface.Surface{
		Count:    func(v surface.Value) []string { return []string{v["k"].(string)} },
		Veto:     func(v surface.Value) []string { return v["n"].([]string) },
		Supports: func(v surface.Value) bool { return v["b"].(bool) },
	}
	vs := []surface.Value{{"k": "a", "n": []string{"x"}, "b": true}, {"k": 3}, nil, {"k": "a"}, {"k": "b", "b": true}}
	tally, veto, support := s.Tally(vs)
	if tally["a"] != 2 || tally["b"] != 1 || !veto["x"] || support != 2 {
		t.Errorf("tally %v, veto %v, support %d", tally, veto, support)
	}
}

func TestStatusesMoveOnlyAlongLegalLines(t *testing.T) {
	d, p := builtin.Named("decisions"), builtin.Named("poll")
	for _, c := range []struct {
		s        *surface.Surface
		from, to string
		want     bool
	}{
		{d, "", "gathering", true}, {d, "gathering", "decided", true}, {d, "decided", "gathering", true}, {d, "decided", "groan", false},
		{d, "gathering", "nonsense", false}, {p, "open", "closed", true}, {p, "closed", "open", false}, {p, "closed", "closed", true},
	} {
		if got := c.s.Legal(c.from, c.to); got != c.want {
			t.Errorf("%s: %q to %q is %v", c.s.Name, c.from, c.to, got)
		}
	}
}

func TestValidateRefusesBrokenDeclarations(t *testing.T) {
	ok := func() *surface.Surface {
		return &surface.Surface{Name: "x", Shared: []surface.Field{{Name: "l"}, {Name: "st"}}, Status: "st", Statuses: []string{"a", "b"}}
	}
	if err := ok().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*surface.Surface){
		"no name":      func(s *surface.Surface) { s.Name = "" },
		"no status":    func(s *surface.Surface) { s.Status = "zz" },
		"twice":        func(s *surface.Surface) { s.Shared = append(s.Shared, surface.Field{Name: "l"}) },
		"bad next":     func(s *surface.Surface) { s.Next = map[string][]string{"a": {"zz"}} },
		"bad closing":  func(s *surface.Surface) { s.Closing = []string{"zz"} },
		"bad ref":      func(s *surface.Surface) { s.Contribution = []surface.Slot{{Name: "v", Kind: surface.Option, Ref: "l"}} },
		"label a list": func(s *surface.Surface) { s.Shared[0].List = true },
	} {
		s := ok()
		spoil(s)
		if s.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
