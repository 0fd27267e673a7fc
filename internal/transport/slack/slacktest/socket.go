package slacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// maxConns is how many connections one app may have.
const maxConns = 10

// A conn is one client of Socket Mode.
type conn struct {
	s    *Server
	ws   *websocket.Conn
	ctx  context.Context
	end  context.CancelFunc
	send chan []byte

	// mu guards the fields below.
	mu     sync.Mutex
	frozen bool
}

// An envelope is something that a client must acknowledge.
type envelope struct {
	id      string
	typ     string
	payload any
	accepts bool

	// The fields below are guarded by Server.mu.
	acks     int
	answer   json.RawMessage
	attempt  int
	timer    *time.Timer
	lost     bool
	loseAcks int
}

func (e *envelope) stop() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

// socket takes a client.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	ticket := strings.TrimPrefix(r.URL.Path, "/link/")
	s.mu.Lock()
	ok := s.tickets[ticket] && !s.closed
	delete(s.tickets, ticket)
	s.mu.Unlock()
	if !ok {
		http.Error(w, "link_disabled", http.StatusForbidden)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &conn{s: s, ctx: ctx, end: cancel, send: make(chan []byte, 4096)}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true,
		OnPingReceived: func(context.Context, []byte) bool { return !c.isFrozen() }})
	if err != nil {
		cancel()
		return
	}
	c.ws = ws
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.opened++
	n := len(s.conns)
	s.mu.Unlock()
	c.write(map[string]any{"type": "hello", "num_connections": n, "connection_info": map[string]any{"app_id": "A0APP"},
		"debug_info": map[string]any{"host": "slacktest", "approximate_connection_time": 18060}})
	s.mu.Lock()
	waiting := s.queue
	s.queue = nil
	for _, e := range waiting {
		s.deliver(e)
	}
	s.mu.Unlock()
	var writer sync.WaitGroup
	writer.Go(c.pump)
	c.read()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	c.drop()
	writer.Wait()
}

func (c *conn) isFrozen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen
}

func (c *conn) drop() {
	c.end()
	_ = c.ws.CloseNow() // it may be closed
}

func (c *conn) write(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	select {
	case c.send <- data:
	default:
		c.drop()
	}
}

// pump writes until the connection ends. An empty frame closes it.
func (c *conn) pump() {
	for {
		select {
		case data := <-c.send:
			switch {
			case c.isFrozen():
			case len(data) == 0:
				_ = c.ws.Close(websocket.StatusNormalClosure, "bye")
				c.end()
				return
			case c.ws.Write(c.ctx, websocket.MessageText, data) != nil:
				c.drop()
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *conn) read() {
	for {
		_, data, err := c.ws.Read(c.ctx)
		if err != nil {
			return
		}
		if c.isFrozen() {
			continue
		}
		var ack struct {
			ID      string          `json:"envelope_id"`
			Payload json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(data, &ack); err != nil || ack.ID == "" {
			c.s.mu.Lock()
			c.s.complain("a frame that is no acknowledgement: %.80q", data)
			c.s.mu.Unlock()
			continue
		}
		c.s.ack(ack.ID, ack.Payload)
	}
}

func (s *Server) ack(id string, payload json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.envs[id]
	switch {
	case e == nil:
		s.complain("an acknowledgement of %q, which was never sent", id)
	case e.loseAcks > 0:
		e.loseAcks--
	default:
		e.acks++
		if e.acks > e.attempt+1 {
			s.complain("%s %s: %d acknowledgements for %d deliveries", e.typ, e.id, e.acks, e.attempt+1)
		}
		if len(payload) > 0 && !e.accepts {
			s.complain("%s %s: a payload in an acknowledgement that takes none", e.typ, e.id)
		}
		e.answer = payload
		e.stop()
	}
}

// Send sends an envelope to a client, when there is one, and returns its id.
func (s *Server) Send(typ string, payload any, accepts bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextEnv++
	e := &envelope{id: fmt.Sprintf("env-%d", s.nextEnv), typ: typ, payload: payload, accepts: accepts}
	s.envs[e.id] = e
	s.deliver(e)
	return e.id
}

// LoseAcks has the next n acknowledgements of an envelope get lost on the way.
func (s *Server) LoseAcks(id string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.envs[id]; e != nil {
		if e.acks > 0 {
			e.acks--
			s.again(e)
			return
		}
		e.loseAcks = n
	}
}

// Raw sends a frame as it is to all clients.
func (s *Server) Raw(frame string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		select {
		case c.send <- []byte(frame):
		default:
		}
	}
}

// deliver writes e to a client. mu must be held.
func (s *Server) deliver(e *envelope) {
	if s.closed {
		return
	}
	var to *conn
	for c := range s.conns {
		to = c
		break
	}
	if to == nil || s.paused {
		s.queue = append(s.queue, e)
		return
	}
	frame := map[string]any{"envelope_id": e.id, "type": e.typ, "payload": e.payload, "accepts_response_payload": e.accepts}
	if e.typ == "events_api" {
		frame["retry_attempt"], frame["retry_reason"] = e.attempt, ""
		if e.attempt > 0 {
			frame["retry_reason"] = "timeout"
		}
	}
	to.write(frame)
	e.stop()
	e.timer = time.AfterFunc(s.opts.AckWait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.acks == 0 {
			s.again(e)
		}
	})
}

// again sends e once more. mu must be held.
func (s *Server) again(e *envelope) {
	if e.typ != "events_api" || e.attempt >= s.opts.Retries {
		e.lost = true
		return
	}
	e.attempt++
	s.deliver(e)
}

// Acks is how often an envelope was acknowledged, and with what.
func (s *Server) Acks(id string) (n int, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.envs[id]; e != nil {
		return e.acks, string(e.answer)
	}
	return 0, ""
}

// Unacked is the number of envelopes that nobody acknowledged.
func (s *Server) Unacked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.envs {
		if e.acks == 0 {
			n++
		}
	}
	return n
}

// Conns is the number of connections now, Opened of all there were.
func (s *Server) Conns() (now, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns), s.opened
}

func (s *Server) connsLocked() []*conn {
	var all []*conn
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// Freeze makes the connections half-open: nothing comes from them any more, not
// even an answer to a ping, and nothing that is sent to them has an effect.
func (s *Server) Freeze() {
	s.mu.Lock()
	all := s.connsLocked()
	for _, c := range all {
		delete(s.conns, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		c.frozen = true
		c.mu.Unlock()
	}
}

// Cut breaks all connections without a word.
func (s *Server) Cut() {
	s.mu.Lock()
	all := s.connsLocked()
	s.mu.Unlock()
	for _, c := range all {
		c.drop()
	}
}

// Disconnect tells the clients to come back ("warning", "refresh_requested",
// "link_disabled"); those that are told it at once are closed.
func (s *Server) Disconnect(reason string) {
	s.mu.Lock()
	all := s.connsLocked()
	s.mu.Unlock()
	for _, c := range all {
		c.write(map[string]any{"type": "disconnect", "reason": reason})
		if reason != "warning" {
			select {
			case c.send <- nil:
			default:
			}
		}
	}
}
