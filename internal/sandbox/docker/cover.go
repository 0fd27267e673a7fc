package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/iris-operator/iris/internal/sandbox"
)

// A guard remembers for which files the covers were seen to hold.
type guard struct {
	mu    sync.Mutex // guards the field below, held while the container is asked
	known string
}

// covered asks the container whether hidden files can be seen. It asks again only
// when one of them has come or is another one than before, such as one that was
// written anew and put in the place of the old one: the kernel drops the cover of
// a file that is replaced.
func (d *Docker) covered(ctx context.Context) error {
	var now, script strings.Builder
	names := map[string]string{}
	for _, p := range d.opts.Hide {
		there := d.Path(p)
		if !strings.HasPrefix(there, Workspace+"/") {
			continue // outside of what is shared
		}
		var st syscall.Stat_t
		if syscall.Stat(p, &st) != nil {
			continue
		}
		names[there] = strings.TrimPrefix(there, Workspace+"/")
		fmt.Fprintf(&now, "%s %d:%d\n", there, st.Dev, st.Ino)
		// An empty file or directory is a cover.
		fmt.Fprintf(&script, "f=%s\nif [ -d \"$f\" ]; then [ -z \"$(ls -A \"$f\" 2>/dev/null)\" ] || echo \"$f\"; elif [ -s \"$f\" ]; then echo \"$f\"; fi\n", sandbox.Quote(there))
	}
	d.guard.mu.Lock()
	defer d.guard.mu.Unlock()
	if now.Len() == 0 || now.String() == d.guard.known {
		return nil
	}
	var out strings.Builder
	exit, err := d.run(ctx, sandbox.Command{
		Script: script.String() + "exit 0", Dir: "/", Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Stdout: &out, Timeout: d.opts.CallTime,
	})
	if err != nil || exit.Code != 0 {
		return fmt.Errorf("look whether secret files are covered in %s: %w", d.opts.Container, errors.Join(err, exitError(exit)))
	}
	for line := range strings.Lines(out.String()) {
		if name, ok := names[strings.TrimSuffix(line, "\n")]; ok {
			return fmt.Errorf("%s of the workspace can be read in the container %s: keep it elsewhere, or start the container with --mount type=bind,source=/dev/null,target=%s,readonly",
				name, d.opts.Container, path.Join(Workspace, name))
		}
	}
	d.guard.known = now.String()
	return nil
}
