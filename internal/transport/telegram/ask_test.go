package telegram

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// TestKeysOfQuestions: every answer has a key of at most 64 bytes, which reads back
// as that answer; a forged one reads as none.
func TestKeysOfQuestions(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 2) + "-" + strings.Repeat("f", 64)
	var options []turn.Option
	for i := range 30 {
		options = append(options, turn.Option{Label: fmt.Sprintf("%d %s", i, strings.Repeat("計", 60))})
	}
	for name, c := range map[string]struct {
		ask  turn.Ask
		want int
	}{
		"held": {turn.Ask{ID: id}, 2}, "tool": {turn.Ask{ID: id, Tool: "Bash", Always: true}, 3},
		"options": {turn.Ask{ID: id, Options: options}, 21}, "many": {turn.Ask{ID: id, Options: options, Many: true}, 1},
	} {
		var k struct {
			Rows [][]key `json:"inline_keyboard"`
		}
		if err := json.Unmarshal(keyboard(&c.ask), &k); err != nil {
			t.Fatal(err)
		}
		n := 0
		buttons := transport.AskButtons(&c.ask)
		for _, row := range k.Rows {
			for _, b := range row {
				ask, yes, choice, ok := pressed(b.Data)
				if len(b.Data) > 64 || b.Text == "" || !ok || ask != id[:shortID] || yes != buttons[n].Yes || choice != buttons[n].Choice {
					t.Errorf("%s: key %+v reads %q, %t, %q, %t, want %+v", name, b, ask, yes, choice, ok, buttons[n])
				}
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d keys, want %d", name, n, c.want)
		}
	}
	for _, data := range []string{"", "y", "x" + id, "#1", "#1#", "#0#" + id, "#21#" + id, "##" + id, "#a#" + id, "Y" + id} {
		if ask, yes, choice, ok := pressed(data); ok {
			t.Errorf("pressed(%q) = %q, %t, %q", data, ask, yes, choice)
		}
	}
}

func FuzzPressed(f *testing.F) {
	f.Add("y1")
	f.Add("#3#id")
	f.Fuzz(func(t *testing.T, data string) {
		if ask, yes, choice, ok := pressed(data); ok && (ask == "" || choice != "" && !yes) {
			t.Errorf("pressed(%q) = %q, %t, %q", data, ask, yes, choice)
		}
	})
}
