package bwrap

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// oneArch are the calls that only this architecture has.
func oneArch() []group {
	return []group{
		{"runs code in the kernel", []uint32{unix.SYS_CREATE_MODULE}},
		{"belongs to whoever runs the machine", []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_MODIFY_LDT}},
	}
}
