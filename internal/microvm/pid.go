package microvm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A record of a process: its number means something only together with when it
// started, and that only within one boot of the machine.
type record struct {
	pid   int
	start uint64 // in clock ticks after boot
	boot  string
}

func (r record) String() string { return fmt.Sprintf("%d %d %s\n", r.pid, r.start, r.boot) }

func parseRecord(text []byte) (r record, err error) {
	f := strings.Fields(string(text))
	if len(f) != 3 {
		return record{}, fmt.Errorf("%.60q is not a record of a process", text)
	}
	r.boot = f[2]
	r.pid, err = strconv.Atoi(f[0])
	if err == nil {
		r.start, err = strconv.ParseUint(f[1], 10, 64)
	}
	if err != nil || r.pid <= 1 {
		return record{}, fmt.Errorf("%.60q is not a record of a process", text)
	}
	return r, nil
}

// recordOf describes a running process.
func recordOf(pid int) (record, error) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return record{}, err
	}
	start, state, ok := parseStat(line)
	if !ok {
		return record{}, fmt.Errorf("/proc/%d/stat is %.60q", pid, line)
	}
	if state == 'Z' {
		return record{}, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return record{}, err
	}
	return record{pid: pid, start: start, boot: strings.TrimSpace(string(boot))}, nil
}

// parseStat finds the state and the start time in a line of /proc/<pid>/stat.
// The name may hold anything, so fields count from its last parenthesis.
func parseStat(line []byte) (start uint64, state byte, ok bool) {
	_, rest, ok := cutLast(line, ')')
	f := bytes.Fields(rest)
	if !ok || len(f) < 20 || len(f[0]) != 1 {
		return 0, 0, false
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	return start, f[0][0], err == nil
}

func cutLast(b []byte, sep byte) (before, after []byte, ok bool) {
	i := bytes.LastIndexByte(b, sep)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}

// endRecorded ends the process on record, if it is still that one: TERM, then
// KILL after grace. A record that is missing or half written names nobody.
func endRecorded(file string, grace time.Duration) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := parseRecord(text)
	if err != nil {
		return nil
	}
	fd, err := unix.PidfdOpen(r.pid, 0)
	if err != nil {
		if err == unix.ESRCH {
			return nil
		}
		return fmt.Errorf("look at process %d: %w", r.pid, err)
	}
	defer unix.Close(fd)
	// After the descriptor is ours the number cannot change hands.
	if now, err := recordOf(r.pid); err != nil || now != r {
		return nil
	}
	for _, step := range []struct {
		sig  unix.Signal
		wait time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, 3 * time.Second}} {
		if err := unix.PidfdSendSignal(fd, step.sig, nil, 0); err != nil && err != unix.ESRCH {
			return fmt.Errorf("end process %d: %w", r.pid, err)
		}
		if ended(fd, step.wait) {
			return nil
		}
	}
	return fmt.Errorf("process %d could not be ended", r.pid)
}

// ended waits for a process by its descriptor, up to d.
func ended(fd int, d time.Duration) bool {
	deadline := time.Now().Add(d)
	for {
		left := max(time.Until(deadline).Milliseconds(), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left))
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}
