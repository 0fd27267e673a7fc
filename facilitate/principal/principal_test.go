package principal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/principal"
)

func TestReservedAndMalformedIDsAreRefused(t *testing.T) {
	for _, id := range []principal.ID{"", "iris", "self", "room", "system", "all", "_x", "__proto__", "Ana", "a b", "-a", "ä", principal.ID(strings.Repeat("a", 65))} {
		if err := principal.Check(id); !errors.Is(err, principal.ErrID) {
			t.Errorf("Check(%q) = %v, want ErrID", id, err)
		}
	}
	for _, id := range []principal.ID{"a", "ana", "u-1.x_y", "0", principal.ID(strings.Repeat("a", 64))} {
		if err := principal.Check(id); err != nil {
			t.Errorf("Check(%q) = %v", id, err)
		}
	}
}

func TestRosterRefusesDoubles(t *testing.T) {
	if _, err := principal.NewRoster(principal.Person{ID: "a"}, principal.Person{ID: "a"}); !errors.Is(err, principal.ErrID) {
		t.Errorf("two of one id: %v", err)
	}
	if _, err := principal.NewRoster(principal.Person{ID: "iris"}); !errors.Is(err, principal.ErrID) {
		t.Errorf("a person called iris: %v", err)
	}
}

func TestRosterIsAValue(t *testing.T) {
	r, err := principal.NewRoster(principal.Person{ID: "a", Name: "Ana", Role: "host"}, principal.Person{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := r.Join(principal.Person{ID: "c", Name: "Cy"})
	u := s.Leave("a")
	if r.Has("c") || !s.Has("c") || s.Present() != 3 || u.Present() != 2 || !u.Has("a") {
		t.Errorf("joining and leaving changed an older roster")
	}
	if r.Name("a") != "Ana" || r.Name("b") != "b" || r.Name("zz") != "zz" || !r.HasHost() {
		t.Errorf("names or host wrong")
	}
	if _, ok := r.Get("zz"); ok || len(r.All()) != 2 || !principal.Valid("room") {
		t.Errorf("Get, All or Valid wrong")
	}
	if _, err := r.Join(principal.Person{ID: "self"}); err == nil {
		t.Error("self may join")
	}
}
