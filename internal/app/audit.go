package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	key, head, note, err := auditTrust(opts)
	if err != nil {
		return err
	}
	f, err := openAudit(opts)
	if err != nil {
		return err
	}
	if f == nil {
		if head != nil {
			return fmt.Errorf("%s is gone: it had %d bytes", opts.Config.Bash.AuditFile, head.Size)
		}
		return nil
	}
	defer f.Close()
	if err := audit.VerifyMarked(f, key, head); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	n := 0
	for e, err := range audit.Entries(f, audit.Filter{}) {
		if err != nil {
			return err
		}
		if n == 0 && e.After != "" {
			note += " It follows a file that was taken away, whose last line has the hash " + e.After + "."
		}
		n++
	}
	_, err = fmt.Fprintf(opts.Out, "%s: %d entries, every line follows the one before it.%s\n", f.Name(), n, note)
	return err
}

// auditKey returns the key of the record's marks and the path of its head, which
// lie with the operator's token, where no command reads. With create the key is
// made if there is none; else an error wraps fs.ErrNotExist.
func auditKey(opts Options, create bool) (key []byte, head string, err error) {
	token, err := tokenPath(opts.Environ)
	if err != nil {
		return nil, "", err
	}
	get := readToken
	if create {
		get = keepToken
	}
	v, err := get(filepath.Join(filepath.Dir(token), "audit.key"))
	if err != nil {
		return nil, "", fmt.Errorf("the key of the record: %w", err)
	}
	file, err := filepath.Abs(opts.Config.Bash.AuditFile)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256([]byte(file))
	return []byte(v.Reveal()), filepath.Join(filepath.Dir(token), "audit-"+hex.EncodeToString(sum[:8])+".head"), nil
}

// auditTrust is what a check of the record can rely on, and what to say of it.
func auditTrust(opts Options) (key []byte, head *audit.Head, note string, err error) {
	key, path, err := auditKey(opts, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, " There is no key here: a record that was written anew as a whole would look the same.", nil
	}
	if err != nil {
		return nil, nil, "", err
	}
	h, err := audit.ReadHead(path, key)
	if errors.Is(err, fs.ErrNotExist) {
		return key, nil, " Nothing says where it ended: lines cut off its end would not be missed.", nil
	}
	return key, &h, " It was written with the key of this Iris, to its end.", err
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
