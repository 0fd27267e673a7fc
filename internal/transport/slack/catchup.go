package slack

import (
	"context"
	"time"
)

// A catchup is where an intake stands in reading what was said while nobody was
// connected. What comes in meanwhile waits until its channel was read, so that
// people see their answers in the order they asked. Guarded by intake.mu.
type catchup struct {
	on, walking bool
	round       int       // grows with every connection
	since       time.Time // what is read begins here
	read        map[string]bool
	// held is what waits, by channel. A channel that has a key is being read.
	held map[string][]job
}

// Bounds of waiting for a channel's history.
const (
	// holdLimit is how long what is said now waits for it; then it goes on
	// without.
	holdLimit = 20 * time.Second
	maxHeld   = 256
	holdPause = time.Second
)

// catchUp begins to read what was said while nobody was connected. While one is
// under way another follows it.
func (in *intake) catchUp() {
	s := in.s
	in.mu.Lock()
	s.mu.Lock()
	since, first := s.marks.Alive, s.first
	s.first, s.behind = false, !first
	if first { // nothing was missed
		s.marks.Alive, s.marks.changed = s.opts.Now(), true
	}
	s.mu.Unlock()
	if first {
		in.mu.Unlock()
		s.saveMarks()
		return
	}
	c := &in.past
	if !c.on {
		c.since = since
	}
	walking := c.walking
	c.on, c.walking, c.read = true, true, map[string]bool{}
	c.round++
	in.mu.Unlock()
	if !walking {
		in.tasks.Go(in.walk)
	}
}

// walk reads all channels until nothing is left to be read.
func (in *intake) walk() {
	s := in.s
	for in.ctx.Err() == nil {
		in.mu.Lock()
		round, since := in.past.round, in.past.since
		in.mu.Unlock()
		began := s.opts.Now()
		err := in.backlog(round, since)
		if err != nil {
			if in.ctx.Err() == nil {
				s.log.Warn("the backlog is read again later", "err", err)
			}
			select {
			case <-time.After(maxBackoff):
			case <-in.ctx.Done():
			}
			continue
		}
		in.mu.Lock()
		c := &in.past
		over := c.round == round
		if over {
			c.on, c.walking, c.read = false, false, nil
			s.mu.Lock()
			s.behind, s.marks.Alive, s.marks.changed = false, began, true
			s.mu.Unlock()
		} else {
			c.since = began
		}
		in.mu.Unlock()
		if over {
			return
		}
	}
}

// backlog submits what was said since a moment, oldest first in every channel.
func (in *intake) backlog(round int, since time.Time) error {
	s := in.s
	channels, err := s.memberOf(in.ctx)
	if err != nil {
		return err
	}
	for _, channel := range channels {
		in.mu.Lock()
		_, reading := in.past.held[channel]
		known := reading || in.past.read[channel]
		in.mu.Unlock()
		if known || !s.listens(channel) {
			continue
		}
		if err := in.readPast(in.ctx, channel, since); err != nil {
			return err
		}
		in.mu.Lock()
		if _, reading := in.past.held[channel]; !reading && in.past.round == round {
			in.past.read[channel] = true
		}
		in.mu.Unlock()
	}
	return nil
}

// readPast submits what was said in a channel since a moment, oldest first. An
// error says that it may work later.
func (in *intake) readPast(ctx context.Context, channel string, since time.Time) error {
	s := in.s
	oldest := since.Add(-overlap)
	if limit := s.opts.Now().Add(-maxBacklog); oldest.Before(limit) {
		oldest = limit
	}
	events, err := s.missed(ctx, channel, stamp(oldest))
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("a channel's history cannot be read", "channel", channel, "err", err)
		}
		if ctx.Err() != nil || sendError(err).Fault == "unreachable" {
			return err
		}
		return nil
	}
	done := make(chan struct{})
	in.put(channel, func() {
		defer close(done)
		for _, ev := range events {
			if err := in.said(ev); err != nil && in.ctx.Err() == nil {
				s.log.Error("a message of the backlog is not kept", "channel", channel, "ts", ev.TS, "err", err)
			}
		}
	})
	select {
	case <-done:
		return nil
	case <-in.ctx.Done():
		return in.ctx.Err()
	}
}

// arrive takes what is said now: in its line, or behind what was said before in
// the channel. It is called by one goroutine at a time.
func (in *intake) arrive(channel string, j job) {
	in.mu.Lock()
	c := &in.past
	held, reading := c.held[channel]
	switch {
	case reading && len(held) >= maxHeld:
		in.mu.Unlock()
		in.s.log.Warn("too much waits for the history; it is left to come again", "channel", channel)
		return
	case !reading && (!c.on || c.read[channel] || !in.s.listens(channel)):
		in.mu.Unlock()
		in.put(channel, j)
		return
	}
	if c.held == nil {
		c.held = map[string][]job{}
	}
	c.held[channel] = append(held, j)
	in.mu.Unlock()
	if !reading {
		in.tasks.Go(func() { in.hurry(channel) })
	}
}

// hurry reads the history of a channel in which something is said now, before
// that of others.
func (in *intake) hurry(channel string) {
	ctx, cancel := context.WithTimeout(in.ctx, holdLimit)
	defer cancel()
	for {
		in.mu.Lock()
		round, since := in.past.round, in.past.since
		in.mu.Unlock()
		err := in.readPast(ctx, channel, since)
		if in.ctx.Err() != nil {
			return
		}
		if ctx.Err() != nil {
			in.s.log.Warn("the history is too slow: what is said now goes first", "channel", channel, "err", err)
			round = -1
		} else if err != nil {
			select {
			case <-time.After(holdPause):
			case <-ctx.Done():
			}
			continue
		}
		if in.pass(channel, round) {
			return
		}
	}
}

// pass lets through what waited for a channel. It returns false if there is more
// to be read first: a connection came after the reading in round. With -1 nothing
// is waited for.
func (in *intake) pass(channel string, round int) bool {
	for {
		in.mu.Lock()
		c := &in.past
		jobs := c.held[channel]
		switch {
		case round >= 0 && c.round != round:
			in.mu.Unlock()
			return false
		case len(jobs) == 0:
			delete(c.held, channel)
			if c.on && round >= 0 {
				c.read[channel] = true
			}
			in.mu.Unlock()
			return true
		}
		c.held[channel] = nil // the key stays
		in.mu.Unlock()
		for _, j := range jobs {
			in.put(channel, j)
		}
	}
}
