package facilitator_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A stage is a workspace with an engine and rooms, as the server wires them.
type stage struct {
	t      *testing.T
	dir    string
	opts   facilitator.Options
	rooms  *facilitator.Rooms
	engine *engine.Engine
	log    *bytes.Buffer
	end    func()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), log: &bytes.Buffer{}}
	s.begin()
	t.Cleanup(func() { s.end() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begin starts the parts; end stops them, as a restart would.
func (s *stage) begin() {
	s.t.Helper()
	j, err := file.New(file.Options{Dir: filepath.Join(s.dir, "state", "journal")})
	must(s.t, err)
	store, err := session.Open(session.Options{Root: s.dir, Journal: j})
	must(s.t, err)
	s.opts.Dir = filepath.Join(s.dir, "state", "rooms")
	s.opts.Submit = func(ctx context.Context, sub transport.Submission) (transport.Receipt, error) {
		return s.engine.Submit(ctx, sub)
	}
	s.rooms, err = facilitator.New(s.opts)
	must(s.t, err)
	s.engine, err = engine.New(engine.Options{
		Journal: j, Archive: store, Runner: s.rooms.Runner, Seal: s.rooms.Seal,
		Snapshot: func(a chat.Address) route.Snapshot {
			if spec, _, ok := s.rooms.Find(a); ok {
				return route.Snapshot{Default: "native", Runner: spec.ID, Conversation: spec.Address(), Hears: true}
			}
			return route.Snapshot{Default: "native"}
		},
	})
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.engine.Serve(ctx) }()
	<-s.engine.Ready()
	s.end = func() {
		cancel()
		<-done
		if err := s.rooms.Close(); err != nil {
			s.t.Error(err)
		}
		store.Close()
		j.Close()
		s.end = func() {}
	}
}

func (s *stage) create(policy string) facilitator.Spec {
	s.t.Helper()
	spec, err := s.rooms.Create(facilitator.Spec{ID: "dinner", Topic: "Friday dinner", Policy: policy, Participants: []facilitator.Person{
		{ID: "ana", Name: "Ana"}, {ID: "ben", Name: "Ben"}, {ID: "cy", Name: "Cy"}, {ID: "di", Name: "Di"}, {ID: "eve", Name: "Eve"},
	}})
	must(s.t, err)
	return spec
}

// do takes an event and returns what Iris said to the room.
func (s *stage) do(ev facilitate.Event) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	id, err := s.rooms.Do(ctx, "dinner", ev)
	must(s.t, err)
	return s.wait(id)
}

func (s *stage) wait(id turn.ID) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	end, err := s.engine.Wait(ctx, id)
	must(s.t, err)
	if end.Kind != turn.Final {
		s.t.Fatalf("the turn ended with %+v", end)
	}
	return end.Text
}

func (s *stage) view(viewer string) facilitator.View {
	s.t.Helper()
	v, err := s.rooms.View(s.t.Context(), "dinner", viewer)
	must(s.t, err)
	return v
}

// outside lists the files of the workspace that hold one of the words, but for
// the rooms' own store.
func (s *stage) outside(words ...string) (found []string) {
	s.t.Helper()
	own := filepath.Join(s.dir, "state", "rooms")
	must(s.t, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == own {
			if path == own {
				return fs.SkipDir
			}
			return err
		}
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, w := range words {
			if strings.Contains(string(data), w) || strings.Contains(path, w) {
				found = append(found, path+": "+w)
			}
		}
		return err
	}))
	return found
}

// dinner plays the room up to the question for Cy's consent.
func (s *stage) dinner() {
	s.t.Helper()
	s.do(facilitate.Message("ana", "Where do we eat on Friday?"))
	s.do(facilitate.Message("di", "Somewhere with a terrace"))
	s.do(facilitate.Message("ben", "I propose the steak house"))
	s.do(facilitate.Caucus("cy", "quagga: I can spend at most 15 euros"))
}
