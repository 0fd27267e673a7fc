package microvm

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// kernelTaps makes taps with the kernel's own calls: no program has to be there
// and every refusal has its reason.
type kernelTaps struct{}

// up makes the tap for uid, gives it the host's address and brings it up.
func (kernelTaps) up(n Net, uid int) (err error) {
	tun, err := attach(n.Tap)
	if err != nil {
		return err
	}
	defer unix.Close(tun)
	if err := unix.IoctlSetInt(tun, unix.TUNSETOWNER, uid); err != nil {
		return fmt.Errorf("give %s to uid %d: %w", n.Tap, uid, err)
	}
	if err := unix.IoctlSetInt(tun, unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("keep %s: %w", n.Tap, err)
	}
	return configure(n.Tap, n.Host.As4(), n.Bits)
}

// down removes the tap, also one that was half made. A VMM that has just died
// may hold it for a moment.
func (kernelTaps) down(name string) error {
	deadline := time.Now().Add(3 * time.Second)
	for {
		if _, err := net.InterfaceByName(name); err != nil {
			return nil // there is none
		}
		tun, err := attach(name)
		if err == nil {
			err = unix.IoctlSetInt(tun, unix.TUNSETPERSIST, 0)
			_ = unix.Close(tun)
			if err != nil {
				return fmt.Errorf("remove %s: %w", name, err)
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove the tap: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// attach opens the tap, making it if there is none.
func attach(name string) (int, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return -1, fmt.Errorf("%q is no name for a tap: %w", name, err)
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, ifr); err != nil {
		_ = unix.Close(tun)
		return -1, fmt.Errorf("make %s: %w", name, err)
	}
	return tun, nil
}

// configure gives an interface its address and brings it up.
func configure(name string, addr [4]byte, bits int) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	mask := net.CIDRMask(bits, 32)
	for _, set := range []struct {
		call uint
		addr []byte
	}{{unix.SIOCSIFADDR, addr[:]}, {unix.SIOCSIFNETMASK, mask}} {
		if err := ifr.SetInet4Addr(set.addr); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, set.call, ifr); err != nil {
			return fmt.Errorf("give %s an address: %w", name, err)
		}
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}
