package slack

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
	"github.com/iris-operator/iris/internal/turn"
)

// actions are the buttons of a body, as action and label.
func actions(t *testing.T, b transport.Body) (all []string) {
	t.Helper()
	if len(b.Extra) == 0 {
		return nil
	}
	if err := slacktest.CheckBlocks(b.Extra); err != nil {
		t.Errorf("blocks %s: %v", b.Extra, err)
	}
	var blocks []struct {
		Elements []struct {
			ActionID string `json:"action_id"`
			Value    string
			Text     struct{ Text string }
		}
	}
	if err := json.Unmarshal(b.Extra, &blocks); err != nil {
		t.Fatal(err)
	}
	for _, bl := range blocks {
		for _, e := range bl.Elements {
			all = append(all, e.ActionID+" "+e.Text.Text+" "+e.Value)
		}
	}
	return all
}

// TestQuestionsOfAgents: an agent's question has a button for each answer while it
// is open, and none afterwards, when it says who decided.
func TestQuestionsOfAgents(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	var long []turn.Option
	for range 30 {
		long = append(long, turn.Option{Label: strings.Repeat("計", 80), About: "<!channel> & *x*"})
	}
	for name, x := range map[string]struct {
		ask  turn.Ask
		want []string
		n    int
	}{
		"a tool":  {turn.Ask{ID: "r", Text: "Run it?", Command: "ls", Tool: "Bash", Always: true}, []string{"iris_yes Allow once r", "iris_always Allow for this session r", "iris_no Deny r"}, 3},
		"options": {turn.Ask{ID: "r", Text: "Which?", Options: []turn.Option{{Label: "Red", About: "warm"}, {Label: "Blue"}}}, []string{"iris_1 Red r", "iris_2 Blue r", "iris_no No answer r"}, 3},
		"many":    {turn.Ask{ID: "r", Text: "Which?", Many: true, Options: []turn.Option{{Label: "Red"}}}, []string{"iris_no No answer r"}, 1},
		"long":    {turn.Ask{ID: "r", Text: "Which?", Options: long}, nil, 21},
	} {
		t.Run(name, func(t *testing.T) {
			bodies := c.iris.Render(transport.View{Show: transport.ShowQuestion, Text: x.ask.Text, Ask: &x.ask})
			got := actions(t, bodies[len(bodies)-1])
			if x.want != nil && !cmp.Equal(got, x.want) || len(got) != x.n {
				t.Errorf("buttons %q, want %q", got, x.want)
			}
			for _, b := range bodies {
				if strings.Contains(b.Text, "<!channel>") {
					t.Errorf("a live mention: %q", b.Text)
				}
			}
			over := x.ask
			over.Outcome = "approved"
			for _, b := range c.iris.Render(transport.View{Show: transport.ShowQuestion, Text: over.Text, Ask: &over, Note: "Approved by ann at 14:03 UTC"}) {
				if b.Extra != nil {
					t.Errorf("buttons after the end: %s", b.Extra)
				}
			}
		})
	}
}

// TestPressesOfAgents: each button is its answer; what is no button of ours is none,
// and a forged or repeated value is only what the book of questions makes of it.
func TestPressesOfAgents(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	m := c.slack.Put("C1", slacktest.Message{User: slacktest.BotUser, BotID: slacktest.BotID, Text: "may I?"})
	for _, action := range []string{"iris_always", "iris_2", "iris_no", "iris_0", "iris_99", "iris_", "iris_y", "other_yes"} {
		c.acked(c.slack.Press("C1", "U2", m, action, "value"))
	}
	c.acked(c.slack.Press("C1", "U2", m, "iris_yes", ""))
	c.box.mu.Lock()
	answers := c.box.answers
	c.box.refuse = transport.ErrUnknownAsk
	c.box.mu.Unlock()
	var got []string
	for _, a := range answers {
		got = append(got, a.Ask+" "+map[bool]string{true: "yes", false: "no"}[a.Yes]+" "+a.Choice)
	}
	if diff := cmp.Diff([]string{"value yes always", "value yes #2", "value no "}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	c.acked(c.slack.Press("C1", "U1", m, "iris_always", "replayed"))
	if e := c.slack.Ephemerals(); len(e) != 1 || !strings.Contains(e[0].Text, "over") {
		t.Errorf("whispered %+v", e)
	}
}
