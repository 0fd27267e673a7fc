package policy

import (
	"path"
	"strings"
)

// systemDirs are the first-level directories whose own directories are as
// precious as they are.
const systemDirs = "bin boot dev etc home lib lib32 lib64 libx32 opt run sbin srv sys usr var"

// firstDirs are what may lie right below the root besides.
const firstDirs = "cdrom data iris lost+found media mnt nix proc root snap"

// keyDir is where the operator's token and the key of the secrets lie, below any
// home.
const keyDir = "/.config/iris"

// resolve makes a path absolute and clean. A path or a directory that starts
// with something unknown stays so.
func resolve(dir, p string) string {
	if p == "" {
		return dir
	}
	if p[0] != '/' && p[0] != unknown {
		p = dir + "/" + p
	}
	if p[0] == unknown {
		c := path.Clean(p)
		if c == "." || strings.HasPrefix(c, "..") {
			return someText
		}
		return c
	}
	p = path.Clean(p)
	if strings.HasPrefix(p, "/proc/") {
		p = throughProc(p)
	}
	return p
}

// throughProc follows /proc/<pid>/root.
func throughProc(p string) string {
	parts := strings.SplitN(p, "/", 5)
	if len(parts) >= 4 && parts[3] == "root" {
		return "/" + strings.Join(parts[4:], "/")
	}
	return p
}

// within reports whether p is dir or below it.
func within(p, dir string) bool {
	return strings.HasPrefix(p, dir) && (len(p) == len(dir) || dir == "/" || p[len(dir)] == '/')
}

// namesIn reports whether a path, perhaps with globs, can lie in or be dir.
// A component that is a glob counts when it shares its first letter.
func namesIn(p, dir string) bool {
	if !hasAny(p, globMarks) {
		return within(p, dir)
	}
	for dir != "" {
		if p == "" {
			return false
		}
		var have, want string
		have, p = component(p)
		want, dir = component(dir)
		if have != want && !(isGlob(have) && have[0] == want[0] && matches(have, want)) {
			return false
		}
	}
	return true
}

// component cuts the first component off an absolute path.
func component(p string) (first, rest string) {
	p = strings.TrimPrefix(p, "/")
	if i := strings.IndexByte(p, '/'); i >= 0 {
		return p[:i], p[i:]
	}
	return p, ""
}

// baseName is what a path ends in, marks included.
func baseName(p string) string {
	p = strings.TrimRight(p, "/")
	return p[strings.LastIndexByte(p, '/')+1:]
}

// wholeContent reports whether a glob takes all that is in a directory.
func wholeContent(base string) bool {
	switch plain(base) {
	case "*", ".*", "?*", "*?", "**", ".[!.]*", ".??*", ".[^.]*", "..?*", "*.*":
		return isGlob(base)
	}
	return false
}

// secretName reports whether a base name names a secret file, and which.
func (j *Judge) secretName(base string) string {
	if base == "" || strings.IndexByte(base, unknown) >= 0 {
		return ""
	}
	if !isGlob(base) {
		for _, s := range j.secrets {
			if base == s {
				return s
			}
		}
		return ""
	}
	loose := base[0] == anyRun || strings.IndexByte(base, anyRun) >= 0
	for _, s := range j.secrets {
		if (base[0] == s[0] || !loose && s[0] != '.') && matches(base, s) {
			return s
		}
	}
	return ""
}

// secretPath reports the secret that a clean path names, or "".
func (j *Judge) secretPath(p string) string {
	if s := j.secretName(baseName(p)); s != "" {
		return s
	}
	if j.keys(p) != "" {
		if base := baseName(p); literal(base) {
			return base
		}
		return "the keys of Iris"
	}
	if rest, ok := strings.CutPrefix(p, "/proc/"); ok {
		pid, file := component(rest)
		if file == "/environ" && pid != "self" && pid != "thread-self" && strings.IndexByte(pid, unknown) < 0 {
			return "the environment of another process"
		}
	}
	return ""
}

// keys returns the place of Iris's own keys that a clean path names or lies in,
// or "".
func (j *Judge) keys(p string) string {
	if strings.HasSuffix(p, keyDir) || strings.Contains(p, keyDir+"/") {
		return keyDir
	}
	for _, f := range j.keyPaths {
		if namesIn(p, f) {
			return f
		}
	}
	return ""
}

// isState reports whether a clean path is of Iris's own state.
func (j *Judge) isState(p string) bool { return namesIn(p, j.state) }

// device reports whether writing to a clean path writes to a raw device.
func device(p string) bool {
	rest, ok := strings.CutPrefix(p, "/dev/")
	if !ok {
		return false
	}
	first, _ := component(rest)
	switch first {
	case "null", "zero", "full", "stdin", "stdout", "stderr", "fd", "pts", "ptmx", "shm", "random", "urandom",
		"console", "log", "kmsg", "mqueue", "tcp", "udp", "":
		return false
	}
	return !strings.HasPrefix(first, "tty")
}

// protected reports whether a clean path is a file of the system's own accounts
// and logins.
func (j *Judge) protected(p string) bool {
	base := baseName(p)
	if base == "authorized_keys" || base == "authorized_keys2" {
		return true
	}
	for _, f := range j.opts.ProtectedPaths {
		if namesIn(p, f) {
			return true
		}
	}
	if p[0] == unknown {
		// In a directory that is not known the name decides.
		return base == "sudoers" || base == "sshd_config"
	}
	if strings.HasPrefix(p, "/etc/sudoers") {
		return true
	}
	for _, f := range protectedPaths {
		if namesIn(p, f) {
			return true
		}
	}
	return isGlob(base) && base[0] == 'a' && matches(base, "authorized_keys") && strings.HasSuffix(path.Dir(p), "/.ssh")
}

// guarded says why a protected path is one.
func (j *Judge) guarded(p string) string {
	for _, f := range j.opts.ProtectedPaths {
		if namesIn(p, f) {
			return "which is protected here"
		}
	}
	return "a file of the system's accounts and logins"
}

var protectedPaths = []string{
	"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d",
}

// precious says what of the system a recursive delete of a clean path takes
// away, or "".
func (r *run) precious(p string, recursive, filtered bool) string {
	if p == "/" {
		return "the root of the file system"
	}
	whole := false
	if base := baseName(p); wholeContent(base) {
		whole = true
		p = path.Dir(p)
		if p == "/" {
			return "everything in the root of the file system"
		}
	}
	if p[0] == unknown {
		return ""
	}
	if p == someHome {
		return "the home directory"
	}
	depth := strings.Count(p, "/")
	first, rest := component(p)
	if depth == 1 && first != "tmp" && (!isGlob(first) && !hasAny(first, "*?[") || isGlob(first) && globOfFirst(first)) {
		return "the top-level directory " + show(p)
	}
	if filtered {
		return ""
	}
	for _, own := range r.own() {
		if covers(p, own.path) {
			if whole {
				return "the content of " + own.name
			}
			return own.name
		}
	}
	if recursive && depth == 2 && isSystemDir(first) && rest != "" {
		return show(p) + ", a directory of the system"
	}
	return ""
}

// covers reports whether a path, perhaps with globs, is dir or above it.
func covers(p, dir string) bool {
	if literal(p) {
		return within(dir, p)
	}
	for p != "" {
		if dir == "" {
			return false
		}
		var have, want string
		have, p = component(p)
		want, dir = component(dir)
		if !matches(have, want) {
			return false
		}
	}
	return true
}

// isSystemDir reports whether a component, perhaps a glob, names a system directory.
func isSystemDir(first string) bool {
	if !isGlob(first) {
		return oneOf(first, systemDirs)
	}
	for d := range strings.SplitSeq(systemDirs, " ") {
		if matches(first, d) {
			return true
		}
	}
	return false
}

// globOfFirst reports whether a glob right below the root covers more than /tmp.
func globOfFirst(first string) bool {
	if isSystemDir(first) {
		return true
	}
	for d := range strings.SplitSeq(firstDirs, " ") {
		if matches(first, d) {
			return true
		}
	}
	return false
}

// An ownPath is a directory that may not vanish, and what people call it.
type ownPath struct{ path, name string }

// own lists the directories of the person and of Iris.
func (r *run) own() []ownPath {
	if r.ownPaths == nil {
		r.ownPaths = []ownPath{
			{r.j.opts.Workspace, "the workspace"},
			{r.j.opts.InstallRoot, "the directory Iris is installed in"},
			{r.home, "the home directory"},
		}
		if h := r.j.opts.Home; h != "" && h != r.home {
			r.ownPaths = append(r.ownPaths, ownPath{path.Clean(h), "the home directory"})
		}
		if r.home != "" {
			r.ownPaths = append(r.ownPaths, ownPath{path.Clean(r.home + keyDir), "the keys of Iris"})
		}
		for _, f := range r.j.keyPaths {
			r.ownPaths = append(r.ownPaths, ownPath{f, "the keys of Iris"})
		}
		for _, f := range r.j.opts.ProtectedPaths {
			r.ownPaths = append(r.ownPaths, ownPath{path.Clean(f), "the protected " + f})
		}
	}
	return r.ownPaths
}
