package flow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
)

func TestLabelsRise(t *testing.T) {
	p := flow.ToPerson("ana", flow.Public("x"))
	if p.Owner() != "ana" || p.Empty() || open.Open(p.Sealed()).Text != "x" {
		t.Errorf("raised text lost its owner or words")
	}
	if s := flow.ToSelf(p); s.Owner() != "" || open.Open(s.Sealed()).Text != "x" {
		t.Errorf("raising to self lost the words or kept the owner")
	}
	var zero flow.Text[flow.Room]
	if !zero.Empty() || flow.Reveal(zero) != "" || flow.Reveal(flow.Public("x")) != "x" {
		t.Error("zero or revealed text wrong")
	}
	if flow.RankOf[flow.Room]() != flow.RankRoom || flow.RankOf[flow.Person]() != flow.RankPerson || flow.RankOf[flow.Self]() != flow.RankSelf || flow.Rank(9).String() != "unknown" {
		t.Error("ranks wrong")
	}
}

func TestOnlyConsentLowers(t *testing.T) {
	words := flow.Private("ana", "no later than May")
	for name, c := range map[string]flow.Consent{
		"none":        {},
		"another's":   open.Consent("ben", flow.Hash("no later than May")),
		"other words": open.Consent("ana", flow.Hash("no later than June")),
	} {
		if _, err := flow.Release(c, words); !errors.Is(err, flow.ErrConsent) {
			t.Errorf("consent %s: %v", name, err)
		}
	}
	got, err := flow.Release(open.Consent("ana", flow.Hash("no later than May")), words)
	if err != nil || flow.Reveal(got) != "no later than May" {
		t.Errorf("Release = %v, %v", got, err)
	}
}

func TestAskKeepsPeopleApart(t *testing.T) {
	if _, err := flow.Ask("", nil, flow.Private("ana", "x"), flow.Private("ben", "y")); err == nil {
		t.Error("a prompt mixes two people")
	}
	if _, err := flow.Ask[flow.Person]("", nil); err == nil {
		t.Error("a person prompt of nobody")
	}
	p, err := flow.Ask("sys", []byte(`{}`), flow.Private("ana", "x"), flow.ToPerson("ana", flow.Public("y")))
	if err != nil || p.Owner() != "ana" {
		t.Fatalf("Ask = %v, %v", p, err)
	}
	var got flow.Request
	echo := func(_ context.Context, r flow.Request) (flow.Response, error) {
		got = r
		return flow.Response{Text: r.Prompt, Usage: flow.Usage{In: 1, Out: 2}}, nil
	}
	answer, use, err := flow.Complete(context.Background(), echo, p.Limit(7).Amend("again"))
	if err != nil || answer.Owner() != "ana" || use.Out != 2 {
		t.Errorf("Complete = %v, %v, %v", answer, use, err)
	}
	if got.Level != flow.RankPerson || got.Principal != "ana" || got.System != "sys" || got.Prompt != "xy\n\nagain\n" || got.MaxTokens != 7 {
		t.Errorf("request %+v", got)
	}
	boom := errors.New("boom")
	if _, _, err := flow.Complete(context.Background(), func(context.Context, flow.Request) (flow.Response, error) { return flow.Response{}, boom }, p); !errors.Is(err, boom) {
		t.Errorf("error of the model: %v", err)
	}
}
