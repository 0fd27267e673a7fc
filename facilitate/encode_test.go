package facilitate_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate"
)

// TestNoticesGoOut as an event stream, as lines and to a webhook: a reader that
// comes back with the last id misses nothing, and no number counts what others see.
func TestNoticesGoOut(t *testing.T) {
	a := sit(t, facilitate.Config{})
	for _, ev := range arc[:4] {
		run(t, a, ev)
	}
	var stream strings.Builder
	all := read(t, a, facilitate.ForPerson("cy"), 0)
	for _, n := range all {
		if err := n.WriteSSE(&stream); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Seq   uint64
			Type  string
			Level string
			Line  *struct{ Seq uint64 }
		}
		if err := json.Unmarshal(n.JSON(), &got); err != nil || got.Seq != n.Seq || got.Type != n.Type || got.Level != n.Level.String() || got.Line != nil && got.Line.Seq != 0 || strings.Contains(string(n.JSON()), "\n") {
			t.Errorf("%s: %v", n.JSON(), err)
		}
	}
	events := strings.Split(strings.TrimSuffix(stream.String(), "\n\n"), "\n\n")
	if len(events) != len(all) || !strings.HasPrefix(events[0], "id: 1\nevent: message\ndata: {") || !strings.Contains(stream.String(), "event: caucus\n") {
		t.Errorf("%d events of %d:\n%s", len(events), len(all), stream.String())
	}
	if rest := read(t, a, facilitate.ForPerson("cy"), 2); rest[0].Seq != 3 || len(rest) != len(all)-2 {
		t.Errorf("from the id 2: %d", len(rest))
	}
	status, body, key := http.StatusNoContent, "", ""
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body, key = string(data), r.Header.Get("Idempotency-Key")
		w.WriteHeader(status)
	}))
	defer hook.Close()
	if err := all[2].PostTo(t.Context(), hook.Client(), hook.URL); err != nil || body != string(all[2].JSON()) || key != "3" {
		t.Errorf("%v: %s, key %s", err, body, key)
	}
	status = http.StatusBadGateway
	if err := all[2].PostTo(t.Context(), hook.Client(), hook.URL); !errors.Is(err, facilitate.ErrWebhook) {
		t.Errorf("refused: %v", err)
	}
	if err := all[2].PostTo(t.Context(), nil, "http://127.0.0.1:1/"); !errors.Is(err, facilitate.ErrWebhook) {
		t.Errorf("nobody there: %v", err)
	}
}
