// Package escape tries to get out of a sandbox and says how far it came. It owns
// the probes and the decoys they look for: files, sockets and a process of the
// host that carry a mark which must not be seen, or reached, from inside. It does
// not decide what a level promises; the caller says which walls there should be.
//
// Probes are harmless where there is no wall: they read and touch decoys, and what
// fills something is bounded. A wall that holds against these probes is no proof
// against all others.
package escape

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
)

// Options say what to try, and where.
type Options struct {
	Sandbox sandbox.Sandbox // required
	// Workspace is the workspace as the host calls it. Required; decoys are put
	// below it and removed again.
	Workspace string
	// Home is a directory of the host outside of the workspace for the decoys.
	// Required.
	Home string
	// Sockets are further sockets of the host that commands must not see, beside
	// those of container engines.
	Sockets []string
	// Processes and FileMiB are what the bounded bombs try to exceed. 0 means
	// 1024 and 4096.
	Processes int
	FileMiB   int64
	// Quick leaves out the probes that take longer than a moment: the bombs and
	// the survivor.
	Quick bool
	// Promised are the walls that the level promises; nil means all of them.
	Promised func(name string) bool
}

// A Result is the outcome of one probe.
type Result struct {
	Name string
	// What is the attempt, in words.
	What string
	// Promised says that the level claims this wall.
	Promised bool
	// Open says that the attempt succeeded; Seen is what was seen.
	Open bool
	Seen string
}

// Bad reports whether a promised wall does not stand.
func (r Result) Bad() bool { return r.Promised && r.Open }

// conv is the conversation the probes speak in.
var conv = chat.Address{Space: chat.Session, ID: "escape"}

// environ is all that the probes are given.
var environ = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}

// Run tries every probe. An error means that the probes could not be run, which
// proves nothing.
func Run(ctx context.Context, opts Options) ([]Result, error) {
	d, err := lay(opts)
	if err != nil {
		return nil, fmt.Errorf("lay out decoys: %w", err)
	}
	defer d.remove()
	promised := opts.Promised
	if promised == nil {
		promised = func(string) bool { return true }
	}
	quick := probes(d)
	seen, err := d.together(ctx, quick)
	if err != nil {
		return nil, err
	}
	if !opts.Quick {
		slow := bombs(d)
		for _, p := range slow {
			got, err := d.together(ctx, []probe{p})
			if err != nil {
				return nil, err
			}
			seen[p.name] = got[p.name]
		}
		quick = append(quick, slow...)
	}
	var all []Result
	for _, p := range quick {
		open, detail := verdict(seen[p.name])
		if p.after != nil {
			if hit, what := p.after(); hit {
				open, detail = true, what
			}
		}
		all = append(all, Result{Name: p.name, What: p.what, Promised: promised(p.name), Open: open, Seen: detail})
	}
	return all, nil
}

// verdict reads what a probe printed. One that says nothing has not shown that
// the wall stands.
func verdict(said string) (open bool, detail string) {
	word, detail, _ := strings.Cut(said, " ")
	switch word {
	case "shut":
		return false, detail
	case "open":
		return true, detail
	}
	return true, "no answer from the probe: " + strings.TrimSpace(said)
}

// A probe is one attempt. Its script prints one line: "shut" or "open" and what
// was seen.
type probe struct {
	name, what string
	script     string
	// after, if set, looks at the host for a hit.
	after func() (hit bool, what string)
	// ended turns the end of a command that had no time to print into a line.
	ended func(exit sandbox.Exit, stderr string) string
}

// probeTime bounds a command of probes. Four thousand processes take a minute on
// a slow machine.
const probeTime = 5 * time.Minute

// together runs probes as one command and returns the line of each.
func (d *decoys) together(ctx context.Context, list []probe) (map[string]string, error) {
	var script strings.Builder
	for _, p := range list {
		fmt.Fprintf(&script, "r=$( (\n%s\n) 2>/dev/null </dev/null)\nprintf '%%s\\t%%s\\n' %s \"$r\"\n", p.script, sandbox.Quote(p.name))
	}
	var out, errs bytes.Buffer
	exit, err := d.opts.Sandbox.Run(ctx, sandbox.Command{Conversation: conv, Script: script.String(), Env: environ, Stdout: &out, Stderr: &errs, Timeout: probeTime})
	switch {
	case err != nil:
		return nil, fmt.Errorf("run the probes: %w", err)
	case exit.Aborted:
		return nil, fmt.Errorf("run the probes: %w", context.Cause(ctx))
	}
	seen := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, said, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if i := slices.IndexFunc(list, func(p probe) bool { return p.name == name }); i >= 0 {
			seen[name] = said
		}
	}
	for _, p := range list {
		if seen[p.name] == "" && p.ended != nil {
			seen[p.name] = p.ended(exit, errs.String())
		}
	}
	return seen, nil
}
