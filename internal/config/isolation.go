package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// Policy is what an operator adds to the shell policy.
type Policy struct {
	SecretNames       []string `toml:"secret_names" env:"IRIS_POLICY_SECRET_NAMES" default:"none" help:"further names of files that no command and no tool may open"`
	ProtectedPaths    []string `toml:"protected_paths" env:"IRIS_POLICY_PROTECTED_PATHS" default:"none" help:"further absolute paths, files or directories, that are written only with consent"`
	ProtectedBranches []string `toml:"protected_branches" env:"IRIS_POLICY_PROTECTED_BRANCHES" default:"none" help:"further branches that are pushed over only with consent; * stands for any text"`
	Deny              []string `toml:"deny" env:"IRIS_POLICY_DENY" default:"none" help:"further commands that are refused: the words they begin with, and after a colon why (kubectl delete namespace: it is gone for good)"`
	Confirm           []string `toml:"confirm" env:"IRIS_POLICY_CONFIRM" default:"none" help:"further commands that need consent, written like deny"`
	InstallRoot       string   `toml:"install_root" env:"IRIS_POLICY_INSTALL_ROOT" default:"/iris" help:"directory of the installation, which is not to be deleted"`
}

// Isolation says what commands in a sandbox have. The host has none of it.
type Isolation struct {
	Network   string   `toml:"network" env:"IRIS_SANDBOX_NETWORK" default:"none" help:"network of commands in bwrap: none, or host for all of the machine's"`
	Read      []string `toml:"read" env:"IRIS_SANDBOX_READ" default:"none" help:"further absolute paths that commands in bwrap may read"`
	Processes int      `toml:"processes" env:"IRIS_SANDBOX_PROCESSES" default:"1024" help:"processes and threads that one command in bwrap may have"`
	MemoryMiB int64    `toml:"memory_mib" env:"IRIS_SANDBOX_MEMORY_MIB" default:"4096" help:"MiB of memory that each process in bwrap may have"`
	FileMiB   int64    `toml:"file_mib" env:"IRIS_SANDBOX_FILE_MIB" default:"4096" help:"MiB that one file written in bwrap may have"`
	TmpMiB    int64    `toml:"tmp_mib" env:"IRIS_SANDBOX_TMP_MIB" default:"512" help:"MiB of the /tmp of one command in bwrap, in memory"`
	DiskMiB   int64    `toml:"disk_mib" env:"IRIS_SANDBOX_DISK_MIB" default:"512" help:"MiB of the workspace's disk that are kept free: a command in bwrap that leaves less is ended"`
}

// Level takes the sandbox setting apart: the level, and what stands behind its
// colon.
func (c *Config) Level() (level, name string) {
	level, name, _ = strings.Cut(c.Sandbox, ":")
	return level, name
}

// checkSandbox refuses levels that do not exist and paths that are none.
func (c *Config) checkSandbox() error {
	level, name := c.Level()
	switch level {
	case "host", "bwrap", "firecracker-pool":
		if c.Sandbox != level {
			return fmt.Errorf("IRIS_SANDBOX=%q: %s takes no name", c.Sandbox, level)
		}
	case "docker":
		if name == "" || strings.ContainsAny(name, "/?#% ") {
			return fmt.Errorf("IRIS_SANDBOX=%q names no container; write docker:<name>", c.Sandbox)
		}
	case "firecracker":
		if _, err := netip.ParseAddr(name); err != nil {
			return fmt.Errorf("IRIS_SANDBOX=%q names no microVM; write firecracker:<ip>", c.Sandbox)
		}
	default:
		return fmt.Errorf("IRIS_SANDBOX=%q is not a sandbox; there are host, bwrap, docker:<name>, firecracker:<ip> and firecracker-pool", c.Sandbox)
	}
	if err := oneOf("IRIS_SANDBOX_NETWORK", c.Isolation.Network, "none", "host"); err != nil {
		return err
	}
	for name, list := range map[string][]string{"IRIS_SANDBOX_READ": c.Isolation.Read, "IRIS_POLICY_PROTECTED_PATHS": c.Policy.ProtectedPaths, "IRIS_POLICY_INSTALL_ROOT": {c.Policy.InstallRoot}} {
		for _, p := range list {
			if !filepath.IsAbs(p) {
				return fmt.Errorf("%s: %q is not an absolute path", name, p)
			}
		}
	}
	for name, list := range map[string][]string{"IRIS_POLICY_DENY": c.Policy.Deny, "IRIS_POLICY_CONFIRM": c.Policy.Confirm} {
		for _, r := range list {
			if words, _ := Rule(r); len(words) == 0 {
				return fmt.Errorf("%s: the rule %q names no command", name, r)
			}
		}
	}
	return nil
}

// Rule takes an operator's rule apart: the words a command begins with, and the
// reason behind ": ", which may be empty.
func Rule(s string) (words []string, reason string) {
	command, reason, _ := strings.Cut(s, ": ")
	return strings.Fields(command), strings.TrimSpace(reason)
}
