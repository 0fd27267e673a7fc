package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/chat"
)

// OutputsOptions are the parts of an Outputs.
type OutputsOptions struct {
	// Workspace is the directory the conversations live in. Required, absolute.
	Workspace string
	// MaxFile bounds what is kept of one output. 0 means 64 MiB.
	MaxFile int64
	// Keep is how long a file is kept; older ones of the same conversation go
	// when another is written. 0 means 24 hours.
	Keep time.Duration
	// Path translates a path of the host to what the model's tools call it.
	// nil leaves it as it is.
	Path func(host string) string
	// Redact returns a writer that passes on to w what may be kept and shown of
	// an output; Close passes on the rest. nil passes on everything.
	Redact func(w io.Writer) io.WriteCloser
}

// Outputs keeps the whole of what a result shows only in part, as
// <workspace>/<conversation>/tool-output/<start of its SHA-256>.txt, where the
// read tool finds it. It is safe for concurrent use.
type Outputs struct{ opts OutputsOptions }

// outputDir is the directory of a conversation that holds outputs.
const outputDir = "tool-output"

// NewOutputs checks the options.
func NewOutputs(opts OutputsOptions) (*Outputs, error) {
	if !filepath.IsAbs(opts.Workspace) {
		return nil, fmt.Errorf("workspace %q is not an absolute path", opts.Workspace)
	}
	if opts.MaxFile <= 0 {
		opts.MaxFile = 64 << 20
	}
	if opts.Keep <= 0 {
		opts.Keep = 24 * time.Hour
	}
	if opts.Redact == nil {
		opts.Redact = func(w io.Writer) io.WriteCloser { return whole{w} }
	}
	if opts.Path == nil {
		opts.Path = func(host string) string { return host }
	}
	return &Outputs{opts}, nil
}

// whole passes on everything.
type whole struct{ io.Writer }

// Close does nothing.
func (whole) Close() error { return nil }

// Fit returns a text as it is if it keeps to the limits, and else its end (or
// a summary, if it is JSON) and a notice that names the file with all of it.
func (o *Outputs) Fit(conv chat.Address, text string) string {
	c := o.Capture(conv)
	defer c.Close()
	_, _ = io.WriteString(c.Stdout(), text) // a Capture takes everything
	return c.Text()
}

// root opens the directory of a conversation's outputs. A link the agent put in
// its place that leads out of the workspace is an error.
func (o *Outputs) root(conv chat.Address) (*os.Root, error) {
	ws, err := os.OpenRoot(o.opts.Workspace)
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	dir := path.Join(conv.Dir(), outputDir)
	if err := ws.MkdirAll(path.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := ws.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return nil, err
	}
	return ws.OpenRoot(dir)
}

// A spill is a file an output goes to while it is read.
type spill struct {
	dir     *os.Root
	file    *os.File
	name    string
	left    int64 // bytes that still fit
	dropped int64 // bytes that did not
	err     error // the first failure; nothing is written after it
}

func (o *Outputs) spill(conv chat.Address) *spill {
	s := &spill{left: o.opts.MaxFile, name: ".part-" + uuid.NewString()}
	if s.dir, s.err = o.root(conv); s.err != nil {
		return s
	}
	s.file, s.err = s.dir.OpenFile(s.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return s
}

// Write takes everything; what does not fit is counted.
func (s *spill) Write(p []byte) (int, error) {
	n := len(p)
	if int64(n) > s.left {
		s.dropped += int64(n) - s.left
		p = p[:s.left]
	}
	s.left -= int64(len(p))
	if s.err == nil && len(p) > 0 {
		_, s.err = s.file.Write(p)
	}
	return n, nil
}

// discard removes the file, if it is still there under its first name.
func (s *spill) discard() {
	if s.file != nil {
		_ = s.file.Close()
		_ = s.dir.Remove(s.name)
	}
	if s.dir != nil {
		_ = s.dir.Close()
	}
	s.file, s.dir = nil, nil
}

// keep gives the spilled bytes their final name and returns the path on the
// host.
func (o *Outputs) keep(conv chat.Address, s *spill) (string, error) {
	if s.dropped > 0 {
		s.left += 200
		fmt.Fprintf(s, "\n[This file holds the first %s; %s that came after are not kept.]\n", Size(o.opts.MaxFile), Size(s.dropped))
	}
	if s.err != nil {
		return "", s.err
	}
	sum := sha256.New()
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if _, err := io.Copy(sum, s.file); err != nil {
		return "", err
	}
	name := hex.EncodeToString(sum.Sum(nil))[:16] + ".txt"
	if err := s.dir.Rename(s.name, name); err != nil {
		return "", err
	}
	o.sweep(s.dir, name)
	return filepath.Join(o.opts.Workspace, conv.Dir(), outputDir, name), nil
}

// sweep removes the files that are older than they are kept.
func (o *Outputs) sweep(dir *os.Root, but string) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		ours := strings.HasSuffix(e.Name(), ".txt") || strings.HasPrefix(e.Name(), ".part-")
		if info, err := e.Info(); err == nil && ours && e.Name() != but && time.Since(info.ModTime()) > o.opts.Keep {
			_ = dir.Remove(e.Name()) // the next sweep tries again
		}
	}
}

// maxKept is how much of a stream is held in memory.
const maxKept = 10 << 20

// A stream keeps the end of what is written to it and counts the rest.
type stream struct {
	capture *Capture
	buf     []byte // grows to maxKept, then is a ring
	piece   []byte // of WriteString
	at      int    // where the ring begins
	total   int64
	lines   int64 // newlines
	// line is the length of the line being written, last that of the line
	// before it.
	line, last int64
	spill      *spill // from the moment the memory is full
}

// Write keeps p. It never fails.
func (s *stream) Write(p []byte) (int, error) {
	n := len(p)
	s.measure(p)
	if s.spill == nil && len(s.buf)+n > maxKept {
		s.spill = s.capture.outputs.spill(s.capture.conv)
		_, _ = s.spill.Write(s.buf)
	}
	if s.spill != nil {
		_, _ = s.spill.Write(p)
	}
	s.total += int64(n)
	if len(p) > maxKept {
		p = p[len(p)-maxKept:]
	}
	fill := min(maxKept-len(s.buf), len(p))
	s.grow(fill)
	s.buf = append(s.buf, p[:fill]...)
	for p = p[fill:]; len(p) > 0; {
		c := copy(s.buf[s.at:], p)
		s.at = (s.at + c) % len(s.buf)
		p = p[c:]
	}
	return n, nil
}

// grow makes room for n more bytes. It doubles: what append does with a large
// slice copies a megabyte five times.
func (s *stream) grow(n int) {
	need := len(s.buf) + n
	if need <= cap(s.buf) {
		return
	}
	grown := make([]byte, len(s.buf), min(maxKept, max(need, 2*cap(s.buf))))
	copy(grown, s.buf)
	s.buf = grown
}

// WriteString is Write without a copy for every piece.
func (s *stream) WriteString(p string) (int, error) {
	s.piece = append(s.piece[:0], p...)
	return s.Write(s.piece)
}

func (s *stream) measure(p []byte) {
	k := bytes.Count(p, []byte{'\n'})
	if k == 0 {
		s.line += int64(len(p))
		return
	}
	s.lines += int64(k)
	end := bytes.LastIndexByte(p, '\n')
	before := bytes.LastIndexByte(p[:end], '\n')
	s.last = int64(end - before - 1)
	if k == 1 {
		s.last += s.line
	}
	s.line = int64(len(p) - end - 1)
}

// bytes returns what is kept, from the beginning of a character on.
func (s *stream) bytes() []byte {
	if s.at == 0 && s.dropped() == 0 {
		return s.buf
	}
	ring := append(append(make([]byte, 0, len(s.buf)), s.buf[s.at:]...), s.buf[:s.at]...)
	for i := 0; i < 3 && i < len(ring) && ring[i]&0xC0 == 0x80; i++ {
		ring[i] = ' ' // the rest of a character whose beginning is gone
	}
	return ring
}

func (s *stream) dropped() int64 { return s.total - int64(len(s.buf)) }

// copyTo writes all there is of the stream.
func (s *stream) copyTo(w *spill) {
	if s.spill == nil {
		_, _ = w.Write(s.buf)
		return
	}
	if s.spill.err != nil {
		w.err = s.spill.err
		return
	}
	if _, err := s.spill.file.Seek(0, io.SeekStart); err != nil {
		w.err = err
		return
	}
	if _, err := io.Copy(w, s.spill.file); err != nil {
		w.err = err
	}
	w.dropped += s.spill.dropped
}
