package bwrap

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// asked is a call as the kernel shows it to a filter, in the order of bytes that
// the virtual machine of package bpf reads.
func asked(nr, audit uint32, args ...uint64) []byte {
	b := make([]byte, 64)
	binary.BigEndian.PutUint32(b[nrAt:], nr)
	binary.BigEndian.PutUint32(b[archAt:], audit)
	for i, a := range args {
		binary.BigEndian.PutUint32(b[argsAt+8*i:], uint32(a))
		binary.BigEndian.PutUint32(b[argsAt+8*i+4:], uint32(a>>32))
	}
	return b
}

func machine(t *testing.T, p []bpf.Instruction) func(call []byte) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(p)
	if err != nil {
		t.Fatal(err)
	}
	return func(call []byte) uint32 {
		n, err := vm.Run(call)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(n)
	}
}

func TestTheFilterIsWhatTheKernelLoads(t *testing.T) {
	b, err := assemble()
	if err != nil || len(b) == 0 || len(b)%8 != 0 || len(b) > 60<<10 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	for _, g := range denied() {
		if g.why == "" || len(g.calls) == 0 {
			t.Errorf("%v are refused without a reason", g.calls)
		}
	}
}

func TestWhatTheFilterAnswers(t *testing.T) {
	run := machine(t, program())
	for name, c := range map[string]struct {
		call []byte
		want uint32
	}{
		"read":                         {asked(unix.SYS_READ, auditArch), allow},
		"ptrace":                       {asked(unix.SYS_PTRACE, auditArch), eperm},
		"mount":                        {asked(unix.SYS_MOUNT, auditArch), eperm},
		"the last of the list":         {asked(unix.SYS_SET_MEMPOLICY, auditArch), eperm},
		"a thread":                     {asked(unix.SYS_CLONE, auditArch, unix.CLONE_VM|unix.CLONE_THREAD), allow},
		"a namespace":                  {asked(unix.SYS_CLONE, auditArch, unix.CLONE_NEWUSER|17), eperm},
		"clone3":                       {asked(unix.SYS_CLONE3, auditArch), none},
		"a socket":                     {asked(unix.SYS_SOCKET, auditArch, unix.AF_INET), allow},
		"vsock":                        {asked(unix.SYS_SOCKET, auditArch, unix.AF_VSOCK), eperm},
		"vsock with bits nobody reads": {asked(unix.SYS_SOCKET, auditArch, 1<<32|unix.AF_VSOCK), eperm},
		"rds":                          {asked(unix.SYS_SOCKET, auditArch, unix.AF_RDS), eperm},
		"ioctl":                        {asked(unix.SYS_IOCTL, auditArch, 0, unix.TCGETS), allow},
		"typing for others":            {asked(unix.SYS_IOCTL, auditArch, 0, unix.TIOCSTI), eperm},
		"typing with more bits":        {asked(unix.SYS_IOCTL, auditArch, 0, 7<<32|unix.TIOCSTI), eperm},
		"the console":                  {asked(unix.SYS_IOCTL, auditArch, 0, tiocLinux), eperm},
		"another architecture":         {asked(unix.SYS_READ, auditArch+1), none},
		"the other set of calls":       {asked(otherCalls+unix.SYS_READ, auditArch), none},
		"a number below zero":          {asked(1<<32-1, auditArch), none},
	} {
		if got := run(c.call); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}

// An assembler of somebody else makes the same of the same list, for every call
// there is.
func TestTheFilterAgreesWithAnAssembler(t *testing.T) {
	on, err := arch.GetInfo("")
	if err != nil {
		t.Skip(err)
	}
	byNumber := map[int]string{}
	for name, nr := range on.SyscallNames {
		byNumber[nr] = name
	}
	names := []string{}
	for _, g := range denied() {
		for _, nr := range g.calls {
			names = append(names, byNumber[int(nr)])
		}
	}
	for _, want := range strings.Fields("ptrace keyctl mount bpf userfaultfd perf_event_open kexec_load finit_module unshare setns open_by_handle_at") {
		if !slices.Contains(names, want) {
			t.Errorf("%s is allowed", want)
		}
	}
	when := func(name string, arg uint32, op seccomp.Operation, v uint64) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: arg, Operation: op, Value: v}}}
	}
	conditional := []seccomp.NameWithConditions{when("clone", 0, seccomp.BitsSet, newNamespaces), when("ioctl", 1, seccomp.Equal, unix.TIOCSTI), when("ioctl", 1, seccomp.Equal, tiocLinux)}
	for _, f := range families() {
		conditional = append(conditional, when("socket", 0, seccomp.Equal, uint64(f)))
	}
	p := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
		{Names: names, NamesWithCondtions: conditional, Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM)},
	}}
	oracle, err := p.Assemble()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := machine(t, program()), machine(t, oracle)
	values := append(families(), 0, 1, 2, unix.TIOCSTI, tiocLinux, unix.TCGETS, unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, newNamespaces)
	for nr := range uint32(600) {
		for _, v := range values {
			call := asked(nr, auditArch, uint64(v), uint64(v))
			if got, want := ours(call), theirs(call); got != want {
				t.Errorf("call %d (%s) with %#x: %#x, theirs %#x", nr, byNumber[int(nr)], v, got, want)
			}
		}
	}
}
