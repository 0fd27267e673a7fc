package delivery

import (
	"context"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// kick sees to it that a chat gets its next call: now, or when it is due. mu
// must be held; pump is to follow.
func (r *run) kick(m *room) {
	if m.working || m.queued || !r.started {
		return
	}
	at, ok := r.due(m)
	if !ok {
		return
	}
	if wait := time.Until(at); wait > 0 {
		if m.timer != nil {
			m.timer.Stop()
		}
		m.timer = time.AfterFunc(wait, func() {
			r.c.mu.Lock()
			defer r.c.mu.Unlock()
			r.kick(m)
			r.pump()
		})
		return
	}
	m.queued = true
	r.ready = append(r.ready, m)
}

// due is when a chat may make its next call, if it has one to make. mu must be
// held.
func (r *run) due(m *room) (at time.Time, ok bool) {
	earliest := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	for _, l := range m.lanes {
		if len(l.entries) > 0 {
			earliest(later(l.notBefore, m.bucket.at(0)))
		}
	}
	for it := range m.live {
		switch {
		case !it.confirmAt.IsZero():
			earliest(later(it.confirmAt, m.bucket.at(0)))
		case r.stale(it):
			earliest(later(it.statusAt.Add(r.c.opts.StatusEvery), m.bucket.at(1)))
		}
	}
	return later(at, m.until), ok
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stale reports that a placeholder should say something else. mu must be held.
func (r *run) stale(it *item) bool {
	return it.dirty && it.planned == 0 && it.holder != "" && !it.mute
}

// pump starts calls as long as there are chats that wait for one. mu must be
// held.
func (r *run) pump() {
	if !r.started || r.ctx.Err() != nil {
		return
	}
	for len(r.ready) > 0 && r.active < r.c.opts.MaxCalls {
		now := time.Now()
		at := later(r.until, r.budget.at(0))
		if wait := at.Sub(now); wait > 0 {
			if r.timer != nil {
				r.timer.Stop()
			}
			r.timer = time.AfterFunc(wait, func() {
				r.c.mu.Lock()
				defer r.c.mu.Unlock()
				r.pump()
			})
			break
		}
		if r.why != nil && r.active > 0 {
			break // one call finds out whether the platform is back
		}
		m := r.ready[0]
		r.ready[0] = nil
		r.ready = r.ready[1:]
		m.queued = false
		call := r.pick(m, now)
		if call == nil {
			r.kick(m)
			continue
		}
		m.working = true
		m.bucket.take(now)
		r.budget.take(now)
		r.active++
		r.calls.Go(func() {
			call()
			r.c.mu.Lock()
			defer r.c.mu.Unlock()
			m.working = false
			r.active--
			r.kick(m)
			r.pump()
			r.checkIdle()
		})
	}
	if len(r.ready) == 0 {
		r.ready = nil
	}
}

// pick chooses the next call of a chat: what waits in its lanes, replies first;
// else a placeholder that should say something else. mu must be held.
func (r *run) pick(m *room, now time.Time) func() {
	if m.until.After(now) || m.bucket.at(0).After(now) {
		return nil
	}
	var best *lane
	for _, l := range m.lanes {
		if len(l.entries) == 0 || l.notBefore.After(now) {
			continue
		}
		if best == nil || before(l.entries[0], best.entries[0]) {
			best = l
		}
	}
	if best != nil {
		e := best.entries[0]
		return func() { r.step(m, best, e) }
	}
	var oldest *item
	for it := range m.live {
		if !it.confirmAt.IsZero() {
			if !it.confirmAt.After(now) {
				return func() { r.confirm(m, it) }
			}
			continue
		}
		if !r.stale(it) || it.statusAt.Add(r.c.opts.StatusEvery).After(now) || m.bucket.at(1).After(now) {
			continue
		}
		if oldest == nil || it.statusAt.Before(oldest.statusAt) {
			oldest = it
		}
	}
	if oldest != nil {
		return func() { r.edit(m, oldest) }
	}
	return nil
}

func before(a, b entry) bool {
	if x, y := a.rank(), b.rank(); x != y {
		return x < y
	}
	return a.order < b.order
}

// call bounds one call of the platform.
func (r *run) call(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.ctx, limit)
}

// The pauses after failures.
const (
	laneBackoff = 2 * time.Minute
	downBackoff = time.Minute
	authBackoff = 5 * time.Minute
	// settleTime is how long a lost answer gets to turn up before it is asked
	// for.
	settleTime = 2 * time.Second
	// keptPause is from what length on a pause is remembered over a restart,
	// which takes about that long.
	keptPause = 3 * time.Second
	// downAt is in how many chats in a row calls must fail for the platform to
	// count as out.
	downAt = 3
)

// worked notes a success.
func (r *run) worked(m *room, l *lane) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	m.limits = 0
	if l != nil {
		l.strikes, l.notBefore = 0, time.Time{}
	}
	if r.why != nil {
		r.c.log.Info("delivering again", "after", time.Since(r.since), "waiting", r.open)
	}
	r.why, r.strikes, r.unauth = nil, 0, false
	clear(r.failing)
}

// failed notes a failure that is nobody's fault here, and decides when there is
// another call: in the lane, in the chat, anywhere. It reports whether the
// failure was of that kind.
func (r *run) failed(m *room, l *lane, e *transport.SendError) bool {
	if r.c.opts.Hooks.Failed != nil {
		r.c.opts.Hooks.Failed(e.Fault)
	}
	p := pause{Chat: m.place.Chat}
	defer func() {
		// Written when mu is free again.
		if time.Until(p.Until) > keptPause {
			r.broken(r.c.out.keep(p, false))
		}
	}()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	now := time.Now()
	switch e.Fault {
	case transport.Limited:
		m.limits++
		wait := e.After
		if wait <= 0 {
			wait = backoff(m.limits, downBackoff)
		}
		// The platform counts whole seconds, and its clock is not ours.
		at := now.Add(wait + 100*time.Millisecond)
		if m.until, p.Until = later(m.until, at), at; e.Everywhere {
			r.until, p.Chat = later(r.until, at), ""
		}
	case transport.Unauthorized:
		r.strikes++
		r.down(e, now.Add(backoff(r.strikes+4, authBackoff)))
		if !r.unauth {
			r.unauth = true
			r.report(chat.Address{}, r.c.Name()+" does not accept the credentials any more: nothing is delivered there until they are replaced.")
		}
	case transport.Unreachable:
		if l != nil {
			l.strikes++
			l.notBefore = now.Add(max(backoff(l.strikes, laneBackoff), e.After))
			if e.Maybe {
				l.notBefore = later(l.notBefore, now.Add(settleTime))
			}
		}
		r.failing[m.place.Chat] = true
		if r.why != nil || len(r.failing) >= downAt {
			r.strikes++
			r.down(e, now.Add(backoff(r.strikes, downBackoff)))
		}
	default:
		return false
	}
	r.c.log.Debug("a call failed", "chat", m.place.Chat, "fault", e.Fault, "err", e.Err)
	return true
}

// down notes that the platform is out. mu must be held.
func (r *run) down(e *transport.SendError, until time.Time) {
	if r.why == nil {
		r.since = time.Now()
		r.c.log.Warn("not delivering: the platform is out", "err", e)
	}
	r.why, r.until = e, later(r.until, until)
}
