package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A run is the memory of a courier while it serves. All of it can be made again
// from the outbox.
type run struct {
	c   *Courier
	ctx context.Context
	// fail ends the run because a journal is broken.
	fail  context.CancelCauseFunc
	calls sync.WaitGroup
	// started is set by begin. Guarded, as all that follows, by Courier.mu.
	started bool
	open    int // items
	waiting int // entries in lanes
	order   int64
	turns   map[turn.ID]*item
	asks    map[string]*item
	rooms   map[string]*room
	ready   []*room // have something to do now
	active  int
	timer   *time.Timer // wakes pump
	budget  bucket      // of all chats together
	freed   chan struct{}
	seen    int64         // the journal was read to here
	ending  bool          // only what is there is still sent
	last    int64         // where the journal ends, when ending
	idle    chan struct{} // closed when ending and nothing is left to do now

	// until and why are set while the whole platform is out.
	until   time.Time
	why     error
	since   time.Time
	failing map[string]bool // chats that failed since the last success
	strikes int
	unauth  bool // the operator was told about the credentials

	lost  []string
	lostN int
	woken chan struct{} // holds one token for tell
}

func newRun(c *Courier, ctx context.Context, fail context.CancelCauseFunc) *run {
	return &run{
		c: c, ctx: ctx, fail: fail,
		turns: map[turn.ID]*item{}, asks: map[string]*item{}, rooms: map[string]*room{}, failing: map[string]bool{},
		budget: bucket{gap: time.Second / time.Duration(c.traits.PerSecond), burst: c.traits.PerSecond},
		freed:  make(chan struct{}, 1), idle: make(chan struct{}), woken: make(chan struct{}, 1),
	}
}

// begin lets calls be made.
func (r *run) begin() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.started = true
	for _, m := range r.rooms {
		r.kick(m)
	}
	r.pump()
}

// stop waits for the calls under way; their contexts have ended.
func (r *run) stop() {
	r.c.mu.Lock()
	r.started = false
	if r.timer != nil {
		r.timer.Stop()
	}
	for _, m := range r.rooms {
		if m.timer != nil {
			m.timer.Stop()
		}
	}
	r.c.mu.Unlock()
	r.calls.Wait()
}

// drain returns a channel that is closed when the journal was read to its end
// and nothing can be sent right now.
func (r *run) drain() <-chan struct{} {
	var last int64
	for rec := range r.c.opts.Journal.FollowAll(r.ctx, -1, func(string) bool { return false }) {
		last = rec.Seq
		break
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.ending, r.last = true, last
	r.checkIdle()
	return r.idle
}

// checkIdle closes idle when it is time. mu must be held.
func (r *run) checkIdle() {
	if !r.ending || r.seen < r.last || r.active > 0 {
		return
	}
	if now := time.Now(); !r.until.After(now) {
		if len(r.ready) > 0 {
			return
		}
		for _, m := range r.rooms {
			if at, ok := r.due(m); ok && at.Sub(now) < time.Second {
				return // within its pace
			}
		}
	}
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// trouble says why messages do not go out. mu must be held.
func (r *run) trouble() error {
	if r.why == nil {
		return nil
	}
	return fmt.Errorf("not delivering since %s, %d waiting: %w", r.since.UTC().Format("15:04 MST"), r.open, r.why)
}

// room returns the chat of a place. mu must be held.
func (r *run) room(p transport.Place) *room {
	m := r.rooms[p.Chat]
	if m == nil {
		pace := r.c.traits.Pace(p)
		m = &room{place: p, lanes: map[chat.Address]*lane{}, live: map[*item]struct{}{},
			bucket: bucket{gap: pace.Gap, burst: max(pace.Burst, 1)}}
		r.rooms[p.Chat] = m
	}
	return m
}

// enqueue puts an item at the end of its lane. mu must be held.
func (r *run) enqueue(it *item, s stage) {
	m := r.room(it.Place)
	l := m.lanes[it.conv]
	if l == nil {
		l = &lane{}
		m.lanes[it.conv] = l
	}
	if s == stageSend && it.tried == nil {
		// The reply is there before its placeholder was.
		l.entries = slices.DeleteFunc(l.entries, func(e entry) bool {
			moot := e.item == it && e.stage == stageHold
			if moot {
				r.waiting--
			}
			return moot
		})
	}
	r.order++
	l.entries = append(l.entries, entry{it, s, r.order})
	r.waiting++
	r.kick(m)
}

// crowded reports that a lane takes nothing but replies. mu must be held.
func (r *run) crowded(it *item) bool {
	m := r.rooms[it.Place.Chat]
	return m != nil && m.lanes[it.conv] != nil && len(m.lanes[it.conv].entries) >= maxLane
}

// forget lets go of an item that is over. mu must be held.
func (r *run) forget(it *item) {
	if it.dead {
		return
	}
	it.dead = true
	if it.Kind != kindSay {
		r.open--
	}
	if r.turns[it.Turn] == it {
		delete(r.turns, it.Turn)
	}
	if it.Ask != nil && r.asks[it.Ask.ID] == it {
		delete(r.asks, it.Ask.ID)
	}
	if m := r.rooms[it.Place.Chat]; m != nil {
		delete(m.live, it)
	}
}

// say puts a line of Courier.Say into its chat. mu must be held.
func (r *run) say(p transport.Place, bodies []transport.Body) error {
	m := r.room(p)
	n := 0
	for _, l := range m.lanes {
		for _, e := range l.entries {
			if e.Kind == kindSay {
				n++
			}
		}
	}
	if n >= maxSaid {
		return fmt.Errorf("%w: %d lines wait in this chat", ErrNotSaid, n)
	}
	r.order++
	it := &item{name: nameOf("", kindSay, r.order), next: 1, opening: opening{Kind: kindSay, Place: p, At: time.Now(), Plan: planOf(transport.ShowNotice, bodies)}}
	it.since = it.At
	r.enqueue(it, stageSend)
	r.pump()
	return nil
}

func planOf(show transport.Showing, bodies []transport.Body) *plan {
	p := &plan{Show: show, Parts: make([]part, len(bodies))}
	for i, b := range bodies {
		p.Parts[i].Body = b
	}
	return p
}

// retention of what is unused in memory: a chat that has nothing and whose pace
// is at rest is forgotten by tick.
func (r *run) sweepRooms(now time.Time) {
	for key, m := range r.rooms {
		for conv, l := range m.lanes {
			if len(l.entries) == 0 && l.notBefore.Before(now) {
				delete(m.lanes, conv)
			}
		}
		if len(m.lanes) == 0 && len(m.live) == 0 && !m.working && !m.queued && m.bucket.full.Before(now) && m.until.Before(now) {
			if m.timer != nil {
				m.timer.Stop()
			}
			delete(r.rooms, key)
		}
	}
}

// backoff is the pause after n failures in a row: 1 s, doubled up to most, give
// or take a quarter so that chats do not all come back at once.
func backoff(n int, most time.Duration) time.Duration {
	d := most
	if n < 12 {
		d = min(most, time.Second<<max(n-1, 0))
	}
	return d*3/4 + rand.N(d/2)
}

// tickEvery is how often questions are looked at for their end, and memory for
// what nobody needs.
const tickEvery = 30 * time.Second

// tick looks after what nobody calls for.
func (r *run) tick() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		r.c.mu.Lock()
		r.sweepRooms(now)
		var over []*item
		for _, it := range r.asks {
			if it.closing == 0 && now.After(it.Ask.Until.Add(tickEvery)) && !it.Ask.Until.IsZero() {
				over = append(over, it)
			}
		}
		r.c.mu.Unlock()
		for _, it := range over {
			if err := r.closeAsk(it, "expired", ""); err != nil {
				r.fail(err)
				return
			}
		}
	}
}

// tellAfter gathers what is lost for a moment, so that an outage is one notice
// and not thousands.
const tellAfter = 5 * time.Second

// tell tells the operator what was lost.
func (r *run) tell() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.woken:
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(tellAfter):
		}
		r.c.mu.Lock()
		lost, n := r.lost, r.lostN
		r.lost, r.lostN = nil, 0
		r.c.mu.Unlock()
		for i, text := range lost {
			if more := n - len(lost); more > 0 && i == len(lost)-1 {
				text += fmt.Sprintf(" (and %d more; the log has all of them)", more)
			}
			if r.c.opts.Tell != nil {
				// Not for ever: whoever takes it may be ending too.
				ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), tellAfter)
				r.c.opts.Tell(ctx, text)
				cancel()
			}
		}
	}
}

// maxTold is how many sentences the operator gets at a time.
const maxTold = 3

// report keeps a sentence for the operator. mu must be held.
func (r *run) report(conv chat.Address, text string) {
	if conv == r.c.opts.OperatorNow() && !conv.IsZero() {
		return // it would be told where it cannot be told
	}
	if r.lostN++; len(r.lost) < maxTold {
		r.lost = append(r.lost, text)
	}
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// broken ends the run.
func (r *run) broken(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		r.fail(err)
	}
}
