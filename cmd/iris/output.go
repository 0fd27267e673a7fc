package main

import (
	"fmt"
	"os"
	"sync"
)

// output is standard output that remembers when it could not be written: a
// subcommand that draws as it goes cannot stop there, but an answer that went
// nowhere is no success.
type output struct {
	file *os.File

	mu  sync.Mutex // guards the field below
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// Fd tells whether it is a terminal.
func (o *output) Fd() uintptr { return o.file.Fd() }

// result is err, else what went wrong with the output.
func (o *output) result(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil && o.err != nil {
		return fmt.Errorf("the output could not be written: %w", o.err)
	}
	return err
}
