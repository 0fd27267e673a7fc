package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/iris-operator/iris/internal/approval/audit"
)

// openAudit opens the record of commands. It needs no server. Before the first
// command there is none; it says so and returns nil.
func openAudit(opts Options) (*os.File, error) {
	f, err := os.Open(opts.Config.Bash.AuditFile)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = fmt.Fprintf(opts.Err, "No command has run yet: there is no record at %s.\n", opts.Config.Bash.AuditFile)
		return nil, err
	}
	return f, err
}

// VerifyAudit checks the chain of the record and names the first line that was
// changed or does not follow the line before it.
func VerifyAudit(opts Options) error {
	f, err := openAudit(opts)
	if err != nil || f == nil {
		return err
	}
	defer f.Close()
	if err := audit.Verify(f); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	n := 0
	for _, err := range audit.Entries(f, audit.Filter{}) {
		if err != nil {
			return err
		}
		n++
	}
	_, err = fmt.Fprintf(opts.Out, "%s: %d entries, every line follows the one before it.\n", f.Name(), n)
	return err
}

// ShowAudit prints the last of the entries that pass the filter, oldest first;
// last 0 prints all. asJSON prints them as lines of JSON.
func ShowAudit(opts Options, filter audit.Filter, last int, asJSON bool) error {
	f, err := openAudit(opts)
	if err != nil || f == nil {
		return err
	}
	defer f.Close()
	var all []audit.Entry
	for e, err := range audit.Entries(f, filter) {
		if err != nil {
			return err
		}
		if all = append(all, e); last > 0 && len(all) >= 2*last {
			all = append(all[:0], all[len(all)-last:]...)
		}
	}
	if last > 0 && len(all) > last {
		all = all[len(all)-last:]
	}
	for _, e := range all {
		if err := showEntry(opts.Out, e, asJSON); err != nil {
			return err
		}
	}
	return nil
}

func showEntry(w io.Writer, e audit.Entry, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(e)
	}
	what := string(e.Decision)
	if e.ExitCode != nil {
		what += fmt.Sprintf(" (%d)", *e.ExitCode)
	}
	var more []string
	for _, m := range [][2]string{{"rule", e.Rule}, {"by", e.By}} {
		if m[1] != "" {
			more = append(more, m[0]+" "+printable(m[1]))
		}
	}
	line := fmt.Sprintf("%s  %-21s %s  %s", e.Date.Local().Format("2006-01-02 15:04:05"), what, printable(e.Channel), strings.ReplaceAll(printable(e.Command), "\n", "\n    "))
	if len(more) > 0 {
		line += "  [" + strings.Join(more, ", ") + "]"
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// AuditFilter makes a filter of what a command line says. decision may be empty.
func AuditFilter(text, channel, decision string) (audit.Filter, error) {
	f := audit.Filter{Text: text, Channel: channel, Decision: audit.Decision(decision)}
	switch f.Decision {
	case "", audit.Executed, audit.Denied, audit.Confirmed, audit.ConfirmationRequired:
		return f, nil
	}
	return f, fmt.Errorf("--decision %q is not one of executed, denied, confirmed, confirmation-required", decision)
}
