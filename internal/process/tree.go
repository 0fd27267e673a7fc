package process

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// killTime bounds how long End looks after its first KILL. A killed process is
// gone within a moment unless the kernel itself waits for something.
const killTime = 3 * time.Second

// Left counts the processes of the tree that still run, the program itself not
// included, and reaps those that have ended. Right after the program ended it
// costs a few file reads and no look at the whole process table.
func (t *Tree) Left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.adopt && t.ended() {
		// Whatever the program left behind hangs on an orphan, and an orphan
		// would be our child.
		if childless() {
			return 0
		}
		if pids, ok := ownChildren(); ok && !t.childMarked(pids) {
			return 0
		}
	}
	n := 0
	for _, s := range t.members() {
		if s.pid != t.pid {
			n++
		}
	}
	return n
}

func (t *Tree) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// childMarked reports whether one of pids is a living member, and reaps those
// that are dead.
func (t *Tree) childMarked(pids []int) bool {
	found := false
	for _, pid := range pids {
		if pid == t.pid && !t.ended() || !t.marked(pid) {
			continue
		}
		if s, ok := readStat(pid); ok && !(s.zombie() && reap(pid)) {
			found = true
		}
	}
	return found
}

// marked reports whether a process carries the mark of the tree.
func (t *Tree) marked(pid int) bool {
	if t.sweep != nil {
		return t.sweep.marked(pid)
	}
	return t.limit != 0 && limitOf(pid) == t.limit || hasVariable(pid, t.id)
}

// members looks at the process table and returns what lives of the tree, by
// process id. Dead members that are our children are reaped, except for the
// program itself, which Start waits for. The caller holds mu.
func (t *Tree) members() []stat {
	procs := scan()
	below := map[int][]int{}
	for pid, s := range procs {
		below[s.parent] = append(below[s.parent], pid)
	}
	self := os.Getpid()
	candidates := make([]int, 0, len(procs))
	if t.adopt {
		candidates = descend(below, []int{self})[1:]
	} else {
		for pid := range procs {
			if pid != self {
				candidates = append(candidates, pid)
			}
		}
	}
	var roots []int
	for _, pid := range candidates {
		s := procs[pid]
		switch {
		case s.start < t.start:
		case t.known[pid] == s.start && s.start != 0, t.marked(pid), t.sweep == nil && t.limit == 0 && s.session == t.pid:
			roots = append(roots, pid)
		}
	}
	var live []stat
	for _, pid := range descend(below, roots) {
		s := procs[pid]
		if t.sweep != nil && t.sweep.spare[pid] {
			continue
		}
		if s.zombie() {
			if pid != t.pid && s.parent == self {
				reap(pid)
			}
			continue
		}
		t.known[pid] = s.start
		live = append(live, s)
	}
	slices.SortFunc(live, func(a, b stat) int { return a.pid - b.pid })
	return live
}

// descend returns the given processes and all below them, each once.
func descend(below map[int][]int, from []int) []int {
	seen := map[int]bool{}
	var all []int
	for len(from) > 0 {
		pid := from[0]
		from = from[1:]
		if !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
			from = append(from, below[pid]...)
		}
	}
	return all
}

// reap takes a dead child off the process table and reports whether it was
// one.
func reap(pid int) bool {
	var ws unix.WaitStatus
	got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil)
	return err == nil && got == pid
}

// End ends the tree, the program itself included, and returns when nothing of
// it is left: TERM to all that is there, KILL to what is there after grace. It
// returns how many processes it had to end. An *EndError says what is still
// there in spite of it.
func (t *Tree) End(grace time.Duration) (ended int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	live := t.members()
	ended = len(live)
	for _, s := range live {
		if t.holder && s.pid == t.pid {
			continue
		}
		// Once, so that what a trap starts to clean up has until KILL.
		if signal(s, unix.SIGTERM) == nil {
			_ = signal(s, unix.SIGCONT) // a stopped process hears TERM when it goes on
		}
	}
	if t.gone(grace) {
		return ended, nil
	}
	before := len(t.known)
	if t.holder && !t.ended() {
		_ = unix.Kill(t.pid, unix.SIGKILL) // not waited for yet, so the number is still its own
		if t.gone(100 * time.Millisecond) {
			return ended, nil
		}
	}
	stop := time.Now().Add(killTime)
	var cause error
	for time.Now().Before(stop) {
		t.freeze()
		cause = nil
		for _, s := range t.members() {
			if err := signal(s, unix.SIGKILL); err != nil {
				cause = err
			}
		}
		if t.gone(20 * time.Millisecond) {
			return ended + len(t.known) - before, nil
		}
	}
	e := &EndError{Cause: cause}
	for _, s := range t.members() {
		e.Pids = append(e.Pids, s.pid)
	}
	if len(e.Pids) == 0 {
		return ended + len(t.known) - before, nil
	}
	return ended, e
}

// freeze stops the members until a look finds none that was not stopped
// before, at most a hundred times.
func (t *Tree) freeze() {
	stopped := map[int]uint64{}
	for range 100 {
		fresh := false
		for _, s := range t.members() {
			if stopped[s.pid] != s.start {
				stopped[s.pid] = s.start
				fresh = signal(s, unix.SIGSTOP) == nil || fresh
			}
		}
		if !fresh {
			return
		}
	}
}

// gone looks again and again, for up to d, and reports whether nothing is left
// and the program has been waited for.
func (t *Tree) gone(d time.Duration) bool {
	deadline := time.Now().Add(d)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if len(t.members()) == 0 {
			select {
			case <-t.done:
				return true
			case <-time.After(max(time.Until(deadline), time.Millisecond)):
				return false
			}
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}
