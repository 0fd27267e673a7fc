package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// TestChaos runs seeded worlds: conversations whose turns go on over restarts,
// a platform that loses answers, limits, refuses and is out for half an hour,
// and a process that is killed, or loses power, at any write, sync, send or
// answer. In the end every turn has exactly one outcome, in its place, in order,
// and what may be a repeat says so.
func TestChaos(t *testing.T) {
	runs := 300
	if detector || testing.Short() {
		runs = 40
	}
	for seed := range runs {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newWorld(t, uint64(seed)).live() })
		})
	}
}

// A world is one run.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	fake *deliverytest.Fake
	opts deliverytest.FakeOptions

	mu        sync.Mutex
	points    int // until the next kill, 0: none
	dead      bool
	kill      context.CancelFunc
	out       struct{ from, to time.Time } // the outage
	calm      bool                         // no more faults
	lostHold  map[turn.ID]bool             // the answer to its placeholder was lost
	killed    bool
	main, box *deliverytest.Disk
	scripts   []*script
}

// A script is what happens in one conversation.
type script struct {
	conv  chat.Address
	turns []*planned
}

// A planned turn is written to the journal step by step; after a kill it goes
// on with what is missing.
type planned struct {
	id       turn.ID
	text     string
	files    int
	statuses int
	end      turn.Event
	attempt  int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), main: deliverytest.NewDisk(), box: deliverytest.NewDisk(), lostHold: map[turn.ID]bool{}}
	w.main.Point, w.box.Point = w.point, w.point
	w.opts = deliverytest.FakeOptions{
		Traits:     transport.Traits{Fresh: transport.Fresh(w.rng.IntN(3)), Preview: w.rng.IntN(2) == 0, RestInThread: w.rng.IntN(3) == 0},
		CannotTell: w.rng.IntN(2) == 0, Fault: w.fate,
	}
	w.fake = deliverytest.NewFake(w.opts)
	for c := range 1 + w.rng.IntN(4) {
		s := &script{conv: chat.Address{Space: chat.Slack, ID: fmt.Sprintf("C%d", c%3), Thread: map[bool]string{true: "T"}[c == 3]}}
		if s.conv.Thread != "" {
			s.conv.Thread, s.conv.ID = "", "C3"
		}
		for k := range 1 + w.rng.IntN(5) {
			p := &planned{id: turn.NewID(), files: w.rng.IntN(2) * w.rng.IntN(3), statuses: w.rng.IntN(12), attempt: 1}
			p.text = fmt.Sprintf("[%s.%d]", s.conv.ID, k) + strings.Repeat("word ", w.rng.IntN(250))
			p.end = turn.Event{Kind: turn.Final, Turn: p.id, Text: p.text}
			switch w.rng.IntN(8) {
			case 0:
				p.end = turn.Event{Kind: turn.Final, Turn: p.id, Silent: true}
			case 1:
				p.end = turn.Event{Kind: turn.Failed, Turn: p.id, Text: p.text, Error: "no luck", Code: turn.CodeModel}
			case 2:
				p.end.Stopped = true
			}
			s.turns = append(s.turns, p)
		}
		w.scripts = append(w.scripts, s)
	}
	return w
}

// point is a moment at which the process may die.
func (w *world) point() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.points > 0 {
		if w.points--; w.points == 0 {
			w.dead = true
			w.kill()
		}
	}
	return !w.dead
}

// fate decides about one call.
func (w *world) fate(c deliverytest.Call) deliverytest.Fate {
	if !w.point() {
		return deliverytest.Fate{Err: deliverytest.ErrDead}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := deliverytest.Fate{Takes: time.Duration(w.rng.IntN(300)) * time.Millisecond}
	now := time.Now()
	lost := func() {
		if c.Verb == "post" && c.Mark.Part == "0" {
			w.lostHold[c.Mark.Turn] = true
		}
	}
	switch n := w.rng.IntN(100); {
	case w.points == 1:
		// The process dies while the answer is on its way.
		w.points, w.dead = 0, true
		w.kill()
		f.Err, f.Applied, f.Takes = deliverytest.ErrDead, w.rng.IntN(2) == 0, 0
		lost()
	case w.calm:
	case now.After(w.out.from) && now.Before(w.out.to):
		f.Err = &transport.SendError{Fault: transport.Unreachable, Maybe: w.rng.IntN(2) == 0, Err: io.ErrUnexpectedEOF}
		if f.Err.(*transport.SendError).Maybe {
			f.Applied = w.rng.IntN(4) == 0
			lost()
		}
	case n < 4: // the answer is lost
		f.Err, f.Applied = io.ErrUnexpectedEOF, true
		if c.Verb == "edit" && w.rng.IntN(2) == 0 {
			f.Late = time.Duration(w.rng.IntN(3000)) * time.Millisecond
		}
		lost()
	case n < 6: // the request is lost
		f.Err = io.ErrUnexpectedEOF
		lost()
	case n < 8:
		f.Err = &transport.SendError{Fault: transport.Unreachable, Err: errors.New("502")}
	case n < 11:
		f.Err = &transport.SendError{Fault: transport.Limited, After: time.Duration(w.rng.IntN(30)) * time.Second, Everywhere: w.rng.IntN(3) == 0, Err: errors.New("429")}
	case n < 12 && (c.Verb == "post" || c.Verb == "edit") && c.Body.Format != "plain":
		f.Err = &transport.SendError{Fault: transport.BadFormat, Err: errors.New("can't parse entities")}
	case n < 13 && (c.Verb == "post" || c.Verb == "edit") && len(c.Body.Text) > 120:
		f.Err = &transport.SendError{Fault: transport.TooLong, Err: errors.New("msg_too_long")}
	}
	return f
}

// dice is for those who do not hold mu.
func (w *world) dice(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// live runs the world to its end.
func (w *world) live() {
	if w.dice(2) == 0 {
		w.out.from = time.Now().Add(time.Duration(w.dice(120)) * time.Second)
		w.out.to = w.out.from.Add(30 * time.Minute)
	}
	for kills := w.dice(6); ; kills-- {
		ctx, cancel := context.WithCancel(context.Background())
		w.mu.Lock()
		w.kill, w.dead, w.points = cancel, false, 0
		if kills > 0 {
			w.points = 1 + w.rng.IntN(120)
		}
		w.mu.Unlock()
		c, err := delivery.NewCourier(delivery.CourierOptions{
			Platform: w.fake, Journal: w.main, Outbox: w.box, Grace: time.Second,
			Open: func(local string) (io.ReadCloser, int64, error) {
				return io.NopCloser(strings.NewReader(local)), int64(len(local)), nil
			},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		served := make(chan error, 1)
		ready := make(chan struct{})
		go func() { served <- c.Serve(ctx, func() { close(ready) }) }()
		var engines sync.WaitGroup
		select {
		case <-ready:
		case <-ctx.Done():
		}
		for _, s := range w.scripts {
			delay := time.Duration(w.dice(3000)) * time.Millisecond
			seed := uint64(w.dice(1 << 30))
			engines.Go(func() {
				time.Sleep(delay)
				w.engine(ctx, s, rand.New(rand.NewPCG(seed, 1)))
			})
		}
		engines.Wait()
		if ctx.Err() == nil {
			for range 24 * 3600 / 10 {
				if c.Open() == 0 || ctx.Err() != nil {
					break
				}
				time.Sleep(10 * time.Second)
			}
		}
		finished := ctx.Err() == nil
		if finished && c.Open() != 0 {
			w.t.Errorf("%d things are open after a day", c.Open())
		}
		cancel()
		if err := <-served; finished && err != nil {
			w.t.Errorf("Serve = %v", err)
		}
		synctest.Wait()
		if finished {
			break
		}
		power := w.dice(2) == 0
		w.mu.Lock()
		w.main, w.box = w.main.Revive(power), w.box.Revive(power)
		w.mu.Unlock()
		time.Sleep(time.Duration(w.dice(20)) * time.Second)
		w.killed = true
		w.fake.Pardon()
	}
	time.Sleep(time.Minute) // what is late arrives
	w.check()
}

// engine plays the engine for one conversation: what is on disk goes on, what is
// not begins.
func (w *world) engine(ctx context.Context, s *script, rng *rand.Rand) {
	have := map[turn.ID]string{}
	files := map[turn.ID]int{}
	for r, err := range w.main.Read(ctx, s.conv.Channel(), 0) {
		if err != nil {
			return
		}
		var rec turn.Record
		if err := json.Unmarshal(r.Data, &rec); err != nil {
			w.t.Error(err)
			return
		}
		switch {
		case rec.Accepted != nil:
			have[rec.Turn] = "open"
		case rec.Event != nil && rec.Event.Terminal():
			have[rec.Turn] = "over"
		case rec.Event != nil && rec.Event.Kind == turn.FileOut:
			files[rec.Turn]++
		}
	}
	write := func(rec turn.Record, durable bool) bool {
		data, err := json.Marshal(rec)
		if err == nil {
			_, err = w.main.Append(context.Background(), s.conv.Channel(), journal.Any, journal.Entry{Data: data})
		}
		if err == nil && durable {
			err = w.main.Sync(context.Background())
		}
		if err != nil && !errors.Is(err, deliverytest.ErrDead) {
			w.t.Error(err)
		}
		return err == nil && ctx.Err() == nil
	}
	rest := func(most time.Duration) bool {
		time.Sleep(time.Duration(rng.Int64N(int64(most))))
		return ctx.Err() == nil
	}
	for _, p := range s.turns {
		if have[p.id] == "over" {
			continue
		}
		if have[p.id] == "" && !write(turn.Record{Turn: p.id, Accepted: &turn.Accepted{Origin: turn.FromChat, Message: chat.Message{ID: string(p.id), Text: "hi"}}}, true) {
			return
		}
		if !write(turn.Record{Turn: p.id, Begun: &turn.Begun{Attempt: p.attempt}}, false) {
			return
		}
		p.attempt++
		for i := range p.statuses {
			if !rest(4*time.Second) ||
				!write(turn.Record{Turn: p.id, Event: &turn.Event{Kind: turn.Status, Turn: p.id, Label: fmt.Sprintf("step %d", i)}}, false) ||
				!write(turn.Record{Turn: p.id, Event: &turn.Event{Kind: turn.Text, Turn: p.id, Text: fmt.Sprintf("bit %d ", i), Partial: true}}, false) {
				return
			}
		}
		for i := files[p.id]; i < p.files; i++ {
			ev := turn.Event{Kind: turn.FileOut, Turn: p.id, Local: fmt.Sprintf("f%d-%s.txt", i, p.id), Filename: "f.txt"}
			if !write(turn.Record{Turn: p.id, Event: &ev}, false) || !rest(2*time.Second) {
				return
			}
		}
		if !rest(6*time.Second) || !write(turn.Record{Turn: p.id, Event: &p.end}, true) {
			return
		}
	}
}

// check compares what people see with what happened.
func (w *world) check() {
	for _, wrong := range w.fake.Wrong() {
		w.t.Errorf("the platform complains: %s", wrong)
	}
	seen := map[string]bool{}
	for _, s := range w.scripts {
		if seen[s.conv.ID] {
			continue
		}
		seen[s.conv.ID] = true
		last := map[string]int{} // by conversation: the place of its last reply
		for _, s2 := range w.scripts {
			if s2.conv.ID != s.conv.ID {
				continue
			}
			for _, p := range s2.turns {
				w.checkTurn(s2, p, last)
			}
		}
	}
}

func (w *world) checkTurn(s *script, p *planned, last map[string]int) {
	shown := w.fake.Shown(s.conv.ID)
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Errorf("turn %s (%s): %s\n%s", p.id, p.text[:min(len(p.text), 10)], fmt.Sprintf(format, args...), w.dump(shown))
	}
	at := map[string][]int{}
	for i, m := range shown {
		if m.Mark.Turn == p.id {
			at[m.Mark.Part] = append(at[m.Mark.Part], i)
		}
	}
	if n := len(at["0"]); n > 0 && !(w.opts.CannotTell && (w.lostHold[p.id] || w.killed) && n == 1) {
		fail("%d placeholders are left", n)
	}
	delete(at, "0")
	for part, where := range at {
		plain := 0
		for _, i := range where {
			if !shown[i].Repeat {
				plain++
			}
		}
		if plain > 1 || !w.opts.CannotTell && len(where) != 1 {
			fail("part %s is there %d times, %d of them without a label", part, len(where), plain)
		}
	}
	text, place := "", -1
	for k := 1; len(at[strconv.Itoa(k)]) > 0; k++ {
		// The last copy: one that may be there already can be cut up smaller.
		i := at[strconv.Itoa(k)][len(at[strconv.Itoa(k)])-1]
		if text += shown[i].Source; i < place {
			fail("part %d is out of order", k)
		}
		if place = i; shown[i].Place.Thread != s.conv.Thread && !(w.opts.Traits.RestInThread && k > 1) {
			fail("part %d is in thread %q", k, shown[i].Place.Thread)
		}
		if strings.Contains(shown[i].Text, "step ") {
			fail("part %d was overwritten", k)
		}
	}
	if text != p.end.Text {
		fail("the reply is %d bytes, want %d", len(text), len(p.end.Text))
	}
	files := 0
	for part := range at {
		if strings.HasPrefix(part, "file.") {
			files++
		}
	}
	if files != p.files {
		fail("%d files, want %d", files, p.files)
	}
	if p.end.Silent {
		return
	}
	note := map[bool]string{true: "Sorry, something went wrong: no luck (model)"}[p.end.Kind == turn.Failed]
	if p.end.Stopped {
		note = "Stopped"
	}
	if place < 0 || !strings.Contains(shown[place].Text, note) {
		fail("no note %q", note)
		return
	}
	first := at["1"][0]
	if prev, ok := last[s.conv.ID]; ok && first < prev {
		fail("the reply stands before the one before it")
	}
	last[s.conv.ID] = first
}

func (w *world) dump(shown []deliverytest.Shown) string {
	var b strings.Builder
	for _, m := range shown {
		fmt.Fprintf(&b, "  %s %s %s repeat=%v %.40q %s\n", m.ID, m.Mark.Turn[max(0, len(m.Mark.Turn)-4):], m.Mark.Part, m.Repeat, m.Text, m.File)
	}
	return b.String()
}
