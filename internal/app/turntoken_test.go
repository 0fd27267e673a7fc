package app_test

import (
	"strings"
	"testing"
)

// TestATurnTokenIsNotShown: a command has the token of its turn, and whoever
// reads what it prints has not.
func TestATurnTokenIsNotShown(t *testing.T) {
	p := newPlace(t)
	p.serve()
	id := p.session()
	for _, script := range []string{"echo token $IRIS_TURN_TOKEN", "echo token $IRIS_TURN_TOKEN; echo $IRIS_TURN_TOKEN | base64 -w0"} {
		if out := p.say(id, "run `"+script+"`"); !strings.Contains(out, "token [REDACTED-SECRET]") || strings.Contains(out, "irt_") || strings.Contains(out, "aXJ0X") {
			t.Errorf("%s printed %q", script, out)
		}
	}
	if out := p.say(id, "run `echo ${#IRIS_TURN_TOKEN}`"); !strings.Contains(out, "1") || strings.Contains(out, "REDACTED") {
		t.Errorf("a command has no token: %q", out)
	}
}
