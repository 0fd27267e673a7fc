package flow_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
)

const canary = "CANARY-7f3a"

type hidden struct {
	t flow.Text[flow.Person]
	p *flow.Text[flow.Self]
	q flow.Prompt[flow.Self]
	b open.Box[string]
}

type shown struct {
	T flow.Text[flow.Person]
	P *flow.Text[flow.Self]
	Q flow.Prompt[flow.Self]
	B open.Box[string]
}

// shapes are the ways a sealed value ends up in a log line.
func shapes(t *testing.T) []any {
	s, i := flow.Private("ana", canary), flow.Inner(canary)
	q, err := flow.Ask(canary, nil, i)
	if err != nil {
		t.Fatal(err)
	}
	b := open.Seal(canary)
	return []any{
		s, &s, i, q, &q, b, &b, hidden{s, &i, q, b}, &hidden{s, &i, q, b}, shown{s, &i, q, b}, &shown{s, &i, q, b},
		[]flow.Text[flow.Person]{s}, map[string]flow.Text[flow.Self]{"k": i}, []any{s, i, q, b},
		map[string]any{"k": hidden{s, &i, q, b}}, struct{ error }{fmt.Errorf("bad: %v", s)}, flow.ToSelf(s),
		q.Amend("x"), q.Limit(1), q.Text(),
	}
}

func TestSealedNeverPrintsMarshalsOrLogs(t *testing.T) {
	verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%t", "%p", "%b", "%o", "%c", "%U", "%e", "%f", "%g", "%w", "%z"}
	leak := func(how, got string) {
		for _, c := range []string{canary, strings.ToLower(fmt.Sprintf("%x", canary)), fmt.Sprintf("%X", canary)} {
			if strings.Contains(got, c) {
				t.Errorf("%s shows %q", how, got)
			}
		}
	}
	for n, v := range shapes(t) {
		for _, verb := range verbs {
			leak(fmt.Sprintf("shape %d %s", n, verb), fmt.Errorf(verb, v).Error())
			leak(fmt.Sprintf("shape %d %s", n, verb), fmt.Sprintf(verb, v))
		}
		leak("print", fmt.Sprint(v)+fmt.Sprintln(v))
		js, err := json.Marshal(v)
		if err == nil && strings.Contains(fmt.Sprintf("%T", v), "Text[") {
			t.Errorf("shape %d: JSON does not refuse", n)
		}
		leak("json", string(js))
		var buf bytes.Buffer
		gob.NewEncoder(&buf).Encode(v)
		xml.NewEncoder(&buf).Encode(v)
		slog.New(slog.NewTextHandler(&buf, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&buf, nil)).Info("m", "v", v)
		leak("gob, xml or slog", buf.String())
		func() {
			defer func() { leak("panic", fmt.Sprint(recover())) }()
			panic(v)
		}()
	}
}

func TestEncodersRefuse(t *testing.T) {
	s := flow.Private("ana", canary)
	q, _ := flow.Ask("", nil, flow.Inner(canary))
	for name, err := range map[string]error{
		"text json": second(s.MarshalJSON()), "text text": second(s.MarshalText()), "text gob": second(s.GobEncode()),
		"prompt json": second(q.MarshalJSON()), "prompt text": second(q.MarshalText()), "prompt gob": second(q.GobEncode()),
		"box json": second(s.Sealed().MarshalJSON()), "box text": second(s.Sealed().MarshalText()), "box gob": second(s.Sealed().GobEncode()),
	} {
		if !errors.Is(err, open.ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.GoString() != "[person text]" || q.GoString() != "[self prompt]" || s.LogValue().String() != "[person text]" || q.LogValue().String() != "[self prompt]" {
		t.Error("marks wrong")
	}
}

func second(_ []byte, err error) error { return err }
