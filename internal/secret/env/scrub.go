package env

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Scrub removes variables from the environment of the process: from what
// os.Environ and child processes see, and from the memory that
// /proc/<pid>/environ shows, which the kernel has filled in at the start. The
// memory may not be writable where /proc is restricted; the error says so, and
// the variables are gone from os.Environ all the same.
func Scrub(names []string) error {
	for _, name := range names {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return blank(names)
}

// blank writes zeros over the values in the process's first environment.
func blank(names []string) error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	start, err := envStart(string(stat))
	if err != nil {
		return err
	}
	block, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	at := start
	for entry := range bytes.SplitSeq(block, []byte{0}) {
		for _, name := range names {
			if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok && len(value) > 0 {
				if _, err := mem.WriteAt(make([]byte, len(value)), at+int64(len(name))+1); err != nil {
					return err
				}
			}
		}
		at += int64(len(entry)) + 1
	}
	return nil
}

// envStart is where the first environment lies: field 50 of /proc/self/stat. The
// second field is in parentheses and may hold anything.
func envStart(stat string) (int64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 48 {
		return 0, fmt.Errorf("/proc/self/stat has %d fields after the name", len(fields))
	}
	n, err := strconv.ParseInt(fields[47], 10, 64)
	if err == nil && n == 0 {
		err = fmt.Errorf("/proc/self/stat does not say where the environment lies")
	}
	return n, err
}
