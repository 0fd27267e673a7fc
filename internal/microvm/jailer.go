package microvm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// A Jailer starts Firecracker in a chroot, as a user of its own, in a control
// group. It is Firecracker's companion program.
type Jailer struct {
	// Path is the program, a path or a name in PATH. Empty means "jailer".
	Path string
	// Base is the directory of the chroots. Empty means /srv/jailer.
	Base string
	// UID and GID are who Firecracker runs as. 0 means 10000.
	UID, GID int
	// Cgroup are control group settings, "file=value", such as
	// "memory.max=400M".
	Cgroup []string
	// CgroupVersion is 1 or 2; 0 means the one this machine has.
	CgroupVersion int
}

func (j Jailer) withDefaults() (Jailer, error) {
	def(&j.Path, "jailer")
	def(&j.Base, "/srv/jailer")
	def(&j.UID, 10000)
	def(&j.GID, 10000)
	if !filepath.IsAbs(j.Base) {
		return j, fmt.Errorf("the jailer's directory %q is not an absolute path", j.Base)
	}
	if j.UID < 0 || j.GID < 0 || j.CgroupVersion < 0 || j.CgroupVersion > 2 {
		return j, fmt.Errorf("the jailer cannot run as %d:%d in cgroup version %d", j.UID, j.GID, j.CgroupVersion)
	}
	if j.CgroupVersion == 0 {
		j.CgroupVersion = 1
		if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
			j.CgroupVersion = 2
		}
	}
	return j, nil
}

// jailSocket is where the socket lies as seen from inside of the chroot.
const jailSocket = "/run/firecracker.socket"

// Root is the chroot of the microVM id, as the jailer makes it: its directory
// carries the name of the program.
func (j Jailer) Root(firecracker, id string) string {
	return filepath.Join(j.Base, filepath.Base(firecracker), id, "root")
}

// Args is the command line that starts firecracker, an absolute path, as the
// microVM id; the first is the jailer itself.
func (j Jailer) Args(firecracker, id string) []string {
	args := []string{j.Path,
		"--id", id, "--exec-file", firecracker,
		"--uid", strconv.Itoa(j.UID), "--gid", strconv.Itoa(j.GID),
		"--chroot-base-dir", j.Base, "--cgroup-version", strconv.Itoa(j.CgroupVersion)}
	for _, c := range j.Cgroup {
		args = append(args, "--cgroup", c)
	}
	return append(args, "--", "--api-sock", jailSocket)
}

// place says where the parts of one microVM lie: on the host, and as the VMM
// calls them, which is the same without a jailer.
type place struct {
	args   []string // the command line
	root   string   // what the VMM sees as /, empty if the host's
	dir    string   // of the images, on the host
	socket string   // on the host
	uid    int
	gid    int
}

// vmm is the program behind all links, since the jailer names its directory after
// that.
func (h *Host) vmm() (string, error) {
	path, err := exec.LookPath(h.opts.Firecracker)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("look for firecracker: %w", err)
	}
	return path, nil
}

// placeOf looks up the programs and decides where things go.
func (h *Host) placeOf(c *claimed) (place, error) {
	vmm, err := h.vmm()
	if err != nil {
		return place{}, err
	}
	id := vmID(c.slot)
	j := h.opts.Jailer
	if j == nil {
		socket := filepath.Join(c.dir, "firecracker.socket")
		return place{
			args: []string{vmm, "--api-sock", socket, "--id", id},
			dir:  c.dir, socket: socket, uid: os.Getuid(), gid: os.Getgid(),
		}, nil
	}
	jailer, err := exec.LookPath(j.Path)
	if err != nil {
		return place{}, fmt.Errorf("look for the jailer: %w", err)
	}
	args := j.Args(vmm, id)
	args[0] = jailer
	root := j.Root(vmm, id)
	return place{args: args, root: root, dir: root, socket: filepath.Join(root, jailSocket), uid: j.UID, gid: j.GID}, nil
}

// inside is how the VMM calls a file in dir.
func (p place) inside(name string) string {
	if p.root != "" {
		return "/" + name
	}
	return filepath.Join(p.dir, name)
}
