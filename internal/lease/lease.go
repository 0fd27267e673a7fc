// Package lease is the contract of having one owner at a time, with a number
// that grows with every owner, so that a write by an owner that lost its lease
// without noticing can be refused (a fencing number). The implementation for
// one machine is lease/file; leasetest holds the suite.
package lease

import (
	"context"
	"errors"
	"fmt"
)

// A Keeper hands out leases by name.
//
// Implementations must hand out a name to one holder at a time, give every
// holder a greater fence than all before it, free the lease of a holder whose
// process died, and be safe for concurrent use, also between processes.
type Keeper interface {
	// Acquire takes the lease or fails with a *HeldError.
	Acquire(ctx context.Context, name string) (Lease, error)
}

// A Lease is held until Release.
type Lease interface {
	// Fence is the fencing number.
	Fence() int64
	// Lost is closed when the lease can no longer be trusted.
	Lost() <-chan struct{}
	// Release gives the lease back. Calling it again does nothing.
	Release() error
}

// ErrHeld is what every *HeldError wraps.
var ErrHeld = errors.New("held by another process")

// A HeldError says who holds the lease.
type HeldError struct {
	Name string
	PID  int // 0 when not known
}

// Error names the holder.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is %v", e.Name, ErrHeld)
	}
	return fmt.Sprintf("%s is %v (pid %d)", e.Name, ErrHeld, e.PID)
}

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }
