package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A follower turns what happens into items. It is one goroutine.
type follower struct {
	*run
	ops         []op
	seen, moved int64
	movedAt     time.Time
}

// An op is something that must be on disk before it is acted on.
type op struct {
	it    *item
	open  bool
	plan  *plan // of a reply
	stage stage
	what  bool // stage is to be queued
}

// maxOps bounds what waits for one fsync.
const maxOps = 256

// cursorEvery is how far behind the cursor stays when nothing is to be shown: in
// records, and in time.
const (
	cursorRecords = 1000
	cursorTime    = 10 * time.Second
)

// follow reads the journal until the run ends.
func (r *run) follow(since int64, ready func()) {
	f := &follower{run: r, seen: since, moved: since, movedAt: time.Now()}
	place := r.c.platform.Place
	wants := func(stream string) bool {
		conv, err := chat.Parse(stream)
		if err != nil {
			return false
		}
		_, ok := place(conv, nil)
		return ok
	}
	for rec, err := range r.c.opts.Journal.FollowAll(r.ctx, since, wants) {
		switch {
		case errors.Is(err, journal.ErrTruncated):
			r.c.log.Error("the journal no longer has what was not delivered yet", "since", f.seen)
			r.c.mu.Lock()
			r.report(chat.Address{}, fmt.Sprintf("%s was away for longer than the journal remembers: some messages were never shown there.", r.c.Name()))
			r.c.mu.Unlock()
			err = nil
		case errors.Is(err, journal.ErrClosed):
			r.fail(journal.ErrClosed)
			return
		case err != nil:
		case rec.Stream == "":
			f.seen = rec.Seq
			if err = f.flush(); err == nil {
				err = f.move(false)
			}
			if err == nil {
				ready()
				r.c.mu.Lock()
				r.seen = rec.Seq
				r.checkIdle()
				r.c.mu.Unlock()
			}
		default:
			f.take(rec)
			if f.seen = rec.Seq; len(f.ops) >= maxOps {
				err = f.flush()
			}
		}
		if err != nil {
			r.broken(err)
			return
		}
	}
}

// move puts the cursor where the follower is.
func (f *follower) move(now bool) error {
	first := f.moved < 0
	far := f.seen-f.moved >= cursorRecords || f.seen > f.moved && time.Since(f.movedAt) >= cursorTime
	if !first && !far && !now || f.seen == f.moved {
		return nil
	}
	if err := f.c.out.move(f.seen); err != nil {
		return err
	}
	f.moved, f.movedAt = f.seen, time.Now()
	if first {
		return f.c.out.sync()
	}
	return nil
}

var textEvent = []byte(`"event":{"kind":"text"`)

// take looks at one record.
func (f *follower) take(r journal.Record) {
	if !f.c.traits.Preview && bytes.Contains(r.Data[:min(len(r.Data), 120)], textEvent) {
		return
	}
	conv, err := chat.Parse(r.Stream)
	var rec turn.Record
	if err == nil {
		err = json.Unmarshal(r.Data, &rec)
	}
	if err != nil {
		f.c.log.Error("a record that cannot be shown", "stream", r.Stream, "seq", r.Seq, "err", err)
		return
	}
	switch {
	case rec.Accepted != nil:
		f.accepted(conv, r.Time, rec)
	case rec.Heard != nil:
		f.heard(conv)
	case rec.Begun != nil:
		if it := f.turn(rec.Turn); it != nil {
			f.ops = append(f.ops, op{it: it, stage: stageHold, what: true})
		}
	case rec.Event != nil:
		if it := f.turn(rec.Turn); it != nil {
			f.event(it, r, rec.Event)
		}
	case rec.Notice != nil:
		f.notice(conv, r, rec.Notice)
	}
}

func (f *follower) turn(id turn.ID) *item {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.turns[id]
}

func (f *follower) accepted(conv chat.Address, at time.Time, rec turn.Record) {
	f.heard(conv)
	if a := rec.Accepted; a.Answers != "" {
		by := a.Message.From.Name
		if by == "" {
			by = a.Message.From.ID
		}
		f.settled(a.Answers, f.c.opts.Outcome(a.Answers), by)
	}
	place, ok := f.c.platform.Place(conv, rec.Accepted)
	if !ok || f.turn(rec.Turn) != nil {
		return
	}
	speaker := f.c.opts.Speaker(rec.Accepted)
	it := &item{name: string(rec.Turn), conv: conv, next: 1, opening: opening{
		Kind: kindTurn, Place: place, Turn: rec.Turn, At: at, Speaker: speaker, Note: firstWords(speaker, rec.Accepted),
		Said: lateTime(rec.Accepted, at),
	}}
	f.c.mu.Lock()
	f.turns[rec.Turn] = it
	f.c.mu.Unlock()
	f.ops = append(f.ops, op{it: it, open: true})
}

// heard notes that somebody said something where a placeholder stands.
func (f *follower) heard(conv chat.Address) {
	place, ok := f.c.platform.Place(conv, nil)
	if !ok || f.c.traits.Fresh != transport.FreshAfterAny {
		return
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if m := f.rooms[place.Chat]; m != nil {
		for it := range m.live {
			it.heard = it.heard || it.conv == conv
		}
	}
}

// settled closes a question that was put here.
func (f *follower) settled(ask, outcome, by string) {
	f.c.mu.Lock()
	it := f.asks[ask]
	f.c.mu.Unlock()
	if it == nil {
		return
	}
	// It may be about to be opened.
	err := f.flush()
	if err == nil {
		err = f.closeAsk(it, outcome, by)
	}
	f.broken(err)
}

func (f *follower) event(it *item, r journal.Record, ev *turn.Event) {
	switch ev.Kind {
	case turn.Status, turn.Text, turn.ToolUse:
		f.progress(it, ev)
		if t := ev.Tool; t != nil && t.Phase == turn.End && f.c.opts.Verbose(it.conv) {
			f.message(it.conv, it.Turn, it.Place, kindDetail, r, opening{Plan: planOf(transport.ShowDetail, f.c.render(detail(t)))})
		}
	case turn.FileOut:
		ref := &fileRef{Local: ev.Local, Name: ev.ShownName(), Title: ev.Title}
		f.message(it.conv, it.Turn, it.Place, kindFile, r, opening{File: ref, Plan: &plan{Parts: []part{{File: true}}}})
	case turn.AskFor:
		switch {
		case ev.Ask == nil:
		case ev.Ask.Outcome != "":
			outcome, by := verdict(ev.Ask, r.Time)
			f.settled(ev.Ask.ID, outcome, by)
		default:
			v := transport.View{Show: transport.ShowQuestion, Text: ev.Ask.Text, Ask: ev.Ask}
			f.message(it.conv, it.Turn, it.Place, kindAsk, r, opening{Ask: ev.Ask, Plan: planOf(v.Show, f.c.render(v))})
		}
	case turn.Final, turn.Failed:
		p := &plan{Show: transport.ShowReply}
		if !ev.Silent {
			var late time.Duration
			if !it.Said.IsZero() {
				late = r.Time.Sub(it.Said)
			}
			p = planOf(transport.ShowReply, f.c.render(ending(it.Speaker, late, ev)))
		}
		p.At = r.Time
		f.ops = append(f.ops, op{it: it, plan: p, stage: stageSend, what: true})
	}
}

// progress changes the line under a placeholder.
func (f *follower) progress(it *item, ev *turn.Event) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if it.planned != 0 {
		return
	}
	if ev.Kind == turn.Text {
		if !f.c.traits.Preview {
			return
		}
		it.text.add(ev)
	} else if line := progress(it.Speaker, ev); line != "" {
		it.status = line
	} else {
		return
	}
	if it.dirty = true; it.holder != "" {
		f.kick(f.room(it.Place))
		f.pump()
	}
}

func (f *follower) notice(conv chat.Address, r journal.Record, n *turn.Notice) {
	if n.Reset {
		f.c.mu.Lock()
		var gone []string
		for id, it := range f.asks {
			if it.conv == conv {
				gone = append(gone, id)
			}
		}
		f.c.mu.Unlock()
		for _, id := range gone {
			f.settled(id, "withdrawn", "")
		}
	}
	if place, ok := f.c.platform.Place(conv, nil); ok && n.Text != "" {
		v := transport.View{Show: transport.ShowNotice, Text: n.Text}
		f.message(conv, "", place, kindNotice, r, opening{Plan: planOf(v.Show, f.c.render(v))})
	}
}

// message makes an item of its own.
func (f *follower) message(conv chat.Address, id turn.ID, place transport.Place, k kind, r journal.Record, o opening) {
	o.Kind, o.Turn, o.Place, o.At = k, id, place, r.Time
	it := &item{name: nameOf(id, k, r.Seq), conv: conv, next: 1, opening: o}
	f.c.mu.Lock()
	crowded := f.crowded(it)
	if crowded {
		f.report(conv, fmt.Sprintf("%s: %d messages wait for %s; what comes on top of them is not sent.", f.c.Name(), maxLane, conv))
	} else if o.Ask != nil && f.asks[o.Ask.ID] == nil {
		f.asks[o.Ask.ID] = it
	}
	f.c.mu.Unlock()
	if crowded {
		f.c.log.Error("not sent: too much waits for this conversation", "conversation", conv, "item", it.name)
		if f.c.opts.Hooks.Lost != nil {
			f.c.opts.Hooks.Lost(string(k))
		}
		return
	}
	f.ops = append(f.ops, op{it: it, open: true, stage: stageSend, what: true})
}

// flush puts the ops on disk, after what they come from, and then acts on them.
func (f *follower) flush() error {
	if len(f.ops) == 0 {
		return nil
	}
	f.await()
	if err := f.c.opts.Journal.Sync(f.ctx); err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	ops := f.ops
	f.ops = nil
	seqs := make([]int64, len(ops))
	planned := false
	for i, o := range ops {
		f.c.mu.Lock()
		over, ended := o.it.dead, o.it.planned != 0
		f.c.mu.Unlock()
		var err error
		switch {
		case over:
		case o.open:
			var fresh bool
			seqs[i], fresh, err = f.c.out.opened(o.it.conv, line{Item: o.it.name, Open: &o.it.opening})
			if err == nil && !fresh {
				f.known(o.it)
			}
		case o.plan != nil && !ended:
			planned = true
			seqs[i], err = f.c.out.put(o.it.conv, line{Item: o.it.name, Plan: o.plan})
		}
		if err != nil {
			return err
		}
	}
	// What is only opened is on disk with the try that comes before its send.
	if planned {
		if err := f.c.out.sync(); err != nil {
			return err
		}
	}
	f.c.mu.Lock()
	for i, o := range ops {
		f.act(o, seqs[i])
	}
	f.pump()
	f.c.mu.Unlock()
	return f.move(true)
}

// known lets go of an item that was opened before: it is over, or open under
// another value.
func (f *follower) known(it *item) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	it.dead = true
	if f.turns[it.Turn] == it {
		delete(f.turns, it.Turn)
	}
	if it.Ask != nil && f.asks[it.Ask.ID] == it {
		delete(f.asks, it.Ask.ID)
	}
}

// act does what an op is for. mu must be held.
func (f *follower) act(o op, seq int64) {
	it := o.it
	switch {
	case it.dead:
		return
	case o.open:
		f.open++
		it.since = it.At
		if it.Plan != nil {
			it.planned = seq
			it.Plan = nil // it is read again when it is sent
		}
	case o.plan != nil:
		if it.planned != 0 {
			return // the end was planned before
		}
		it.planned, it.since, it.dirty = seq, o.plan.At, false
		it.text = draft{}
	case o.stage == stageHold && (it.holder != "" || it.noHold || it.planned != 0 || it.tried != nil):
		return // it goes on with the placeholder it has
	}
	if o.what {
		f.enqueue(it, o.stage)
	}
}

// await returns when there is room for more.
func (f *follower) await() {
	for {
		f.c.mu.Lock()
		full := f.waiting >= f.c.opts.MaxOpen
		f.c.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-f.freed:
		case <-f.ctx.Done():
			return
		}
	}
}

// closeAsk plans what a question becomes, and puts it into its lane.
func (r *run) closeAsk(it *item, outcome, by string) error {
	if outcome == "" || outcome == "pending" {
		outcome = "answered"
	}
	r.c.mu.Lock()
	if it.dead || it.closing != 0 {
		r.c.mu.Unlock()
		return nil
	}
	it.closing = -1 // taken
	r.c.mu.Unlock()
	ask := *it.Ask
	ask.Outcome = outcome
	v := transport.View{Show: transport.ShowQuestion, Text: ask.Text, Ask: &ask, Note: outcomeWords(outcome, by)}
	p := planOf(v.Show, r.c.render(v))
	p.Closing = true
	seq, err := r.c.out.put(it.conv, line{Item: it.name, Plan: p})
	if err == nil {
		err = r.c.out.sync()
	}
	if err != nil {
		return err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	it.closing = seq
	r.enqueue(it, stageClose)
	r.pump()
	return nil
}
