package transport

import (
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/turn"
)

func TestAskButtons(t *testing.T) {
	var many []turn.Option
	for range 40 {
		many = append(many, turn.Option{Label: strings.Repeat("ü", 100)})
	}
	two := []turn.Option{{Label: "Red"}, {Label: " "}}
	for name, c := range map[string]struct {
		ask  turn.Ask
		want string
	}{
		"a held command": {turn.Ask{Command: "rm x"}, "yes:Approve once no:Decline"},
		"a tool":         {turn.Ask{Tool: "Bash"}, "yes:Allow once no:Deny"},
		"a tool, always": {turn.Ask{Tool: "Bash", Always: true}, "yes:Allow once always:Allow for this session no:Deny"},
		"options":        {turn.Ask{Options: two}, "1:Red 2:2 no:No answer"},
		"several":        {turn.Ask{Options: two, Many: true}, "no:No answer"},
	} {
		var got []string
		for _, b := range AskButtons(&c.ask) {
			got = append(got, b.Word+":"+b.Label)
			yes, choice, ok := PressedWord(b.Word)
			if !ok || yes != b.Yes || choice != b.Choice {
				t.Errorf("%s: PressedWord(%q) = %t, %q, %t, want %+v", name, b.Word, yes, choice, ok, b)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
	all := AskButtons(&turn.Ask{Options: many})
	if len(all) != maxPicks+1 || len(all[0].Label) > MaxLabel {
		t.Errorf("%d buttons, the first %q", len(all), all[0].Label)
	}
	for _, word := range []string{"", "0", "21", "01", "-1", "+1", "1 ", "press_1", "YES", "yes2"} {
		if yes, choice, ok := PressedWord(word); ok {
			t.Errorf("PressedWord(%q) = %t, %q", word, yes, choice)
		}
	}
}

func TestAskText(t *testing.T) {
	a := &turn.Ask{Text: " Which?\n", Options: []turn.Option{{Label: "*Red*", About: "`warm`\nand <!channel>"}, {Label: "Blue"}}}
	if got, want := AskText(a), "Which?\n\n1. **Red** warm and !channel\n2. **Blue**\n\nOr answer in your own words."; got != want {
		t.Errorf("AskText = %q, want %q", got, want)
	}
	a.Many = true
	if got := AskText(a); !strings.Contains(got, "1, 2") {
		t.Errorf("AskText = %q", got)
	}
	if got := AskText(&turn.Ask{Text: "May I?"}); got != "May I?" {
		t.Errorf("AskText = %q", got)
	}
}
