package systemd

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/fleet/spawn"
)

// accountPrefix begins the names of the agents' users.
const accountPrefix = "irisa-"

// maxAccount is how long the name of a user may be.
const maxAccount = 31

// accountOf is the user of an agent. A name that is too long is cut and told
// apart by its digest.
func accountOf(name string) string {
	if len(accountPrefix)+len(name) <= maxAccount {
		return accountPrefix + name
	}
	digest := sha256.Sum256([]byte(name))
	return accountPrefix + name[:maxAccount-len(accountPrefix)-9] + "-" + hex.EncodeToString(digest[:4])
}

// text is the unit of an agent.
func (d *Driver) text(s spawn.Spec, account string) ([]byte, error) {
	u := &unitText{}
	u.section("Unit")
	u.text("Description", "Iris agent "+s.Name+": "+brief(s.Purpose))
	u.line("Wants", "network-online.target")
	u.line("After", "network-online.target iris.service")

	u.section("Service")
	u.line("Type", "simple")
	if account != "" {
		u.line("User", account)
		u.line("Group", account)
	}
	u.path("WorkingDirectory", "", s.Data())
	u.environ("HOME", s.Data())
	for _, v := range s.Environ() {
		u.environ(v.Name, v.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		u.path("LoadCredential", name+":", filepath.Join(d.credentials(s.Name), name))
	}
	u.command("ExecStart", d.opts.Binary, "serve", "--sandbox=host", s.Data())
	u.line("Restart", "always")
	u.line("RestartSec", "10")
	// The agent feeds the watchdog while work gets through; one that hangs is
	// ended and started again.
	u.line("NotifyAccess", "main")
	u.line("WatchdogSec", "60")
	u.line("KillMode", "mixed")
	u.line("TimeoutStopSec", "40")
	u.path("StandardOutput", "append:", s.LogFile())
	u.path("StandardError", "append:", s.LogFile())
	d.harden(u, s)

	u.section("Install")
	if d.opts.User {
		u.line("WantedBy", "default.target")
	} else {
		u.line("WantedBy", "multi-user.target")
	}
	return u.finish()
}

// maxBrief bounds the purpose in a description.
const maxBrief = 120

func brief(purpose string) string {
	purpose = strings.Join(strings.Fields(purpose), " ")
	if r := []rune(purpose); len(r) > maxBrief {
		return string(r[:maxBrief-1]) + "…"
	}
	return purpose
}

// harden walls the agent in. Under a user's own manager most of it needs rights
// that are not there, so only what always works is asked for.
func (d *Driver) harden(u *unitText, s spawn.Spec) {
	for _, l := range [][2]string{
		{"NoNewPrivileges", "yes"}, {"UMask", "0077"}, {"RestrictSUIDSGID", "yes"}, {"RestrictRealtime", "yes"},
		{"LockPersonality", "yes"}, {"SystemCallArchitectures", "native"}, {"RestrictNamespaces", "yes"},
		{"RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"},
	} {
		u.line(l[0], l[1])
	}
	if d.opts.User {
		return
	}
	for _, l := range [][2]string{
		{"CapabilityBoundingSet", ""}, {"AmbientCapabilities", ""}, {"SystemCallFilter", "@system-service"},
		{"SystemCallErrorNumber", "EPERM"}, {"ProtectSystem", "strict"}, {"PrivateTmp", "yes"}, {"PrivateDevices", "yes"},
		{"ProtectClock", "yes"}, {"ProtectControlGroups", "yes"}, {"ProtectHostname", "yes"}, {"ProtectKernelLogs", "yes"},
		{"ProtectKernelModules", "yes"}, {"ProtectKernelTunables", "yes"}, {"ProtectProc", "invisible"},
		{"KeyringMode", "private"}, {"RemoveIPC", "yes"},
	} {
		u.line(l[0], l[1])
	}
	home := underHome(s.Home) || underHome(d.opts.Binary)
	if home {
		u.line("ProtectHome", "tmpfs")
	} else {
		u.line("ProtectHome", "yes")
	}
	// A directory above the agent's that others may not enter (the parent's) is
	// hidden, and the agent's own is put into its place.
	wall := closed(s.Home)
	if wall != "" && !underHome(s.Home) {
		u.words("TemporaryFileSystem", wall+":ro")
	}
	own := []string{s.Data()}
	if s.SelfHeal {
		own = append(own, s.Events())
	}
	if wall != "" || underHome(s.Home) {
		u.words("BindPaths", own...)
	} else {
		u.words("ReadWritePaths", own...)
	}
	if underHome(d.opts.Binary) {
		u.words("BindReadOnlyPaths", d.opts.Binary)
	}
	for _, p := range d.opts.Hidden {
		if wall == "" || !strings.HasPrefix(p, wall+"/") {
			u.words("InaccessiblePaths", "-"+p)
		}
	}
}

// underHome reports whether ProtectHome= hides a path.
func underHome(path string) bool {
	for _, dir := range []string{"/home", "/root", "/run/user"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// closed returns the topmost directory above path that others may not enter, ""
// if there is none.
func closed(path string) string {
	found := ""
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			found = dir
		}
	}
	return found
}
