package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/llm"
)

// A wire knows one protocol.
type wire interface {
	// parse reads and judges a request. The error is the reason for a 400, or
	// a denied for another status.
	parse(header http.Header, body []byte) (Request, error)
	// events draws an answer.
	events(r Request, a Answer) []event
	// failure is an error in the stream.
	failure(kind, message string) event
	// unknown is an event that no client knows.
	unknown() event
	// refusal is the JSON body of an error.
	refusal(status int, kind, message string) any
	// ping is a keep-alive, as it stands in the stream.
	ping() string
}

// denied is a refusal with a status other than 400.
type denied struct {
	status  int
	message string
}

func (d denied) Error() string { return d.message }

// An event is one frame of a stream.
type event struct {
	name string // "" leaves the event line out
	data any    // JSON, or a string that is sent as it is
}

func (e event) String() string {
	data, ok := e.data.(string)
	if !ok {
		raw, err := json.Marshal(e.data)
		if err != nil {
			panic(err) // the events are our own
		}
		data = string(raw)
	}
	if e.name == "" {
		return "data: " + data + "\n\n"
	}
	return "event: " + e.name + "\ndata: " + data + "\n\n"
}

// obj is a JSON object.
type obj map[string]any

func (s *Server) handler(w wire) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		s.enter()
		defer s.leave()
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return
		}
		req, err := w.parse(in.Header, body)
		req.Header, req.Body = in.Header.Clone(), body
		if err != nil {
			req.Refused = err.Error()
		}
		script := s.book(&req)
		out.Header().Set("Request-Id", fmt.Sprintf("req_%d", req.Number))
		if err != nil {
			status := http.StatusBadRequest
			if d, ok := err.(denied); ok {
				status = d.status
			}
			fail(out, w, Answer{Status: status, Message: err.Error()})
			return
		}
		a := script(req)
		if a.Hold != nil {
			select {
			case <-a.Hold:
			case <-in.Context().Done():
				return
			}
		}
		if a.Status != 0 && a.Status != http.StatusOK {
			fail(out, w, a)
			return
		}
		player{out: out, in: in, wire: w, answer: a}.play(w.events(req, spoil(a)))
	}
}

// fail sends an error that is no stream.
func fail(out http.ResponseWriter, w wire, a Answer) {
	if a.RetryAfter != "" {
		out.Header().Set("Retry-After", a.RetryAfter)
	}
	if a.Body != "" {
		out.Header().Set("Content-Type", "text/html")
		out.WriteHeader(a.Status)
		_, _ = io.WriteString(out, a.Body)
		return
	}
	if a.Message == "" {
		a.Message = http.StatusText(a.Status)
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(a.Status)
	_ = json.NewEncoder(out).Encode(w.refusal(a.Status, a.Kind, a.Message))
}

// spoil applies the faults that change the answer itself, and the defaults.
func spoil(a Answer) Answer {
	parts := make([]llm.Part, len(a.Parts))
	copy(parts, a.Parts)
	a.Parts = parts
	calls := 0
	for i := range parts {
		if parts[i].Kind != llm.CallPart {
			continue
		}
		calls++
		c := *parts[i].Call
		if a.Fault.CutArgs {
			c.Args = c.Args[:len(c.Args)-1]
		}
		if a.Fault.SameID {
			c.ID = "call_same"
		}
		parts[i].Call = &c
	}
	if a.Stop == "" {
		a.Stop = llm.StopEnd
		if calls > 0 {
			a.Stop = llm.StopTools
		}
	}
	if a.Usage == nil {
		a.Usage = &llm.Usage{Input: 10, Output: 5}
	}
	return a
}

// A player sends the events of one answer.
type player struct {
	out    http.ResponseWriter
	in     *http.Request
	wire   wire
	answer Answer
}

func (p player) play(events []event) {
	p.out.Header().Set("Content-Type", "text/event-stream")
	p.out.Header().Set("Cache-Control", "no-cache")
	f := p.answer.Fault
	for i, e := range events {
		if f.Pings && !p.send(p.wire.ping()) || f.Unknown && !p.send(p.wire.unknown().String()) {
			return
		}
		if i > 0 && !p.sleep(p.answer.Pause) {
			return
		}
		if !p.send(e.String()) {
			return
		}
		switch sent := i + 1; sent {
		case f.CutAfter:
			p.flush()
			panic(http.ErrAbortHandler) // net/http closes the connection
		case f.EndAfter:
			return
		case f.SilentAfter:
			p.silence()
			return
		case f.ErrorAfter:
			kind := f.ErrorKind
			if kind == "" {
				kind = "overloaded_error"
			}
			p.send(p.wire.failure(kind, "the fake was told to fail").String())
			return
		}
	}
}

// send writes text, in pieces if told so, and reports whether the client is
// still there.
func (p player) send(text string) bool {
	if n := p.answer.Fault.Chunk; n > 0 {
		for len(text) > n {
			if _, err := io.WriteString(p.out, text[:n]); err != nil {
				return false
			}
			p.flush()
			text = text[n:]
		}
	}
	_, err := io.WriteString(p.out, text)
	if p.answer.Pause > 0 || p.answer.Fault != (Fault{}) {
		p.flush()
	}
	return err == nil && p.in.Context().Err() == nil
}

func (p player) flush() { _ = http.NewResponseController(p.out).Flush() }

func (p player) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.in.Context().Done():
		return false
	}
}

// pingEvery is the time between keep-alives of a stream that says nothing.
const pingEvery = 5 * time.Millisecond

// silence waits for the client to leave.
func (p player) silence() {
	p.flush()
	if !p.answer.Fault.Pings {
		<-p.in.Context().Done()
		return
	}
	for p.sleep(pingEvery) && p.send(p.wire.ping()) {
	}
}

// pieces cuts a text into what a model would send at once.
func pieces(s string) (out []string) {
	const size = 12
	runes := []rune(s)
	for len(runes) > size {
		out = append(out, string(runes[:size]))
		runes = runes[size:]
	}
	return append(out, string(runes))
}

// halves cuts arguments into two pieces, as the real services do.
func halves(raw json.RawMessage) []string {
	s := string(raw)
	return []string{s[:len(s)/2], s[len(s)/2:]}
}

// strict decodes JSON into v and refuses fields that v does not have.
func strict(raw json.RawMessage, v any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
