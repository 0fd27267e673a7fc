package agentcli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/chat"
)

// A conversation is one of a project: its record, its process and its turn. It is
// in memory while somebody refers to it or a process lives.
type conversation struct {
	r    *Runner
	addr chat.Address

	refs int // guarded by Runner.mu

	// mu guards the fields below.
	mu     sync.Mutex
	loaded bool
	rec    record
	live   *proc // nil: none that takes messages
	last   *proc // the one that took them last; what of it is left may still be ending
	turn   *run  // nil: none runs
	active time.Time
	// chats are texts of work that no turn asked for.
	chats []string
}

// acquire returns a conversation; the caller must release it.
func (r *Runner) acquire(conv chat.Address) *conversation {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.convs[conv]
	if c == nil {
		c = &conversation{r: r, addr: conv}
		r.convs[conv] = c
	}
	c.refs++
	return c
}

func (r *Runner) release(c *conversation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.refs--; c.refs == 0 {
		delete(r.convs, c.addr)
	}
}

// open lists the conversations in memory.
func (r *Runner) open() []*conversation {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*conversation, 0, len(r.convs))
	for _, c := range r.convs {
		list = append(list, c)
	}
	return list
}

// load reads the record, once. mu must be held.
func (c *conversation) load() error {
	if c.loaded {
		return nil
	}
	rec, err := c.r.shelf.load(c.addr)
	if err != nil {
		return err
	}
	c.rec, c.loaded = rec, true
	return nil
}

// change edits the record and puts it on disk. The record in memory changes only
// if that succeeds.
func (c *conversation) change(edit func(*record)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return err
	}
	next := c.rec
	next.Past, next.Now.Last = slices.Clone(next.Past), slices.Clone(next.Now.Last)
	edit(&next)
	if err := c.r.shelf.save(c.addr, next); err != nil {
		return err
	}
	c.rec = next
	return nil
}

// view returns the record.
func (c *conversation) view() (record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.load()
	return c.rec, err
}

func (c *conversation) dir(rec record) string {
	if rec.Dir != "" {
		return rec.Dir
	}
	return c.r.project.WorkDir
}

func (c *conversation) mode(rec record) Mode {
	if rec.Mode != "" {
		return rec.Mode
	}
	return c.r.project.Mode
}

func (c *conversation) model(rec record) string {
	if rec.Model != "" {
		return rec.Model
	}
	return c.r.project.Model
}

// touch says that something has happened.
func (c *conversation) touch() {
	now := c.r.pool.opts.Now()
	c.mu.Lock()
	c.active = now
	c.mu.Unlock()
}

// process returns the process that takes messages, nil if there is none.
func (c *conversation) process() *proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

// choose makes sure that the record has a session, on disk before a process is
// started for it: whatever happens then, it can be found again. again says that
// there was one before.
func (c *conversation) choose() (rec record, again bool, err error) {
	rec, err = c.view()
	if err != nil || rec.Session != "" {
		return rec, true, err
	}
	id := uuid.NewString()
	err = c.change(func(r *record) { r.Session, r.Known = id, false })
	rec.Session, rec.Known = id, false
	return rec, false, err
}

// named notes what the program calls its session.
func (c *conversation) named(id string) {
	if rec, err := c.view(); id == "" || err != nil || rec.Known && rec.Session == id {
		return
	}
	if err := c.change(func(r *record) { r.Session, r.Known = id, true }); err != nil {
		c.r.pool.log.Error("the session of a conversation is not kept", "conversation", c.addr, "project", c.r.project.Name, "err", err)
	}
}

// alone returns when nothing is left of the process before: two of them would write
// to one session.
func (c *conversation) alone(ctx context.Context) error {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last == nil {
		return nil
	}
	select {
	case <-last.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close ends the process, if there is one, and returns when nothing of it is left.
func (c *conversation) close() {
	if p := c.process(); p != nil {
		p.end()
	}
}

// renew has the next message start a new process. One that is at work is returned,
// and ends before that message; another ends at once.
func (c *conversation) renew() *proc {
	c.mu.Lock()
	p, busy := c.live, c.turn != nil
	if p != nil {
		p.stale = true
	}
	c.mu.Unlock()
	switch {
	case p == nil:
		return nil
	case busy:
		return p
	}
	p.end()
	return nil
}

// fit returns the process if it takes the next message; a stale one is ended.
func (c *conversation) fit() *proc {
	c.mu.Lock()
	p := c.live
	stale := p != nil && p.stale
	c.mu.Unlock()
	switch {
	case p == nil || p.ended():
		return nil
	case stale:
		p.end()
		return nil
	}
	return p
}

// reap ends a process that has been idle for too long. One with a turn is at
// work, and so is one that waits for an answer.
func (c *conversation) reap(ctx context.Context) {
	opts := &c.r.pool.opts
	if opts.Idle < 0 {
		return
	}
	now := opts.Now()
	c.mu.Lock()
	p, idle := c.live, now.Sub(c.active)
	due := p != nil && c.turn == nil && idle >= opts.Idle
	if due {
		c.live = nil // a message that comes now waits for its end, and gets the next
	}
	c.mu.Unlock()
	if !due {
		return
	}
	if err := c.change(func(r *record) { r.Paused = true }); err != nil {
		c.r.pool.log.Error("that a session is paused is not kept", "conversation", c.addr, "err", err)
	}
	p.end()
	c.r.pool.tell(ctx, c.addr, fmt.Sprintf("_%s is paused after %s without a message; the next one resumes it._", c.r.project.agent(), minutes(idle)))
}

func minutes(d time.Duration) string {
	n := int(d / time.Minute)
	if n == 1 {
		return "1 minute"
	}
	return fmt.Sprintf("%d minutes", n)
}
