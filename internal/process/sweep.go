package process

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Sweep ends what programs of an owner left running when the process that had
// started them was killed: such a program dies with its starter, but not what
// it had started itself. It finds them by the variable in their environment,
// and by the limit those have, so that env -i hides nobody whose kin shows. It
// returns how many processes it had to end; an *EndError says what is still
// there.
//
// Call it only while no other process can start programs for this owner, and
// before this one does. The caller and what it descends from are left alone.
func Sweep(owner string, grace time.Duration) (ended int, err error) {
	if owner == "" {
		return 0, nil
	}
	done := make(chan struct{})
	close(done)
	t := &Tree{pid: -1, done: done, known: map[int]uint64{}, sweep: &sweep{
		prefix: []byte(MarkName + "=" + owner + "-"), limits: map[uint64]bool{}, spare: lineage(),
	}}
	t.mu.Lock()
	live := t.members()
	t.mu.Unlock()
	if len(live) == 0 {
		return 0, nil
	}
	for _, s := range live {
		if l := limitOf(s.pid); l >= limitFloor && l < limitTop {
			t.sweep.limits[l] = true
		}
	}
	return t.End(grace)
}

// A sweep says which processes are members of a Tree that nobody started.
type sweep struct {
	prefix []byte          // of the variable, its name included
	limits map[uint64]bool // marks that were seen
	spare  map[int]bool    // this process and those it descends from
}

func (s *sweep) marked(pid int) bool {
	if s.spare[pid] {
		return false
	}
	if l := limitOf(pid); s.limits[l] {
		return true
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil { // another user's, or gone
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.HasPrefix(v, s.prefix) {
			return true
		}
	}
	return false
}

// lineage returns this process and all that it descends from.
func lineage() map[int]bool {
	line := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !line[pid]; {
		line[pid] = true
		s, ok := readStat(pid)
		if !ok {
			break
		}
		pid = s.parent
	}
	return line
}
