package agentcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// A proc is one process of a program: one generation of a conversation.
type proc struct {
	c        *conversation
	instance string
	setup    Setup
	env      []string
	// again is whether it was started for a session that there was.
	again bool
	agent Agent
	tree  *process.Tree
	in    *os.File
	out   *os.File
	errs  *os.File
	// read is closed when the program's output has ended, and readErr set before;
	// over when nothing of it is left.
	read    chan struct{}
	readErr error
	over    chan struct{}
	ending  sync.Once
	// stale: a new process takes the next message; guarded by conversation.mu.
	stale bool
	// heard is closed when the standard error has ended.
	heard chan struct{}

	// mu guards the field below.
	mu   sync.Mutex
	tail []byte // of the standard error
}

// failure is an error with a sentence for people.
func failure(err error, format string, args ...any) error {
	return &runner.Error{Code: turn.CodeFailed, Text: fmt.Sprintf(format, args...), Err: err}
}

// start starts a process for a conversation that has none, and opens its session.
// A session that the program does not know gives ErrNoSession.
func (c *conversation) start(ctx context.Context) (*proc, error) {
	pool, project := c.r.pool, &c.r.project
	if err := c.alone(ctx); err != nil {
		return nil, err
	}
	rec, again, err := c.choose()
	if err != nil {
		return nil, failure(err, "The session of this conversation could not be read or kept; the log says more.")
	}
	p := &proc{c: c, instance: pool.instance(), again: again, read: make(chan struct{}), over: make(chan struct{}), heard: make(chan struct{})}
	if err := p.prepare(rec); err != nil {
		return nil, err
	}
	if err := p.launch(); err != nil {
		return nil, err
	}
	c.r.acquire(c.addr) // the process's own, until it has ended
	admitted := pool.admit(p)
	go p.listen()
	if !admitted {
		p.end()
		return nil, runner.ErrLeaving
	}
	pool.log.Info("an agent's process was started", "project", project.Name, "conversation", c.addr, "instance", p.instance, "pid", p.tree.Pid(), "session", rec.Session, "again", again)
	c.mu.Lock()
	c.live, c.last, c.active = p, p, pool.opts.Now()
	c.mu.Unlock()
	open, cancel := context.WithTimeout(ctx, pool.opts.OpenLimit)
	defer cancel()
	stop := context.AfterFunc(open, func() { p.closeInput() })
	defer stop()
	err = p.agent.Open(open)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, ErrNoSession) && again:
		p.end()
		return nil, ErrNoSession
	}
	ended := p.ended()
	p.end()
	why, unknown := p.explain()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case unknown && again:
		return nil, ErrNoSession
	case why != "":
		return nil, failure(err, "%s could not be started: %s", project.agent(), why)
	case ended || errors.Is(err, ErrGone):
		return nil, p.death("before it was ready")
	case errors.Is(open.Err(), context.DeadlineExceeded):
		return nil, failure(err, "%s was not ready within %s.", project.agent(), pool.opts.OpenLimit)
	}
	return nil, failure(err, "%s could not be started: %v.", project.agent(), err)
}

// prepare finds the program and its directories.
func (p *proc) prepare(rec record) error {
	c := p.c
	pool, project := c.r.pool, &c.r.project
	p.env = Environ(pool.opts.Environ, project.PassEnv...)
	bin, err := Find(project.Bin, value(p.env, "PATH"))
	if err != nil {
		return failure(err, "%s could not be started: there is no program %s.", project.agent(), project.Bin)
	}
	dir := c.dir(rec)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return failure(err, "%s could not be started: its work directory %s is not there.", project.agent(), dir)
	}
	if rec.Dir != "" && !within([]string{project.WorkDir}, resolve(dir)) {
		return failure(nil, "%s could not be started: %s is not below %s any more; /switch names another directory.", project.agent(), dir, project.WorkDir)
	}
	scratch := filepath.Join(c.r.shelf.dir, c.addr.Channel()+".d")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return failure(err, "%s could not be started; the log says more.", project.agent())
	}
	p.setup = Setup{Bin: bin, WorkDir: dir, Mode: c.mode(rec), Model: c.model(rec), Scratch: scratch, Args: project.Args}
	if p.again {
		p.setup.Session = rec.Session
	} else {
		p.setup.Fresh = rec.Session
	}
	if project.System != nil {
		p.setup.System = project.System(c.addr)
	}
	p.contract()
	if project.Readable != nil {
		p.setup.Readable = project.Readable(c.addr)
	}
	return nil
}

// Find looks for a program as a shell would: by its path, or by its name in the
// absolute directories of a PATH.
func Find(name, path string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, executable(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if full := filepath.Join(dir, name); filepath.IsAbs(full) && executable(full) == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is no program", path)
	}
	return nil
}

// launch starts the program and speaks to it.
func (p *proc) launch() (err error) {
	pool, project := p.c.r.pool, &p.c.r.project
	l, err := project.Driver.Launch(p.setup)
	if err != nil {
		return failure(err, "%s could not be started: %v.", project.agent(), err)
	}
	path, err := Find(l.Path, value(p.env, "PATH"))
	if err != nil {
		return failure(err, "%s could not be started: there is no program %s.", project.agent(), l.Path)
	}
	for _, v := range l.Env {
		p.env = set(p.env, v)
	}
	var ends [3][2]*os.File
	defer func() {
		for _, e := range ends {
			for _, f := range e {
				if f != nil {
					f.Close()
				}
			}
		}
	}()
	for i := range ends {
		if ends[i][0], ends[i][1], err = os.Pipe(); err != nil {
			return failure(err, "%s could not be started; the log says more.", project.agent())
		}
	}
	in, out, errs := &ends[0], &ends[1], &ends[2]
	if p.agent, err = project.Driver.Attach(p.setup, Pipes{In: in[1], Out: out[0]}); err != nil {
		return failure(err, "%s could not be started: %v.", project.agent(), err)
	}
	p.tree, err = process.Start(process.Spec{
		Path: path, Args: append([]string{filepath.Base(path)}, l.Args...), Env: p.env, Dir: p.setup.WorkDir,
		Owner: pool.opts.Owner, Files: []*os.File{in[0], out[1], errs[1]}, Prepare: func(pid int) { pool.opts.Limits.Prepare(pid, pool.log) },
	})
	if err != nil {
		return failure(err, "%s could not be started: %v.", project.agent(), err)
	}
	p.in, p.out, p.errs = in[1], out[0], errs[0]
	go p.overhear()
	in[1], out[0], errs[0] = nil, nil, nil
	return nil
}

// listen reads until the program says no more, and then ends what is left of it.
func (p *proc) listen() {
	p.readErr = p.agent.Read(p.event)
	close(p.read)
	p.end()
}

// ended reports that the program says no more.
func (p *proc) ended() bool {
	select {
	case <-p.read:
		return true
	default:
		return false
	}
}

// closeInput tells the program that there is nothing to come. A write that is
// under way fails.
func (p *proc) closeInput() { p.in.Close() }

// end ends the process and all it started, and returns when nothing is left: its
// input ends, then TERM, then KILL. From the first moment on it takes no message.
// It may be called more than once and by several at a time.
func (p *proc) end() {
	p.ending.Do(func() {
		c, pool := p.c, p.c.r.pool
		c.mu.Lock()
		if c.live == p {
			c.live = nil
		}
		c.mu.Unlock()
		p.closeInput()
		timer := time.NewTimer(pool.opts.EOFWait)
		select {
		case <-p.tree.Done():
		case <-timer.C:
		}
		timer.Stop()
		_, err := p.tree.End(pool.opts.KillDelay)
		// What it said last is in the pipes.
		timer.Reset(pool.opts.EOFWait)
		for _, done := range []<-chan struct{}{p.read, p.heard} {
			select {
			case <-done:
			case <-timer.C:
				timer.Reset(0)
			}
		}
		timer.Stop()
		p.out.Close()
		p.errs.Close()
		pool.log.Info("an agent's process has ended", "project", c.r.project.Name, "conversation", c.addr, "instance", p.instance, "status", p.status(), "err", err)
		pool.dismiss(p)
		c.r.release(c)
		close(p.over)
	})
	<-p.over
}

// status says how the program ended.
func (p *proc) status() string {
	select {
	case <-p.tree.Done():
	default:
		return "still running"
	}
	state, err := p.tree.Wait()
	if err != nil {
		return err.Error()
	}
	return state.String()
}

// death is what people are told when the program ended by itself.
func (p *proc) death(when string) error {
	agent := p.c.r.project.agent()
	if why, _ := p.explain(); why != "" {
		return failure(nil, "%s ended %s: %s", agent, when, why)
	}
	if p.readErr != nil {
		return failure(p.readErr, "%s said something that could not be understood and was ended. Its session is kept; the next message goes on with it.", agent)
	}
	return failure(nil, "%s ended %s (%s). Its session is kept; the next message goes on with it.", agent, when, p.status())
}
