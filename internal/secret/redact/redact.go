// Package redact replaces secret values in what is about to leave: texts, JSON,
// streams and log records. It owns the list of values and the search; where it
// is put is up to its user (package veil and app).
//
// It finds a value as it is and in the encodings that programs really use
// (forms.go lists them), also when it is split over writes. It is best effort
// and no wall: a value that was reversed, compressed, encrypted or spelled out
// passes. The wall is not to hand out the value: proxy-only secrets.
package redact

import (
	"slices"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/secret"
)

// Mark stands where a value was.
const Mark = "[REDACTED-SECRET]"

// Options bound a Redactor.
type Options struct {
	// Max is how many values are remembered; the one that was not added for
	// the longest time goes first. 0 means 256.
	Max int
	// Except are words that are never redacted, because the text would no
	// longer work without them. Who stores such a word as a secret has none.
	Except []string
}

// minLength is the shortest value that is redacted, in bytes. Shorter ones occur
// by chance.
const minLength = 8

// maxBytes bounds what all forms of all values take.
const maxBytes = 64 << 20

// A Redactor knows values and finds them. It is safe for concurrent use; a value
// counts from the moment Add returns, also in streams that have begun.
type Redactor struct {
	opts Options

	// mu guards the fields below. Searching takes it for reading.
	mu     sync.RWMutex
	table  *table
	values map[string]*value
	clock  int64
}

type value struct {
	forms []string
	bytes int
	used  int64
	kept  bool
}

// New returns a Redactor that knows nothing yet.
func New(opts Options) *Redactor {
	if opts.Max <= 0 {
		opts.Max = 256
	}
	return &Redactor{opts: opts, table: newTable(), values: map[string]*value{}}
}

// Add remembers a value. Values shorter than 8 bytes, without the white space
// around them, are left alone.
func (r *Redactor) Add(v secret.Value) { r.add(v, false) }

// Keep is Add for a value that is never forgotten: the keys of the process
// itself.
func (r *Redactor) Keep(v secret.Value) { r.add(v, true) }

// Drop forgets a value of Add that has lost its use. What Keep has stays.
func (r *Redactor) Drop(v secret.Value) {
	text := strings.TrimSpace(v.Reveal())
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.values[text]
	if known == nil || known.kept {
		return
	}
	for _, f := range known.forms {
		r.table.remove(f)
	}
	delete(r.values, text)
}

func (r *Redactor) add(v secret.Value, keep bool) {
	text := strings.TrimSpace(v.Reveal())
	if len(text) < minLength || slices.Contains(r.opts.Except, text) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	if known := r.values[text]; known != nil {
		known.used = r.clock
		known.kept = known.kept || keep
		return
	}
	n := &value{forms: forms(text), used: r.clock, kept: keep}
	for _, f := range n.forms {
		n.bytes += len(f)
		r.table.add(f)
	}
	r.values[text] = n
	r.forget()
}

// forget drops the values that were not used for the longest time until the
// rest keeps to the limits.
func (r *Redactor) forget() {
	for {
		total, loose, oldest := 0, 0, ""
		for text, v := range r.values {
			total += v.bytes
			if v.kept {
				continue
			}
			loose++
			if oldest == "" || v.used < r.values[oldest].used {
				oldest = text
			}
		}
		if oldest == "" || loose <= r.opts.Max && (total <= maxBytes || loose == 1) {
			return
		}
		for _, f := range r.values[oldest].forms {
			r.table.remove(f)
		}
		delete(r.values, oldest)
	}
}

// String returns a text with a mark for every value in it. A text without one is
// returned as it is.
func (r *Redactor) String(s string) string {
	spans := r.find(s)
	if len(spans) == 0 {
		return s
	}
	return mark(s, spans)
}

// Found reports whether a text holds a value.
func (r *Redactor) Found(s string) bool { return len(r.find(s)) > 0 }

func (r *Redactor) find(s string) []span {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table.find(s)
}

func mark(s string, spans []span) string {
	var b strings.Builder
	at := 0
	for _, p := range spans {
		b.WriteString(s[at:p.from])
		b.WriteString(Mark)
		at = p.to
	}
	b.WriteString(s[at:])
	return b.String()
}
