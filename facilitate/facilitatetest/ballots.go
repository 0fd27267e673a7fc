package facilitatetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/disclose"
	"github.com/iris-operator/iris/facilitate/surface"
)

// Ballots puts every vote vector of n voters over m options through a real room
// on s and measures who can work out a vote from all that everybody can see:
// context, board, notices and export, after every vote and after close.
// vote makes the contribution for an option's label. s is used as declared; a
// test of another policy changes it first.
func Ballots(ctx context.Context, n, m int, s func() *surface.Surface, vote func(label string) map[string]any) (out disclose.Exposed, err error) {
	labels := []string{"red", "blue", "green"}[:m]
	var people []facilitate.Participant
	for i := range n {
		people = append(people, facilitate.Participant{ID: facilitate.ID(fmt.Sprintf("v%d", i))})
	}
	out = disclose.Measure(n, m, func(v []int) string {
		text, e := election(ctx, people, s(), labels, v, vote)
		if e != nil {
			err = e
		}
		return text
	})
	return out, err
}

func election(ctx context.Context, people []facilitate.Participant, s *surface.Surface, labels []string, v []int, vote func(string) map[string]any) (string, error) {
	a, err := facilitate.New(ctx, facilitate.Config{Participants: people, Surface: s, Secret: []byte("fences")})
	if err != nil {
		return "", err
	}
	defer a.Close()
	if err := a.Take(ctx, facilitate.OpenItem("v0", "alpha", "Which?", labels...)); err != nil {
		return "", err
	}
	var b strings.Builder
	observe := func() error {
		text, err := a.Context(facilitate.ForRoom())
		js, _ := json.Marshal(a.Canvas())
		b.WriteString(text + string(js))
		return err
	}
	for i, choice := range v {
		if err := a.Take(ctx, facilitate.Contribution(people[i].ID, "alpha", vote(labels[choice]))); err != nil {
			return "", err
		}
		if err := observe(); err != nil {
			return "", err
		}
	}
	if err := a.Take(ctx, facilitate.Set("v0", "alpha", s.Status, s.Closing[0])); err != nil {
		return "", err
	}
	exp, err := a.Export(facilitate.ForRoom())
	if err != nil {
		return "", err
	}
	js, _ := json.Marshal(Notices(ctx, a, facilitate.ForRoom(), 0))
	b.WriteString(exp["room.md"] + string(js))
	return b.String(), observe()
}
