package config

import (
	"github.com/iris-operator/iris/internal/secret"
)

// Firecracker says what microVMs are made of. All of it but Token and Port is
// for firecracker-pool.
type Firecracker struct {
	Program  string       `toml:"program" env:"IRIS_FIRECRACKER_PROGRAM" default:"firecracker" help:"Firecracker's program, a path or a name in PATH"`
	Jailer   string       `toml:"jailer" env:"IRIS_FIRECRACKER_JAILER" default:"jailer" help:"its jailer, which starts it in a chroot as uid 10000; off for none"`
	Kernel   string       `toml:"kernel" env:"IRIS_FIRECRACKER_KERNEL" default:"/var/lib/iris/firecracker/vmlinux" help:"kernel of the guests"`
	Rootfs   string       `toml:"rootfs" env:"IRIS_FIRECRACKER_ROOTFS" default:"/var/lib/iris/firecracker/rootfs.ext4" help:"image with the guests' files; every guest gets its own copy"`
	Initrd   string       `toml:"initrd" env:"IRIS_FIRECRACKER_INITRD" default:"none" help:"initial ramdisk, for a kernel that needs modules to find its root"`
	BootArgs string       `toml:"boot_args" env:"IRIS_FIRECRACKER_BOOT_ARGS" default:"iris exec-server is the first process" help:"command line of the guests' kernel; guestip=, hostip= and exectoken= are added"`
	StateDir string       `toml:"state_dir" env:"IRIS_FIRECRACKER_STATE_DIR" default:"/var/run/iris-fc" help:"directory of the slots and their locks, one for all of a machine"`
	VCPUs    int          `toml:"vcpus" env:"IRIS_FIRECRACKER_VCPUS" default:"1" help:"processors of a guest"`
	Memory   int          `toml:"memory_mib" env:"IRIS_FIRECRACKER_MEMORY_MIB" default:"256" help:"MiB of memory of a guest"`
	Boot     Seconds      `toml:"boot_timeout_secs" env:"IRIS_FIRECRACKER_BOOT_TIMEOUT_SECS" default:"15" help:"seconds until a guest has to be up"`
	Port     int          `toml:"port" env:"IRIS_FIRECRACKER_PORT" default:"8080" help:"port of the exec-server in a guest"`
	Token    secret.Value `toml:"token" env:"IRIS_FIRECRACKER_TOKEN" default:"none" help:"what the exec-server of firecracker:<ip> asks for; guests of the pool get one each by themselves"`
}

// fill sets what is still zero.
func (f *Firecracker) fill() {
	def(&f.Program, "firecracker")
	def(&f.Jailer, "jailer")
	def(&f.Kernel, "/var/lib/iris/firecracker/vmlinux")
	def(&f.Rootfs, "/var/lib/iris/firecracker/rootfs.ext4")
	def(&f.StateDir, "/var/run/iris-fc")
	def(&f.VCPUs, 1)
	def(&f.Memory, 256)
	def(&f.Boot, 15)
	def(&f.Port, 8080)
}
