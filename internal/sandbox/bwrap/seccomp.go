package bwrap

import (
	"bytes"
	"encoding/binary"
	"fmt"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denied are the system calls that fail with EPERM, in groups with the reason.
// Everything else is allowed: a list of what is allowed would break programs
// whenever a C library learns a new call.
var denied = []struct {
	why   string
	calls []string
}{
	{"looks into other processes or takes their descriptors", []string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise"}},
	{"keys are not divided by namespaces", []string{"keyctl", "add_key", "request_key"}},
	{"changes what is mounted, which is the wall itself", []string{"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"}},
	{"enters or makes namespaces, and with them rights over a larger part of the kernel", []string{"setns", "unshare"}},
	{"runs code in the kernel", []string{"bpf", "init_module", "finit_module", "delete_module", "create_module", "kexec_load", "kexec_file_load"}},
	{"has been the way into many kernels", []string{"userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "vmsplice"}},
	{"opens files past the mounts", []string{"open_by_handle_at", "name_to_handle_at"}},
	{"belongs to whoever runs the machine", []string{"reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "syslog", "iopl", "ioperm", "sethostname", "setdomainname", "vhangup", "nfsservctl", "uselib", "lookup_dcookie", "move_pages", "migrate_pages", "mbind", "set_mempolicy", "modify_ldt"}},
}

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// families are the sockets that reach past the network namespace (vsock talks to
// the machine below this one) or deep into the kernel.
var families = []uint64{unix.AF_VSOCK, unix.AF_PACKET, unix.AF_ALG, unix.AF_KEY, unix.AF_XDP, unix.AF_BLUETOOTH, unix.AF_CAN, unix.AF_TIPC, unix.AF_RDS}

// policy is the filter for one architecture. Calls that it does not have are left
// out.
func policy(on *arch.Info) seccomp.Policy {
	var names []string
	for _, group := range denied {
		for _, call := range group.calls {
			if _, ok := on.SyscallNames[call]; ok {
				names = append(names, call)
			}
		}
	}
	conditional := []seccomp.NameWithConditions{{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: newNamespaces}}}}
	for _, f := range families {
		conditional = append(conditional, seccomp.NameWithConditions{Name: "socket", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: f}}})
	}
	// What is typed into the terminal of another program: TIOCSTI, TIOCLINUX.
	for _, request := range []uint64{unix.TIOCSTI, 0x541C} {
		conditional = append(conditional, seccomp.NameWithConditions{Name: "ioctl", Conditions: seccomp.ArgumentConditions{{Argument: 1, Operation: seccomp.Equal, Value: request}}})
	}
	return seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			// The flags of clone3 lie in memory, where a filter cannot look. C
			// libraries use clone when it does not exist.
			{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
			{Names: names, NamesWithCondtions: conditional, Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM)},
		},
	}
}

// assemble makes the bytes that bubblewrap loads: the array of sock_filter.
func assemble() ([]byte, error) {
	on, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	p := policy(on)
	program, err := p.Assemble()
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	// The filter knows the calls of one architecture. A program that speaks
	// another one (int 0x80) finds none at all.
	only := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(on.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)},
	}
	raw, err := bpf.Assemble(append(only, program...))
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	var b bytes.Buffer
	for _, r := range raw {
		b.Write(binary.NativeEndian.AppendUint16(nil, r.Op))
		b.Write([]byte{r.Jt, r.Jf})
		b.Write(binary.NativeEndian.AppendUint32(nil, r.K))
	}
	return b.Bytes(), nil
}
