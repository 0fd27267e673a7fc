package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// remembering keeps why a reader ended early, which whoever copies from it may
// not pass on.
type remembering struct {
	from io.Reader
	err  error
}

// Read reads on.
func (c *remembering) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

type messageBody struct {
	Text        string `json:"text"`
	User        string `json:"user"`
	Attachments []struct {
		Local string `json:"local"`
	} `json:"attachments"`
}

// reply answers a message.
type reply struct {
	Text      string  `json:"text"`
	SessionID string  `json:"sessionId"`
	Turn      turn.ID `json:"turn,omitempty"`
	Silent    bool    `json:"silent,omitempty"`
	Stopped   bool    `json:"stopped,omitempty"`
}

// maxKey bounds an idempotency key: it is kept with the message.
const maxKey = 255

func (s *Server) message(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	b, err := decode[messageBody](s, w, r)
	if err != nil {
		return err
	}
	m, err := s.compose(r, found, b)
	if err != nil {
		return err
	}
	receipt, err := s.submit(r.Context(), found, m, true)
	if err != nil {
		return err
	}
	if receipt.Outcome == transport.Accepted && prefersAsync(r.Header.Values("Prefer")) {
		w.Header().Set("Preference-Applied", "respond-async")
		w.Header().Set("Location", "/sessions/"+found.ID+"/turns/"+string(receipt.Turn))
		answer(w, http.StatusAccepted, map[string]string{"turn": string(receipt.Turn), "sessionId": found.ID})
		return nil
	}
	out, err := s.await(r.Context(), found, receipt)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, out)
	return nil
}

// compose makes the message of a request.
func (s *Server) compose(r *http.Request, to session.Session, b messageBody) (chat.Message, error) {
	if err := required("text", b.Text); err != nil {
		return chat.Message{}, err
	}
	at := s.opts.Now()
	id := s.stamps.Next(at)
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
			return chat.Message{}, bad("the header Idempotency-Key must be 1 to %d printable ASCII characters", maxKey)
		}
		id = key
	}
	var locals []string
	for _, a := range b.Attachments {
		if a.Local == "" {
			return chat.Message{}, bad("attachments must be a list of objects with a local")
		}
		locals = append(locals, a.Local)
	}
	m := chat.Message{ID: id, At: at, Text: b.Text, From: chat.Person{ID: "api"}}
	if b.User != "" {
		m.From.ID = b.User
	}
	if len(locals) == 0 {
		return m, nil
	}
	files, err := s.opts.Files.CheckFiles(to.Address(), locals)
	m.Files = files
	return m, err
}

// submit hands a message over. The client may leave meanwhile; what was sent is
// taken all the same.
func (s *Server) submit(ctx context.Context, to session.Session, m chat.Message, proven bool) (transport.Receipt, error) {
	return s.opts.Engine.Submit(context.WithoutCancel(ctx), transport.Submission{
		Address: to.Address(), Message: m, Origin: turn.FromAPI, Runner: to.Runner, Direct: true, Proven: proven,
	})
}

// await waits for the end of the turn a message started. When it gives up the
// turn goes on.
func (s *Server) await(ctx context.Context, in session.Session, receipt transport.Receipt) (reply, error) {
	out := reply{SessionID: in.ID, Turn: receipt.Turn}
	switch receipt.Outcome {
	case transport.Accepted:
		if receipt.Turn == "" {
			return out, &problem{Status: http.StatusConflict, Text: "this message was answered so long ago that its turn is no longer kept"}
		}
	case transport.Commanded:
		out.Text = receipt.Reply.Text
		return out, nil
	default:
		out.Silent = true
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	end, err := s.opts.Engine.Wait(ctx, receipt.Turn)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		return out, &problem{Status: http.StatusGatewayTimeout, Text: "session message failed", Code: turn.CodeTimeout, Turn: receipt.Turn, err: err}
	}
	if err != nil {
		p := *s.problemOf(err)
		p.Turn = receipt.Turn
		return out, &p
	}
	out.Text, out.Silent, out.Stopped = end.Text, end.Silent, end.Stopped
	if end.Silent {
		out.Text = ""
	}
	if end.Kind == turn.Failed && !end.Stopped && end.Code != turn.CodeStopped {
		end.Turn = receipt.Turn
		return out, failure(end)
	}
	out.Stopped = end.Stopped || end.Code == turn.CodeStopped
	return out, nil
}

// prefersAsync reports whether the caller does not want to wait (RFC 7240).
func prefersAsync(values []string) bool {
	for _, v := range values {
		for p := range strings.SplitSeq(v, ",") {
			name, _, _ := strings.Cut(p, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// turnReport is where a turn stands, for GET …/turns/….
type turnReport struct {
	Turn      turn.ID       `json:"turn"`
	SessionID string        `json:"sessionId"`
	State     engine.Status `json:"state"`
	Text      string        `json:"text,omitempty"`
	Silent    bool          `json:"silent,omitempty"`
	Stopped   bool          `json:"stopped,omitempty"`
	Error     string        `json:"error,omitempty"`
	Code      turn.Code     `json:"code,omitempty"`
	Usage     *turn.Usage   `json:"usage,omitempty"`
}

func (s *Server) turnState(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	id, err := turn.ParseID(r.PathValue("turn"))
	if err != nil {
		return missing("turn not found")
	}
	t, err := s.opts.Engine.Turn(r.Context(), id)
	if err != nil {
		return err
	}
	if t.Conversation != found.Address() {
		return missing("turn not found")
	}
	out := turnReport{Turn: id, SessionID: found.ID, State: t.Status}
	if e := t.End; e != nil {
		out.Text, out.Silent, out.Stopped, out.Error, out.Code, out.Usage = e.Text, e.Silent, e.Stopped, e.Error, e.Code, e.Usage
	}
	answer(w, http.StatusOK, out)
	return nil
}

func (s *Server) emailInbound(w http.ResponseWriter, r *http.Request, _ caller) error {
	b, err := decode[struct {
		From    string `json:"from"`
		Text    string `json:"text"`
		Subject string `json:"subject"`
	}](s, w, r)
	if err != nil {
		return err
	}
	if err := required("from", b.From, "text", b.Text); err != nil {
		return err
	}
	found, err := s.opts.Sessions.FindByEmail(r.Context(), b.From)
	if errors.Is(err, session.ErrNotFound) {
		return missing("no session found for this email")
	}
	if err != nil {
		return err
	}
	if b.Subject != "" {
		b.Text = "[Subject: " + b.Subject + "] " + b.Text
	}
	m, err := s.compose(r, found, messageBody{Text: b.Text, User: b.From})
	if err != nil {
		return err
	}
	// Whoever writes an e-mail can sign it with any name.
	receipt, err := s.submit(r.Context(), found, m, false)
	if err != nil {
		return err
	}
	out, err := s.await(r.Context(), found, receipt)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]string{"sessionId": found.ID, "response": out.Text})
	return nil
}
