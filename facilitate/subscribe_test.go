package facilitate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/journal/file"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

// read returns the notices of a closed agent after from.
func read(t *testing.T, a *facilitate.Agent, w facilitate.Audience, from uint64) (out []facilitate.Notice) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is there is yielded, then the reader stops
	for n, err := range a.Subscribe(ctx, w, from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func types(ns []facilitate.Notice) string {
	var out []string
	for _, n := range ns {
		out = append(out, n.Type)
	}
	return strings.Join(out, " ")
}

func TestEachAudienceHearsItsLevel(t *testing.T) {
	key := facilitate.NewOperatorKey()
	a := sit(t, facilitate.Config{Surface: builtin.Named("poll"), Operator: key})
	run(t, a, facilitate.OpenItem("ana", "lunch", "Lunch?", "Soup", "Salad"))
	run(t, a, facilitate.Caucus("ben", "SECRET words of mine"))
	run(t, a, facilitate.Contribution("ben", "lunch", map[string]any{"vote": "Soup"}))
	run(t, a, facilitate.Set("ana", "lunch", "status", "closed"))
	room := read(t, a, facilitate.ForRoom(), 0)
	if got := types(room); got != "board board board poll.closed" {
		t.Errorf("the room hears %s", got)
	}
	ben := read(t, a, facilitate.ForPerson("ben"), 0)
	if got := types(ben); !strings.Contains(got, "caucus") || !strings.Contains(got, "own.contribution") {
		t.Errorf("ben hears %s", got)
	}
	if got := fmt.Sprintf("%+v", read(t, a, facilitate.ForPerson("ana"), 0)); strings.Contains(got, "SECRET") || strings.Contains(got, "caucus") {
		t.Error("ana hears ben's line")
	}
	if self := types(read(t, a, facilitate.ForSelf(key), 0)); !strings.Contains(self, "choice") || !strings.Contains(self, "reflect") {
		t.Errorf("the operator hears %s", self)
	}
	for _, w := range []facilitate.Audience{facilitate.ForSelf(nil), facilitate.ForPerson("zoe")} {
		for _, err := range a.Subscribe(t.Context(), w, 0) {
			if !errors.Is(err, facilitate.ErrAudience) {
				t.Errorf("%v", err)
			}
		}
	}
	for i, n := range ben {
		if n.Seq != uint64(i)+1 {
			t.Errorf("notice %d has number %d", i+1, n.Seq)
		}
	}
	if got := read(t, a, facilitate.ForRoom(), 2); len(got) != 2 || got[0].Seq != 3 {
		t.Errorf("after 2: %+v", got)
	}
}

// TestNoticesResumeWithoutGaps reads far behind, and after a restart.
func TestNoticesResumeWithoutGaps(t *testing.T) {
	s, err := file.New(file.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := facilitate.Config{Store: s, Secret: []byte("k")}
	a := sit(t, cfg)
	for i := range 1500 {
		if _, err := a.Ingest(t.Context(), "ana", fmt.Sprint("line ", i)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(a *facilitate.Agent) {
		t.Helper()
		got := read(t, a, facilitate.ForPerson("ben"), 3)
		if len(got) != 1497 || got[0].Message.Text != "line 3" || got[1496].Message.Text != "line 1499" {
			t.Fatalf("%d notices", len(got))
		}
	}
	check(a)
	a.Close()
	check(sit(t, cfg))
}

func TestALiveReaderIsWoken(t *testing.T) {
	a := sit(t, facilitate.Config{})
	got := make(chan string)
	go func() {
		defer close(got)
		for n := range a.Subscribe(context.Background(), facilitate.ForRoom(), 0) {
			got <- n.Message.Text
		}
	}()
	for _, text := range []string{"one", "two"} {
		a.Ingest(t.Context(), "ana", text)
		if s := <-got; s != text {
			t.Errorf("heard %q", s)
		}
	}
	a.Close()
	if _, more := <-got; more {
		t.Error("the reader outlives the agent")
	}
}

func TestResumeContinues(t *testing.T) {
	s, err := file.New(file.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := facilitate.Config{Store: s, Secret: []byte("k"), Participants: people("ana", "ben", "cy", "di", "eve")}
	a := sit(t, cfg)
	run(t, a, facilitate.Message("ana", "Where do we eat?"))
	run(t, a, facilitate.Message("ben", "I propose the harbour"))
	run(t, a, facilitate.Message("ben", "how about friday"))
	before := context_(t, a, facilitate.ForPerson("cy"))
	if _, err := facilitate.New(t.Context(), cfg); err == nil {
		t.Error("the room is open twice")
	}
	a.Close()
	b := sit(t, cfg)
	if after := context_(t, b, facilitate.ForPerson("cy")); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if acts, err := b.React(t.Context()); err != nil || len(acts) != 0 {
		t.Errorf("nothing happened, but %s %v", kinds(acts), err)
	}
}

func TestMirrors(t *testing.T) {
	for mirror, want := range map[policy.Mirror][2]bool{policy.MirrorNone: {}, policy.MirrorContributions: {true, false}, policy.MirrorRecord: {true, true}} {
		p, _ := policy.Preset("facilitator")
		p.Mirror = mirror
		a := sit(t, facilitate.Config{Policy: p})
		run(t, a, facilitate.Message("ana", "Where do we eat?"))
		run(t, a, facilitate.Caucus("ben", "I need a quiet place for my ears"))
		got, err := a.SubjectView("ben")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got, "contribution to") != want[0] || strings.Contains(got, "interest:") != want[1] {
			t.Errorf("%s: %q", mirror, got)
		}
		exp, err := a.Export(facilitate.ForPerson("ben"))
		if err != nil || !strings.Contains(exp["people/ben.md"], "quiet place") || exp["people/ana.md"] != "" || exp["iris/introspection/log.md"] != "" {
			t.Errorf("%s: export %v %v", mirror, exp, err)
		}
		if exp, _ := a.Export(facilitate.ForRoom()); len(exp) != 1 || strings.Contains(exp["room.md"], "quiet") {
			t.Errorf("room export %v", exp)
		}
	}
}

func TestPriorReadsAndReplies(t *testing.T) {
	ps := people("ana", "ben")
	ps[0].Read = "PRIOR"
	a := sit(t, facilitate.Config{Participants: ps})
	if got := context_(t, a, facilitate.ForPerson("ana")); !strings.Contains(got, "PRIOR") {
		t.Error("the prior read is not in ana's context")
	}
	if got := context_(t, a, facilitate.ForPerson("ben")); strings.Contains(got, "PRIOR") {
		t.Error("ana's prior read is in ben's context")
	}
	if err := a.AddCaucusReply(t.Context(), "ana", "by hand"); err != nil {
		t.Fatal(err)
	}
	if l := a.Caucus("ana"); len(l) != 1 || l[0].From != principal.Iris || l[0].Text.Owner() != "ana" || fmt.Sprint(l[0].Text) != "[person text]" {
		t.Errorf("%+v", l)
	}
	if a.Caucus("zoe") != nil || len(a.Participants()) != 2 {
		t.Error("a line with nobody")
	}
}
