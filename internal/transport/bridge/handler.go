package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// maxWait bounds how long a poll may wait for lines: less than what proxies
// give an answer.
const maxWait = 50 * time.Second

// ServeHTTP answers the two routes there are.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(wire.Header, wire.KnowsTurns)
	id, job := strings.CutPrefix(r.URL.Path, wire.JobsPath)
	switch {
	case r.URL.Path == wire.Path && r.Method == http.MethodPost:
		if proven, ok := s.caller(w, r); ok {
			s.post(w, r, proven)
		}
	case job && id != "" && !strings.Contains(id, "/") && r.Method == http.MethodGet:
		if _, ok := s.caller(w, r); ok {
			s.poll(w, r, wire.CleanID(id))
		}
	default:
		fail(w, http.StatusNotFound, wire.SaidNotFound)
	}
}

// caller reports whether the caller may come in, and whether it has shown a
// token.
func (s *Server) caller(w http.ResponseWriter, r *http.Request) (proven, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "bearer") {
		for _, t := range s.opts.Tokens {
			proven = t.Equal(token) || proven
		}
	}
	if proven || len(s.opts.Tokens) == 0 {
		return proven, true
	}
	fail(w, http.StatusUnauthorized, "unauthorized")
	return false, false
}

func fail(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"error": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the caller is gone; nobody is left to tell
}

// body reads a request, within its size and time.
func body(w http.ResponseWriter, r *http.Request) (wire.Request, bool) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(requestTimeout)) // where there is no socket there is no deadline
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	_ = rc.SetReadDeadline(time.Time{})
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		fail(w, http.StatusRequestEntityTooLarge, "body is larger than "+strconv.Itoa(wire.MaxBody)+" bytes")
		return wire.Request{}, false
	case err != nil:
		fail(w, http.StatusBadRequest, wire.SaidNotWhole)
		return wire.Request{}, false
	}
	req, err := wire.ParseRequest(data)
	if err == nil && req.Turn != "" {
		_, err = turn.ParseID(req.Turn)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return wire.Request{}, false
	}
	return req, true
}

func (s *Server) post(w http.ResponseWriter, r *http.Request, proven bool) {
	req, ok := body(w, r)
	if !ok {
		return
	}
	if req.Stop {
		s.stop(w, r, req)
		return
	}
	c := &call{s: s, w: w, r: r, rc: http.NewResponseController(w), id: req.RequestID, turn: req.Turn, stream: wire.WantsStream(r.Header.Get("Accept"))}
	limits := s.opts.Limits
	if !c.stream {
		limits = limits.Within(s.opts.Plain)
	}
	var j *job
	receipt, err := s.opts.Inbox.Submit(context.WithoutCancel(r.Context()), transport.Submission{
		Address: chat.Address{Space: chat.Bridge, ID: req.RequestID},
		Message: chat.Message{From: chat.Person{ID: req.User}, Text: req.Text, At: s.opts.Now()},
		Origin:  turn.FromBridge, Turn: turn.ID(req.Turn), Direct: true, Proven: proven, Supersedes: true,
		Accepted: func(rec transport.Receipt) {
			// The log is there, and the caller has its word, before the run starts.
			j = s.newJob(req.RequestID, rec.Turn, rec.Seq, limits)
			s.start(j)
			c.accepted()
		},
	})
	switch {
	case errors.Is(err, transport.ErrClosing):
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, transport.ErrClosing.Error())
		return
	case err != nil:
		s.log.Error("take a bridge request", "job", req.RequestID, "err", err)
		c.notTaken()
		return
	case receipt.Outcome != transport.Accepted:
		// Words that answer a question, of somebody who may not.
		fail(w, http.StatusForbidden, strings.Trim(receipt.Reply.Text, "_"))
		return
	}
	if j == nil {
		j = s.again(req.RequestID, receipt)
		c.accepted()
	}
	c.follow(j)
}

// again finds the job of a turn that was accepted before: it still runs, or it
// is drawn once more from the journal.
func (s *Server) again(id string, r transport.Receipt) *job {
	if j := s.live(id); j != nil && j.turn == r.Turn {
		return j
	}
	j := s.newJob(id, r.Turn, r.Seq, wire.Limits{})
	if found, ended, _ := s.replay(j); !found || !ended {
		// It was so long ago that the journal has forgotten it.
		j.show(wire.Failure(wire.Failed, "run failed: this turn was answered before, and its reply is no longer kept", id, 1).Encode(), true)
		return j
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		j.give()
		return j
	}
	// Its log is its own matter: it is whole, or another turn's by now.
	s.following.Add(1)
	go func() {
		defer s.following.Done()
		j.follow(s.over)
		j.give()
	}()
	return j
}

// stop ends a turn for a caller who wants no reply any more.
func (s *Server) stop(w http.ResponseWriter, r *http.Request, req wire.Request) {
	reply, err := s.opts.Inbox.Command(r.Context(), transport.Command{
		Conversation: chat.Address{Space: chat.Bridge, ID: req.RequestID}, Verb: transport.Stop, Turn: turn.ID(req.Turn),
		From: chat.Person{ID: req.User},
	})
	if err != nil {
		s.log.Error("stop a bridge request", "job", req.RequestID, "turn", req.Turn, "err", err)
		fail(w, http.StatusInternalServerError, wire.SaidFailed)
		return
	}
	answer(w, http.StatusOK, map[string]any{"requestId": req.RequestID, "turn": req.Turn, "running": reply.Running})
}

// poll answers from the job that runs, else from its log. With wait (in
// milliseconds) the answer comes when there is something to say.
func (s *Server) poll(w http.ResponseWriter, r *http.Request, id string) {
	q := r.URL.Query()
	since := wire.Since(q.Get("since"))
	wait := time.Duration(min(wire.Since(q.Get("wait")), maxWait.Milliseconds())) * time.Millisecond
	if j := s.live(id); j != nil {
		a, changed := j.answer(since)
		if wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			for over := false; !over && !a.Done && len(a.Events) == 0; {
				select {
				case <-changed:
					if a, changed = j.answer(since); s.live(id) != j {
						over = true
					}
				case <-timer.C:
					over = true
				case <-r.Context().Done():
					return
				case <-s.over.Done():
					over = true
				}
			}
		}
		answer(w, http.StatusOK, json.RawMessage(a.Encode()))
		return
	}
	l, err := s.read(id)
	switch {
	case errors.Is(err, errNoLog):
		fail(w, http.StatusNotFound, wire.SaidUnknownJob)
	case err != nil:
		s.log.Error("read a job log", "job", id, "err", err)
		fail(w, http.StatusInternalServerError, "internal server error")
	default:
		a := wire.Job{RequestID: id, Turn: l.Turn, Done: l.Done(), Events: l.After(since)}
		answer(w, http.StatusOK, json.RawMessage(a.Encode()))
	}
}
