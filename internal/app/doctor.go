package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/iris-operator/iris/internal/config"
)

// DoctorOptions says what to look at.
type DoctorOptions struct {
	// Config is the configuration, or ConfigErr why there is none.
	Config    *config.Config
	ConfigErr error
	// Warnings are those of reading the configuration.
	Warnings []string
	Version  string
	Out      io.Writer
	Environ  []string
}

// A finding is the outcome of one check. Fix says what to do, empty when there
// is nothing; bad findings make the doctor fail.
type finding struct {
	what, result, fix string
	bad               bool
}

// doctorTime bounds all checks together; each looks at this machine alone.
const doctorTime = 30 * time.Second

// Doctor prints one line per check, and what to do where something is not right.
// It changes nothing but a probe file in the workspace, which it removes. When a
// check failed it returns ErrTold.
func Doctor(ctx context.Context, opts DoctorOptions) error {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	all := examine(ctx, opts)
	p := newReport(opts.Out, opts.Environ)
	failed, notes := 0, 0
	for _, f := range all {
		p.print(f)
		switch {
		case f.bad:
			failed++
		case f.fix != "":
			notes++
		}
	}
	p.sum(len(all), failed, notes)
	if failed > 0 {
		return ErrTold
	}
	return nil
}

// report prints findings: marks for a person, words for a program.
type report struct {
	out       io.Writer
	marks     [3]string // good, note, bad
	dim, bare string
}

func newReport(out io.Writer, environ []string) report {
	r := report{out: out, marks: [3]string{"ok  ", "note", "FAIL"}}
	f, ok := out.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return r
	}
	r.marks = [3]string{"✓", "!", "✗"}
	if lookup(environ, "NO_COLOR") == "" && lookup(environ, "TERM") != "dumb" {
		const green, yellow, red, bare = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
		r.marks = [3]string{green + "✓" + bare, yellow + "!" + bare, red + "✗" + bare}
		r.dim, r.bare = "\x1b[2m", bare
	}
	return r
}

// whatWidth fits the longest name of a check.
const whatWidth = 13

func (r report) print(f finding) {
	mark := r.marks[0]
	switch {
	case f.bad:
		mark = r.marks[2]
	case f.fix != "":
		mark = r.marks[1]
	}
	fmt.Fprintf(r.out, "%s  %-*s  %s\n", mark, whatWidth, f.what, strings.ReplaceAll(f.result, "\n", " "))
	if f.fix != "" {
		lead := len("ok  ")
		if r.marks[0] != "ok  " {
			lead = len("!")
		}
		fmt.Fprintf(r.out, "%*s  %*s  %s→ %s%s\n", lead, "", whatWidth, "", r.dim, f.fix, r.bare)
	}
}

func (r report) sum(all, failed, notes int) {
	switch {
	case failed > 0:
		fmt.Fprintf(r.out, "\n%d of %d checks failed.\n", failed, all)
	case notes > 0:
		fmt.Fprintf(r.out, "\nNothing is broken; %s above.\n", plural(notes, "one note", "%d notes"))
	default:
		fmt.Fprintf(r.out, "\nAll is well.\n")
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}

// examine carries out the checks in the order in which a start would meet them.
func examine(ctx context.Context, opts DoctorOptions) []finding {
	all := []finding{{what: "version", result: opts.Version}}
	programs := []finding{
		examineProgram(opts.Environ, "bash", "commands run in it", "install bash", true),
		examineProgram(opts.Environ, "git", "most work needs it", "install git", false),
	}
	if opts.ConfigErr != nil {
		all = append(all, finding{what: "configuration", result: opts.ConfigErr.Error(), fix: "correct it; docs/configuration.md lists every setting", bad: true})
		return append(all, programs...)
	}
	cfg := opts.Config
	all = append(all, examineConfig(opts)...)
	all = append(all, examineWorkspace(cfg.Workspace), examineDisk(cfg.Workspace), examineAudit(cfg), examineSandbox(ctx, opts), examineToken(opts), examineModel(ctx, opts), examineCLI(opts.Environ))
	all = append(all, programs...)
	return append(all, examineZone(cfg), examineServer(ctx, opts))
}
