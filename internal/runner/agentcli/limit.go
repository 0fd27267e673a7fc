package agentcli

import "golang.org/x/sys/unix"

// limit sets what a process and its children may use. They leave no core files: a
// picture of their memory holds tokens.
func (p *Pool) limit(pid int) {
	for _, l := range []struct {
		resource int
		max      uint64
		set      bool
	}{
		{unix.RLIMIT_CORE, 0, true},
		{unix.RLIMIT_DATA, p.opts.Memory, p.opts.Memory > 0},
		{unix.RLIMIT_NPROC, p.opts.Processes, p.opts.Processes > 0},
	} {
		if !l.set {
			continue
		}
		if err := unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: l.max, Max: l.max}, nil); err != nil {
			p.log.Warn("a limit could not be set", "pid", pid, "resource", l.resource, "limit", l.max, "err", err)
		}
	}
}
