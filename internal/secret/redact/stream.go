package redact

import (
	"encoding/json"
	"io"
	"strings"
)

// A Stream redacts a text that comes in pieces. It holds back the end of what it
// was given as long as that may be the beginning of a value. The zero value is
// not usable; a Stream belongs to one goroutine.
type Stream struct {
	r    *Redactor
	held string
}

// Stream begins a stream.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// Push takes a piece and returns what may be shown by now.
func (s *Stream) Push(piece string) string {
	text := s.held + piece
	s.r.mu.RLock()
	spans, cut := s.r.table.find(text), s.r.table.open(text)
	s.r.mu.RUnlock()
	for i, p := range spans {
		if p.to > cut { // it may grow
			cut = min(cut, p.from)
			spans = spans[:i]
			break
		}
	}
	s.held = strings.Clone(text[cut:])
	return mark(text[:cut], spans)
}

// Flush returns what was held back, at the end of the text.
func (s *Stream) Flush() string {
	rest := s.r.String(s.held)
	s.held = ""
	return rest
}

// Drop forgets what was held back: it will not be shown.
func (s *Stream) Drop() { s.held = "" }

// Writer returns a writer that redacts what goes through it to w. Close writes
// what was held back and leaves w open. It belongs to one goroutine.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &writer{r.Stream(), w} }

type writer struct {
	stream *Stream
	w      io.Writer
}

// Write passes on what may be shown. It counts all of p as written.
func (w *writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.stream.Push(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close passes on the rest.
func (w *writer) Close() error {
	_, err := io.WriteString(w.w, w.stream.Flush())
	return err
}

// JSON returns JSON text with the values inside of its strings redacted, keys
// included; it stays JSON of the same shape. What has no value in it is
// returned as it is. Text that is no JSON is redacted as a text.
func (r *Redactor) JSON(data []byte) []byte {
	text := string(data)
	if !strings.Contains(text, `\`) && !r.Found(text) {
		return data
	}
	if !json.Valid(data) {
		return []byte(r.String(text))
	}
	var b strings.Builder
	changed := false
	for {
		begin := strings.IndexByte(text, '"')
		if begin < 0 {
			break
		}
		end := begin + literal(text[begin:])
		clean, did := r.literal(text[begin:end])
		changed = changed || did
		b.WriteString(text[:begin])
		b.WriteString(clean)
		text = text[end:]
	}
	if !changed {
		return data
	}
	b.WriteString(text)
	return []byte(b.String())
}

// literal returns the length of the string literal that s begins with.
func literal(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// literal redacts one string literal.
func (r *Redactor) literal(lit string) (string, bool) {
	inside := lit[1 : len(lit)-1]
	if !strings.Contains(inside, `\`) {
		if clean := r.String(inside); clean != inside {
			return `"` + clean + `"`, true
		}
		return lit, false
	}
	var s string
	if json.Unmarshal([]byte(lit), &s) != nil {
		return lit, false
	}
	clean := r.String(s)
	if clean == s {
		return lit, false
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(clean) != nil {
		return lit, false
	}
	return strings.TrimSuffix(b.String(), "\n"), true
}
