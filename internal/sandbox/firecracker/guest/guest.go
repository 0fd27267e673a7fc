// Package guest is the exec-server of a microVM and its client: a sandbox behind
// HTTP. It owns the protocol; what runs a command inside is a sandbox too, and
// what boots the machine is package microvm.
//
// The plain protocol is that of any exec-server:
//
//	GET  /health  {"status":"ok"}
//	POST /exec    {command, timeout=60} → {stdout, stderr, exit_code}
//
// A command that runs out of time has the exit_code 124 and a note in stderr; a
// body that is no JSON, or no command, is 400; every other path is 404. Plain
// output is kept to 10 MiB per stream and to UTF-8.
//
// The rest is added so that both ends may be older than the other:
//
//	POST   /exec        more fields (Request), and frames instead of one JSON
//	                    object for whoever accepts them: bytes as they come
//	DELETE /exec/<id>   ends a command
//	GET    /file        ?path, offset, limit → bytes, the size in a header
//	PUT    /file        ?path, the content as the body
//	GET    /resolve     ?path → {"path"}, links followed
//
// An old server answers POST /exec plainly, which the client takes, and 404 to
// the other routes, which it reports. A client that hangs up ends its command.
//
// With a token every route but /health asks for it as a bearer token. Without
// one, whoever reaches the port commands the machine: this is for the inside of
// a microVM and nowhere else.
package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/secret"
)

const (
	// maxRequest bounds the JSON of a request: the longest command and a
	// large environment.
	maxRequest = 1 << 20
	// MaxFile bounds a file that is written at once, so that a body cannot
	// take all memory of a small guest.
	MaxFile = 64 << 20
	// maxPlain bounds each stream of an Answer.
	maxPlain = 10 << 20
	// plainTimeout holds for a request that names none.
	plainTimeout = 60.0
	// maxTimeout is ten years: more does not fit a duration some day.
	maxTimeout = 10 * 365 * 24 * 3600.0
	// timedOutCode is the exit_code of a command that ran out of time.
	timedOutCode = 124
)

// Options are the parts of a Server.
type Options struct {
	// Box runs the commands. Required.
	Box interface {
		sandbox.Sandbox
		sandbox.Resolver
	}
	// Env is what commands get whose request has no environment.
	Env []string
	// Token is asked for on every route but /health; empty means nothing is.
	Token  secret.Value
	Logger *slog.Logger // nil: none
}

// A Server is the http.Handler of the exec-server. It is safe for concurrent
// use and holds no resources.
type Server struct {
	opts Options

	mu      sync.Mutex // guards the field below
	running map[string]context.CancelFunc
}

// New checks the options.
func New(opts Options) (*Server, error) {
	if opts.Box == nil {
		return nil, errors.New("the exec-server needs a sandbox")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{opts: opts, running: map[string]context.CancelFunc{}}, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route := r.Method + " " + r.URL.Path
	if route == "GET /health" {
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
		return
	}
	if !s.opts.Token.IsZero() {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || !s.opts.Token.Equal(token) {
			refuse(w, http.StatusUnauthorized, errors.New("the token is missing or wrong"))
			return
		}
	}
	switch {
	case route == "POST /exec":
		s.exec(w, r)
	case strings.HasPrefix(route, "DELETE /exec/"):
		s.abort(w, strings.TrimPrefix(r.URL.Path, "/exec/"))
	case route == "GET /file":
		s.readFile(w, r)
	case route == "PUT /file":
		s.writeFile(w, r)
	case route == "GET /resolve":
		path, err := s.opts.Box.Resolve(r.Context(), chat.Address{}, r.URL.Query().Get("path"))
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		reply(w, http.StatusOK, map[string]string{"path": path})
	default:
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s", route))
	}
}

// exec reads the request and runs it, plainly or with frames.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	body := &bounded{from: r.Body, left: maxRequest}
	req, rest, err := readRequest(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	// What the client does with its connection decides: it hangs up, the
	// command ends.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if req.ID != "" {
		if !s.enter(req.ID, cancel) {
			refuse(w, http.StatusConflict, fmt.Errorf("command %q is running", req.ID))
			return
		}
		defer s.leave(req.ID)
	}
	cmd := sandbox.Command{Script: req.Command, Dir: req.Dir, Env: req.Env, Timeout: time.Duration(*req.Timeout * float64(time.Second))}
	if cmd.Env == nil {
		cmd.Env = s.opts.Env
	}
	if req.Stdin {
		body.left = 1 << 62
		// Reading the body goes on while the answer is written.
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Connection", "close")
		cmd.Stdin = watched{io.MultiReader(rest, body), cancel}
	}
	if strings.Contains(r.Header.Get("Accept"), streamType) {
		s.stream(ctx, cancel, w, cmd)
		return
	}
	s.plain(ctx, w, cmd)
}

// readRequest reads the JSON and what the decoder took from the body beyond it.
func readRequest(body io.Reader) (req Request, rest io.Reader, err error) {
	dec := json.NewDecoder(body)
	if err := dec.Decode(&req); err != nil {
		return req, nil, fmt.Errorf("read the request: %w", err)
	}
	if strings.TrimSpace(req.Command) == "" {
		return req, nil, errors.New("the command is empty")
	}
	if req.Timeout == nil {
		t := plainTimeout
		req.Timeout = &t
	}
	if *req.Timeout <= 0 || *req.Timeout > maxTimeout {
		return req, nil, fmt.Errorf("timeout %v is not a number of seconds", *req.Timeout)
	}
	rest = dec.Buffered()
	if req.Stdin {
		// The byte after the JSON ends its line and is no input.
		_, err := io.ReadFull(io.MultiReader(rest, body), make([]byte, 1))
		return req, rest, err
	}
	after, err := io.ReadAll(io.MultiReader(rest, body))
	if err != nil {
		return req, nil, fmt.Errorf("read the request: %w", err)
	}
	if len(bytes.TrimSpace(after)) > 0 {
		return req, nil, errors.New("something follows the request")
	}
	return req, nil, nil
}

// plain runs a command and answers when it has ended.
func (s *Server) plain(ctx context.Context, w http.ResponseWriter, cmd sandbox.Command) {
	var out, errs latest
	cmd.Stdout, cmd.Stderr = &out, &errs
	exit, err := s.opts.Box.Run(ctx, cmd)
	if err != nil {
		fmt.Fprintf(&errs, "%v\n", err)
		exit.Code = max(exit.Code, 1)
	}
	if exit.TimedOut {
		exit.Code = timedOutCode
		fmt.Fprintf(&errs, "command timed out after %v\n", cmd.Timeout)
	}
	reply(w, http.StatusOK, Answer{Stdout: out.String(), Stderr: errs.String(), Code: exit.Code})
}

// stream runs a command and sends frames as things happen.
func (s *Server) stream(ctx context.Context, cancel func(), w http.ResponseWriter, cmd sandbox.Command) {
	f := &framer{w: w, flush: http.NewResponseController(w).Flush, cancel: cancel}
	w.Header().Set("Content-Type", streamType)
	w.WriteHeader(http.StatusOK)
	_ = f.flush() // an error shows at the first frame
	over, alive := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(alive)
		t := time.NewTicker(aliveEvery)
		defer t.Stop()
		for {
			select {
			case <-over:
				return
			case <-t.C:
				_ = f.send(frameAlive, nil)
			}
		}
	}()
	cmd.Stdout, cmd.Stderr = frameWriter{f, frameOut}, frameWriter{f, frameErr}
	exit, err := s.opts.Box.Run(ctx, cmd)
	close(over)
	<-alive
	e := end{Code: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, Aborted: exit.Aborted, Background: exit.Background,
		Seconds: exit.Duration.Seconds()}
	if err != nil {
		e.Error = err.Error()
		s.opts.Logger.Warn("command could not be run or ended", "error", err)
	}
	text, err := json.Marshal(e)
	if err == nil {
		err = f.send(frameEnd, text)
	}
	if err != nil {
		s.opts.Logger.Info("the client is gone", "error", err)
	}
}

func (s *Server) enter(id string, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.running[id]; ok {
		return false
	}
	s.running[id] = cancel
	return true
}

func (s *Server) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

// abort ends a command; its own answer tells how it ended.
func (s *Server) abort(w http.ResponseWriter, id string) {
	s.mu.Lock()
	cancel, ok := s.running[id]
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, fmt.Errorf("no command %q is running", id))
		return
	}
	cancel()
	w.WriteHeader(http.StatusNoContent)
}

// readFile sends a part of a file, a piece at a time.
func (s *Server) readFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	offset, err := number(q.Get("offset"))
	limit, err2 := number(q.Get("limit"))
	if err := errors.Join(err, err2); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	sent := false
	for first := true; first || limit > 0; first = false {
		data, size, err := s.opts.Box.ReadFile(r.Context(), chat.Address{}, q.Get("path"), offset, min(limit, 1<<20))
		if err != nil {
			if sent {
				panic(http.ErrAbortHandler) // the client sees a torn answer
			}
			refuse(w, fileStatus(err), err)
			return
		}
		if !sent {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set(sizeHeader, strconv.FormatInt(size, 10))
			w.WriteHeader(http.StatusOK)
			sent = true
		}
		if _, err := w.Write(data); err != nil || len(data) == 0 {
			return
		}
		offset, limit = offset+int64(len(data)), limit-int64(len(data))
	}
}

func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number of bytes", text)
	}
	return n, nil
}

func (s *Server) writeFile(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxFile))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the file has more than %d bytes", MaxFile))
	case err != nil:
		refuse(w, http.StatusBadRequest, err)
	default:
		if err := s.opts.Box.WriteFile(r.Context(), chat.Address{}, r.URL.Query().Get("path"), data); err != nil {
			refuse(w, fileStatus(err), err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func fileStatus(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone then
}

func refuse(w http.ResponseWriter, status int, err error) {
	body := refusal{Error: err.Error()}
	if errors.Is(err, fs.ErrNotExist) {
		body.Code = codeNotExist
	}
	reply(w, status, body)
}
