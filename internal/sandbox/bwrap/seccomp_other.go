//go:build !amd64

package bwrap

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// auditArch is 0 where there is no filter.
var auditArch = map[string]uint32{"arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// oneArch are the calls that only one architecture has.
func oneArch() []group { return nil }
