package mem_test

import (
	"encoding/json"
	"testing"

	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/journaltest"
	"github.com/iris-operator/iris/facilitate/journal/mem"
)

func TestStore(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journal.Store { return mem.New() }, func(t *testing.T, s journal.Store, room string) (out []byte) {
		for r := range s.Load(t.Context(), room, 0) {
			line, _ := json.Marshal(r)
			out = append(out, line...)
		}
		return out
	})
}
