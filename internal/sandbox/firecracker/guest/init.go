package guest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A Boot is what the kernel's command line tells the first process of a guest.
type Boot struct {
	Guest, Host netip.Addr // guestip=, hostip=; invalid if not there
	Token       string     // exectoken=
}

// ParseBoot reads a kernel command line. Words it does not know are somebody
// else's.
func ParseBoot(line string) (b Boot, err error) {
	for word := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "guestip":
			b.Guest, err = netip.ParseAddr(value)
		case "hostip":
			b.Host, err = netip.ParseAddr(value)
		case "exectoken":
			b.Token = value
		}
		if err != nil || b.Guest.IsValid() && !b.Guest.Is4() {
			return Boot{}, fmt.Errorf("%q on the kernel's command line is no IPv4 address: %w", word, errors.Join(err))
		}
	}
	return b, nil
}

// Prepare makes a bare kernel a machine that commands can run on, as its first
// process: /proc, /sys, /dev, /run and /tmp where they are missing, the loopback
// interface, and eth0 with the address from the kernel's command line. What is
// there already stays.
func Prepare() (Boot, error) {
	for _, m := range []struct{ source, target, kind, data string }{
		{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""}, {"dev", "/dev", "devtmpfs", ""},
		{"pts", "/dev/pts", "devpts", ""}, {"shm", "/dev/shm", "tmpfs", "mode=1777"},
		{"run", "/run", "tmpfs", "mode=755"}, {"tmp", "/tmp", "tmpfs", "mode=1777"},
	} {
		if err := mount(m.source, m.target, m.kind, m.data); err != nil {
			return Boot{}, err
		}
	}
	for link, to := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, link); err != nil && !errors.Is(err, os.ErrExist) {
			return Boot{}, err
		}
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return Boot{}, err
	}
	b, err := ParseBoot(string(line))
	if err != nil {
		return Boot{}, err
	}
	if err := address("lo", netip.AddrFrom4([4]byte{127, 0, 0, 1}), 8); err != nil {
		return Boot{}, err
	}
	if b.Guest.IsValid() {
		if err := address("eth0", b.Guest, 30); err != nil {
			return Boot{}, err
		}
	}
	return b, nil
}

// mount mounts what is not mounted, making the directory.
func mount(source, target, kind, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	var at, above unix.Stat_t
	if unix.Stat(target, &at) == nil && unix.Stat(target+"/..", &above) == nil && at.Dev != above.Dev {
		return nil // something is mounted there
	}
	if err := unix.Mount(source, target, kind, unix.MS_NOSUID, data); err != nil && err != unix.EBUSY {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

// address gives an interface its address and brings it up.
func address(name string, addr netip.Addr, bits int) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	for _, set := range []struct {
		call uint
		addr []byte
	}{{unix.SIOCSIFADDR, addr.AsSlice()}, {unix.SIOCSIFNETMASK, net.CIDRMask(bits, 32)}} {
		if err := ifr.SetInet4Addr(set.addr); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, set.call, ifr); err != nil {
			return fmt.Errorf("give %s the address %s/%d: %w", name, addr, bits, err)
		}
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}

// PowerOff ends the machine; a VMM ends with its guest. It returns only if it
// could not.
func PowerOff() error {
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // Firecracker ends at a restart, and has no power switch
}
