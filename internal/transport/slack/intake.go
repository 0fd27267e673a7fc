package slack

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// An intake takes envelopes: those of one channel in order, behind what was said
// there before; others side by side.
type intake struct {
	s     *Slack
	ctx   context.Context
	lines []chan job
	tasks *sync.WaitGroup

	// mu guards the field below. It is taken before Slack.mu.
	mu   sync.Mutex
	past catchup
}

// A job is an envelope, or what the history tells.
type job func()

// waitingJobs is what one line holds before the connection waits for it.
const waitingJobs = 256

func newIntake(s *Slack, ctx context.Context, tasks *sync.WaitGroup) *intake {
	in := &intake{s: s, ctx: ctx, tasks: tasks, lines: make([]chan job, s.opts.Workers)}
	for i := range in.lines {
		line := make(chan job, waitingJobs)
		in.lines[i] = line
		tasks.Go(func() {
			for {
				select {
				case j := <-line:
					j()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return in
}

// put hands a job to the line of a channel.
func (in *intake) put(channel string, j job) {
	h := fnv.New32a()
	h.Write([]byte(channel)) // never fails
	select {
	case in.lines[h.Sum32()%uint32(len(in.lines))] <- j:
	case <-in.ctx.Done():
	}
}

// take deals with one envelope, in its line.
func (in *intake) take(l *link, f frame) {
	e, err := parseEnvelope(f)
	if err != nil {
		in.s.log.Warn("an envelope that cannot be read", "type", f.Type, "err", err)
		l.ack(f, nil)
		return
	}
	put := in.put
	if e.event != nil {
		put = in.arrive
	}
	put(e.channel, func() { in.envelope(l, f, e) })
}

// envelope acts on an envelope and acknowledges it, once: when what is to be kept
// of it is on disk. What cannot be kept is left to come again.
func (in *intake) envelope(l *link, f frame, e envelope) {
	var answer any
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				in.s.log.Error("an envelope is a defect", "type", f.Type, "panic", r, "stack", string(debug.Stack()))
				err = nil // it would be one again
			}
		}()
		switch {
		case e.event != nil:
			return in.event(e.event)
		case e.slash != nil:
			answer, err = in.slash(f.Envelope, e.slash)
			return err
		case e.press != nil:
			return in.press(e.press)
		}
		return nil
	}()
	if err != nil {
		in.s.log.Error("not kept, and not acknowledged", "envelope", f.Envelope, "type", f.Type, "err", err)
		return
	}
	l.ack(f, answer)
}

// event takes what somebody said, or that somebody is new here.
func (in *intake) event(ev *event) error {
	switch ev.Type {
	case "message", "app_mention":
		if ev.Type == "app_mention" && ev.direct() {
			return nil // its message event is enough
		}
		return in.said(ev)
	case "team_join", "user_change", "channel_created", "channel_rename", "member_joined_channel":
		in.s.people.refresh()
	}
	return nil
}

// said submits a message.
func (in *intake) said(ev *event) error {
	s := in.s
	me := s.self()
	if !s.listens(ev.Channel) || !ev.counts(me) || ev.bot() && !s.opts.Channel(ev.Channel).Bots() {
		return nil
	}
	sub := ev.submission(me, s.people.person)
	age := s.opts.Now().Sub(sub.Message.At)
	if sub.Late = age > s.opts.LateAfter; sub.Late {
		sub.Stale = age > s.opts.MaxAge
		sub.Message.Prompt = fmt.Sprintf("[This message is %s old: nobody was listening when it was sent. It is answered late.]\n%s", roughly(age), sub.Message.Text)
	}
	fetch, err := s.expect(ev, &sub)
	if err != nil {
		return err
	}
	receipt, err := in.submit(sub)
	place := transport.Place{Chat: ev.Channel, Thread: ev.thread()}
	switch {
	case errors.Is(err, transport.ErrBusy):
		s.tell(place, in.crowded(sub))
		return nil
	case errors.Is(err, transport.ErrUnknownRunner):
		s.tell(place, "_"+err.Error()+"_")
		return nil
	case errors.Is(err, chat.ErrBadID):
		s.log.Warn("a message of nowhere", "channel", ev.Channel, "err", err)
		return nil
	case err != nil:
		return err
	}
	s.seen(ev.Channel, ev.thread())
	if receipt.Outcome != transport.Ignored {
		for _, f := range fetch {
			s.addDownload(f)
		}
	}
	switch {
	case receipt.Duplicate:
	case receipt.Outcome == transport.Commanded:
		s.tell(place, receipt.Reply.Text)
	case sub.Stale && (sub.Direct || sub.Mention):
		place.Thread = firstOf(place.Thread, sub.Message.ID)
		s.tell(place, fmt.Sprintf("_This came %s ago, when I was not there. Please say it again if it still matters._", roughly(age)))
	}
	return nil
}

// tries is how often something is submitted before Slack has to send it again.
const tries = 3

// submit repeats a submission whose fate is not known.
func (in *intake) submit(sub transport.Submission) (r transport.Receipt, err error) {
	for i := range tries {
		r, err = in.s.opts.Inbox.Submit(in.ctx, sub)
		if err == nil || in.ctx.Err() != nil || errors.Is(err, transport.ErrBusy) || errors.Is(err, transport.ErrClosing) ||
			errors.Is(err, transport.ErrUnknownRunner) || errors.Is(err, chat.ErrBadID) {
			break
		}
		select {
		case <-time.After(time.Duration(i+1) * 100 * time.Millisecond):
		case <-in.ctx.Done():
		}
	}
	return r, err
}

// crowded is what a person reads whose message finds the queue full.
func (in *intake) crowded(sub transport.Submission) string {
	ch := in.s.opts.Channel(sub.Address.ID)
	switch {
	case ch.Quiet():
		in.s.log.Warn("the queue is full", "channel", sub.Address.ID)
		return ""
	case ch.Sessions() && !sub.Direct:
		return "_Too many messages queued. Please wait._"
	}
	return "_Too many messages queued. Say `stop` to cancel._"
}

// press takes a button.
func (in *intake) press(p *press) error {
	s := in.s
	if !s.listens(p.Channel.ID) {
		return nil
	}
	var conv chat.Address
	ask, yes, choice, ok := p.answer()
	if v := p.value(); v != "" {
		ask, yes, ok, conv = v, true, true, chat.Address{Space: chat.Slack, ID: p.Channel.ID}
	}
	if !ok {
		return nil
	}
	from := s.people.person(p.User.ID)
	from.Name = firstOf(from.Name, p.User.Username, p.User.Name)
	_, err := s.opts.Inbox.Answer(in.ctx, transport.Answer{Ask: ask, Conversation: conv, From: from, Yes: yes, Choice: choice, At: s.opts.Now(), Thread: p.Message.Thread})
	switch {
	case errors.Is(err, transport.ErrNotAllowed):
		s.whisper(in.ctx, p.Channel.ID, p.User.ID, p.Message.Thread, "You may not answer this; it still waits for somebody who may.")
	case errors.Is(err, transport.ErrUnknownAsk):
		s.whisper(in.ctx, p.Channel.ID, p.User.ID, p.Message.Thread, "This question is over.")
	case errors.Is(err, transport.ErrBusy):
		s.whisper(in.ctx, p.Channel.ID, p.User.ID, p.Message.Thread, "Too many messages queued. Please try again in a moment.")
	case err != nil:
		return err
	}
	return nil
}

// roughly is a time as people say it.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}
