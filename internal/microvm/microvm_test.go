package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeTaps remember which taps there are.
type fakeTaps struct {
	mu    sync.Mutex
	there map[string]Net
	owner map[string]int
	stuck bool // down fails
}

func newTaps() *fakeTaps { return &fakeTaps{there: map[string]Net{}, owner: map[string]int{}} }

func (f *fakeTaps) up(n Net, uid int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.there[n.Tap]; ok {
		return errors.New(n.Tap + " is there already")
	}
	f.there[n.Tap], f.owner[n.Tap] = n, uid
	return nil
}

func (f *fakeTaps) down(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck {
		return errors.New(name + " is busy")
	}
	delete(f.there, name)
	return nil
}

func (f *fakeTaps) names() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.there {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// program is the test binary as firecracker and as jailer.
func program(t *testing.T, mode string) (path string, env []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self, []string{"IRIS_TEST_FIRECRACKER=" + mode, "PATH=" + os.Getenv("PATH")}
}

// short is a directory whose sockets have names short enough.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func open(t *testing.T, mode string, change func(*Options)) (*Host, *fakeTaps) {
	t.Helper()
	dir := short(t)
	for name, text := range map[string]string{"vmlinux": "kernel", "rootfs": "files", "initrd": "modules"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	opts := Options{
		Kernel: filepath.Join(dir, "vmlinux"), Rootfs: filepath.Join(dir, "rootfs"), StateDir: filepath.Join(dir, "fc"),
		KillDelay: 200 * time.Millisecond, Healthy: func(context.Context, string) error { return nil },
	}
	opts.Firecracker, opts.Env = program(t, mode)
	if change != nil {
		change(&opts)
	}
	h, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	taps := newTaps()
	h.taps = taps
	return h, taps
}

func jailed(t *testing.T) func(*Options) {
	return func(o *Options) {
		o.Jailer = &Jailer{Path: o.Firecracker, Base: filepath.Join(filepath.Dir(o.StateDir), "j"), Cgroup: []string{"memory.max=400M"}}
		o.Initrd, o.Token = filepath.Join(filepath.Dir(o.Kernel), "initrd"), true
		if os.Geteuid() != 0 {
			o.Jailer.UID, o.Jailer.GID = os.Getuid(), os.Getgid()
		}
	}
}

func TestBoot(t *testing.T) {
	for name, change := range map[string]func(*Options){"plain": nil, "jailed": jailed(t)} {
		t.Run(name, func(t *testing.T) {
			h, taps := open(t, "idle", change)
			v, err := h.Boot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v.Slot() != 1 || v.Addr() != "172.20.1.2:8080" || v.Net().MAC != "AA:FC:00:00:01:02" {
				t.Errorf("slot %d at %s, %+v", v.Slot(), v.Addr(), v.Net())
			}
			if got := taps.names(); !slices.Equal(got, []string{"vmtap1"}) {
				t.Errorf("taps %v", got)
			}
			checkState(t, h, v)
			second, err := h.Boot(t.Context())
			if err != nil || second.Slot() != 2 {
				t.Fatalf("second microVM: %+v, %v", second, err)
			}
			for _, v := range []*VM{v, second, v} {
				if err := v.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			<-v.Done()
			if got := taps.names(); len(got) != 0 {
				t.Errorf("taps left: %v", got)
			}
			left, _ := filepath.Glob(filepath.Join(h.opts.StateDir, "*"))
			for _, path := range left {
				if !strings.HasSuffix(path, ".lock") {
					t.Errorf("left behind: %s", path)
				}
			}
			if h.opts.Jailer != nil {
				if left, _ := filepath.Glob(filepath.Join(h.opts.Jailer.Base, "*", "*")); len(left) != 0 {
					t.Errorf("left in the jail: %v", left)
				}
			}
		})
	}
}

// checkState looks at what a running microVM has on disk.
func checkState(t *testing.T, h *Host, v *VM) {
	t.Helper()
	dir := filepath.Join(h.opts.StateDir, "slot-1")
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := parseRecord(text); err != nil || r.pid != v.tree.Pid() {
		t.Errorf("pid file %q of process %d, %v", text, v.tree.Pid(), err)
	}
	var config Config
	text, err = os.ReadFile(filepath.Join(dir, "vm-config.json"))
	if err != nil || json.Unmarshal(text, &config) != nil {
		t.Fatalf("vm-config.json: %v: %s", err, text)
	}
	args := BootArgs + " guestip=172.20.1.2 hostip=172.20.1.1"
	want := Config{
		BootSource: BootSource{Kernel: h.opts.Kernel, Args: args},
		Drives:     []Drive{{ID: "rootfs", Path: filepath.Join(dir, "rootfs.ext4"), Root: true}},
		Machine:    Machine{VCPUs: 1, MemoryMiB: 256},
		Interfaces: []Interface{{ID: "eth0", MAC: "AA:FC:00:00:01:02", Tap: "vmtap1"}},
	}
	copied := filepath.Join(dir, "rootfs.ext4")
	if h.opts.Jailer != nil {
		want.BootSource = BootSource{Kernel: "/vmlinux", Initrd: "/initrd", Args: args + " exectoken=" + v.Token().Reveal()}
		want.Drives[0].Path = "/rootfs.ext4"
		copied = filepath.Join(h.opts.Jailer.Base, filepath.Base(h.opts.Firecracker), "iris-slot-1", "root", "rootfs.ext4")
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("vm-config.json (-want +got):\n%s", diff)
	}
	if v.Token().IsZero() == h.opts.Token {
		t.Errorf("token: %v, asked for: %v", !v.Token().IsZero(), h.opts.Token)
	}
	if got, err := os.ReadFile(copied); err != nil || string(got) != "files" {
		t.Errorf("the copy of the root file system: %q, %v", got, err)
	}
}

func TestBootFails(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		change func(*Options)
		want   string
	}{
		"no firecracker":    {"idle", func(o *Options) { o.Firecracker = "no-such-firecracker" }, "look for firecracker"},
		"no jailer":         {"idle", func(o *Options) { o.Jailer = &Jailer{Path: "no-such-jailer"} }, "look for the jailer"},
		"no root files":     {"idle", func(o *Options) { o.Rootfs = "/no/such/rootfs" }, "no such file"},
		"directory as root": {"idle", func(o *Options) { o.Rootfs = filepath.Dir(o.Kernel) }, "is not a file"},
		"no kernel":         {"idle", func(o *Options) { o.Kernel = "/no/such/kernel" }, "firecracker refuses PUT /boot-source with 400"},
		"kernel panic":      {"die", nil, "no working init found"},
		"unknown start":     {"nonsense", nil, "is no way to boot"},
		"not a firecracker": {"idle", func(o *Options) { o.Firecracker = "false" }, " ended"},
		"never healthy": {"idle", func(o *Options) {
			o.Healthy = func(context.Context, string) error { return errors.New("connection refused") }
			o.BootTimeout = 50 * time.Millisecond
		}, "was not healthy: waited 50ms (connection refused)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, taps := open(t, c.mode, c.change)
			v, err := h.Boot(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Boot: %v, %v, want %q", v, err, c.want)
			}
			if len(taps.names()) != 0 {
				t.Errorf("taps left: %v", taps.names())
			}
			if _, err := os.Stat(filepath.Join(h.opts.StateDir, "slot-1")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the slot is still there: %v", err)
			}
			if c, err := h.lock(1); err != nil || c == nil {
				t.Errorf("the slot is still locked: %v", err)
			} else {
				c.release()
			}
		})
	}
}

func TestBootEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h, _ := open(t, "idle", func(o *Options) {
		o.Healthy = func(context.Context, string) error { cancel(); return errors.New("not yet") }
	})
	if _, err := h.Boot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Boot: %v", err)
	}
}

// TestCloseKills ends a VMM that ignores TERM.
func TestCloseKills(t *testing.T) {
	h, _ := open(t, "deaf", nil)
	v, err := h.Boot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d < h.opts.KillDelay {
		t.Errorf("ended after %v, before the delay", d)
	}
}

// TestCloseKeepsASlotThatIsNotClean shows that a slot with a tap in it is not
// given to anybody else.
func TestCloseKeepsASlotThatIsNotClean(t *testing.T) {
	h, taps := open(t, "idle", nil)
	v, err := h.Boot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taps.stuck = true
	if err := v.Close(); err == nil || !strings.Contains(err.Error(), "vmtap1 is busy") {
		t.Errorf("Close: %v", err)
	}
	taps.stuck = false
	next, err := h.Boot(t.Context())
	if err != nil || next.Slot() != 2 {
		t.Fatalf("the next one: %v, %v", next, err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	v.claim.release()
}

func TestNewRefuses(t *testing.T) {
	good := Options{Kernel: "/k", Rootfs: "/r"}
	for name, change := range map[string]func(*Options){
		"no kernel":         func(o *Options) { o.Kernel = "" },
		"no root":           func(o *Options) { o.Rootfs = "" },
		"relative initrd":   func(o *Options) { o.Initrd = "i" },
		"relative state":    func(o *Options) { o.StateDir = "s" },
		"negative memory":   func(o *Options) { o.MemoryMiB = -1 },
		"too many vcpus":    func(o *Options) { o.VCPUs = 33 },
		"no port":           func(o *Options) { o.Port = 70000 },
		"relative jail":     func(o *Options) { o.Jailer = &Jailer{Base: "j"} },
		"jail with uid -1":  func(o *Options) { o.Jailer = &Jailer{UID: -1} },
		"cgroup version 3":  func(o *Options) { o.Jailer = &Jailer{CgroupVersion: 3} },
		"cgroup version -1": func(o *Options) { o.Jailer = &Jailer{CgroupVersion: -1} },
	} {
		opts := good
		change(&opts)
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	h, err := New(Options{Kernel: "/no/kernel", Rootfs: t.TempDir(), Firecracker: "no-firecracker", Jailer: &Jailer{Path: "no-jailer"}})
	if err != nil {
		t.Fatal(err)
	}
	text := h.Check().Error()
	for _, want := range []string{"no-firecracker", "no-jailer", "/no/kernel", "is not a file"} {
		if !strings.Contains(text, want) {
			t.Errorf("Check does not name %q:\n%s", want, text)
		}
	}
	good, _ := open(t, "idle", nil)
	if missing := good.checkFiles(); len(missing) != 0 {
		t.Errorf("missing: %v", missing)
	}
}

func TestJailerArgs(t *testing.T) {
	j, err := Jailer{CgroupVersion: 2, Cgroup: []string{"memory.max=400M", "pids.max=100"}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(j.Args("/usr/bin/firecracker", "iris-slot-7"), " ")
	want := "jailer --id iris-slot-7 --exec-file /usr/bin/firecracker --uid 10000 --gid 10000 --chroot-base-dir /srv/jailer " +
		"--cgroup-version 2 --cgroup memory.max=400M --cgroup pids.max=100 -- --api-sock /run/firecracker.socket"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if root := j.Root("/usr/bin/firecracker", "iris-slot-7"); root != "/srv/jailer/firecracker/iris-slot-7/root" {
		t.Errorf("root %s", root)
	}
}

func TestNetOf(t *testing.T) {
	for slot, want := range map[int]string{
		1:   "{vmtap1 172.20.1.1 172.20.1.2 30 AA:FC:00:00:01:02}",
		171: "{vmtap171 172.20.171.1 172.20.171.2 30 AA:FC:00:00:AB:02}",
		254: "{vmtap254 172.20.254.1 172.20.254.2 30 AA:FC:00:00:FE:02}",
	} {
		n := NetOf(slot)
		got := "{" + strings.Join([]string{n.Tap, n.Host.String(), n.Guest.String(), "30", n.MAC}, " ") + "}"
		if got != want || n.Bits != 30 {
			t.Errorf("slot %d: %s, want %s", slot, got, want)
		}
	}
}
