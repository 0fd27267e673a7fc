package facilitate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/file"
	"github.com/iris-operator/iris/facilitate/journal/mem"
	"github.com/iris-operator/iris/facilitate/mind/script"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/tool"
)

var errKilled = errors.New("killed")

// A dying store fails from its n-th append on: before it is stored, or after.
type dying struct {
	journal.Store
	left  *int
	after bool
}

func (d dying) Append(ctx context.Context, id string, at uint64, recs []journal.Record) error {
	*d.left--
	if *d.left < 0 || *d.left == 0 && !d.after {
		return errKilled
	}
	err := d.Store.Append(ctx, id, at, recs)
	if *d.left == 0 {
		return errKilled
	}
	return err
}

var arc = []facilitate.Event{
	facilitate.Message("ana", "Where do we eat on Friday?"), facilitate.Message("ben", "somewhere near the lake"), facilitate.Message("ben", "I propose the steak house"),
	facilitate.Caucus("cy", "I can spend at most 15 euros"), facilitate.Caucus("cy", "yes, share it"), facilitate.Message("ana", "The steak house is nice"),
}

// TestKilledAtEveryPoint ends the process at every append, before and after it
// is durable, and at every send, before and after it is confirmed. Then it goes
// on with a new process: no acknowledged event is lost, no act is shown twice
// under two ids, and the end is the same.
func TestKilledAtEveryPoint(t *testing.T) {
	play := func(store journal.Store, b *bridge, left *int, after bool) (acked int, err error) {
		cfg := facilitate.Config{Store: dying{store, left, after}, Port: b, Secret: []byte("k"), Participants: people("ana", "ben", "cy", "di", "eve"), Clock: func() time.Time { return time.UnixMilli(1000) }}
		a, err := facilitate.New(t.Context(), cfg)
		if err != nil {
			return 0, err
		}
		defer a.Close()
		for i, ev := range arc {
			ev.Key = fmt.Sprint("k", i)
			if err = a.Take(t.Context(), ev); err != nil {
				return acked, err
			}
			acked = i + 1
			if _, err = a.React(t.Context()); err != nil {
				return acked, err
			}
			if err = a.Flush(t.Context()); err != nil {
				return acked, err
			}
		}
		return acked, nil
	}
	whole := newBridge()
	big := 1 << 30
	if _, err := play(mem.New(), whole, &big, false); err != nil {
		t.Fatal(err)
	}
	want := len(whole.room) + len(whole.person)
	runs := 0
	for _, mode := range []string{"before append", "after append", "before send", "after send"} {
		for n := 1; ; n++ {
			store, b := mem.New(), newBridge()
			left := 1 << 30
			if strings.HasSuffix(mode, "append") {
				left = n
			} else {
				b.before = mode == "before send"
				b.fail = func(call int) error {
					if call == n {
						left = 0
						return errKilled
					}
					return nil
				}
			}
			acked, err := play(store, b, &left, mode == "after append")
			if err == nil {
				break // n is behind the end
			}
			runs++
			b.fail = func(int) error { return nil }
			left = 1 << 30
			again, err := play(store, b, &left, false)
			if err != nil || again != len(arc) {
				t.Fatalf("%s %d: going on: %v", mode, n, err)
			}
			texts := map[string]int{}
			for _, e := range b.room {
				texts[e.Text]++
			}
			for _, e := range b.person {
				texts[e.Text]++
			}
			for text, k := range texts {
				if k > 1 {
					t.Errorf("%s %d: shown %d times: %q", mode, n, k, text)
				}
			}
			if len(texts) != want {
				t.Errorf("%s %d: %d acts of %d shown", mode, n, len(texts), want)
			}
			left = 1 << 30
			a, err := facilitate.New(t.Context(), facilitate.Config{Store: store, Participants: people("ana", "ben", "cy", "di", "eve")})
			if err != nil {
				t.Fatal(err)
			}
			spoken := a.Room().Spoken
			if spoken["ana"] != 2 || spoken["ben"] != 2 || acked > len(arc) {
				t.Errorf("%s %d: lines %v", mode, n, spoken)
			}
			a.Close()
		}
	}
	if runs < 30 {
		t.Errorf("only %d kills", runs)
	}
}

// TestEraseLeavesNoResidue looks for the canaries of an erased person in every
// file, context and export.
func TestEraseLeavesNoResidue(t *testing.T) {
	dir := t.TempDir()
	s, err := file.New(file.Options{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	key := facilitate.NewOperatorKey()
	cfg := facilitate.Config{Store: s, Operator: key, Secret: []byte("k"), Participants: people("ana", "ben", "cy", "di", "eve")}
	a := sit(t, cfg)
	for _, ev := range []facilitate.Event{
		facilitate.Message("ana", "Where do we eat on Friday?"), facilitate.Message("cy", "I propose the PUBCANARY77 place"), facilitate.Message("ben", "I propose the steak house"),
		facilitate.Caucus("cy", "my limit is SEALCANARY88 euros"), facilitate.Caucus("cy", "yes, share it"), facilitate.Message("ana", "The steak house is nice"),
		facilitate.Message("ben", "What did iris say?"),
	} {
		run(t, a, ev)
	}
	residue := func(a *facilitate.Agent) (out []string) {
		find := func(where, text string) {
			for _, c := range []string{"CANARY77", "CANARY88", "canary77", "canary88"} {
				if strings.Contains(text, c) {
					out = append(out, where+": "+c)
				}
			}
		}
		filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() {
				data, _ := os.ReadFile(p)
				find(p, string(data))
			}
			return nil
		})
		for r := range s.Load(t.Context(), "main", 0) {
			if r.Level == flow.RankRoom {
				find(fmt.Sprint("record ", r.Seq), string(r.Payload))
			}
		}
		for _, w := range []facilitate.Audience{facilitate.ForRoom(), facilitate.ForPerson("ana"), facilitate.ForPerson("cy"), facilitate.ForSelf(key)} {
			find("context", context_(t, a, w))
			exp, _ := a.Export(w)
			find("export", fmt.Sprint(exp))
			find("notices", fmt.Sprintf("%+v", read(t, a, w, 0)))
		}
		return out
	}
	if got := residue(a); len(got) < 6 {
		t.Fatalf("the canaries were not there, so nothing is proved: %v", got)
	}
	lines := a.Room().Log.Len()
	if err := a.Erase(t.Context(), "cy"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := residue(a); len(got) != 0 {
			t.Errorf("residue: %v", got)
		}
		if a.Room().Log.Len() != lines {
			t.Error("lines changed their numbers")
		}
		if got := context_(t, a, facilitate.ForRoom()); !strings.Contains(got, "steak house") || !strings.Contains(got, "Where do we eat") {
			t.Errorf("the others' words are gone:\n%s", got)
		}
		a.Close()
		a = sit(t, cfg)
	}
	run(t, a, facilitate.Message("cy", "I am new here"))
}

// TestConcurrentWriters lets 64 people write on one room at once, and 256 rooms
// run at once; every line must stand under its author.
func TestConcurrentWriters(t *testing.T) {
	var ids []string
	for i := range 64 {
		ids = append(ids, fmt.Sprint("p", i))
	}
	a := sit(t, facilitate.Config{Participants: people(ids...)})
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			for n := range 6 {
				ev := facilitate.Message(principal.ID(id), fmt.Sprintf("%s says %d", id, n))
				if n%2 == 1 {
					ev = facilitate.Caucus(principal.ID(id), fmt.Sprintf("%s whispers %d to you only", id, n))
				}
				if _, err := a.Run(t.Context(), ev); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	p := a.Room()
	for _, m := range p.Log.Recent(512) {
		if m.Author != principal.Iris && !strings.HasPrefix(m.Text, string(m.Author)+" says") {
			t.Errorf("line %d of %s: %q", m.Seq, m.Author, m.Text)
		}
	}
	for _, id := range ids {
		if p.Spoken[principal.ID(id)] != 3 {
			t.Errorf("%s spoke %d times", id, p.Spoken[principal.ID(id)])
		}
		own := context_(t, a, facilitate.ForPerson(principal.ID(id)))
		for _, other := range ids {
			if has := strings.Contains(own, other+" whispers"); has != (other == id) {
				t.Errorf("%s reads the line of %s: %v", id, other, has)
			}
		}
	}
	for r := range 256 {
		wg.Go(func() {
			b, err := facilitate.New(t.Context(), facilitate.Config{ID: fmt.Sprint("room", r), Participants: people("ana", "ben", "cy")})
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			for _, ev := range arc[:4] {
				if _, err := b.Run(t.Context(), ev); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestTwoPrivateVotesAtOnce: the author is taken from the event, not after a
// model answered.
func TestTwoPrivateVotesAtOnce(t *testing.T) {
	hold := make(chan struct{})
	m := func(_ context.Context, r flow.Request) (flow.Response, error) {
		<-hold
		if r.Level == flow.RankPerson {
			return flow.Response{Text: fmt.Sprintf(`{"record":{"interest":"of %s"}}`, r.Principal)}, nil
		}
		return flow.Response{Text: `{"items":[],"tool":"none"}`}, nil
	}
	p := people("ana", "ben")
	a := sit(t, facilitate.Config{Participants: p, Model: m})
	var wg sync.WaitGroup
	for _, id := range []principal.ID{"ana", "ben"} {
		wg.Go(func() { a.Run(t.Context(), facilitate.Caucus(id, "I need something of my own")) })
	}
	close(hold)
	wg.Wait()
	for _, id := range []principal.ID{"ana", "ben"} {
		if got := context_(t, a, facilitate.ForPerson(id)); !strings.Contains(got, "interest: of "+string(id)) {
			t.Errorf("record of %s:\n%s", id, got)
		}
	}
}

// TestToolsAreNarrow: a tool reaches its audience during its act and no more.
func TestToolsAreNarrow(t *testing.T) {
	keep := &keeper{}
	m := script.New(script.Answers{Self: []string{script.Choose(room.Choice{Tool: "keep", Target: "ben", Intent: "hold_space"})}})
	a := sit(t, facilitate.Config{Mind: m, Tools: []any{keep, tool.Caucus()}})
	acts := run(t, a, facilitate.Message("ana", "Where do we eat on Friday?"))
	if kinds(acts) != "keep:hold_space" || acts[0].Target != "" {
		t.Errorf("acts %s", kinds(acts))
	}
	if err := keep.host.Post(t.Context(), flow.Public("later")); err == nil || a.Room().Spoken[principal.Iris] != 1 {
		t.Errorf("a kept host posts: %v", err)
	}
	if err := keep.host.React(t.Context(), "👍"); err == nil {
		t.Error("a kept host reacts")
	}
}

type keeper struct{ host tool.RoomHost }

func (k *keeper) Spec() tool.Spec {
	return tool.Spec{Name: "keep", Intents: []string{tool.HoldSpace}}
}

func (k *keeper) Run(ctx context.Context, h tool.RoomHost, _ string, text flow.Text[flow.Room]) error {
	k.host = h
	h.Post(ctx, flow.Text[flow.Room]{})
	return h.Post(ctx, text)
}

// TestReactionsComeFromAClosedSet runs the silent tool.
func TestReactionsComeFromAClosedSet(t *testing.T) {
	asked := 0
	m := func(_ context.Context, r flow.Request) (flow.Response, error) {
		if strings.Contains(r.System, "one message to the room") {
			asked++
		}
		return flow.Response{Text: `{"items":[],"record":{},"notes":[],"choice":{"tool":"react","intent":"ack","rationale":"r"}}`}, nil
	}
	b := newBridge()
	a := sit(t, facilitate.Config{Model: m, Port: b, Tools: []any{tool.Post(), tool.Caucus(), tool.React(), tool.Nudge()}})
	acts := run(t, a, facilitate.Message("ana", "We are done with the hall"))
	if kinds(acts) != "react:ack" || asked != 0 || len(a.Room().Reactions[1]) != 1 {
		t.Errorf("%s, %d asked, %v", kinds(acts), asked, a.Room().Reactions)
	}
	for _, e := range b.room {
		if e.Emoji != "👍" || e.ReactTo != 1 || e.Text != "" {
			t.Errorf("%+v", e)
		}
	}
}
