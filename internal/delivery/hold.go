package delivery

import (
	"time"

	"github.com/iris-operator/iris/internal/transport"
)

// hold puts up the placeholder of a turn.
func (r *run) hold(m *room, l *lane, e entry) error {
	it := e.item
	lose := func() error {
		if _, err := r.put(it, line{Not: &not{Lost: true}}); err != nil {
			return err
		}
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		it.noHold, it.tried = true, nil
		r.left(l, e)
		return nil
	}
	if it.tried != nil {
		id, repeat, again, err := r.look(m, l, it)
		switch {
		case err != nil || again:
			return err
		case repeat:
			return lose() // two placeholders would be worse than none
		case id != "":
			return r.held(m, l, e, id, "")
		}
		r.set(func() { it.tried = nil })
	}
	r.c.mu.Lock()
	over, note := it.planned != 0 || it.holder != "" || it.noHold, it.Note
	if it.status != "" {
		note = it.status
	}
	r.c.mu.Unlock()
	if over {
		r.leave(l, e)
		return nil
	}
	body := r.c.render(transport.View{Show: transport.ShowProgress, Note: note})[0]
	t := &try{Place: it.Place, At: time.Now()}
	if _, err := r.put(it, line{Try: t}); err != nil {
		return err
	}
	r.set(func() { it.tried = t })
	ctx, cancel := r.call(r.c.opts.SendLimit)
	defer cancel()
	id, perr := r.c.platform.Post(ctx, it.Place, transport.Outgoing{Body: body, Mark: it.mark(0)})
	if perr == nil {
		r.worked(m, l)
		return r.held(m, l, e, id, body.Text)
	}
	fault := transport.AsSendError(perr)
	if !r.failed(m, l, fault) {
		r.c.log.Warn("a placeholder was refused", "turn", it.Turn, "err", perr)
		return lose()
	}
	if !fault.Maybe {
		return r.untry(it, 0)
	}
	return nil
}

// held notes that a placeholder stands.
func (r *run) held(m *room, l *lane, e entry, id, shown string) error {
	if _, err := r.put(e.item, line{Sent: &receipt{ID: id}}); err != nil {
		return err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	e.holder, e.tried, e.shown = id, nil, shown
	m.live[e.item] = struct{}{}
	r.left(l, e)
	return nil
}

// edit brings a placeholder up to date.
func (r *run) edit(m *room, it *item) {
	r.c.mu.Lock()
	note, text := it.status, it.text.text()
	if note == "" {
		note = it.Note
	}
	it.dirty, it.statusAt = false, time.Now()
	r.c.mu.Unlock()
	body := r.c.render(transport.View{Show: transport.ShowProgress, Text: text, Note: note})[0]
	if body.Text == it.shown {
		return
	}
	ctx, cancel := r.call(editLimit)
	defer cancel()
	err := r.c.platform.Edit(ctx, it.Place, it.holder, transport.Outgoing{Body: body, Mark: it.mark(0)})
	if err == nil {
		r.worked(m, nil)
		r.set(func() { it.shown = body.Text })
		return
	}
	e := transport.AsSendError(err)
	passing := r.failed(m, nil, e)
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	it.shaky = it.shaky || e.Maybe
	switch {
	case passing:
		it.dirty = true // with what is new by then
		it.failures++
		it.statusAt = time.Now().Add(backoff(it.failures, downBackoff))
	case e.Fault == transport.Gone:
		it.holder, it.noHold = "", true
		delete(m.live, it)
	default:
		it.mute = true
	}
}
