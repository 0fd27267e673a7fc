package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What a command had started and a killed server could not end is ended by the
// next start, before the turn is told that its call was interrupted.
func TestLeftoversOfAKilledServer(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	mark := filepath.Join(p.home, "begun")
	answer := p.post(p.session(), "run `(sleep 300; echo x >> "+mark+") & setsid sleep 300 & sleep 300; touch "+mark+"`")
	sleepers := func() (n int) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if line, err := os.ReadFile(f); err != nil || !bytes.Equal(line, []byte("sleep\x00300\x00")) {
				continue
			}
			env, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "environ"))
			if bytes.Contains(env, []byte("HOME="+p.home+"\x00")) {
				n++
			}
		}
		return n
	}
	until(t, "the command has started its children", func() bool { return sleepers() == 3 })
	s.kill()
	<-answer
	if n := sleepers(); n != 3 {
		t.Fatalf("%d of 3 children outlived the server: there is nothing to see", n)
	}
	s = p.serve()
	if n := sleepers(); n != 0 {
		t.Errorf("%d processes of the killed server still run", n)
	}
	if log := s.stderr.String(); !strings.Contains(log, "of a killed process") || !strings.Contains(log, "processes="+strconv.Itoa(4)) {
		t.Errorf("the log does not say what was ended:\n%s", log)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command went on after the kill")
	}
	s.stop()
}
