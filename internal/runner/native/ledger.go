package native

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/llm"
)

// A spending is one line of the ledger: one answer of a model.
type spending struct {
	At           time.Time `json:"at"`
	Conversation string    `json:"conversation"`
	Turn         string    `json:"turn,omitempty"`
	Provider     string    `json:"provider,omitempty"`
	Model        string    `json:"model,omitempty"`
	Usage        llm.Usage `json:"usage"`
	Cost         float64   `json:"cost,omitempty"`
}

// A ledger adds up what was spent on each day of the people's time zone, in a
// file per day (2026-01-02.jsonl). Lines are appended and never changed; a torn
// one does not count.
type ledger struct {
	dir string // empty: in memory only
	loc *time.Location
	now func() time.Time

	// mu guards the fields below.
	mu     sync.Mutex
	day    string
	tokens int64
	cost   float64
	torn   bool     // the file ends in the middle of a line
	file   *os.File // of day, open since its first line; nil before
}

// openLedger reads what was spent today.
func openLedger(dir string, loc *time.Location, now func() time.Time) (*ledger, error) {
	l := &ledger{dir: dir, loc: loc, now: now}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("usage ledger: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l, l.turnTo(l.date(now()))
}

func (l *ledger) date(t time.Time) string { return t.In(l.loc).Format(time.DateOnly) }

func (l *ledger) path(day string) string { return filepath.Join(l.dir, day+".jsonl") }

// turnTo makes day the day that is counted.
func (l *ledger) turnTo(day string) error {
	if l.day == day {
		return nil
	}
	err := l.closeFile()
	l.day, l.tokens, l.cost, l.torn = day, 0, 0, false
	if l.dir == "" || err != nil {
		return err
	}
	f, err := os.Open(l.path(day))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("usage ledger: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			l.torn = line[len(line)-1] != '\n'
			var s spending
			if json.Unmarshal(bytes.TrimSpace(line), &s) == nil {
				l.count(s)
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (l *ledger) count(s spending) {
	l.tokens += s.Usage.Total()
	l.cost += s.Cost
}

// today returns what was spent since midnight.
func (l *ledger) today() (tokens int64, cost float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.turnTo(l.date(l.now())) // a new day counts from 0 when its file cannot be read
	return l.tokens, l.cost
}

// add counts and writes a spending.
func (l *ledger) add(s spending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	readErr := l.turnTo(l.date(s.At))
	l.count(s)
	if l.dir == "" {
		return readErr
	}
	line, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("usage ledger: %w", err)
	}
	line = append(line, '\n')
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	if l.file == nil {
		if l.file, err = os.OpenFile(l.path(l.day), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			l.file = nil
			return fmt.Errorf("usage ledger: %w", err)
		}
	}
	_, err = l.file.Write(line)
	l.torn = err != nil
	if err := errors.Join(err, readErr); err != nil {
		return fmt.Errorf("usage ledger: %w", err)
	}
	return nil
}

// close closes the file; a later add opens it again.
func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeFile()
}

func (l *ledger) closeFile() error {
	f := l.file
	l.file = nil
	if f == nil {
		return nil
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("usage ledger: %w", err)
	}
	return nil
}
