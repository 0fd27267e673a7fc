// Package process starts a program so that everything it starts can be found
// and ended again. It owns the marks by which a process is recognised and the
// ladder that ends a tree; it does not read pipes and knows no timeouts.
//
// A process group is not enough: setsid leaves it, a double fork loses its
// parent, nohup ignores the hangup and a trap ignores TERM. A control group
// would be, but needs rights that a user service often lacks. So, on Linux:
//
//   - The calling process becomes a child subreaper. An orphan below it comes
//     back to it instead of going to init, so whatever a program left behind is
//     among our descendants, and is ours to reap.
//   - Every program gets a mark that its children inherit: a resource limit
//     that limits nothing (RLIMIT_RTTIME, with a number that only this program
//     has, far beyond any use), and the variable IRIS_COMMAND_ID. The limit
//     survives env -i, closed descriptors, setsid and forks; the variable is
//     the second net, for systems where the limit cannot be set.
//   - Members of a tree are the descendants of ours that carry its mark, and
//     all that is below them. Signals go through a pidfd, after a second look
//     at the start time, so that a number that was given to another process
//     meanwhile is never hit.
//   - Ending repeats until a look finds nothing: TERM, then, after a time, STOP
//     until no new process turns up (a stopped process cannot fork), then KILL.
//
// A killed starter takes its programs along, but not their children; the next
// start ends those with [Sweep].
//
// What escapes: a process that lays off both marks on purpose after losing its
// parent, and what a program asks another service (systemd, docker, cron) to
// start. A process of another user (sudo) is found but may be beyond our
// signals; [Tree.End] says so.
//
// Being a subreaper is a property of the whole process. It brings home orphans
// of programs that were started by other means too; [Reaper] buries them.
package process

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// MarkName is the variable added to the environment of every program.
const MarkName = "IRIS_COMMAND_ID"

// A Spec is a program to start.
type Spec struct {
	Path string   // the executable
	Args []string // its arguments, its own name first
	Env  []string // the whole environment but for MarkName
	// Owner begins the program's mark, so that [Sweep] finds what is left of it
	// when this process has been killed. Empty means that nothing does.
	Owner string
	Dir   string // empty means the directory of this process
	// Files become the descriptors 0, 1, 2 and so on; nil leaves one closed.
	// They stay the caller's to close.
	Files []*os.File
	// Prepare, if set, is called with the program's process id before its first
	// instruction, where it may be stopped there, else right after its start. It
	// is for limits, which its children inherit.
	Prepare func(pid int)
	// Holder says that the program only holds the others (a namespace dies with
	// it): it is not sent TERM, and is the first to be sent KILL.
	Holder bool
}

// A Tree is a started program and all that it started. Its methods are safe
// for concurrent use.
type Tree struct {
	id    string
	limit uint64 // the number in RLIMIT_RTTIME, 0 if it could not be set
	pid   int    // -1 if Sweep made the tree
	start uint64
	adopt bool   // orphans come to us
	sweep *sweep // nil unless Sweep made the tree
	// holder as in Spec
	holder bool
	done   chan struct{}
	// state and err are set before done is closed.
	state *os.ProcessState
	err   error

	// mu guards the field below.
	mu    sync.Mutex
	known map[int]uint64 // members that were seen, with their start times
}

// Start runs a program in a session, and so in a process group, of its own. It
// has no controlling terminal: whatever asks on /dev/tty fails at once instead
// of waiting. The program is waited for in the background.
func Start(spec Spec) (*Tree, error) {
	t := &Tree{id: newID(), holder: spec.Holder, done: make(chan struct{}), known: map[int]uint64{}}
	if spec.Owner != "" {
		t.id = spec.Owner + "-" + t.id
	}
	t.adopt = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	p, limit, err := launch(spec.Path, spec.Args, &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   append(spec.Env[:len(spec.Env):len(spec.Env)], MarkName+"="+t.id),
		Files: spec.Files,
	}, nextLimit(), spec.Prepare)
	if err != nil {
		return nil, err
	}
	t.pid, t.limit = p.Pid, limit
	if s, ok := readStat(p.Pid); ok {
		t.start = s.start
		t.known[p.Pid] = s.start
	}
	go func() {
		t.state, t.err = p.Wait()
		close(t.done)
	}()
	return t, nil
}

// Pid is the process id of the program, and of its group and session.
func (t *Tree) Pid() int { return t.pid }

// Done is closed when the program itself has ended; what it started may still
// run.
func (t *Tree) Done() <-chan struct{} { return t.done }

// Wait blocks until the program itself has ended and returns how.
func (t *Tree) Wait() (*os.ProcessState, error) {
	<-t.done
	return t.state, t.err
}

// launch starts a program with a limit as its mark, and returns the limit, 0 if
// it could not be set. The program stops before its first instruction and goes
// on when it has the mark, so that no child of it can be without. Where that is
// forbidden (ptrace), the mark is set as soon as the program has been loaded; a
// child that was faster still has the variable.
//
// A program dies with the process that started it: one that is killed meanwhile
// would leave a program stopped for ever, or at work with nobody to end it. The
// kernel ties this to the thread that called here; Go ends a thread only when a
// goroutine ends that has locked it, which this one does not.
func launch(path string, args []string, attr *os.ProcAttr, limit uint64, prepare func(pid int)) (*os.Process, uint64, error) {
	runtime.LockOSThread() // a stopped program obeys the thread that started it
	defer runtime.UnlockOSThread()
	attr.Sys = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: limit != 0}
	p, err := os.StartProcess(path, args, attr)
	stopped := err == nil && limit != 0
	if err != nil && limit != 0 {
		attr.Sys = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		p, err = os.StartProcess(path, args, attr)
	}
	if err != nil {
		return nil, 0, err
	}
	if stopped {
		var ws unix.WaitStatus
		for {
			if _, err := unix.Wait4(p.Pid, &ws, 0, nil); err != unix.EINTR {
				break
			}
		}
	}
	if limit != 0 && unix.Prlimit(p.Pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: limit, Max: limit}, nil) != nil {
		limit = 0
	}
	if prepare != nil {
		prepare(p.Pid)
	}
	if stopped {
		if err := unix.PtraceDetach(p.Pid); err != nil && err != unix.ESRCH {
			_ = p.Kill() // it would stay stopped for ever
			_, _ = p.Wait()
			return nil, 0, fmt.Errorf("let %s go on: %w", path, err)
		}
	}
	return p, limit, nil
}

func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}

// Marks lie between limitFloor and limitTop microseconds, some hundred thousand
// years, of real-time computing without a pause. A process that was itself
// started with a mark cannot go above it, so its own marks lie below.
const (
	limitTop   = 1 << 62
	limitFloor = 1 << 61
	limitSpan  = 1 << 40
)

// nextLimit picks a number at random, or 0 if this process may not set one
// that is far enough from any use.
func nextLimit() uint64 {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &own); err != nil {
		return 0
	}
	var b [5]byte
	rand.Read(b[:])
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	top := min(own.Max, limitTop)
	if top < limitFloor {
		return 0
	}
	return top - 1 - n%limitSpan
}

// An EndError says that processes of a tree could not be ended.
type EndError struct {
	Pids []int
	// Cause is the last refusal to deliver a signal, nil if they were
	// delivered and did not help.
	Cause error
}

func (e *EndError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("processes %v could not be ended: %v", e.Pids, e.Cause)
	}
	return fmt.Sprintf("processes %v could not be ended", e.Pids)
}

func (e *EndError) Unwrap() error { return e.Cause }
