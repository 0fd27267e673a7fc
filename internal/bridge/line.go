package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A Type says what a line tells.
type Type string

// The types. Whoever reads lines ignores all others.
const (
	TypeAccepted  Type = "accepted"
	TypeStatus    Type = "status"
	TypeHeartbeat Type = "heartbeat"
	TypeFinal     Type = "final"
	TypeError     Type = "error"
)

// A Line is one line of a stream or of a job log. Which fields a type has is
// what the functions below make of it; status, final and error have a Seq that
// counts the lines of the job from 1, the same in the stream and in the log.
type Line struct {
	Type      Type   `json:"type"`
	Text      string `json:"text,omitempty"`
	Error     string `json:"error,omitempty"`
	Code      Code   `json:"code,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	Protocol  int    `json:"protocol,omitempty"`
	Seq       int64  `json:"seq,omitempty"`
	// Turn, in an accepted line, is the turn that the request named.
	Turn string `json:"turn,omitempty"`
}

// Accepted is the first line of a stream.
func Accepted(requestID, turn string) Line {
	return Line{Type: TypeAccepted, RequestID: requestID, Protocol: Protocol, Turn: turn}
}

// Heartbeat keeps a stream alive.
func Heartbeat() Line { return Line{Type: TypeHeartbeat} }

// Status is a line of progress; its text is cut.
func Status(text string, seq int64) Line {
	return Line{Type: TypeStatus, Text: Cut(Clean(text)), Seq: seq}
}

// Final is the reply. A reply without text is NoResponse.
func Final(text, requestID string, seq int64) Line {
	if text = Clean(text); text == "" {
		text = NoResponse
	}
	return Line{Type: TypeFinal, Text: text, RequestID: requestID, Seq: seq}
}

// Failure is an error line. The zero code is Failed.
func Failure(code Code, text, requestID string, seq int64) Line {
	if code == "" {
		code = Failed
	}
	if text = Clean(text); text == "" {
		text = "run failed"
	}
	return Line{Type: TypeError, Error: text, Code: code, RequestID: requestID, Seq: seq}
}

// Terminal reports whether the line ends its job.
func (l Line) Terminal() bool { return l.Type == TypeFinal || l.Type == TypeError }

// Logged reports whether the line belongs into the job log.
func (l Line) Logged() bool { return l.Terminal() || l.Type == TypeStatus }

// Encode returns the line with its newline. A newline in a text stays inside
// the JSON.
func (l Line) Encode() []byte { return encode(l) }

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings and numbers always have a form
	return b.Bytes()
}

// ErrNoLine reports bytes that are no line; whoever reads a stream or a log
// goes on with the next one.
var ErrNoLine = errors.New("not a line of the bridge")

// ParseLine reads a line as a reader must: fields and types it does not know
// are let through. A line of a known type whose fields have other types than
// they should is no line.
func ParseLine(data []byte) (Line, error) {
	var l Line
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return Line{}, ErrNoLine
	}
	if err := json.Unmarshal(data, &l); err != nil || l.Type == "" {
		return Line{}, ErrNoLine
	}
	l.Seq = max(l.Seq, 0)
	return l, nil
}

// CheckLine reads a line as strictly as it is written: a known type, exactly
// its fields, a known code, bounds kept. Tests hold servers to it.
func CheckLine(data []byte) (Line, error) {
	var l Line
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Line{}, fmt.Errorf("line %.80q: %w", data, err)
	}
	if !bytes.Equal(l.Encode(), data) {
		return Line{}, fmt.Errorf("line %.80q: not in the form it is written in", data)
	}
	if err := l.check(); err != nil {
		return Line{}, fmt.Errorf("line %.80q: %w", data, err)
	}
	return l, nil
}

func (l Line) check() error {
	var want Line
	switch l.Type {
	case TypeAccepted:
		want = Accepted(l.RequestID, l.Turn)
	case TypeHeartbeat:
		want = Heartbeat()
	case TypeStatus:
		want = Status(l.Text, l.Seq)
	case TypeFinal:
		want = Final(l.Text, l.RequestID, l.Seq)
	case TypeError:
		want = Failure(l.Code, l.Error, l.RequestID, l.Seq)
	default:
		return fmt.Errorf("unknown type %q", l.Type)
	}
	switch {
	case l != want:
		return errors.New("fields that the type does not have, or without text")
	case l.Type == TypeError && !l.Code.Known():
		return fmt.Errorf("unknown code %q", l.Code)
	case l.Logged() && l.Seq < 1:
		return errors.New("no seq")
	case (l.Type == TypeAccepted || l.Terminal()) && CleanID(l.RequestID) != l.RequestID:
		return fmt.Errorf("request id %q", l.RequestID)
	case l.Type == TypeStatus && l.Text == "":
		return errors.New("a status without text")
	}
	return nil
}
