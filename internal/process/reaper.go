package process

import (
	"context"
	"os"
	"time"
)

// reapEvery is how often a Reaper looks. A child that is dead at two looks in a
// row has nobody who waits for it: os/exec and Start wait all the time.
const reapEvery = 30 * time.Second

// A Reaper buries orphans that came to this process because it is a subreaper
// and that belong to no [Tree]: children of programs that were started with
// os/exec. One per process is enough. The zero value is ready.
type Reaper struct {
	// Every is the time between two looks; 0 means 30 seconds.
	Every time.Duration
}

// Serve buries until ctx ends, and returns nil then.
func (r Reaper) Serve(ctx context.Context) error {
	every := r.Every
	if every <= 0 {
		every = reapEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	dead := map[int]uint64{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			dead = bury(dead)
		}
	}
}

// bury reaps the dead children that were dead at the look before, and returns
// the dead of this one.
func bury(before map[int]uint64) map[int]uint64 {
	now := map[int]uint64{}
	pids, ok := ownChildren()
	if !ok {
		for pid, s := range scan() {
			if s.parent == os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	for _, pid := range pids {
		s, ok := readStat(pid)
		if !ok || !s.zombie() {
			continue
		}
		if before[pid] == s.start {
			reap(pid)
			continue
		}
		now[pid] = s.start
	}
	return now
}
