package bwrap

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/process"
)

// watchEvery is how often a running command is looked at. A fork bomb makes some
// hundred processes in this time, a disk takes some tens of MiB.
const watchEvery = 20 * time.Millisecond

// A watch looks for what no limit of the kernel bounds: the disk that all files
// together take, and, where Iris is root, the number of processes.
type watch struct {
	b    *Bwrap
	tree *process.Tree
	tick *time.Ticker
	// count says that processes are counted; tasks is what the machine had when
	// the command began, all of them.
	count bool
	tasks int
	// disk says that the free space is looked at: there was enough to begin with.
	disk bool
}

func (b *Bwrap) watch(tree *process.Tree) *watch {
	w := &watch{b: b, tree: tree, tick: time.NewTicker(watchEvery)}
	if os.Geteuid() == 0 {
		w.tasks, w.count = tasks()
	}
	free, ok := freeSpace(b.opts.Workspace)
	w.disk = ok && free > b.opts.KeepFree
	return w
}

func (w *watch) stop() { w.tick.Stop() }

// look returns why the command must end, "" if it may go on.
func (w *watch) look() string {
	if w.disk {
		if free, ok := freeSpace(w.b.opts.Workspace); ok && free < w.b.opts.KeepFree {
			return fmt.Sprintf("less than %d MiB of the disk are left", w.b.opts.KeepFree>>20)
		}
	}
	if !w.count {
		return ""
	}
	// One number for the whole machine is cheap; only when it has grown by as
	// much as the command may have is it worth counting whose they are.
	if now, ok := tasks(); !ok || now-w.tasks < w.b.opts.Processes {
		return ""
	}
	if n := w.tree.Left(); n > w.b.opts.Processes {
		return fmt.Sprintf("more than %d processes", w.b.opts.Processes)
	}
	return ""
}

// tasks is the number of processes and threads of this machine.
func tasks() (int, bool) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	f := bytes.Fields(text)
	if len(f) < 4 {
		return 0, false
	}
	_, all, _ := strings.Cut(string(f[3]), "/")
	n, err := strconv.Atoi(all)
	return n, err == nil
}

func freeSpace(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
