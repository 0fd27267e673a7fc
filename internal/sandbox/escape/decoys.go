package escape

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// decoys are what the probes look for. Those in files and sockets carry mark,
// the process carries word, which the probes spell in two parts so that they do
// not find themselves.
type decoys struct {
	opts   Options
	mark   string
	word   string
	home   string // a directory outside of the workspace
	secret string // a file in it
	here   string // a directory in the workspace, as the host calls it
	link   string // a link in here to secret
	state  string // a file below <workspace>/state
	port   int    // of a listener on the host's loopback
	sleep  *exec.Cmd
	close  []func() error
}

// lay puts the decoys where they belong.
func lay(opts Options) (_ *decoys, err error) {
	if opts.Processes <= 0 {
		opts.Processes = 1024
	}
	if opts.FileMiB <= 0 {
		opts.FileMiB = 4096
	}
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	id := hex.EncodeToString(b[:])
	d := &decoys{opts: opts, mark: "iris-escape-" + id, word: "iris-decoy-" + id}
	defer func() {
		if err != nil {
			d.remove()
		}
	}()
	for _, dir := range []struct {
		path *string
		at   string
	}{{&d.home, opts.Home}, {&d.here, opts.Workspace}} {
		if *dir.path, err = os.MkdirTemp(dir.at, ".iris-escape-*"); err != nil {
			return nil, err
		}
		d.close = append(d.close, func() error { return os.RemoveAll(*dir.path) })
	}
	d.secret, d.link = filepath.Join(d.home, "secret"), filepath.Join(d.here, "link")
	stateDir := filepath.Join(opts.Workspace, "state")
	if _, err := os.Stat(stateDir); err != nil {
		if err := os.Mkdir(stateDir, 0o700); err != nil {
			return nil, err
		}
		d.close = append(d.close, func() error { return os.Remove(stateDir) })
	}
	d.state = filepath.Join(stateDir, d.mark)
	d.close = append(d.close, func() error { return os.Remove(d.state) })
	if err := errors.Join(os.WriteFile(d.secret, []byte(d.mark), 0o600), os.WriteFile(d.state, []byte(d.mark), 0o600), os.Symlink(d.secret, d.link)); err != nil {
		return nil, err
	}
	if err := d.listen(); err != nil {
		return nil, err
	}
	// A process of the same user.
	d.sleep = exec.Command("sh", "-c", "read x; exit", d.word)
	d.sleep.Env = []string{"IRIS_ESCAPE=" + d.word}
	in, err := d.sleep.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := d.sleep.Start(); err != nil {
		return nil, err
	}
	d.close = append(d.close, func() error { return errors.Join(in.Close(), d.sleep.Wait()) })
	return d, nil
}

// listen opens sockets of the host: on its loopback, and one without a file.
func (d *decoys) listen() error {
	for _, at := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"unix", "@" + d.mark}} {
		ln, err := net.Listen(at.network, at.address)
		if err != nil {
			return err
		}
		if a, ok := ln.Addr().(*net.TCPAddr); ok {
			d.port = a.Port
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
		d.close = append(d.close, func() error { err := ln.Close(); <-done; return err })
	}
	return nil
}

// remove takes the decoys away. What is gone already is no matter.
func (d *decoys) remove() {
	for i := len(d.close) - 1; i >= 0; i-- {
		_ = d.close[i]()
	}
}

// inside is a path of the workspace as the sandbox calls it.
func (d *decoys) inside(host string) string { return d.opts.Sandbox.Path(host) }

// appeared returns a look for files of the host that a probe may have made; they
// are removed.
func appeared(paths ...string) func() (bool, string) {
	return func() (bool, string) {
		for _, p := range paths {
			if _, err := os.Lstat(p); err == nil {
				_ = os.Remove(p)
				return true, p + " was written"
			}
		}
		return false, ""
	}
}

// alive looks for processes of this machine that carry mark in their words.
func alive(mark string) (bool, string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, path := range dirs {
		words, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(words), mark) {
			n++
		}
	}
	return n > 0, fmt.Sprintf("%d processes were still there", n)
}
