package clitest

import (
	"os/signal"
	"syscall"
)

// ignoreTerm makes the process one that only KILL ends.
func ignoreTerm() { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT) }
