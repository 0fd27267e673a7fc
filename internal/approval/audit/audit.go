// Package audit is the record of commands: one JSON line per decision, appended
// and never rewritten, chained by hashes so that [Verify] finds a line that was
// edited or removed. It owns the file; what is decided is up to the tools.
//
// The chain alone is no signature: whoever can write the file can cut lines off
// its end or make a whole new one. With Options.Key every line carries a mark that
// only the key makes, and a head that is kept elsewhere says how far the record
// went; [VerifyMarked] finds both. Against who can read the key or write the head,
// as commands on the host can, keep the file outside of what the process may
// write, and `chattr +a` it. One process writes a file at a time.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A Decision says what became of a command.
type Decision string

// The decisions. A command that a person confirmed has two lines: Confirmed,
// then Executed.
const (
	Executed             Decision = "executed"
	Denied               Decision = "denied"
	ConfirmationRequired Decision = "confirmation-required"
	Confirmed            Decision = "confirmed"
)

// An Entry is a line of the record. After, Prev, Mark and Hash belong to the chain
// and are set by Append.
type Entry struct {
	Date     time.Time `json:"date"`
	Channel  string    `json:"channelId"`
	Command  string    `json:"command"`
	Decision Decision  `json:"decision"`
	// ExitCode is null unless the command ran to its own end.
	ExitCode   *int   `json:"exitCode"`
	Turn       string `json:"turn,omitempty"`
	Origin     string `json:"origin,omitempty"`
	User       string `json:"user,omitempty"`
	Rule       string `json:"rule,omitempty"`
	Sandbox    string `json:"sandbox,omitempty"`
	DurationMS int64  `json:"durationMs,omitempty"`
	// By names the person who confirmed and the message that did it.
	By string `json:"by,omitempty"`
	// After is the hash that the record had ended with when this first line of
	// another file was written.
	After string `json:"after,omitempty"`
	Prev  string `json:"prev"`
	Mark  string `json:"mark,omitempty"`
	Hash  string `json:"hash,omitempty"`
}

// Options are the parts of a Log.
type Options struct {
	// File is the path of the record. Required. It and its directory are made
	// when the first line is written.
	File string
	// Key makes the marks. Empty means that lines have none.
	Key []byte
	// Head is the path of a file that says, under the key, where the record ends.
	// It and its directory are made with the first line. Empty, or no key, means
	// none.
	Head string
	// Logger hears that the record cannot be written, once until it can again.
	// nil means slog.DiscardHandler.
	Logger *slog.Logger
	// Now is the clock for entries without a date. nil means time.Now.
	Now func() time.Time
}

// A Log appends to a record. It is safe for concurrent use and holds no open
// file, so that the file may be moved away while it is used.
type Log struct {
	opts Options

	// mu guards the fields below.
	mu      sync.Mutex
	known   bool   // prev and size are what the file had after the last line
	prev    string // the hash of the last line
	size    int64
	failing bool
}

// New checks the options.
func New(opts Options) (*Log, error) {
	if opts.File == "" {
		return nil, errors.New("the audit record has no file")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Log{opts: opts}, nil
}

// Append adds a line. A failure is logged and breaks nothing: the record is
// there to explain, and a full disk must not stop the work that would free it.
func (l *Log) Append(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Date.IsZero() {
		e.Date = l.opts.Now()
	}
	e.Date = e.Date.UTC()
	err := l.append(e)
	if err != nil {
		l.known = false
		if !l.failing {
			l.opts.Logger.Error("audit record cannot be written", "file", l.opts.File, "error", err)
		}
	}
	l.failing = err != nil
}

func (l *Log) append(e Entry) error {
	if err := os.MkdirAll(filepath.Dir(l.opts.File), 0o755); err != nil {
		return err
	}
	f, err := l.open()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	torn := false
	if !l.known || info.Size() != l.size {
		if l.prev, torn, err = last(f, info.Size()); err != nil {
			return err
		}
	}
	if info.Size() == 0 && l.headed() {
		if h, err := ReadHead(l.opts.Head, l.opts.Key); err == nil {
			e.After = h.Hash
		}
	}
	line, hash, err := seal(e, l.prev, l.opts.Key)
	if err != nil {
		return err
	}
	if torn {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	l.known, l.prev, l.size = true, hash, info.Size()+int64(len(line))
	if l.headed() {
		return writeHead(l.opts.Head, l.opts.Key, Head{Size: l.size, Hash: hash})
	}
	return nil
}

func (l *Log) headed() bool { return l.opts.Head != "" && len(l.opts.Key) > 0 }

// open opens for appending. Reading is wished for, to continue the chain.
func (l *Log) open() (*os.File, error) {
	return os.OpenFile(l.opts.File, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
}

// seal writes an entry as a line whose hash covers everything before it, and whose
// mark, if there is a key, everything before that.
func seal(e Entry, prev string, key []byte) (line []byte, hash string, err error) {
	e.Prev, e.Mark, e.Hash = prev, "", ""
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a person reads && and >
	if err := enc.Encode(e); err != nil {
		return nil, "", err
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	if len(key) > 0 {
		body = fmt.Appendf(nil, "%s%s%s\"", body, markKey, mark(key, body))
	}
	hash = digest(body)
	return fmt.Appendf(nil, "%s%s%s%s", body, hashKey, hash, lineEnd), hash, nil
}

const (
	hashKey = `,"hash":"`
	markKey = `,"mark":"`
	lineEnd = "\"}\n"
)

func digest(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// split takes a line apart into what is hashed and the hash.
func split(line []byte) (body []byte, hash string, ok bool) {
	i := len(line) - len(hashKey) - sha256.Size*2 - len(`"}`)
	if i < 0 || !bytes.HasPrefix(line[i:], []byte(hashKey)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return nil, "", false
	}
	return line[:i], string(line[i+len(hashKey) : len(line)-2]), true
}

// link is what the line after this one has as prev: its hash, and for a line
// that has none, written by another program, the digest of its bytes.
func link(line []byte) string {
	if _, hash, ok := split(line); ok {
		return hash
	}
	return digest(line)
}

// last returns the link of the last whole line of a file, and whether
// something that is no line follows it.
func last(f io.ReaderAt, size int64) (prev string, torn bool, err error) {
	var tail []byte
	for from := size; from > 0; {
		step := min(from, 64<<10)
		from -= step
		chunk := make([]byte, step, int(step)+len(tail))
		if _, err := f.ReadAt(chunk, from); err != nil {
			return "", false, err
		}
		tail = append(chunk, tail...)
		end := bytes.LastIndexByte(tail, '\n')
		if end < 0 {
			continue
		}
		torn = end < len(tail)-1
		// Torn lines that were closed by a later start are no links.
		for end >= 0 {
			begin := bytes.LastIndexByte(tail[:end], '\n') + 1
			if begin == 0 && from > 0 {
				break // the line begins in an earlier chunk
			}
			if line := tail[begin:end]; json.Valid(line) {
				return link(line), torn, nil
			}
			end = begin - 1
		}
	}
	return "", torn || len(tail) > 0 && tail[len(tail)-1] != '\n', nil
}
