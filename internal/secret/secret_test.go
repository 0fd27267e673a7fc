package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestValueNeverPrints(t *testing.T) {
	const canary = "hunter2-canary"
	type nested struct {
		V Value
		p *Value
		m map[string]Value
	}
	v := New(canary)
	n := nested{V: v, p: &v, m: map[string]Value{"k": v}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%U", "%b", "%o", "%e", "%g", "%c"} {
		for _, x := range []any{v, &v, n, &n, []Value{v}, map[string]Value{"k": v}, any(v)} {
			if got := fmt.Sprintf(verb, x); strings.Contains(got, canary) || strings.Contains(got, fmt.Sprintf("%x", canary)) {
				t.Errorf("Sprintf(%q, %T) leaks: %s", verb, x, got)
			}
		}
	}
	if data, err := json.Marshal(struct{ V Value }{v}); err != nil || strings.Contains(string(data), canary) {
		t.Errorf("Marshal = %s, %v", data, err)
	}
	var buf bytes.Buffer
	slog.New(slog.NewJSONHandler(&buf, nil)).Info("x", "v", v, "n", n)
	slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "v", v, "n", n)
	if strings.Contains(buf.String(), canary) {
		t.Errorf("log leaks: %s", buf.String())
	}
	if v.Reveal() != canary {
		t.Errorf("Reveal() = %q", v.Reveal())
	}
}

func TestEqual(t *testing.T) {
	if !New("a").Equal("a") || New("a").Equal("b") || New("a").Equal("") || (Value{}).Equal("") {
		t.Error("Equal is wrong")
	}
}
