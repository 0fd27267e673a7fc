package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// A Filter picks entries; its zero value takes all.
type Filter struct {
	// Text must occur in the command, the approver, the user or the rule,
	// whatever its case.
	Text     string
	Channel  string
	Decision Decision
	Since    time.Time
}

// Takes reports whether e passes.
func (f Filter) Takes(e Entry) bool {
	switch {
	case f.Channel != "" && e.Channel != f.Channel,
		f.Decision != "" && e.Decision != f.Decision,
		!f.Since.IsZero() && e.Date.Before(f.Since):
		return false
	case f.Text == "":
		return true
	}
	text := strings.ToLower(f.Text)
	for _, s := range []string{e.Command, e.By, e.User, e.Rule} {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

// Entries yields the entries of a record that pass f, oldest first. Lines that
// are none are passed over; whether the record is whole is for Verify to say.
func Entries(r io.Reader, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			line, err := readLine(br)
			if err != nil && err != io.EOF {
				if errors.Is(err, errLong) {
					err = &ChainError{n, "is longer than any line of ours"}
				}
				yield(Entry{}, fmt.Errorf("read audit line %d: %w", n, err))
				return
			}
			var e Entry
			if json.Unmarshal(bytes.TrimSpace(line), &e) == nil && e.Decision != "" && f.Takes(e) && !yield(e, nil) {
				return
			}
			if err == io.EOF {
				return
			}
		}
	}
}
