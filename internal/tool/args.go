package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Arguments reads the arguments of a call one by one and remembers the first
// thing that is wrong with them, in words the model can act on.
type Arguments struct {
	raw map[string]json.RawMessage
	err error
}

// ParseArguments reads a JSON object. Arguments that no reader asks for are
// ignored: models add them, and a call is not wrong for it.
func ParseArguments(raw json.RawMessage) *Arguments {
	a := &Arguments{}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := json.Unmarshal(raw, &a.raw); err != nil || a.raw == nil {
		a.err = errors.New("the arguments are not a JSON object")
	}
	return a
}

func (a *Arguments) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

// has reports whether the argument is there; null counts as absent.
func (a *Arguments) has(name string) bool {
	v, ok := a.raw[name]
	return ok && string(v) != "null"
}

// Text returns a required string, which may be empty.
func (a *Arguments) Text(name string) (s string) {
	if !a.has(name) {
		a.fail("argument %q is missing: it must be a string", name)
		return ""
	}
	if err := json.Unmarshal(a.raw[name], &s); err != nil {
		a.fail("argument %q must be a string", name)
	}
	return s
}

// String returns a required string that says something and holds no NUL.
func (a *Arguments) String(name string) string {
	s := a.Text(name)
	if a.err == nil && strings.TrimSpace(s) == "" {
		a.fail("argument %q is empty", name)
	}
	if strings.ContainsRune(s, 0) {
		a.fail("argument %q holds a NUL character", name)
	}
	return s
}

// Optional returns a string, "" if it is absent.
func (a *Arguments) Optional(name string) string {
	if !a.has(name) {
		return ""
	}
	return a.Text(name)
}

// Number returns a number and whether it is there.
func (a *Arguments) Number(name string) (n float64, ok bool) {
	if !a.has(name) {
		return 0, false
	}
	if err := json.Unmarshal(a.raw[name], &n); err != nil || math.IsInf(n, 0) {
		a.fail("argument %q must be a number", name)
		return 0, false
	}
	return n, true
}

// Whole returns a whole number and whether it is there.
func (a *Arguments) Whole(name string) (n int, ok bool) {
	f, ok := a.Number(name)
	if ok && (f != math.Trunc(f) || math.Abs(f) > 1<<50) {
		a.fail("argument %q must be a whole number", name)
		return 0, false
	}
	return int(f), ok
}

// Err returns the first thing that was wrong, or nil.
func (a *Arguments) Err() error { return a.err }
