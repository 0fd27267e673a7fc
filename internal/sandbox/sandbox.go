// Package sandbox is the contract of a place where commands run and files are
// read and written: host (no isolation), bwrap (namespaces of this machine),
// docker (a container) and firecracker (a machine of its own). sandboxtest holds
// the suite, escape the probes that show what a level is a wall against.
//
// A sandbox is the wall; the policy in front of it is a seat belt. host is no
// wall at all: a command there can do what the user of the process can.
package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// KillDelay is the time between TERM and KILL for a command that is ended.
// Long enough for a build tool to remove its lock, short enough that a person
// who said stop does not wonder.
const KillDelay = 2 * time.Second

// A Sandbox runs commands and moves bytes.
//
// Implementations must
//   - run a command as `bash --noprofile --norc -c` where there is bash, with
//     stdin closed unless given, in a process group of its own, and end all of
//     it, children that left the group by setsid or a double fork included, when
//     ctx is done or the timeout passes: TERM, then KILL after KillDelay;
//   - return from Run only when nothing the command started is left, or tell in
//     the error what could not be ended;
//   - return a non-zero exit status and a signal as Exit and not as an error: an
//     error means the command could not be run at all;
//   - write to Stdout and Stderr from one goroutine each;
//   - move file content as bytes, never as command arguments;
//   - be safe for concurrent use.
type Sandbox interface {
	// Name is the level as configured ("host", "docker:box").
	Name() string
	Run(ctx context.Context, cmd Command) (Exit, error)
	// ReadFile returns up to limit bytes from offset, and the file's size. A
	// file that is not there is an error that wraps fs.ErrNotExist.
	ReadFile(ctx context.Context, conv chat.Address, path string, offset, limit int64) (data []byte, size int64, err error)
	// WriteFile replaces or creates the file, making parent directories, and
	// keeps the mode of a file that was there.
	WriteFile(ctx context.Context, conv chat.Address, path string, data []byte) error
	// Path translates a path of the host below the workspace to what the
	// sandbox calls it; Host translates back and reports false for a path that
	// is not below the workspace.
	Path(host string) string
	Host(path string) (string, bool)
}

// A Command is what to run.
type Command struct {
	Conversation chat.Address
	Script       string
	Dir          string // in the sandbox; empty means its default directory
	// Env is the whole environment, "K=V". A sandbox may add IRIS_COMMAND_ID,
	// the mark by which it finds what the command started.
	Env     []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Timeout time.Duration // 0: none but ctx
}

// An Exit is how a command ended.
type Exit struct {
	// Code is the exit status; 128 + the signal's number when a signal ended
	// the command.
	Code int
	// Signal is the signal's name ("SIGKILL"), empty if none, and empty where
	// the level cannot tell a signal from an exit status of 128 and more.
	Signal string
	// TimedOut and Aborted say that the sandbox ended the command, because of
	// Timeout or because ctx was done.
	TimedOut bool
	Aborted  bool
	// Background counts the processes that the command left running when it
	// had ended by itself, and that were ended after it.
	Background int
	Duration   time.Duration
}

// A Resolver is a Sandbox that can tell where a path leads. Tools use it so
// that the policy judges the file and not the name of a link to it.
type Resolver interface {
	// Resolve follows the symbolic links of an absolute path, for as far as it
	// exists; what does not exist stays as it is written.
	Resolve(ctx context.Context, conv chat.Address, path string) (string, error)
}
