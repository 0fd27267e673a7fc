package agentcli

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// A Pool keeps the processes of all projects. It is safe for concurrent use.
//
// Locks, in the order they may be taken: run.mu, conversation.mu, Runner.mu,
// Pool.mu. None is held while a process is started or ended, while an Agent is
// called, or while people are asked; run.mu alone is held while a sink is called.
type Pool struct {
	opts    Options
	log     *slog.Logger
	runners []*Runner

	// mu guards the fields below.
	mu      sync.Mutex
	count   uint64 // of processes, from a random start
	closing bool
	procs   map[*proc]struct{} // until nothing is left of them
}

// New checks the options. It starts nothing.
func New(opts Options) (*Pool, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	// From a random start, so that an id of an earlier process of Iris means
	// nothing to this one.
	p := &Pool{opts: opts, log: opts.Logger, count: rand.Uint64N(1 << 40), procs: map[*proc]struct{}{}}
	for _, project := range slices.Clone(opts.Projects) {
		if err := project.check(); err != nil {
			return nil, err
		}
		if p.Runner(project.Name) != nil {
			return nil, fmt.Errorf("agentcli: two projects are called %q", project.Name)
		}
		p.runners = append(p.runners, &Runner{
			pool: p, project: project, shelf: shelf{filepath.Join(opts.Dir, project.Name)},
			convs: map[chat.Address]*conversation{},
		})
	}
	return p, nil
}

// Runner returns the runner of a project, nil if there is none of that name.
func (p *Pool) Runner(name string) *Runner {
	for _, r := range p.runners {
		if r.project.Name == name {
			return r
		}
	}
	return nil
}

// Names lists the projects in the order of the configuration.
func (p *Pool) Names() []string {
	list := make([]string, len(p.runners))
	for i, r := range p.runners {
		list[i] = r.project.Name
	}
	return list
}

// reapEvery bounds how late an idle process is ended.
const reapEvery = time.Minute

// Serve ends processes that are idle, until ctx ends, and then all there are. It
// returns when nothing of them is left; no process is started after that.
func (p *Pool) Serve(ctx context.Context) error {
	defer p.Close()
	if p.opts.Idle < 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(min(reapEvery, p.opts.Idle))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.reap(ctx)
		}
	}
}

// reap ends the processes that have been idle for too long, side by side.
func (p *Pool) reap(ctx context.Context) {
	var all sync.WaitGroup
	for _, r := range p.runners {
		for _, c := range r.open() {
			all.Go(func() { c.reap(ctx) })
		}
	}
	all.Wait()
}

// Close ends all processes and keeps new ones from starting. It may be called
// more than once.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closing = true
	procs := make([]*proc, 0, len(p.procs))
	for proc := range p.procs {
		procs = append(procs, proc)
	}
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, proc := range procs {
		all.Go(proc.end)
	}
	all.Wait()
}

// admit takes a process that was started into the pool; false says that none may
// be any more.
func (p *Pool) admit(proc *proc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.procs[proc] = struct{}{}
	return !p.closing
}

// instance makes the id of a process.
func (p *Pool) instance() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	return fmt.Sprintf("%x", p.count)
}

func (p *Pool) dismiss(proc *proc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.procs, proc)
}

// Live counts the processes that run.
func (p *Pool) Live() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.procs)
}

// tell puts a notice into a conversation.
func (p *Pool) tell(ctx context.Context, conv chat.Address, text string) {
	if p.opts.Notice == nil {
		p.log.Info("notice", "conversation", conv, "text", text)
		return
	}
	if err := p.opts.Notice(ctx, conv, text); err != nil {
		p.log.Warn("a notice was not given", "conversation", conv, "err", err)
	}
}
