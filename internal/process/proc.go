package process

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A stat is what /proc/<pid>/stat says of a process.
type stat struct {
	pid, parent, session int
	state                byte
	start                uint64 // clock ticks since boot
}

func (s stat) zombie() bool { return s.state == 'Z' || s.state == 'X' }

// parseStat reads a line of /proc/<pid>/stat. The name stands in parentheses
// and may hold anything, parentheses included, so fields count from the last.
func parseStat(line []byte) (s stat, ok bool) {
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 2 || shut < open {
		return stat{}, false
	}
	f := bytes.Fields(line[shut+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, false
	}
	s.state = f[0][0]
	var errs [4]error
	s.pid, errs[0] = strconv.Atoi(string(line[:open-1]))
	s.parent, errs[1] = strconv.Atoi(string(f[1]))
	s.session, errs[2] = strconv.Atoi(string(f[3]))
	s.start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	for _, err := range errs {
		if err != nil {
			return stat{}, false
		}
	}
	return s, true
}

func readStat(pid int) (stat, bool) {
	line, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(line)
}

// readProc reads a small file of /proc. os.ReadFile makes a dozen system calls
// of it, and there are many of these files.
func readProc(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var data []byte
	for {
		data = slices.Grow(data, 1<<10)
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return data, err
		}
		data = data[:len(data)+n]
	}
}

// scan reads the process table.
func scan() map[int]stat {
	procs := map[int]stat{}
	for _, pid := range numbers("/proc") {
		if s, ok := readStat(pid); ok {
			procs[pid] = s
		}
	}
	return procs
}

// numbers lists the entries of a directory that are numbers.
func numbers(dir string) (list []int) {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what could be read counts
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// childless reports whether this process has no child at all, orphans that came
// to it and the dead included.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}

// ownChildren lists the children of this process, orphans that came to it
// included. ok is false where the kernel does not keep such lists.
func ownChildren() (pids []int, ok bool) {
	for _, tid := range numbers("/proc/self/task") {
		list, err := readProc("/proc/self/task/" + strconv.Itoa(tid) + "/children")
		if err != nil {
			continue // the thread has ended, or there are no lists at all
		}
		ok = true
		for _, f := range bytes.Fields(list) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, ok
}

// limitOf returns the mark in a process's limits, 0 if there is none. It works
// for zombies too.
func limitOf(pid int) uint64 {
	var l unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l)
	if err == unix.EPERM { // another user's, such as one behind sudo
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
		return parseLimit(text)
	}
	if err != nil {
		return 0
	}
	return l.Max
}

// parseLimit finds the hard limit in the text of /proc/<pid>/limits.
func parseLimit(text []byte) uint64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("Max realtime timeout")); ok {
			if f := bytes.Fields(rest); len(f) >= 2 {
				n, _ := strconv.ParseUint(string(f[1]), 10, 64)
				return n
			}
		}
	}
	return 0
}

// hasVariable reports whether a process was started with MarkName=id.
func hasVariable(pid int, id string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	want := []byte(MarkName + "=" + id)
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, want) {
			return true
		}
	}
	return false
}

// signal sends sig to the process that had this number when it was looked at,
// and to no other. A process that is gone is no error.
func signal(s stat, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now, ok := readStat(s.pid); !ok || now.start != s.start {
		return nil
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else { // a kernel without pidfds
		err = unix.Kill(s.pid, sig)
	}
	if err == unix.ESRCH {
		return nil
	}
	return err
}
