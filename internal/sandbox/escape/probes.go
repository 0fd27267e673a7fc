package escape

import (
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/sandbox"
)

// The names of the probes, for those who say which walls a level promises.
const (
	SecretFile   = "secret file"
	SymlinkOut   = "symlink out"
	WriteOutside = "write outside"
	ReadState    = "read state"
	WriteState   = "write state"
	SystemFiles  = "system files"
	EngineSocket = "docker socket"
	Abstract     = "abstract socket"
	Loopback     = "loopback"
	Metadata     = "metadata address"
	ParentEnv    = "parent's environment"
	OtherProcs   = "/proc"
	SignalOut    = "signal"
	Memory       = "memory of others"
	KernelKnobs  = "kernel settings"
	Devices      = "devices"
	Mount        = "mount"
	Namespaces   = "new namespaces"
	Capabilities = "capabilities"
	Privileges   = "set-user-id"
	Syscalls     = "system calls"
	Descriptors  = "descriptors"
	Terminal     = "terminal"
	Environment  = "environment"
	OwnMemory    = "memory limit"
	Survivor     = "setsid survivor"
	ForkBomb     = "fork bomb"
	DiskFill     = "disk fill"
)

// see prints the file at path if it holds the mark.
func see(path, mark string) string {
	return fmt.Sprintf(`case "$(cat %s)" in *%s*) echo open %s ;; *) echo shut ;; esac`, sandbox.Quote(path), mark, sandbox.Quote("read "+path))
}

// touch tries to make a file.
func touch(path string) string {
	return fmt.Sprintf(`if (echo x > %s); then echo shut kept inside; else echo shut; fi`, sandbox.Quote(path))
}

// grep looks for the word of the decoy in one file of every process.
func grep(file, word string) string {
	return fmt.Sprintf(`if grep -qs %s /proc/[0-9]*/%s; then echo open read it; else echo shut; fi`, pattern(word), file)
}

// pattern matches word and does not stand in a command line as the word itself.
func pattern(word string) string { return sandbox.Quote("[" + word[:1] + "]" + word[1:]) }

// connect tries to reach an address. bash does it by itself; else wget may.
func connect(host string, port int) string {
	return fmt.Sprintf(`if command -v bash >/dev/null; then
	try() { bash -c 'exec 3<>/dev/tcp/%[1]s/%[2]d'; }
elif command -v wget >/dev/null; then
	try() { wget -q -T 2 -O /dev/null http://%[1]s:%[2]d/; [ $? != 4 ]; }
else
	echo shut no program to try it with; exit
fi
( try && echo y ) > "${TMPDIR:-/tmp}/iris-try-$$" 2>/dev/null &
p=$!; i=0
while kill -0 $p 2>/dev/null && [ $i -lt 15 ]; do sleep 0.1 || sleep 1; i=$((i+1)); done
kill -9 $p 2>/dev/null
case "$(cat "${TMPDIR:-/tmp}/iris-try-$$"; rm -f "${TMPDIR:-/tmp}/iris-try-$$")" in
y) echo open connected ;;
*) if [ $i -ge 15 ]; then echo shut nothing answered; else echo shut no way there; fi ;;
esac`, host, port)
}

// probes are those that take a moment.
func probes(d *decoys) []probe {
	out := d.home + "/written"
	stateOut := d.state + "-written"
	sockets := append([]string{"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"}, d.opts.Sockets...)
	for i, s := range sockets {
		sockets[i] = sandbox.Quote(s)
	}
	return []probe{
		{name: SecretFile, what: "read a file outside of the workspace", script: see(d.secret, d.mark)},
		{name: SymlinkOut, what: "read it through a link in the workspace", script: see(d.inside(d.link), d.mark)},
		{name: WriteOutside, what: "write outside of the workspace", script: touch(out), after: appeared(out)},
		{name: ReadState, what: "read Iris's own state", script: see(d.inside(d.state), d.mark)},
		{name: WriteState, what: "write into it", script: touch(d.inside(stateOut)), after: appeared(stateOut)},
		{name: SystemFiles, what: "write into /etc and /usr of the host", script: touch("/etc/"+d.mark) + "\n" + touch("/usr/"+d.mark) + " >/dev/null", after: appeared("/etc/"+d.mark, "/usr/"+d.mark)},
		{name: EngineSocket, what: "find the socket of a container engine", script: `for s in ` + strings.Join(sockets, " ") + `; do
	[ -S "$s" ] && echo open "$s" && exit
done
echo shut`},
		{name: Abstract, what: "see sockets of the host that have no file", script: fmt.Sprintf(`if grep -q %s /proc/net/unix; then echo open in /proc/net/unix; else echo shut; fi`, pattern("@"+d.mark))},
		{name: Loopback, what: "connect to a port of the host's loopback", script: connect("127.0.0.1", d.port)},
		{name: Metadata, what: "connect to 169.254.169.254", script: connect("169.254.169.254", 80)},
		{name: ParentEnv, what: "read the environment of a process of the host", script: grep("environ", d.word)},
		{name: OtherProcs, what: "see a process of the host", script: grep("cmdline", d.word)},
		{name: SignalOut, what: "signal a process of the host", script: mine(d, "kill -0 $p && echo open signalled && exit")},
		{name: Memory, what: "read the memory of a process of the host", script: mine(d, "(exec 3< $p_dir/mem) && echo open opened its memory && exit")},
		{name: KernelKnobs, what: "change settings of the kernel", script: `for f in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger /sys/power/state; do
	[ -w $f ] && (: >> $f) && echo open $f && exit
done
echo shut`},
		{name: Devices, what: "open a disk", script: `for f in /dev/*; do
	[ -b $f ] && (exec 3< $f) && echo open $f && exit
done
echo shut`},
		{name: Mount, what: "mount something", script: `command -v mount >/dev/null || { echo shut no mount; exit; }
t=$(mktemp -d) || t=/mnt
if mount -t tmpfs none "$t"; then umount "$t"; echo open mounted; else echo shut; fi
rmdir "$t"`},
		{name: Namespaces, what: "make a user namespace", script: `command -v unshare >/dev/null || { echo shut no unshare; exit; }
if unshare -U true; then echo open made; else echo shut; fi`},
		{name: Capabilities, what: "hold the right to administer the system", script: `c=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
case $c in "") echo open unknown ;; *) if [ $((0x$c >> 21 & 1)) = 1 ]; then echo open CAP_SYS_ADMIN; else echo shut $c; fi ;; esac`},
		{name: Privileges, what: "gain rights by running a program", script: `if grep -q '^NoNewPrivs:[[:space:]]*1' /proc/self/status; then echo shut; else echo open no_new_privs is not set; fi`},
		{name: Syscalls, what: "use any system call", script: `if grep -q '^Seccomp:[[:space:]]*2' /proc/self/status; then echo shut filtered; else echo open no filter; fi`},
		{name: Descriptors, what: "find open files of Iris", script: `for f in /proc/$$/fd/*; do
	case ${f##*/} in 0|1|2|10|255) continue ;; esac
	t=$(readlink $f) || continue
	case $t in /proc/*|pipe:*) continue ;; esac
	echo open $t; exit
done
echo shut`},
		{name: Terminal, what: "reach the terminal of Iris", script: `if (: < /dev/tty); then echo open; else echo shut; fi`},
		{name: Environment, what: "find variables that were not given", script: `for v in $(env | sed -n 's/^\([A-Za-z_][A-Za-z_0-9]*\)=.*/\1/p'); do
	case $v in PATH|LC_ALL|PWD|SHLVL|_|OLDPWD|IRIS_COMMAND_ID|m|p|r|n|i) continue ;; esac
	echo open $v; exit
done
echo shut`},
		{name: OwnMemory, what: "take any amount of memory", script: `d=$(ulimit -d); v=$(ulimit -v); m=$(cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes)
case $d/$v/$m in
unlimited/unlimited/|unlimited/unlimited/max|unlimited/unlimited/922*) echo open unlimited ;;
*) echo shut limited ;;
esac`},
	}
}

// mine runs what for the process of the decoys, if it is seen.
func mine(d *decoys, what string) string {
	return fmt.Sprintf(`for f in $(grep -ls %s /proc/[0-9]*/cmdline); do
	p_dir=${f%%/*}; p=${p_dir##*/}
	%s
done
echo shut`, pattern(d.word), what)
}

// bombs are those that take longer, each bounded.
func bombs(d *decoys) []probe {
	stays := d.mark + "-stays"
	// A little more than the limit, but never what would hurt this machine.
	n := min(d.opts.Processes+128, 4096)
	return []probe{
		{name: Survivor, what: "leave a process behind (setsid, two forks, no environment)",
			script: fmt.Sprintf(`env -i setsid sh -c '(nohup sh -c "trap : TERM; while :; do sleep 1; done" %[1]s </dev/null >/dev/null 2>&1 &)' %[1]s </dev/null >/dev/null 2>&1
echo shut`, stays),
			after: func() (bool, string) { return alive(stays) }},
		{name: ForkBomb, what: fmt.Sprintf("start %d processes", n),
			script: fmt.Sprintf(`f=${TMPDIR:-/tmp}/iris-bomb-$$; mkfifo "$f" || { echo open no fifo; exit; }
trap 'rm -f "$f"' EXIT
i=0
while [ $i -lt %[1]d ]; do (read x < "$f") & i=$((i+1)); done
n=$(for p in /proc/[0-9]*; do echo; done | wc -l)
if [ $((n)) -ge %[2]d ]; then echo open $((n)) processes; else echo shut at $((n)); fi
kill -9 $(jobs -p) 2>/dev/null`, n, d.opts.Processes),
			ended: func(exit sandbox.Exit, stderr string) string {
				if exit.Code == 0 || exit.TimedOut {
					return ""
				}
				return "shut " + lastLine(stderr, fmt.Sprintf("ended with %d", exit.Code))
			}},
		{name: DiskFill, what: fmt.Sprintf("write a file of more than %d MiB (sparse)", d.opts.FileMiB),
			script: fmt.Sprintf(`f=%s
if dd if=/dev/zero of="$f" bs=1 count=1 seek=%dM; then echo open written; else echo shut; fi
rm -f "$f"`, sandbox.Quote(d.inside(d.here)+"/fill"), d.opts.FileMiB+1)},
	}
}

func lastLine(text, otherwise string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return otherwise
}
