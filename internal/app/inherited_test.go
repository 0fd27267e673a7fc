package app

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that whoever started Iris left open is not open in what Iris starts.
func TestKeepFiles(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	open := func() bool {
		out, err := exec.Command("ls", "/proc/self/fd").Output()
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			if name == strconv.Itoa(fd) {
				return true
			}
		}
		return false
	}
	if !open() {
		t.Fatal("the file is not inherited: this test shows nothing")
	}
	KeepFiles()
	if open() {
		t.Error("the file is inherited still")
	}
}
