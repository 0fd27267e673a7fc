package observe

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// appendProcess adds what the kernel and Go know of this process, under the
// names that every client of Prometheus gives them. What cannot be read is left
// out.
func appendProcess(b []byte, started time.Time) []byte {
	one := func(k kind, name, help string, v float64) {
		f := newFamily(k, name, help)
		f.add(v)
		b = f.appendTo(b)
	}
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) == nil {
		one(counter, "process_cpu_seconds_total", "Processor time, user and system.", time.Duration(use.Utime.Nano()+use.Stime.Nano()).Seconds())
	}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		one(gauge, "process_max_fds", "Most files that may be open.", float64(files.Cur))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		one(gauge, "process_open_fds", "Open files.", float64(len(open)))
	}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := bytes.Fields(statm); len(f) > 1 {
			size, _ := strconv.Atoi(string(f[0]))
			resident, _ := strconv.Atoi(string(f[1]))
			one(gauge, "process_virtual_memory_bytes", "Address space.", float64(size*os.Getpagesize()))
			one(gauge, "process_resident_memory_bytes", "Memory in use.", float64(resident*os.Getpagesize()))
		}
	}
	one(gauge, "process_start_time_seconds", "When the process began, in seconds of the epoch.", float64(started.UnixMilli())/1000)

	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	info := newFamily(gauge, "go_info", "Always 1; the version of Go is in the label.", "version")
	info.add(1, runtime.Version())
	b = info.appendTo(b)
	one(gauge, "go_goroutines", "Goroutines.", float64(runtime.NumGoroutine()))
	one(gauge, "go_memstats_heap_alloc_bytes", "Objects on the heap, those to be collected included.", float64(m.HeapAlloc))
	one(gauge, "go_memstats_heap_inuse_bytes", "Parts of the heap with objects in them.", float64(m.HeapInuse))
	one(gauge, "go_memstats_sys_bytes", "Memory obtained from the system.", float64(m.Sys))
	one(counter, "go_memstats_alloc_bytes_total", "Everything ever allocated.", float64(m.TotalAlloc))
	one(counter, "go_gc_cycles_total", "Collections of garbage.", float64(m.NumGC))
	one(counter, "go_gc_pause_seconds_total", "Time in which a collection let nothing else run.", float64(m.PauseTotalNs)/1e9)
	return b
}
