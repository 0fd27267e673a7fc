package facilitate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/facilitatetest"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/file"
	"github.com/iris-operator/iris/facilitate/journal/mem"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
	"github.com/iris-operator/iris/facilitate/surface/poll"
)

// A counter counts the records that are loaded.
type counter struct {
	journal.Store
	loaded int
}

func (c *counter) Load(ctx context.Context, room string, from uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range c.Store.Load(ctx, room, from) {
			c.loaded++
			if !yield(r, err) {
				return
			}
		}
	}
}

func notices(t *testing.T, a *facilitate.Agent) string {
	t.Helper()
	js, err := json.Marshal(read(t, a, facilitate.ForRoom(), 0))
	if err != nil {
		t.Fatal(err)
	}
	return string(js)
}

// TestACheckpointIsTheReplayedState: a room that is closed and opened again after
// every event, from its checkpoint, is the room that was never closed: what
// everybody reads, the numbers of their notices, and what is delivered.
func TestACheckpointIsTheReplayedState(t *testing.T) {
	scenarios := 120
	if small || testing.Short() {
		scenarios = 12
	}
	key := facilitate.NewOperatorKey()
	for i := range scenarios {
		s := builtin.All()[i%6]
		h := facilitatetest.NewHistory(uint64(1000+i), 8, s)
		port, other := newBridge(), newBridge()
		cfg := facilitate.Config{Store: mem.New(), Surface: s, Operator: key, Secret: []byte("k"), Participants: facilitatetest.Participants(5, nil), Checkpoint: 1, Port: port, Clock: func() time.Time { return time.UnixMilli(5000) }}
		whole := cfg
		whole.Store, whole.Port = mem.New(), other
		a := sit(t, whole)
		store := &counter{Store: cfg.Store}
		cfg.Store = store
		for n, ev := range h.Events[0] {
			_, errA := a.Run(t.Context(), ev)
			b, err := facilitate.New(t.Context(), cfg)
			if err != nil {
				t.Fatalf("scenario %d, event %d: %v", i, n, err)
			}
			if store.loaded > 1 {
				t.Fatalf("scenario %d, event %d: %d records are replayed behind a checkpoint", i, n, store.loaded)
			}
			if _, err := b.Run(t.Context(), ev); (err == nil) != (errA == nil) {
				t.Fatalf("scenario %d, event %d: %v, unbroken %v", i, n, err, errA)
			}
			if got, want := everything(t, b, key), everything(t, a, key); got != want {
				t.Fatalf("scenario %d, event %d, %s: from checkpoints\n%s\nunbroken\n%s", i, n, ev.Type, got, want)
			}
			store.loaded = 0
			if got, want := notices(t, b), notices(t, a); got != want {
				t.Fatalf("scenario %d, event %d: notices\n%s\nunbroken\n%s", i, n, got, want)
			}
			b.Close()
			store.loaded = 0
		}
		if len(port.room) != len(other.room) || len(port.person) != len(other.person) {
			t.Errorf("scenario %d: %d and %d deliveries, unbroken %d and %d", i, len(port.room), len(port.person), len(other.room), len(other.person))
		}
	}
}

// TestCheckpointsThatDoNotFit are left aside, and the journal is replayed.
func TestCheckpointsThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	open := func() *file.Store {
		s, err := file.New(file.Options{Dir: dir, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	cfg := facilitate.Config{Store: open(), Secret: []byte("k"), Checkpoint: 1, Participants: people("ana", "ben", "cy", "di", "eve")}
	a := sit(t, cfg)
	for _, ev := range arc {
		run(t, a, ev)
	}
	want := context_(t, a, facilitate.ForPerson("cy"))
	a.Close()
	name := filepath.Join(dir, "main", "checkpoint.json")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(good), "euros") || strings.Contains(string(good), "steak") {
		t.Error("words are in the checkpoint in clear")
	}
	for what, bad := range map[string]string{
		"torn": string(good[:len(good)/2]), "empty": "", "of another record": strings.Replace(string(good), `"hash":"`, `"hash":"0`, 1),
		"another part": strings.Replace(string(good), `"payload":"`, `"payload":"AAAA`, 1), "a short salt": strings.Replace(string(good), `"salt":"`, `"salt":"AAAA`, 1),
		"beyond the end": strings.Replace(string(good), `"seq":`, `"seq":9`, 1), "no parts": strings.Replace(string(good), `"parts":`, `"p":`, 1), "whole": string(good),
	} {
		if err := os.WriteFile(name, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.Store = open()
		b := sit(t, cfg)
		if got := context_(t, b, facilitate.ForPerson("cy")); got != want {
			t.Errorf("%s: %s", what, got)
		}
		b.Close()
	}
	// Another topic, another surface: what was saved is not of this room.
	other := cfg
	other.Store, other.Topic = open(), "Something else"
	b := sit(t, other)
	if got := context_(t, b, facilitate.ForRoom()); !strings.Contains(got, "Something else") || !strings.Contains(got, "steak house") {
		t.Errorf("under another topic: %s", got)
	}
	b.Close()
	other.Surface, other.Store = poll.New(), open()
	c := sit(t, other)
	if got := context_(t, c, facilitate.ForRoom()); !strings.Contains(got, "Board: poll") {
		t.Errorf("under another surface: %s", got)
	}
}

// A failing store keeps no checkpoint.
type failing struct{ journal.Store }

func (failing) SaveCheckpoint(context.Context, string, journal.Checkpoint) error {
	return errors.New("disk full")
}

// TestALostCheckpointCostsNothing but time.
func TestALostCheckpointCostsNothing(t *testing.T) {
	cfg := facilitate.Config{Store: failing{mem.New()}, Secret: []byte("k"), Checkpoint: 1}
	a := sit(t, cfg)
	for _, ev := range arc {
		run(t, a, ev)
	}
	want := context_(t, a, facilitate.ForPerson("cy"))
	a.Close()
	if got := context_(t, sit(t, cfg), facilitate.ForPerson("cy")); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// unlocked lets a second agent in, as after a kill.
type unlocked struct{ journal.Store }

func (unlocked) Lock(context.Context, string) (func(), error) { return func() {}, nil }

// TestOpeningALongRoom reads what came since its last checkpoint and no more,
// also when the process was killed.
func TestOpeningALongRoom(t *testing.T) {
	store := &counter{Store: unlocked{mem.New()}}
	cfg := facilitate.Config{Store: store, Secret: []byte("k"), Checkpoint: 50}
	a := sit(t, cfg)
	for i := range 300 {
		run(t, a, facilitate.Message("ana", fmt.Sprint("line number ", i, " of a long talk")))
	}
	store.loaded = 0
	b := sit(t, cfg)
	if a.Room().Log.Len() != 300 || b.Room().Log.Len() != 300 || store.loaded > 80 {
		t.Errorf("%d records are read", store.loaded)
	}
}
