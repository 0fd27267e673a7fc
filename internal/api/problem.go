package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A problem is an answer that is not a success.
type problem struct {
	Status int       `json:"-"`
	Text   string    `json:"error"`
	Code   turn.Code `json:"code,omitempty"`
	Turn   turn.ID   `json:"turn,omitempty"`
	// Known are the names that would have been right.
	Known []string `json:"known,omitempty"`
	// retry asks the caller to come again after transport.RetryAfter.
	retry bool
	err   error // for the log
}

// Error returns the text.
func (p *problem) Error() string { return p.Text }

// Unwrap returns the error for the log.
func (p *problem) Unwrap() error { return p.err }

// statusLeft is for the metrics alone: nobody is there to read the answer.
const statusLeft = 499

func bad(format string, args ...any) error {
	return &problem{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
}

func missing(what string) error {
	return &problem{Status: http.StatusNotFound, Text: what}
}

// problemOf turns an error into an answer. Details of what has no answer of its
// own go to the log alone.
func (s *Server) problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, transport.ErrBusy):
		return &problem{Status: http.StatusTooManyRequests, Text: transport.ErrBusy.Error(), retry: true}
	case errors.Is(err, transport.ErrClosing), s.leaving.Err() != nil && errors.Is(err, context.Canceled):
		return &problem{Status: http.StatusServiceUnavailable, Text: transport.ErrClosing.Error(), retry: true}
	case errors.Is(err, context.Canceled):
		return &problem{Status: statusLeft, Text: "the client left"}
	case errors.Is(err, transport.ErrUnknownRunner):
		return s.unknownRunner("")
	case errors.Is(err, transport.ErrUnknownTurn), errors.Is(err, journal.ErrTruncated):
		return &problem{Status: http.StatusNotFound, Text: "turn not found"}
	case errors.Is(err, approval.ErrNoChoice):
		return &problem{Status: http.StatusBadRequest, Text: err.Error()}
	case errors.Is(err, transport.ErrUnknownAsk):
		return &problem{Status: http.StatusNotFound, Text: err.Error()}
	case errors.Is(err, transport.ErrNotAllowed):
		return &problem{Status: http.StatusForbidden, Text: transport.ErrNotAllowed.Error()}
	case errors.Is(err, session.ErrNotFound):
		return &problem{Status: http.StatusNotFound, Text: "not found"}
	case errors.Is(err, session.ErrBadFile):
		return &problem{Status: http.StatusBadRequest, Text: err.Error()}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &problem{Status: http.StatusInsufficientStorage, Text: "no space left on the disk of the workspace: nothing was taken; free some and send it again", retry: true, err: err}
	case errors.Is(err, syscall.EROFS):
		return &problem{Status: http.StatusInsufficientStorage, Text: "the workspace is on a read-only file system: nothing was taken; make it writable and send it again", err: err}
	case errors.Is(err, session.ErrTooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Text: err.Error()}
	}
	if p := secretProblem(err); p != nil {
		return p
	}
	return &problem{Status: http.StatusInternalServerError, Text: "internal server error", err: err}
}

func (s *Server) runners() []string {
	if s.opts.Runners == nil {
		return nil
	}
	return s.opts.Runners()
}

func (s *Server) unknownRunner(name string) *problem {
	text := transport.ErrUnknownRunner.Error()
	if name != "" {
		text += fmt.Sprintf(" as %.80q", name)
	}
	known := s.runners()
	if len(known) > 0 {
		text += "; known are " + strings.Join(known, ", ")
	}
	return &problem{Status: http.StatusBadRequest, Text: text, Known: known}
}

// failure turns the terminal event of a failed turn into an answer.
func failure(e turn.Event) *problem {
	p := &problem{Status: http.StatusInternalServerError, Text: e.Error, Code: e.Code, Turn: e.Turn}
	if p.Text == "" {
		p.Text = "the turn failed"
	}
	if p.Code == "" {
		p.Code = turn.CodeFailed
	}
	switch e.Code {
	case turn.CodeModel, turn.CodeTimeout, turn.CodeBudget, turn.CodeIdle, turn.CodeMaxDuration:
		p.Status = http.StatusBadGateway
	case turn.CodeInterrupted:
		p.Status = http.StatusServiceUnavailable
	case turn.CodeSuperseded:
		p.Status = http.StatusConflict
	}
	return p
}

// refuse writes a problem.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		s.log.ErrorContext(r.Context(), "api request", "method", r.Method, "path", r.URL.Path,
			"status", p.Status, "turn", p.Turn, "error", detail(p))
	}
	if p.retry {
		w.Header().Set("Retry-After", strconv.Itoa(int(transport.RetryAfter.Seconds())))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	answer(w, p.Status, p)
}

func detail(p *problem) string {
	if p.err != nil {
		return p.err.Error()
	}
	return p.Text
}

// answer writes a JSON value.
func answer(w http.ResponseWriter, status int, value any) {
	data, err := plain(value)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"internal server error"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	w.Write(append(data, '\n')) //nolint:errcheck // the client is gone
}

// plain is json.Marshal without the escapes that only matter inside of HTML.
func plain(value any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
