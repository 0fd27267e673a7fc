package microvm

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/iris-operator/iris/internal/lockfile"
)

// Net is the network of a slot.
type Net struct {
	Tap         string // on the host
	Host, Guest netip.Addr
	Bits        int // of the network the two share
	MAC         string
}

// NetOf returns the network of a slot from 1 to Slots.
func NetOf(slot int) Net {
	return Net{
		Tap:   "vmtap" + strconv.Itoa(slot),
		Host:  netip.AddrFrom4([4]byte{172, 20, byte(slot), 1}),
		Guest: netip.AddrFrom4([4]byte{172, 20, byte(slot), 2}),
		Bits:  30,
		MAC:   fmt.Sprintf("AA:FC:00:00:%02X:02", slot),
	}
}

// claimed is a slot of ours for as long as lock is open.
type claimed struct {
	slot int
	dir  string
	lock *os.File
}

// claim takes the lowest free slot and removes what a dead owner left in it.
func (h *Host) claim() (*claimed, error) {
	if err := os.MkdirAll(h.opts.StateDir, 0o700); err != nil {
		return nil, err
	}
	var errs []error
	for slot := 1; slot <= Slots; slot++ {
		c, err := h.lock(slot)
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		// A slot that cannot be cleaned is left to the next who tries.
		if _, err := h.clean(c); err != nil {
			errs = append(errs, fmt.Errorf("slot %d: %w", slot, err))
			c.release()
			continue
		}
		return c, nil
	}
	return nil, errors.Join(append([]error{ErrNoSlot}, errs...)...)
}

// lock claims one slot; nil means that somebody has it.
func (h *Host) lock(slot int) (*claimed, error) {
	dir := filepath.Join(h.opts.StateDir, "slot-"+strconv.Itoa(slot))
	// The lock file stays for ever: one that is removed could be locked twice.
	f, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claim slot %d: %w", slot, err)
	}
	if err := lockfile.Try(f); err != nil {
		_ = f.Close()
		if errors.Is(err, lockfile.ErrHeld) {
			return nil, nil
		}
		return nil, fmt.Errorf("claim slot %d: %w", slot, err)
	}
	return &claimed{slot: slot, dir: dir, lock: f}, nil
}

// release gives the slot back.
func (c *claimed) release() { _ = lockfile.Close(c.lock) }

// Sweep removes what dead processes left in the state directory: their VMM, tap
// and files. It returns how many slots had something in them.
func (h *Host) Sweep() (swept int, err error) {
	var errs []error
	for slot := 1; slot <= Slots; slot++ {
		if _, err := os.Lstat(filepath.Join(h.opts.StateDir, "slot-"+strconv.Itoa(slot))); err != nil {
			continue
		}
		c, err := h.lock(slot)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if c == nil {
			continue
		}
		found, err := h.clean(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("slot %d: %w", slot, err))
		} else if found {
			swept++
			h.opts.Logger.Info("removed what a dead process left of a microVM", "slot", slot)
		}
		c.release()
	}
	return swept, errors.Join(errs...)
}

// clean removes everything that can be in a slot: the VMM if it runs, the tap,
// the chroot and, last, the directory, so that an interrupted cleaning is found
// again.
func (h *Host) clean(c *claimed) (found bool, err error) {
	if _, err := os.Lstat(c.dir); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	if err := endRecorded(filepath.Join(c.dir, "pid"), h.opts.KillDelay); err != nil {
		return true, err
	}
	return true, h.remove(c)
}

// remove takes away the tap and the files of a slot.
func (h *Host) remove(c *claimed) error {
	if err := h.taps.down(NetOf(c.slot).Tap); err != nil {
		return err
	}
	if j := h.opts.Jailer; j != nil {
		vmm, err := h.vmm()
		if err != nil { // it was there when the chroot was made
			return err
		}
		if err := os.RemoveAll(filepath.Dir(j.Root(vmm, vmID(c.slot)))); err != nil {
			return err
		}
	}
	return os.RemoveAll(c.dir)
}

// vmID is what Firecracker and the jailer call the microVM of a slot.
func vmID(slot int) string { return "iris-slot-" + strconv.Itoa(slot) }
