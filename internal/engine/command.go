package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// What people read.
const (
	saidStopping   = "_Stopping..._"
	saidIdle       = "_Nothing running_"
	saidBusy       = "_Can't compact while running — say `stop` to cancel._"
	saidCompacting = "_Compacting context..._"
	saidCompacted  = "_Compaction complete_"
	saidClearing   = "_Clearing context..._"
	saidCleared    = "_Context cleared — starting fresh_"
	saidHelp       = "`stop` ends the running turn · `compact` shortens the context · `reset` starts afresh · " +
		"`verbose on|off|status` shows tool calls · anything else is for me"
)

// errRefused marks a reply that says why nothing was done.
var errRefused = errors.New("the command was refused")

// Command acts on a conversation. Stop returns at once; the turn still ends
// with its terminal event, carrying what text there is, and turns that wait
// stay in the queue. With Command.Turn, Stop ends that turn alone, also a
// waiting one. Compact is refused while a turn runs or waits. Reset stops the
// running turn, waits for its end and then forgets the context; waiting turns
// run after it, in the new one. Compact and Reset return when they are done, or
// with ctx, and then go on; both tell their result in a Notice, which
// Reply.Text repeats.
func (e *Engine) Command(ctx context.Context, c transport.Command) (transport.Reply, error) {
	if err := e.await(ctx); err != nil {
		return transport.Reply{}, err
	}
	if err := checkAddress(c.Conversation); err != nil {
		return transport.Reply{}, err
	}
	reply, t, err := e.command(ctx, c)
	if err != nil || t == nil {
		if errors.Is(err, errRefused) {
			err = nil
		}
		return reply, err
	}
	select {
	case <-t.done:
	case <-e.over:
		return reply, transport.ErrClosing
	case <-ctx.Done():
		return reply, ctx.Err()
	}
	reply.Text = t.end.Text
	return reply, t.err
}

// Line acts on a text as a command of a conversation with an agent program, as if
// it had been said there; ok is false if it is none, or nobody's like that answers
// there. It is for ways in where texts are not commands by themselves.
func (e *Engine) Line(ctx context.Context, conv chat.Address, from chat.Person, text string) (reply transport.Reply, ok bool, err error) {
	if err := e.await(ctx); err != nil {
		return reply, false, err
	}
	said, ok := route.ProgramLine(e.opts.Snapshot(conv), text)
	if !ok {
		return reply, false, nil
	}
	reply, err = e.Command(ctx, transport.Command{Conversation: conv, Verb: said.Verb, Argument: said.Argument, From: from})
	if err != nil && reply.Text == "" && ctx.Err() == nil && !errors.Is(err, transport.ErrClosing) {
		reply.Text, err = "_"+err.Error()+"_", nil
	}
	return reply, true, err
}

// Answer settles a question that was put to people.
func (e *Engine) Answer(ctx context.Context, a transport.Answer) (transport.Reply, error) {
	if e.opts.Answer == nil {
		return transport.Reply{}, transport.ErrUnknownAsk
	}
	return e.opts.Answer(ctx, a)
}

// command starts what was asked for. When that takes time it returns the job,
// whose end.Text is its result in one line.
func (e *Engine) command(ctx context.Context, c transport.Command) (transport.Reply, *task, error) {
	switch c.Verb {
	case transport.Stop:
		return e.stop(c.Conversation, c.Turn), nil, nil
	case transport.Fail:
		running := e.fell(c.Conversation, c.Turn, &runner.Error{Code: c.Code, Text: c.Argument})
		return transport.Reply{Running: running}, nil, nil
	case transport.Compact:
		return e.compact(c.Conversation)
	case transport.Reset:
		return e.reset(c.Conversation)
	case transport.Help, transport.Status, transport.Usage, transport.Mode, transport.Model, transport.Sessions,
		transport.Resume, transport.Switch, transport.Restart, transport.Unknown:
		if e.opts.Program != nil {
			if text, ok, err := e.opts.Program(ctx, c); ok || err != nil {
				return transport.Reply{Text: text, Running: e.Running(c.Conversation)}, nil, err
			}
		}
		if c.Verb != transport.Help {
			break
		}
		return transport.Reply{Text: saidHelp, Running: e.Running(c.Conversation)}, nil, nil
	case transport.Verbose:
		if e.opts.Verbose == nil {
			return transport.Reply{}, nil, errors.New("verbose cannot be set here")
		}
		text, err := e.opts.Verbose(ctx, c.Conversation, c.Argument)
		return transport.Reply{Text: text, Running: e.Running(c.Conversation)}, nil, err
	}
	return transport.Reply{}, nil, fmt.Errorf("no such command: %q", c.Verb)
}

func (e *Engine) stop(conv chat.Address, id turn.ID) transport.Reply {
	e.mu.Lock()
	l := e.lanes[conv]
	var t *task
	switch {
	case l == nil:
	case id != "":
		if t = e.turns[id]; t != nil && t.lane != l {
			t = nil
		}
	case l.running != nil:
		t = l.running // or what its runner still does after the end
	case len(l.queue) > 0:
		t = l.queue[0] // about to run
	}
	if t == nil || !e.live(t) && len(l.queue) == 0 {
		running := l != nil && e.live(l.running)
		e.mu.Unlock()
		if t != nil {
			t.cancel(runner.ErrStopped)
		}
		return transport.Reply{Text: saidIdle, Running: running}
	}
	removed := t != l.running && id != "" && l.remove(t)
	running := l.running == nil || e.live(l.running) // nil: the first of the queue is about to run
	if removed {
		l.refs++
	}
	e.mu.Unlock()
	t.cancel(runner.ErrStopped)
	if removed {
		defer e.release(l)
		// Nobody else can end it now.
		<-t.ready
		if !t.lost {
			a := &attempt{e: e, t: t}
			a.conclude(nil)
		}
	}
	return transport.Reply{Text: saidStopping, Running: running}
}

// conversational returns the runner of conv if it keeps a context.
func (e *Engine) conversational(conv chat.Address) (runner.Conversational, bool) {
	snap := e.opts.Snapshot(conv)
	name := cmp.Or(snap.Talks, snap.Runner, snap.Default)
	r, ok := e.runner(name).(runner.Conversational)
	return r, ok
}

func (e *Engine) compact(conv chat.Address) (transport.Reply, *task, error) {
	r, ok := e.conversational(conv)
	if !ok {
		return transport.Reply{Text: "_There is no context to compact here_"}, nil, errRefused
	}
	t := e.newJob(conv, "compact", func(ctx context.Context) (string, error) {
		line, err := r.Compact(ctx, conv)
		switch {
		case err != nil && context.Cause(ctx) != nil:
			line = "_Compaction stopped_"
		case err != nil:
			line = "_Compaction failed: " + err.Error() + "_"
		case line == "":
			line = saidCompacted
		}
		return line, errors.Join(err, e.Notice(context.Background(), conv, line))
	})
	defer e.release(t.lane)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closing:
		return transport.Reply{}, nil, transport.ErrClosing
	case e.busy(t.lane):
		return transport.Reply{Text: saidBusy, Running: true}, nil, errRefused
	}
	e.enqueue(t.lane, t, false)
	return transport.Reply{Text: saidCompacting}, t, nil
}

func (e *Engine) reset(conv chat.Address) (transport.Reply, *task, error) {
	r, ok := e.conversational(conv)
	t := e.newJob(conv, "reset", func(ctx context.Context) (string, error) {
		if ok {
			if err := r.Reset(ctx, conv); err != nil {
				line := "_The context was not cleared: " + err.Error() + "_"
				return line, errors.Join(err, e.Notice(context.Background(), conv, line))
			}
		}
		if e.opts.Hooks.Cleared != nil {
			e.opts.Hooks.Cleared(conv)
		}
		_, err := e.record(context.Background(), conv, "", turn.Record{Notice: &turn.Notice{Text: saidCleared, At: e.opts.Now(), Reset: true}})
		return saidCleared, err
	})
	defer e.release(t.lane)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return transport.Reply{}, nil, transport.ErrClosing
	}
	running := t.lane.running
	for _, q := range append(t.lane.queue[:len(t.lane.queue):len(t.lane.queue)], running) {
		if q != nil && q.jobKind == "reset" {
			return transport.Reply{Text: saidClearing, Running: true}, q, nil // one is enough
		}
	}
	e.enqueue(t.lane, t, true)
	if running != nil {
		running.cancel(runner.ErrStopped)
	}
	return transport.Reply{Text: saidClearing, Running: e.live(running)}, t, nil
}

// newJob makes a task for the lane of conv, which the caller must release.
func (e *Engine) newJob(conv chat.Address, kind string, f func(context.Context) (string, error)) *task {
	t := newTask(e.acquire(conv))
	t.jobKind, t.job = kind, f
	close(t.ready)
	return t
}
