package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/sandbox/host"
)

// afterlife is how long a start waits for what a predecessor seems to hold. When
// one was killed, children that it had forked and that had not become their
// programs yet keep its port and its locks for some milliseconds, on a busy
// machine longer; a restart must not fail for that.
const (
	afterlife = time.Second
	lookAgain = 10 * time.Millisecond
)

// leftoverGrace is what a predecessor's commands have between TERM and KILL. It
// is short: the start waits for it.
const leftoverGrace = time.Second

// endLeftovers ends what the commands of a killed predecessor had started and
// left running. Their turns are about to be told that they were interrupted, and
// then they must be. The caller holds the workspace.
func endLeftovers(workspace string, log *slog.Logger) {
	n, err := process.Sweep(host.Owner(workspace), leftoverGrace)
	if n > 0 {
		log.Warn("ended what the commands of a killed process had left running", "processes", n)
	}
	if err != nil {
		log.Error("end what the commands of a killed process had left running", "error", err)
	}
}

// patiently calls try until it succeeds, fails with an error that is not passing
// by itself, or afterlife is over. It returns the last error.
func patiently(ctx context.Context, try func() error, passing func(error) bool) error {
	ctx, cancel := context.WithTimeout(ctx, afterlife)
	defer cancel()
	for {
		err := try()
		if err == nil || !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lookAgain):
		}
	}
}

// listen opens a TCP listener; setting names what to change when it cannot.
func listen(ctx context.Context, host string, port int, setting string) (ln net.Listener, err error) {
	err = patiently(ctx, func() (err error) {
		ln, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		return err
	}, func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) })
	if err != nil {
		return nil, fmt.Errorf("%w: choose another port with %s, or end what uses this one", err, setting)
	}
	return plainSpeaker{ln}, nil
}

// acquire takes the workspace. It waits for a lock whose holder is dead and not
// for one whose holder lives.
func acquire(ctx context.Context, keeper lease.Keeper) (held lease.Lease, err error) {
	err = patiently(ctx, func() (err error) {
		held, err = keeper.Acquire(ctx, "serve")
		return err
	}, func(err error) bool {
		var busy *lease.HeldError
		return errors.As(err, &busy) && (busy.PID <= 0 || errors.Is(syscall.Kill(busy.PID, 0), syscall.ESRCH))
	})
	return held, err
}
