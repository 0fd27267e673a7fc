package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// ShellFiles reads and writes files by running commands, for levels whose files
// this process cannot, or must not, open itself. The scripts are POSIX and need
// cat, head, tail, wc, mkdir and readlink, as coreutils and busybox have them.
type ShellFiles struct {
	// Run runs a command where the files are. Required.
	Run func(context.Context, Command) (Exit, error)
	// Env is the environment of the scripts; empty means a PATH.
	Env []string
	// Timeout bounds one read or write. 0 means a minute.
	Timeout time.Duration
}

// The exit codes by which the scripts tell what is wrong. Shells and tools do
// not use them.
const (
	codeMissing   = 90
	codeDirectory = 91
	codeSpecial   = 92
	codeCut       = 93
)

// Quote makes one word of a shell from any text without zero bytes.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ReadFile reads as [Sandbox.ReadFile] says.
func (s ShellFiles) ReadFile(ctx context.Context, conv chat.Address, name string, offset, limit int64) ([]byte, int64, error) {
	script := "f=" + Quote(name) + `
[ -e "$f" ] || exit 90
[ -d "$f" ] && exit 91
[ -f "$f" ] || exit 92
wc -c < "$f" || exit 1
`
	switch {
	case limit <= 0 || offset < 0:
	case offset == 0:
		script += fmt.Sprintf(`head -c %d < "$f"`, limit)
	default:
		script += fmt.Sprintf(`tail -c +%d < "$f" | head -c %d`, offset+1, limit)
	}
	out, err := s.run(ctx, conv, "read", name, script, nil)
	if err != nil {
		return nil, 0, err
	}
	line, data, _ := bytes.Cut(out, []byte("\n"))
	size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: its size is %q", name, line)
	}
	if len(data) == 0 {
		return nil, size, nil
	}
	return data, max(size, offset+int64(len(data))), nil
}

// WriteFile writes as [Sandbox.WriteFile] says. What is there is touched only when
// all the data has arrived; it is then written in place, so that links, owner and
// mode stay.
func (s ShellFiles) WriteFile(ctx context.Context, conv chat.Address, name string, data []byte) error {
	script := "f=" + Quote(name) + "\nn=" + strconv.Itoa(len(data)) + `
[ -d "$f" ] && exit 91
[ -e "$f" ] && [ ! -f "$f" ] && exit 92
if [ -L "$f" ]; then
	t=$(readlink -f -- "$f" && echo x) || exit 1
	f=${t%?x}
fi
d=${f%/*}
[ -d "${d:-/}" ] || mkdir -p -- "$d" || exit 1
t="$d/.iris-$$.tmp"
trap 'rm -f -- "$t"' EXIT
cat > "$t" || exit 1
[ "$(($(wc -c < "$t")))" = "$n" ] || exit 93
if [ -e "$f" ]; then
	cat "$t" > "$f" || exit 1
else
	mv -f -- "$t" "$f" || exit 1
fi
`
	_, err := s.run(ctx, conv, "write", name, script, data)
	return err
}

// Resolve follows links as [Resolver] says.
func (s ShellFiles) Resolve(ctx context.Context, conv chat.Address, name string) (string, error) {
	if !path.IsAbs(name) {
		return "", fmt.Errorf("resolve %s: not an absolute path", name)
	}
	script := "p=" + Quote(path.Clean(name)) + `
rest= i=0
while :; do
	if r=$(readlink -f -- "$p" && echo x); then
		r=${r%?x}
		break
	fi
	i=$((i+1))
	[ $i -gt 80 ] && exit 94
	if [ -L "$p" ]; then
		to=$(readlink -- "$p" && echo x) || exit 1
		to=${to%?x}
		case $to in
		/*) p=$to ;;
		*) p=${p%/*}/$to ;;
		esac
		continue
	fi
	rest="/${p##*/}$rest"
	p=${p%/*}
	[ -n "$p" ] || p=/
done
[ "$r" = / ] && [ -n "$rest" ] && r=
printf '%s' "$r$rest"
`
	out, err := s.run(ctx, conv, "resolve", name, script, nil)
	return string(out), err
}

// run runs a script and turns its exit code into an error.
func (s ShellFiles) run(ctx context.Context, conv chat.Address, what, name, script string, in []byte) ([]byte, error) {
	if strings.ContainsRune(name, 0) {
		return nil, &fs.PathError{Op: what, Path: name, Err: syscall.EINVAL}
	}
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	env := s.Env
	if len(env) == 0 {
		env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	}
	var out, errs bytes.Buffer
	cmd := Command{Conversation: conv, Script: script, Env: env, Stdout: &out, Stderr: &errs, Timeout: timeout}
	if in != nil {
		cmd.Stdin = bytes.NewReader(in)
	}
	exit, err := s.Run(ctx, cmd)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", what, name, err)
	case exit.Aborted:
		return nil, fmt.Errorf("%s %s: %w", what, name, errors.Join(context.Cause(ctx), context.Canceled))
	case exit.TimedOut:
		return nil, fmt.Errorf("%s %s: not done within %v", what, name, timeout)
	}
	switch exit.Code {
	case 0:
		return out.Bytes(), nil
	case codeMissing:
		return nil, &fs.PathError{Op: what, Path: name, Err: syscall.ENOENT}
	case codeDirectory:
		return nil, &fs.PathError{Op: what, Path: name, Err: syscall.EISDIR}
	case codeSpecial:
		return nil, fmt.Errorf("%s is not a regular file", name)
	case codeCut:
		return nil, fmt.Errorf("write %s: the data did not arrive; nothing was changed", name)
	}
	return nil, fmt.Errorf("%s %s: %s", what, name, firstLine(errs.String(), exit.Code))
}

// firstLine is what a tool said, without the name of the shell before it.
func firstLine(text string, code int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return fmt.Sprintf("exit code %d", code)
	}
	return line
}
