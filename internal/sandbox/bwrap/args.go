package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/sandbox"
)

// systemDirs hold the system: commands read some of them and write none.
var systemDirs = []string{"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/dev", "/proc", "/sys", "/run", "/boot"}

// roots are what programs are made of. In today's systems all but /usr are links
// into it.
var roots = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"}

// etc is what programs read below /etc. It is a list of what is shown, not of
// what is hidden: where Iris runs as root, /etc/shadow and the keys of the host
// would be readable, and nobody can list all places where a system keeps secrets.
var etc = []string{
	"passwd", "group", "nsswitch.conf", "hosts", "host.conf", "gai.conf", "hostname", "services", "protocols", "networks", "resolv.conf",
	"ssl/openssl.cnf", "ssl/certs", "pki", "alternatives", "ld.so.cache", "ld.so.preload",
	"localtime", "timezone", "locale.alias", "locale.conf", "default/locale",
	"os-release", "debian_version", "lsb-release", "bash.bashrc", "mime.types", "magic", "fonts", "gitconfig",
	"java-17-openjdk", "java-21-openjdk", "java-25-openjdk", "php", "R",
}

// systemArgs are the arguments that are the same for every command.
func (b *Bwrap) systemArgs() []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox",
	}
	if !b.opts.Network {
		args = append(args, "--unshare-net")
	}
	for _, root := range roots {
		info, err := os.Lstat(root)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			if to, err := os.Readlink(root); err == nil {
				args = append(args, "--symlink", to, root)
			}
		default:
			args = append(args, "--ro-bind", root, root)
		}
	}
	for _, name := range etc {
		path := "/etc/" + name
		// What is behind a link: what it leads through may not be there inside.
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			args = append(args, "--ro-bind", real(path), path)
		}
	}
	// Where Iris runs as root, the settings of the kernel below /proc/sys would
	// be writable: they ask for the uid and not for a capability.
	return append(args, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev",
		"--size", strconv.FormatInt(b.opts.Tmp, 10), "--perms", "1777", "--tmpfs", "/tmp",
		"--size", strconv.FormatInt(b.opts.Tmp, 10), "--perms", "1777", "--tmpfs", "/var/tmp",
		"--dir", "/run")
}

// copies opens the files of /etc that every command gets a copy of. A copy costs
// a fraction of a mount. first is the descriptor that the first of them becomes.
func copies(first int) (files []*os.File, args []string) {
	for _, name := range etc {
		path := "/etc/" + name
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxCopy {
			_ = f.Close()
			continue
		}
		args = append(args, "--perms", "0444", "--file", strconv.Itoa(first+len(files)), path)
		files = append(files, f)
	}
	return files, args
}

// maxCopy bounds the files of /etc. The cache of the linker has some hundred KiB.
const maxCopy = 4 << 20

// args are the arguments for one command. home is the HOME of its environment.
func (b *Bwrap) args(home string) []string {
	args := append([]string{}, b.system...)
	if b.opts.Socket != "" && exists(b.opts.Socket) {
		args = append(args, "--ro-bind", b.opts.Socket, SocketPath)
	}
	if home = filepath.Clean(home); b.mayHaveHome(home) {
		args = append(args, "--size", strconv.FormatInt(b.opts.Tmp, 10), "--perms", "0700", "--tmpfs", home)
	}
	shown := []string{b.opts.Workspace}
	for _, p := range b.opts.Read {
		args = append(args, "--ro-bind-try", p, p)
		shown = append(shown, p)
	}
	args = append(args, "--bind", b.opts.Workspace, b.opts.Workspace)
	for _, p := range b.opts.ReadOnly {
		if exists(p) && real(p) == p {
			args = append(args, "--ro-bind", p, p)
		}
	}
	args = append(args, b.hidden(shown)...)
	return append(args, "--remount-ro", "/", "--chdir", "/")
}

// hidden are the arguments that make paths empty. A link is followed: what counts
// is what it leads to, if that can be seen.
func (b *Bwrap) hidden(shown []string) (args []string) {
	for _, p := range append([]string{filepath.Join(b.opts.Workspace, "state")}, b.opts.Hide...) {
		at, visible := real(p), false
		for _, s := range shown {
			if rest, ok := strings.CutPrefix(at, real(s)); ok && (rest == "" || rest[0] == '/') {
				at, visible = s+rest, true
				break
			}
		}
		info, err := os.Stat(at)
		switch {
		case !visible || err != nil:
		case info.IsDir():
			args = append(args, "--size", "4096", "--perms", "0500", "--tmpfs", at, "--remount-ro", at)
		default:
			args = append(args, "--ro-bind", os.DevNull, at)
		}
	}
	return args
}

// mayHaveHome reports whether an empty directory may be put at home.
func (b *Bwrap) mayHaveHome(home string) bool {
	if !filepath.IsAbs(home) || home == "/" || below(home, b.opts.Workspace) || below(home, "/tmp") || below(home, "/var/tmp") {
		return false
	}
	for _, p := range systemDirs {
		if below(home, p) || below(p, home) {
			return false
		}
	}
	return true
}

// supervisor runs the command and tells how it ended. It is the first process of
// its namespace: nothing inside can signal it, and when it ends the kernel ends
// the rest. dash runs it, which starts and forks in a fraction of bash's time;
// bash does where there is no dash. Whoever it is becomes the linger below if
// anything is left, were it a child that has not been waited for. Descriptor 3
// takes the status, 6 is the command's standard error, 7 is where the command
// comes from; 2 is bubblewrap's. The child that becomes the command waits for it
// there. The limit of processes is set here because in here the kernel counts
// those of this namespace alone. The command's own descriptors are closed before
// the status is told, so that who has read it finds the end of the output.
const supervisor = `exec 2>/dev/null
ulimit %s
(. /proc/self/fd/7; exit 1)
code=$?
exec </dev/null >&0 6>&- 7<&-
linger=$1
set -- /proc/[0-9]*
[ $# = 1 ] || exec "$0" --noprofile --norc -p -c "$linger" bash $code
echo "$code 0" >&3
exit $code
`

// noDirectory is what the supervisor tells for a command whose directory is not
// there.
const noDirectory = "no directory"

// handover is what the waiting child reads: a program for dash and bash that
// becomes the command. The braces make a shell read all of it before it does any
// of it, so that half of one, of an Iris that died writing it, does nothing.
func (b *Bwrap) handover(cmd sandbox.Command, dir string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "{ cd -P -- %s || { echo %s >&3; exit 1; }\nunset PWD OLDPWD\n", sandbox.Quote(dir), noDirectory)
	for _, v := range cmd.Env {
		if name, value, ok := strings.Cut(v, "="); ok && portable(name) {
			fmt.Fprintf(&s, "export %s=%s\n", name, sandbox.Quote(value))
		}
	}
	s.WriteString("export SHLVL=0\n")
	in := ""
	if cmd.Stdin == nil {
		in = "</dev/null "
	}
	fmt.Fprintf(&s, "exec 2>&6 %s3>&- 4<&- 6>&- 7<&-\nexec %s --noprofile --norc -c %s bash\n}\n", in, sandbox.Quote(b.shell), sandbox.Quote(cmd.Script))
	return s.String()
}

// own are variables that shells keep for themselves. bash sets them anew.
var own = []string{"OPTIND", "PPID", "UID", "EUID", "SHLVL", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "IRIS_COMMAND_ID"}

// portable reports whether a shell can hand on a variable of this name. dash drops
// the others by itself.
func portable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && !slices.Contains(own, name)
}

// linger gives what a command left running its moment, and then TERM. It is bash.
// The empty subshell is for those who have ended already: they are waited for with
// it. Descriptor 4 is a pipe that nothing is written to (reading it with a timeout
// is how a shell waits without a process) and that ends when there is no time left.
const linger = `left() { set -- /proc/[0-9]*; n=$(($# - 1)); }
rest() {
	for ((i = 0; i < $1; i++)); do
		left
		((n == 0)) && return
		read -rt .01 -u 4
		(($? > 128)) || return
	done
}
(:)
rest %d
count=$n
if ((n)); then
	kill -TERM -1
	kill -CONT -1
	rest %d
fi
echo "$1 $count" >&3
exit $1
`

// supervise is the command line of the first process.
func (b *Bwrap) supervise() []string {
	words := []string{b.dash, "-c", fmt.Sprintf(supervisor, "-p "+strconv.Itoa(b.opts.Processes))}
	if b.dash == "" {
		words = []string{b.shell, "--noprofile", "--norc", "-p", "-c", fmt.Sprintf(supervisor, "-u "+strconv.Itoa(b.opts.Processes))}
	}
	// Times become rounds of the wait.
	left := fmt.Sprintf(linger, b.opts.Linger.Milliseconds()/10+1, b.opts.KillDelay.Milliseconds()/10+1)
	return append(words, b.shell, left)
}
