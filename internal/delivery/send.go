package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/transport"
)

// The limits of what is not worth a day's patience.
const (
	maxSayAge    = 5 * time.Minute
	maxDetailAge = 10 * time.Minute
	// fileTries is how often a file is tried before a line stands in for it: it
	// holds up what follows.
	fileTries = 8
	// closeTries is how often a question is taken away that can be answered no
	// more: some half an hour.
	closeTries = 20
	// editLimit bounds an edit of progress, which the reply waits for.
	editLimit = 10 * time.Second
	// confirmAfter is how long an edit whose answer was lost may still be on its
	// way.
	confirmAfter = 5 * time.Second
)

// step makes the next call for the first entry of a lane.
func (r *run) step(m *room, l *lane, e entry) {
	var err error
	switch {
	case e.dead:
		r.leave(l, e)
	case e.stage == stageHold:
		err = r.hold(m, l, e)
	case e.stage == stageSend && r.aged(e.item):
		err = r.giveUp(l, e, "not delivered in time")
	case e.stage == stageClose:
		err = r.close(m, l, e)
	default:
		err = r.send(m, l, e)
	}
	r.broken(err)
}

// aged reports that an item is too old to be sent. What has begun is finished.
func (r *run) aged(it *item) bool {
	limit := r.c.opts.MaxAge
	switch it.Kind {
	case kindSay:
		limit = maxSayAge
	case kindDetail:
		limit = min(limit, maxDetailAge)
	}
	return it.next == 1 && time.Since(it.since) > limit
}

// leave takes an entry out of its lane.
func (r *run) leave(l *lane, e entry) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.left(l, e)
}

// left is leave with mu held.
func (r *run) left(l *lane, e entry) {
	if len(l.entries) == 0 || l.entries[0].order != e.order {
		return
	}
	l.entries[0] = entry{}
	if l.entries = l.entries[1:]; len(l.entries) == 0 {
		l.entries = nil
	}
	l.strikes, l.notBefore = 0, time.Time{}
	r.waiting--
	select {
	case r.freed <- struct{}{}:
	default:
	}
}

// put writes lines of an item, durably.
func (r *run) put(it *item, lines ...line) (int64, error) {
	if it.Kind == kindSay {
		return 0, nil
	}
	for i := range lines {
		lines[i].Item = it.name
	}
	seq, err := r.c.out.put(it.conv, lines...)
	if err != nil {
		return 0, err
	}
	return seq, r.c.out.sync()
}

// look asks the platform for a part of which nobody knows whether it arrived. id
// is empty if it did not; again says that it cannot be asked now, repeat that it
// never can.
func (r *run) look(m *room, l *lane, it *item) (id string, repeat, again bool, err error) {
	if early := settleTime - time.Since(it.tried.At); early > 0 {
		r.set(func() { l.notBefore = time.Now().Add(early) })
		return "", false, true, nil
	}
	ctx, cancel := r.call(r.c.opts.SendLimit)
	defer cancel()
	// Clocks differ; a mark is found by its own name.
	id, ferr := r.c.platform.Find(ctx, it.tried.Place, it.mark(it.tried.Part), it.tried.At.Add(-time.Minute))
	switch {
	case ferr == nil:
		r.worked(m, l)
		return id, false, false, nil
	case errors.Is(ferr, transport.ErrCannotTell):
		return "", true, false, nil
	case errors.Is(ferr, transport.ErrNotThere):
		r.worked(m, l)
		_, err = r.put(it, line{Not: &not{Part: it.tried.Part}})
		return "", false, false, err
	}
	if e := transport.AsSendError(ferr); !r.failed(m, l, e) {
		return "", true, false, nil // it will not be found
	}
	return "", false, true, nil
}

// set changes fields of an item that other goroutines read.
func (r *run) set(f func()) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	f()
}

func (r *run) untry(it *item, k int) error {
	if _, err := r.put(it, line{Not: &not{Part: k}}); err != nil {
		return err
	}
	r.set(func() { it.tried = nil })
	return nil
}

// send makes the next call of an item's plan.
func (r *run) send(m *room, l *lane, e entry) error {
	it := e.item
	p, err := r.plan(it)
	if err != nil {
		return err
	}
	k := it.next
	repeat := false
	if it.tried != nil {
		id, unknown, again, err := r.look(m, l, it)
		switch {
		case err != nil || again:
			return err
		case id != "" && it.tried.Part == 0:
			return r.sentHold(m, it, id)
		case id != "":
			return r.sent(m, l, e, p, id)
		case unknown && it.tried.Part == 0:
			if _, err := r.put(it, line{Not: &not{Lost: true}}); err != nil {
				return err
			}
			r.set(func() { it.noHold, it.tried = true, nil })
		case unknown:
			repeat = true
		default:
			r.set(func() { it.tried = nil })
		}
	}
	if k > len(p.Parts) {
		return r.retire(m, l, e)
	}
	pt := p.Parts[k-1]
	r.c.mu.Lock()
	closing := it.closing != 0
	r.c.mu.Unlock()
	if it.Ask != nil && k == 1 && closing {
		return r.finish(l, e, "moot") // it was settled before anybody saw it
	}
	if !repeat && r.replaces(it, k, pt) {
		return r.replace(m, l, e, p, pt)
	}
	place := r.place(it, k)
	if !repeat && it.Kind != kindSay {
		t := &try{Part: k, Place: place, At: time.Now()}
		if _, err := r.put(it, line{Try: t}); err != nil {
			return err
		}
		r.set(func() { it.tried = t })
	}
	var id string
	var perr error
	if pt.File {
		ctx, cancel := r.call(4 * r.c.opts.SendLimit)
		defer cancel()
		id, perr = r.upload(ctx, it, place, k, pt, repeat)
	} else {
		ctx, cancel := r.call(r.c.opts.SendLimit)
		defer cancel()
		id, perr = r.c.platform.Post(ctx, place, transport.Outgoing{Body: pt.Body, Mark: it.mark(k), Repeat: repeat})
	}
	if perr == nil {
		r.worked(m, l)
		return r.sent(m, l, e, p, id)
	}
	fault := transport.AsSendError(perr)
	if !fault.Maybe && !repeat && it.Kind != kindSay {
		if err := r.untry(it, k); err != nil {
			return err
		}
	}
	return r.refused(m, l, e, p, fault)
}

// plan reads what is to be sent.
func (r *run) plan(it *item) (plan, error) {
	if it.Kind == kindSay {
		return *it.Plan, nil
	}
	return r.c.out.plan(it.conv, it.planned)
}

// replaces reports that a part goes where the placeholder stands.
func (r *run) replaces(it *item, k int, pt part) bool {
	if it.Kind != kindTurn || k != 1 || it.holder == "" || pt.File {
		return false
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	switch r.c.traits.Fresh {
	case transport.FreshAfterOwn:
		return !it.others
	case transport.FreshAfterAny:
		return !it.others && !it.heard
	}
	return true
}

// replace puts the first part of a reply where the placeholder stands. It may be
// done any number of times.
func (r *run) replace(m *room, l *lane, e entry, p plan, pt part) error {
	it := e.item
	ctx, cancel := r.call(r.c.opts.SendLimit)
	defer cancel()
	err := r.c.platform.Edit(ctx, it.Place, it.holder, transport.Outgoing{Body: pt.Body, Mark: it.mark(1)})
	if err == nil {
		r.worked(m, l)
		return r.sent(m, l, e, p, it.holder)
	}
	fault := transport.AsSendError(err)
	if fault.Fault == transport.Gone {
		// Somebody removed it: the reply comes as a message of its own.
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		it.holder, it.noHold = "", true
		delete(m.live, it)
		return nil
	}
	return r.refused(m, l, e, p, fault)
}

// place is where a part goes.
func (r *run) place(it *item, k int) transport.Place {
	p := it.Place
	if p.Thread != "" || !r.c.traits.RestInThread {
		return p
	}
	if k > 1 {
		p.Thread = it.first
		return p
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if t := r.turns[it.Turn]; t != nil && t != it {
		p.Thread = t.holder
	}
	return p
}

// upload sends a file of the workspace, or a text that was refused as messages.
func (r *run) upload(ctx context.Context, it *item, p transport.Place, k int, pt part, repeat bool) (string, error) {
	up := transport.Upload{Mark: it.mark(k), Repeat: repeat}
	if it.File == nil {
		up.Name, up.Size = "iris-reply.md", int64(len(pt.Body.Source))
		up.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(pt.Body.Source)), nil }
		return r.c.platform.Upload(ctx, p, up)
	}
	if r.c.opts.Open == nil || r.c.traits.NoFiles {
		return "", &transport.SendError{Fault: transport.Refused, Err: errors.New("files cannot be sent here")}
	}
	content, size, err := r.c.opts.Open(it.File.Local)
	if err != nil {
		return "", &transport.SendError{Fault: transport.Refused, Err: err}
	}
	content.Close()
	up.Name, up.Title, up.Size = it.File.Name, it.File.Title, size
	up.Open = func() (io.ReadCloser, error) {
		content, _, err := r.c.opts.Open(it.File.Local)
		return content, err
	}
	return r.c.platform.Upload(ctx, p, up)
}

// sentHold notes a placeholder that was found again when its reply was due.
func (r *run) sentHold(m *room, it *item, id string) error {
	if _, err := r.put(it, line{Sent: &receipt{ID: id}}); err != nil {
		return err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	it.holder, it.tried = id, nil
	m.live[it] = struct{}{}
	return nil
}

// sent notes that the platform has a part.
func (r *run) sent(m *room, l *lane, e entry, p plan, id string) error {
	it := e.item
	k := it.next
	lines := []line{{Sent: &receipt{Part: k, ID: id}}}
	first := it.first
	if k == 1 {
		first = id
	}
	whole := k == len(p.Parts)
	// The placeholder may still have to go, or be written over once more.
	last := whole && it.Kind != kindAsk && (it.holder == "" || it.holder == first && !it.shaky)
	if last {
		lines = append(lines, line{Done: &done{Outcome: outcomeSent}})
	}
	if _, err := r.put(it, lines...); err != nil {
		return err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	it.next, it.tried, it.failures, it.first = k+1, nil, 0, first
	for other := range m.live {
		if other != it && other.Place == it.Place {
			other.others = true
		}
	}
	switch {
	case last:
		r.over(l, e)
	case whole && it.Kind == kindAsk:
		r.left(l, e) // it stays until it is settled
		r.delivered(it)
	case whole && it.holder == first:
		r.confirmLater(m, l, e)
	}
	return nil
}

// confirmLater lets what follows go on while a turn waits for its reply to be
// put there once more. mu must be held.
func (r *run) confirmLater(m *room, l *lane, e entry) {
	e.confirmAt = time.Now().Add(confirmAfter)
	m.live[e.item] = struct{}{}
	r.left(l, e)
}

// retire ends a turn whose parts have all arrived.
func (r *run) retire(m *room, l *lane, e entry) error {
	it := e.item
	if it.holder != "" && it.holder == it.first && it.shaky {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		r.confirmLater(m, l, e)
		return nil
	}
	if it.holder == "" || it.holder == it.first {
		return r.finish(l, e, outcomeSent)
	}
	// The reply came as a message of its own, or there is none.
	ctx, cancel := r.call(r.c.opts.SendLimit)
	defer cancel()
	err := r.c.platform.Delete(ctx, it.Place, it.holder)
	if err != nil {
		fault := transport.AsSendError(err)
		switch {
		case r.failed(m, l, fault):
			return nil
		case fault.Fault != transport.Gone:
			body := r.c.render(transport.View{Show: transport.ShowNotice, Note: "Done"})[0]
			if err := r.c.platform.Edit(ctx, it.Place, it.holder, transport.Outgoing{Body: body, Mark: it.mark(0)}); err != nil {
				r.c.log.Warn("a placeholder stays", "turn", it.Turn, "err", err)
			}
		}
	} else {
		r.worked(m, l)
	}
	return r.finish(l, e, outcomeSent)
}

// confirm puts a reply there once more, after an edit of the progress that may
// have come late.
func (r *run) confirm(m *room, it *item) {
	p, err := r.plan(it)
	if err != nil {
		r.broken(err)
		return
	}
	if len(p.Parts) > 0 {
		ctx, cancel := r.call(r.c.opts.SendLimit)
		defer cancel()
		err := r.c.platform.Edit(ctx, it.Place, it.first, transport.Outgoing{Body: p.Parts[0].Body, Mark: it.mark(1)})
		if err == nil {
			r.worked(m, nil)
		} else if e := transport.AsSendError(err); r.failed(m, nil, e) || e.Fault != transport.Gone && it.failures < closeTries {
			// It was taken before: it will be again.
			r.set(func() {
				it.failures++
				it.confirmAt = time.Now().Add(backoff(it.failures, laneBackoff))
			})
			return
		}
	}
	if _, err := r.put(it, line{Done: &done{Outcome: outcomeSent}}); err != nil {
		r.broken(err)
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	it.confirmAt = time.Time{}
	r.delivered(it)
	r.forget(it)
}

// close takes a question away.
func (r *run) close(m *room, l *lane, e entry) error {
	it := e.item
	if it.first == "" {
		return r.finish(l, e, "moot")
	}
	p, err := r.c.out.plan(it.conv, it.closing)
	if err != nil {
		return err
	}
	ctx, cancel := r.call(r.c.opts.SendLimit)
	defer cancel()
	err = r.c.platform.Edit(ctx, it.Place, it.first, transport.Outgoing{Body: p.Parts[0].Body, Mark: it.mark(1)})
	if err != nil {
		r.set(func() { it.failures++ })
		if r.failed(m, l, transport.AsSendError(err)) && it.failures < closeTries {
			return nil
		}
		r.c.log.Warn("a question stays as it was", "question", it.Ask.ID, "err", err)
	} else {
		r.worked(m, l)
	}
	return r.finish(l, e, "settled")
}

// finish ends an item.
func (r *run) finish(l *lane, e entry, outcome string) error {
	if _, err := r.put(e.item, line{Done: &done{Outcome: outcome}}); err != nil {
		return err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if outcome != outcomeSent {
		r.left(l, e)
		r.forget(e.item)
		return nil
	}
	r.over(l, e)
	return nil
}

// over lets go of an item that has arrived. mu must be held.
func (r *run) over(l *lane, e entry) {
	r.delivered(e.item)
	r.left(l, e)
	r.forget(e.item)
}

func (r *run) delivered(it *item) {
	if r.c.opts.Hooks.Delivered != nil {
		r.c.opts.Hooks.Delivered(string(it.Kind), time.Since(it.At))
	}
}

// giveUp ends an item that will not arrive, and says so.
func (r *run) giveUp(l *lane, e entry, why string) error {
	it := e.item
	if _, err := r.put(it, line{Done: &done{Outcome: why}}); err != nil {
		return err
	}
	what := map[kind]string{kindTurn: "a reply", kindFile: "a file", kindAsk: "a question", kindNotice: "a notice"}[it.Kind]
	log := r.c.log.Warn
	if what != "" {
		log = r.c.log.Error
	}
	log("given up", "conversation", it.conv, "item", it.name, "chat", it.Place.Chat, "why", why)
	if r.c.opts.Hooks.Lost != nil {
		r.c.opts.Hooks.Lost(string(it.Kind))
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if what != "" {
		r.report(it.conv, fmt.Sprintf("%s: %s in %s was not delivered: %s.", r.c.Name(), what, it.conv, oneLine(why, maxReason)))
	}
	r.left(l, e)
	r.forget(it)
	return nil
}
