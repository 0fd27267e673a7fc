package release_test

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/release"
)

func asked(t *testing.T) release.Release {
	t.Helper()
	r, err := release.Propose("r1", "ana", flow.Private("ana", "not before nine"), "")
	if err != nil {
		t.Fatal(err)
	}
	if r, err = r.Ask(4); err != nil || !r.Open() {
		t.Fatal(err)
	}
	return r
}

func TestOnlyAGrantedReleaseConsents(t *testing.T) {
	words := flow.Private("ana", "not before nine")
	r := asked(t)
	if _, err := flow.Release(r.Consent(), words); !errors.Is(err, flow.ErrConsent) {
		t.Errorf("an asked release lowers: %v", err)
	}
	g, err := r.Grant(5, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := flow.Release(g.Consent(), words); err != nil || flow.Reveal(got) != "not before nine" {
		t.Errorf("a granted one does not: %v", err)
	}
	if _, err := flow.Release(g.Consent(), flow.Private("ana", "not before ten")); err == nil {
		t.Error("other words pass")
	}
	v, _ := g.Revoke(6)
	if _, err := flow.Release(v.Consent(), words); err == nil {
		t.Error("a revoked one lowers")
	}
}

func TestDeliveryIsDecoupled(t *testing.T) {
	g, _ := asked(t).Grant(5, 2, 1)
	for _, c := range []struct {
		others, ticks int
		want          bool
	}{{2, 1, false}, {3, 1, true}, {2, 2, true}} {
		if got := g.Ready(c.others, c.ticks); got != c.want {
			t.Errorf("Ready(%d, %d) = %v", c.others, c.ticks, got)
		}
	}
	if asked(t).Ready(9, 9) {
		t.Error("ready without a grant")
	}
}

func TestStepsOutOfOrderAreRefused(t *testing.T) {
	a := asked(t)
	g, _ := a.Grant(5, 0, 0)
	d, _ := g.Deliver("s1")
	no, _ := a.Decline(5)
	x, _ := a.Expire()
	step := func(_ release.Release, err error) error { return err }
	for name, err := range map[string]error{
		"ask twice": step(a.Ask(5)), "grant twice": step(g.Grant(6, 0, 0)), "grant a refusal": step(no.Grant(6, 0, 0)),
		"decline a grant": step(g.Decline(6)), "revoke delivered": step(d.Revoke(7)), "deliver asked": step(a.Deliver("s1")),
		"deliver twice": step(d.Deliver("s2")), "expire delivered": step(d.Expire()), "grant expired": step(x.Grant(1, 0, 0)),
	} {
		if !errors.Is(err, release.ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]func() (release.Release, error){
		"another's words": func() (release.Release, error) { return release.Propose("r", "ben", flow.Private("ana", "x"), "") },
		"no words":        func() (release.Release, error) { return release.Propose("r", "ana", flow.Private("ana", ""), "") },
		"too many words": func() (release.Release, error) {
			return release.Propose("r", "ana", flow.Private("ana", strings.Repeat("x", 601)), "")
		},
	} {
		if _, err := f(); err == nil {
			t.Errorf("proposing %s works", name)
		}
	}
}

func TestTheQuestionShowsWordsAttributionAndCrowd(t *testing.T) {
	r := asked(t)
	for n, want := range map[int]string{3: "may guess it is you", 6: "5 others"} {
		got := open.Open(r.Question(n).Sealed())
		if got.Owner != "ana" || !strings.Contains(got.Text, "“not before nine”") || !strings.Contains(got.Text, want) || !strings.Contains(got.Text, "without your name") {
			t.Errorf("question for %d: %q", n, got.Text)
		}
	}
	named, _ := release.Propose("r1", "ana", flow.Private("ana", "x"), release.Named)
	if got := open.Open(named.Question(3).Sealed()).Text; !strings.Contains(got, "with your name") {
		t.Errorf("named question: %q", got)
	}
}

// TestConsentByPhrase reads testdata/replies.txt: a label, a tab, a reply.
func TestConsentByPhrase(t *testing.T) {
	f, err := os.Open("testdata/replies.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	total, plain, heard := 0, 0, 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		label, reply, ok := strings.Cut(sc.Text(), "\t")
		if !ok {
			continue
		}
		total++
		got := release.Read(reply)
		switch label {
		case "grant":
			plain++
			if got == release.Yes {
				heard++
			} else {
				t.Logf("plain grant not heard: %q", reply)
			}
		default:
			if got == release.Yes {
				t.Errorf("%s counts as consent: %q", label, reply)
			}
		}
	}
	if total < 150 || plain < 30 {
		t.Fatalf("%d replies, %d grants", total, plain)
	}
	if heard*100 < plain*95 {
		t.Errorf("%d of %d plain grants heard", heard, plain)
	}
	if release.Read("No, thanks.") != release.No || release.Read(strings.Repeat("yes ", 40)) != release.None {
		t.Error("a refusal or a long message is misread")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("yes, share it")
	f.Add("yes?")
	f.Fuzz(func(t *testing.T, s string) {
		if release.Read(s) == release.Yes && len(s) > 80 {
			t.Error("a long message is a phrase")
		}
	})
}
