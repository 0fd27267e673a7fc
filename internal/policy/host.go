package policy

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// metadataAddrs answer with credentials of the machine.
var metadataAddrs = []netip.Addr{
	netip.AddrFrom4([4]byte{169, 254, 169, 254}), // AWS, GCP, Azure, most others
	netip.AddrFrom4([4]byte{169, 254, 170, 2}),   // ECS tasks
	netip.AddrFrom4([4]byte{169, 254, 170, 23}),  // EKS pods
	netip.AddrFrom4([4]byte{100, 100, 100, 100}),
	netip.AddrFrom4([4]byte{100, 100, 100, 200}), // Alibaba
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"),
}

const (
	metadataNames = "metadata.google.internal metadata.goog instance-data instance-data.ec2.internal metadata.azure.internal"
	// encodingZones are zones whose names contain the address they answer with.
	encodingZones = ".nip.io .sslip.io .xip.io .traefik.me"
)

// isMetadata reports whether a host, in any form that clients accept, is a
// metadata service.
func isMetadata(host string) bool {
	if len(host) < 6 && !strings.HasPrefix(host, "[") || len(host) > 300 {
		return false
	}
	host = strings.ToLower(fold(host))
	if strings.Contains(host, "%") && !strings.HasPrefix(host, "[") {
		if h, err := url.PathUnescape(host); err == nil {
			host = h
		}
	}
	host = strings.TrimRight(strings.Trim(host, "[]"), ".")
	if addr, ok := address(host); ok {
		return metadataAddr(addr)
	}
	if oneOf(host, metadataNames) {
		return true
	}
	for zone := range strings.SplitSeq(encodingZones, " ") {
		if name, ok := strings.CutSuffix(host, zone); ok {
			return encodesMetadata(name)
		}
	}
	return false
}

func metadataAddr(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	for _, m := range metadataAddrs {
		if a == m {
			return true
		}
	}
	if !a.Is6() {
		return false
	}
	b := a.As16()
	var v4 [4]byte
	switch {
	case strings.HasPrefix(string(b[:]), "\x00\x64\xff\x9b"), string(b[:12]) == strings.Repeat("\x00", 12):
		copy(v4[:], b[12:]) // NAT64, v4-compatible
	case b[0] == 0x20 && b[1] == 2:
		copy(v4[:], b[2:]) // 6to4
	default:
		return false
	}
	return metadataAddr(netip.AddrFrom4(v4))
}

// address reads an address in the forms of inet_aton and of IPv6.
func address(host string) (netip.Addr, bool) {
	if strings.IndexByte(host, ':') >= 0 {
		if zone := strings.IndexByte(host, '%'); zone >= 0 {
			host = host[:zone]
		}
		a, err := netip.ParseAddr(host)
		return a, err == nil
	}
	if host == "" || !isDigit(host[0]) {
		return netip.Addr{}, false
	}
	var parts [4]uint64
	n := 0
	for p := range strings.SplitSeq(host, ".") {
		if n == 4 {
			return netip.Addr{}, false
		}
		v, err := strconv.ParseUint(octal(p), 0, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		parts[n] = v
		n++
	}
	sum := parts[n-1]
	if sum >= 1<<(8*(5-n)) {
		return netip.Addr{}, false
	}
	for i := range n - 1 {
		if parts[i] > 255 {
			return netip.Addr{}, false
		}
		sum |= parts[i] << (24 - 8*i)
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

// octal keeps ParseUint from taking what inet_aton does not: 0b, 0o and "_".
func octal(part string) string {
	if strings.ContainsAny(part, "_obOB") && !strings.HasPrefix(part, "0x") {
		return ""
	}
	return part
}

// encodesMetadata looks for an address in a name: dotted, dashed or as hex.
func encodesMetadata(name string) bool {
	labels := strings.Split(name, ".")
	for i := range labels {
		if i+4 <= len(labels) {
			if a, ok := address(strings.Join(labels[i:i+4], ".")); ok && metadataAddr(a) {
				return true
			}
		}
		dashed := strings.Split(labels[i], "-")
		for k := 0; k+4 <= len(dashed); k++ {
			if a, ok := address(strings.Join(dashed[k:k+4], ".")); ok && metadataAddr(a) {
				return true
			}
		}
		for _, d := range dashed {
			if len(d) == 8 {
				if a, ok := address("0x" + d); ok && metadataAddr(a) {
					return true
				}
			}
		}
	}
	return false
}

// fold maps the letters and dots that international names allow to ASCII.
func fold(host string) string {
	ascii := true
	for i := range len(host) {
		ascii = ascii && host[i] < 0x80
	}
	if ascii {
		return host
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '。' || r == '．' || r == '｡':
			return '.'
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case r >= '①' && r <= '⑨':
			return r - '①' + '1'
		case r == '⓪':
			return '0'
		case r >= 'ⓐ' && r <= 'ⓩ':
			return r - 'ⓐ' + 'a'
		}
		return r
	}, host)
}

// schemeOf returns where the text behind a URL's "//" starts, 0 if there is none.
func schemeOf(text string) int {
	i := strings.Index(text, "://")
	if i <= 0 {
		return 0
	}
	for k := range i {
		if c := text[k]; !isLetter(c) && !isDigit(c) && c != '+' && c != '-' && c != '.' {
			return 0
		}
	}
	return i + 3
}

// hostOf takes the host out of a URL or of what a client takes for one.
func hostOf(target string) string {
	rest := target[schemeOf(target):]
	rest = strings.TrimLeft(rest, "/\\")
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if strings.HasPrefix(rest, "[") {
		if end := strings.IndexByte(rest, ']'); end > 0 {
			return rest[:end+1]
		}
	}
	if colon := strings.IndexByte(rest, ':'); colon >= 0 && strings.Count(rest, ":") == 1 {
		rest = rest[:colon]
	}
	return rest
}
