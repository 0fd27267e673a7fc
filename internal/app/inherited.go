package app

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// KeepFiles keeps the files that this process was started with, beyond the
// standard ones, from the programs it starts. A shell, a supervisor or a cron
// job may have left some open; what Go opens is never inherited.
func KeepFiles() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // no /proc: then nothing is known about them
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
