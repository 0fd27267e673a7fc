package journaltest_test

import (
	"encoding/json"
	"testing"

	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/journaltest"
	"github.com/iris-operator/iris/facilitate/journal/mem"
)

// A store of one's own passes the suite of the built-in ones. dump returns every
// byte it keeps of a room, so that residue can be looked for.
func ExampleRun() {
	_ = func(t *testing.T) {
		journaltest.Run(t,
			func(*testing.T) journal.Store { return mem.New() },
			func(t *testing.T, s journal.Store, room string) (all []byte) {
				for r := range s.Load(t.Context(), room, 0) {
					line, _ := json.Marshal(r)
					all = append(all, line...)
				}
				return all
			})
	}
}
