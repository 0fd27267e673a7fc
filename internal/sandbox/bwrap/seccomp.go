package bwrap

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denied are the system calls that fail with EPERM, in groups with the reason;
// oneArch has those of one architecture. Everything else is allowed: a list of what
// is allowed would break programs whenever a C library learns a new call.
func denied() []group {
	return append([]group{
		{"looks into other processes or takes their descriptors", []uint32{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE}},
		{"keys are not divided by namespaces", []uint32{unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY}},
		{"changes what is mounted, which is the wall itself", []uint32{unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR}},
		{"enters or makes namespaces, and with them rights over a larger part of the kernel", []uint32{unix.SYS_SETNS, unix.SYS_UNSHARE}},
		{"runs code in the kernel", []uint32{unix.SYS_BPF, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD}},
		{"has been the way into many kernels", []uint32{unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_VMSPLICE}},
		{"opens files past the mounts", []uint32{unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT}},
		{"belongs to whoever runs the machine", []uint32{unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SYSLOG, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY}},
	}, oneArch()...)
}

type group struct {
	why   string
	calls []uint32
}

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// families are the sockets that reach past the network namespace (vsock talks to
// the machine below this one) or deep into the kernel.
func families() []uint32 {
	return []uint32{unix.AF_VSOCK, unix.AF_PACKET, unix.AF_ALG, unix.AF_KEY, unix.AF_XDP, unix.AF_BLUETOOTH, unix.AF_CAN, unix.AF_TIPC, unix.AF_RDS}
}

// What a filter answers.
const (
	allow = unix.SECCOMP_RET_ALLOW
	eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	none  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// Where the kernel shows a filter the number of a call, the architecture and the
// lower half of an argument. The arguments that are looked at are ints to the
// kernel too, or their upper half means nothing.
const (
	nrAt   = 0
	archAt = 4
	argsAt = 16
)

// otherCalls begins the numbers of the second set of calls (x32) that AMD64 has
// under the same architecture.
const otherCalls = 0x40000000

// program is the filter. It knows the calls of one architecture: a program that
// speaks another one (int 0x80) finds none at all. By hand, because what
// assembles filters brings tables of all architectures, which every start of Iris
// pays for with a millisecond.
func program() []bpf.Instruction {
	var p []bpf.Instruction
	add := func(in ...bpf.Instruction) { p = append(p, in...) }
	load := func(at uint32) { add(bpf.LoadAbsolute{Off: at, Size: 4}) }
	// unless answers a call for which a test fails, and goes on otherwise.
	unless := func(cond bpf.JumpTest, val, answer uint32) {
		add(bpf.JumpIf{Cond: cond, Val: val, SkipTrue: 1}, bpf.RetConstant{Val: answer})
	}
	load(archAt)
	unless(bpf.JumpEqual, auditArch, none)
	load(nrAt)
	unless(bpf.JumpLessThan, otherCalls, none)
	// The flags of clone3 lie in memory, where a filter cannot look. C libraries
	// use clone when it does not exist.
	unless(bpf.JumpNotEqual, unix.SYS_CLONE3, none)
	for _, g := range denied() {
		for _, nr := range g.calls {
			unless(bpf.JumpNotEqual, nr, eperm)
		}
	}
	// when looks at an argument of one call.
	when := func(nr, arg uint32, refuse func(val uint32), vals ...uint32) {
		at := len(p)
		load(argsAt + 8*arg)
		for _, v := range vals {
			refuse(v)
		}
		add(bpf.RetConstant{Val: allow})
		body := slices.Clone(p[at:])
		p = append(p[:at], bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(body))})
		add(body...)
	}
	equal := func(v uint32) { unless(bpf.JumpNotEqual, v, eperm) }
	when(unix.SYS_CLONE, 0, func(v uint32) { unless(bpf.JumpBitsNotSet, v, eperm) }, newNamespaces)
	when(unix.SYS_SOCKET, 0, equal, families()...)
	// What is typed into the terminal of another program.
	when(unix.SYS_IOCTL, 1, equal, unix.TIOCSTI, tiocLinux)
	add(bpf.RetConstant{Val: allow})
	return p
}

const tiocLinux = 0x541C

// assemble makes the bytes that bubblewrap loads: the array of sock_filter.
func assemble() ([]byte, error) {
	if auditArch == 0 {
		return nil, fmt.Errorf("system call filter: none for %s", runtime.GOARCH)
	}
	raw, err := bpf.Assemble(program())
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	b := make([]byte, 0, 8*len(raw))
	for _, r := range raw {
		b = binary.NativeEndian.AppendUint16(b, r.Op)
		b = append(b, r.Jt, r.Jf)
		b = binary.NativeEndian.AppendUint32(b, r.K)
	}
	return b, nil
}
