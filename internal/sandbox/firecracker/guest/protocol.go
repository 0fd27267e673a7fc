package guest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
)

// A Request is the body of POST /exec. Command and Timeout are the whole of it
// for a plain client; a server that does not know the other fields ignores them.
type Request struct {
	Command string `json:"command"`
	// Timeout is in seconds, fractions allowed; nil means 60.
	Timeout *float64 `json:"timeout,omitempty"`
	// ID is what DELETE /exec/<id> calls the command.
	ID string `json:"id,omitempty"`
	// Dir is where the command runs; empty means the workspace.
	Dir string `json:"dir,omitempty"`
	// Env is the whole environment; nil means the server's default.
	Env []string `json:"env,omitempty"`
	// Stdin says that what follows the JSON in the body is the command's input.
	Stdin bool `json:"stdin,omitempty"`
}

// An Answer is what POST /exec returns to a plain client.
type Answer struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Code   int    `json:"exit_code"`
}

// streamType is what a client accepts that wants frames instead of an Answer.
const streamType = "application/vnd.iris.exec-stream"

// sizeHeader carries the size of a file beside a part of its content.
const sizeHeader = "Iris-File-Size"

// The kinds of frames. A frame is its kind, the length of its payload in four
// bytes, most significant first, and the payload.
const (
	frameOut   = 'o' // bytes of the command's output
	frameErr   = 'e' // bytes of its error output
	frameAlive = 'h' // nothing: the guest is still there
	frameEnd   = 'x' // an end, always the last
)

// maxFrame bounds a payload.
const maxFrame = 1 << 20

// aliveEvery is how often a frame comes at least, and silence how long a client
// waits for one.
const (
	aliveEvery = 5 * time.Second
	silence    = 45 * time.Second
)

// An end is the payload of the last frame.
type end struct {
	Code       int     `json:"exit_code"`
	Signal     string  `json:"signal,omitempty"`
	TimedOut   bool    `json:"timed_out,omitempty"`
	Aborted    bool    `json:"aborted,omitempty"`
	Background int     `json:"background,omitempty"`
	Seconds    float64 `json:"seconds"`
	// Error says that the command could not be run or ended.
	Error string `json:"error,omitempty"`
}

func (e end) exit() sandbox.Exit {
	return sandbox.Exit{Code: e.Code, Signal: e.Signal, TimedOut: e.TimedOut, Aborted: e.Aborted, Background: e.Background,
		Duration: time.Duration(e.Seconds * float64(time.Second))}
}

// A refusal is the body of an answer that is not 2xx.
type refusal struct {
	Error string `json:"error"`
	// Code is "not_exist" for a file that is not there.
	Code string `json:"code,omitempty"`
}

const codeNotExist = "not_exist"

// appendFrame adds a frame to b.
func appendFrame(b []byte, kind byte, payload []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// readFrame reads one frame, into buf if it fits.
func readFrame(r *bufio.Reader, buf []byte) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	if int(n) > cap(buf) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return 0, nil, fmt.Errorf("a torn frame: %w", err)
	}
	return head[0], buf, nil
}

// copyFrames writes what frames carry to out and errs, either of which may be
// nil, and returns the end. alive is called for every frame.
func copyFrames(r io.Reader, out, errs io.Writer, alive func()) (e end, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	buf := make([]byte, 64<<10)
	for {
		kind, payload, err := readFrame(br, buf)
		if err != nil {
			return end{}, err
		}
		alive()
		var dst io.Writer
		switch kind {
		case frameOut:
			dst = out
		case frameErr:
			dst = errs
		case frameAlive:
		case frameEnd:
			if err := json.Unmarshal(payload, &e); err != nil {
				return end{}, fmt.Errorf("read the end of the command: %w", err)
			}
			return e, nil
		default:
			return end{}, fmt.Errorf("a frame of unknown kind %q", kind)
		}
		if dst != nil {
			_, _ = dst.Write(payload) // a full disk of ours does not end their command
		}
	}
}
