package agentcli

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// Limits are what a process and its children may use: Memory of private memory in
// bytes for each, Processes that their user may have in all. 0: no limit.
type Limits struct{ Memory, Processes uint64 }

// Prepare sets them, as process.Spec.Prepare. The processes leave no core files: a
// picture of their memory holds tokens.
func (l Limits) Prepare(pid int, log *slog.Logger) {
	for _, r := range []struct {
		resource int
		max      uint64
		set      bool
	}{
		{unix.RLIMIT_CORE, 0, true},
		{unix.RLIMIT_DATA, l.Memory, l.Memory > 0},
		{unix.RLIMIT_NPROC, l.Processes, l.Processes > 0},
	} {
		if !r.set {
			continue
		}
		if err := unix.Prlimit(pid, r.resource, &unix.Rlimit{Cur: r.max, Max: r.max}, nil); err != nil {
			log.Warn("a limit could not be set", "pid", pid, "resource", r.resource, "limit", r.max, "err", err)
		}
	}
}
