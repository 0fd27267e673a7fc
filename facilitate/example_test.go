package facilitate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/surface/poll"
)

// Five people decide where to eat. What Cy said in private reaches the room
// after Cy's yes, word for word.
func Example() {
	ctx := context.Background()
	a, err := facilitate.New(ctx, facilitate.Config{
		Topic: "Friday dinner",
		Participants: []facilitate.Participant{
			{ID: "ana", Name: "Ana"}, {ID: "ben", Name: "Ben"}, {ID: "cy", Name: "Cy"}, {ID: "di", Name: "Di"}, {ID: "eve", Name: "Eve"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	for _, ev := range []facilitate.Event{
		facilitate.Message("ana", "Where do we eat on Friday?"),
		facilitate.Message("di", "Somewhere with a terrace"),
		facilitate.Message("ben", "I propose the steak house"),
		facilitate.Caucus("cy", "I can spend at most 15 euros"),
		facilitate.Caucus("cy", "yes, share it"),
		facilitate.Message("eve", "I propose the noodle bar"),
		facilitate.Message("ben", "Agreed, the noodle bar"),
	} {
		acts, err := a.Run(ctx, ev)
		if err != nil {
			log.Fatal(err)
		}
		for _, act := range acts {
			if act.Target == "" {
				fmt.Println("to the room:", flow.Reveal(act.Public))
			} else {
				fmt.Println("to "+act.Target+":", act.Intent, act.Sealed)
			}
		}
	}
	for _, card := range a.Canvas() {
		fmt.Println(card.Fields["title"], card.Fields["status"], card.Fields["resolution"])
	}
	// Output:
	// to cy: discover_specific [person text]
	// to cy: ask_consent [person text]
	// to cy: receipt [person text]
	// to the room: I was asked to bring this in: For one of us this matters: I can spend at most 15 euros.
	// Where do we eat on Friday? decided the noodle bar
}

// A secret vote shows its turnout, and its outcome at close.
func ExampleContribution() {
	ctx := context.Background()
	a, err := facilitate.New(ctx, facilitate.Config{
		Surface:      poll.New(),
		Participants: []facilitate.Participant{{ID: "ana"}, {ID: "ben"}, {ID: "cy"}, {ID: "di"}, {ID: "eve"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	a.Take(ctx, facilitate.OpenItem("ana", "lunch", "Lunch?", "Soup", "Salad"))
	for voter, vote := range map[string]string{"ana": "Soup", "ben": "Salad", "cy": "Salad"} {
		a.Take(ctx, facilitate.Contribution(facilitate.ID(voter), "lunch", map[string]any{"vote": vote}))
	}
	c := a.Canvas()[0]
	fmt.Printf("%s, winner %q\n", c.Result["turnout"], c.Fields["winner"])
	a.Take(ctx, facilitate.Set("ana", "lunch", "status", "closed"))
	c = a.Canvas()[0]
	fmt.Printf("%s, winner %q\n", c.Result["turnout"], c.Fields["winner"])
	// Output:
	// 3 of 5, winner ""
	// 3 of 5, winner "Salad"
}

// Any function is a model. The request says at which level it is asked.
func ExampleAgent_SetModel() {
	ctx := context.Background()
	a, err := facilitate.New(ctx, facilitate.Config{Participants: []facilitate.Participant{{ID: "ana"}, {ID: "ben"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	a.SetModel(func(_ context.Context, r flow.Request) (flow.Response, error) {
		if r.Level == flow.RankSelf {
			return flow.Response{Text: `{"notes":[],"choice":{"tool":"none","rationale":"nothing to add"}}`}, nil
		}
		return flow.Response{Text: `{"items":[{"id":"tea","title":"Tea or coffee?"}],"record":{}}`}, nil
	})
	acts, err := a.Run(ctx, facilitate.Message("ana", "Tea or coffee?"))
	fmt.Println(len(acts), err, a.Canvas()[0].Fields["title"])
	// Output: 0 <nil> Tea or coffee?
}
