package delivery

import (
	"cmp"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// recover makes what was open again from the outbox and returns the place in
// the journal to go on from.
func (r *run) recover() (cursor int64, err error) {
	type waits struct {
		seq   int64
		it    *item
		stage stage
	}
	items := map[string]*item{}
	turns := map[chat.Address][]*item{}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	pauses := map[string]pause{}
	cursor, err = r.c.out.load(func(conv chat.Address, seq int64, l line, open bool) {
		it := items[l.Item]
		if l.Open != nil && open && it == nil {
			it = &item{name: l.Item, conv: conv, opening: *l.Open, next: 1}
			if items[l.Item] = it; it.Plan != nil {
				it.planned, it.since, it.Plan = seq, it.At, nil
			}
			if it.Kind == kindTurn {
				turns[conv] = append(turns[conv], it)
			}
			return
		}
		if l.Sent != nil {
			// Whatever it belonged to, it came below the placeholders there were.
			for _, other := range turns[conv] {
				other.others = other.others || other != it && other.holder != ""
			}
		}
		if it == nil {
			return
		}
		switch {
		case l.Plan != nil && l.Plan.Closing:
			it.closing = seq
		case l.Plan != nil:
			if it.planned = seq; it.Kind == kindTurn {
				it.since = l.Plan.At
			}
		case l.Try != nil:
			it.tried = l.Try
		case l.Not != nil:
			it.tried = nil
			it.noHold = it.noHold || l.Not.Lost
		case l.Sent != nil && l.Sent.Part == 0:
			it.tried, it.holder = nil, l.Sent.ID
		case l.Sent != nil:
			if it.tried, it.next = nil, l.Sent.Part+1; l.Sent.Part == 1 {
				it.first = l.Sent.ID
			}
		}
	}, func(p pause) { pauses[p.Chat] = p })
	if err != nil {
		return 0, err
	}
	for _, p := range pauses {
		switch {
		case !p.Until.After(time.Now()):
			if err := r.c.out.keep(p, true); err != nil {
				return 0, err
			}
		case p.Chat == "":
			r.until = p.Until
		default:
			r.room(transport.Place{Chat: p.Chat}).until = p.Until
		}
	}
	var all []waits
	for _, it := range items {
		r.open++
		switch {
		case it.Kind == kindTurn:
			r.turns[it.Turn] = it
			// An edit of the last process may still be on its way.
			if it.shaky = true; it.holder != "" {
				r.room(it.Place).live[it] = struct{}{}
			}
			switch {
			case it.planned != 0:
				all = append(all, waits{it.planned, it, stageSend})
			case it.tried != nil:
				all = append(all, waits{it.planned, it, stageHold})
			}
		case it.Ask != nil:
			r.asks[it.Ask.ID] = it
			switch {
			case it.closing != 0:
				all = append(all, waits{it.closing, it, stageClose})
			case it.first == "":
				all = append(all, waits{it.planned, it, stageSend})
			}
		default:
			all = append(all, waits{it.planned, it, stageSend})
		}
	}
	slices.SortFunc(all, func(a, b waits) int { return cmp.Compare(a.seq, b.seq) })
	for _, w := range all {
		r.enqueue(w.it, w.stage)
	}
	if len(items) > 0 {
		r.c.log.Info("deliveries go on", "open", len(items), "waiting", len(all))
	}
	return cursor, nil
}
