package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// A Job is the answer of the job log: the lines after a number.
type Job struct {
	RequestID string `json:"requestId"`
	Done      bool   `json:"done"`
	Events    []Line `json:"events"`
	// Turn is the turn the log is of; empty from a server that knows no turns.
	Turn string `json:"turn,omitempty"`
}

// Encode returns the answer.
func (j Job) Encode() []byte {
	if j.Events == nil {
		j.Events = []Line{}
	}
	return encode(j)
}

// ParseJob reads an answer. Events that are no lines are left out.
func ParseJob(data []byte) (Job, error) {
	var raw struct {
		RequestID string            `json:"requestId"`
		Done      bool              `json:"done"`
		Events    []json.RawMessage `json:"events"`
		Turn      string            `json:"turn"`
	}
	if err := json.Unmarshal(data, &raw); err != nil || len(data) == 0 || bytes.TrimSpace(data)[0] != '{' {
		return Job{}, errors.New("not an answer of the job log")
	}
	j := Job{RequestID: raw.RequestID, Done: raw.Done, Turn: raw.Turn}
	for _, e := range raw.Events {
		if l, err := ParseLine(e); err == nil {
			j.Events = append(j.Events, l)
		}
	}
	return j, nil
}

// Since reads the number in a query; what is no number is 0.
func Since(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// A Log is a job log as it was read from a file.
type Log struct {
	// Turn and From are what the head of the file says: the turn that it is of,
	// and the number of the journal's record that accepted it. They are zero in
	// a file without a head.
	Turn string
	From int64
	// Lines are the status, final and error lines.
	Lines []Line
	// Torn reports that the last line is not whole.
	Torn bool
}

// Done reports whether the log has a terminal line.
func (l Log) Done() bool {
	for _, e := range l.Lines {
		if e.Terminal() {
			return true
		}
	}
	return false
}

// After returns the lines with a number above since; lines without a number
// always.
func (l Log) After(since int64) []Line {
	var out []Line
	for _, e := range l.Lines {
		if e.Seq == 0 || e.Seq > since {
			out = append(out, e)
		}
	}
	return out
}

// Last is the highest number in the log.
func (l Log) Last() int64 {
	var last int64
	for _, e := range l.Lines {
		last = max(last, e.Seq)
	}
	return last
}

// head is the first line of a file. It has a type that readers ignore.
type head struct {
	Type      Type   `json:"type"`
	RequestID string `json:"requestId"`
	Turn      string `json:"turn"`
	From      int64  `json:"from"`
}

const typeJob Type = "job"

// Head is the first line of a log's file.
func Head(requestID, turn string, from int64) []byte {
	return encode(head{typeJob, requestID, turn, from})
}

// ParseLog reads a file. Lines that are none, torn ones among them, are skipped.
func ParseLog(data []byte) Log {
	var l Log
	for len(data) > 0 {
		raw, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		line, err := ParseLine(raw)
		if !whole {
			l.Torn = true
		}
		switch {
		case err != nil:
		case line.Logged():
			l.Lines = append(l.Lines, line)
		case line.Type == typeJob && l.Turn == "":
			var h head
			if json.Unmarshal(raw, &h) == nil {
				l.Turn, l.From = h.Turn, h.From
			}
		}
	}
	return l
}
