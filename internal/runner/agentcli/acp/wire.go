package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// A message is one line of JSON-RPC. What it is follows from Method and ID: a
// request has both, a notification a method alone, a response an id alone.
type message struct {
	// ID is the id as it was written: a number and a string that look alike are
	// two ids, and the number 0 is one like any other.
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`
}

// An rpcError is the error of a response.
type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// The codes that mean something here.
const (
	codeParams   = -32602
	codeMethod   = -32601
	codeInternal = -32603
	codeAuth     = -32000 // from an agent: log in first
	codeRefused  = -32001 // to an agent: a person or the policy said no
	codeNotFound = -32002
)

func (e *rpcError) Error() string {
	text := e.Message
	var data struct {
		Details string `json:"details"`
		Message string `json:"message"`
	}
	if json.Unmarshal(e.Data, &data) == nil {
		if extra := firstOf(data.Details, data.Message); extra != "" && extra != text {
			text += ": " + extra
		}
	} else {
		var s string
		if json.Unmarshal(e.Data, &s) == nil && s != "" {
			text += ": " + s
		}
	}
	if text == "" {
		text = "error " + strconv.FormatInt(e.Code, 10)
	}
	return clip(text, 500)
}

// parse reads one line. ok is false for what is no message: an empty line, what
// a library printed by mistake, an id that is neither number nor string.
func parse(line []byte) (m message, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || decode(line, &m) != nil {
		return message{}, false
	}
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
	}
	if len(m.ID) > 0 && m.ID[0] != '"' && m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9') {
		return message{}, false
	}
	return m, m.Method != "" || m.ID != nil
}

// decode is json.Unmarshal that lets a field of an unexpected type be missing.
func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return nil
	}
	return err
}

// lines calls each for every line of r, however long. A last line without its
// end counts. A pipe that was closed on this side ends like one that was closed
// on the other.
func lines(r io.Reader, each func([]byte)) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			whole := append([]byte(nil), line...)
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = br.ReadSlice('\n')
				whole = append(whole, line...)
			}
			line = whole
		}
		if len(line) > 0 {
			each(line)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, os.ErrClosed):
			return nil
		default:
			return err
		}
	}
}

// An outbox holds the lines on their way to the agent, so that nobody who has
// something to say waits for an agent that does not listen; the reader least of
// all.
type outbox struct {
	// mu guards the fields below.
	mu    sync.Mutex
	queue [][]byte
	gone  bool
	// wake has room for one word: there is something to do.
	wake chan struct{}
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// put queues a message; an error means that the agent does not listen any more.
func (o *outbox) put(m any) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return agentcli.ErrGone
	}
	o.queue = append(o.queue, append(line, '\n'))
	o.nudge()
	return nil
}

func (o *outbox) nudge() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// close ends write, now or when it comes back from the pipe.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone, o.queue = true, nil
	o.nudge()
}

// write brings lines to w until close, or until w fails.
func (o *outbox) write(w io.Writer) {
	for range o.wake {
		for {
			o.mu.Lock()
			if o.gone {
				o.mu.Unlock()
				return
			}
			if len(o.queue) == 0 {
				o.mu.Unlock()
				break
			}
			line := o.queue[0]
			o.queue = o.queue[1:]
			o.mu.Unlock()
			if _, err := w.Write(line); err != nil {
				o.close()
				return
			}
		}
	}
}

// The forms of what is sent. Version is always "2.0".
type request struct {
	Version string `json:"jsonrpc"`
	ID      *int64 `json:"id,omitempty"` // nil makes it a notification
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}
