package audit

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEntries(t *testing.T) {
	text := `{"date":"2026-03-04T10:00:00Z","channelId":"C1","command":"ls","decision":"executed","exitCode":0}
not json
{"date":"2026-03-04T11:00:00Z","channelId":"C2","command":"rm -rf /srv","decision":"confirmed","exitCode":null,"by":"Anna (U1), message 7","rule":"delete-tree"}
{"other":1}
{"date":"2026-03-04T12:00:00Z","channelId":"C1","command":"cat .env","decision":"denied","exitCode":null,"user":"U2"}
{"date":"2026-`
	for name, c := range map[string]struct {
		f    Filter
		want string
	}{
		"all":      {Filter{}, "ls,rm -rf /srv,cat .env"},
		"channel":  {Filter{Channel: "C1"}, "ls,cat .env"},
		"decision": {Filter{Decision: Denied}, "cat .env"},
		"since":    {Filter{Since: time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)}, "rm -rf /srv,cat .env"},
		"command":  {Filter{Text: "RM"}, "rm -rf /srv"},
		"approver": {Filter{Text: "anna"}, "rm -rf /srv"},
		"user":     {Filter{Text: "u2"}, "cat .env"},
		"rule":     {Filter{Text: "tree"}, "rm -rf /srv"},
		"none":     {Filter{Text: "tree", Channel: "C1"}, ""},
	} {
		var got []string
		for e, err := range Entries(strings.NewReader(text), c.f) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Command)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, ",")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for range Entries(strings.NewReader(text), Filter{}) {
		break // no more is asked for
	}
	for _, err := range Entries(strings.NewReader(strings.Repeat("x", maxLine+1)), Filter{}) {
		var chain *ChainError
		if !errors.As(err, &chain) {
			t.Errorf("a line that is too long: %v", err)
		}
	}
}
