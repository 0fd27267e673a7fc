package bridge

import (
	"net/http"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
)

// A call is one POST that is being answered.
type call struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	id     string
	turn   string // as the caller named it
	stream bool
	dead   bool // nobody reads any more
}

// headers of a stream: no proxy may keep lines back.
func (c *call) headers() {
	h := c.w.Header()
	h.Set("Content-Type", wire.StreamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("Connection", "close")
	c.w.WriteHeader(http.StatusOK)
}

// accepted tells the caller that its request is on disk.
func (c *call) accepted() {
	if c.stream {
		c.headers()
		c.send(wire.Accepted(c.id, c.turn).Encode())
	}
}

// notTaken answers a request that could not be written.
func (c *call) notTaken() {
	if !c.stream {
		fail(c.w, http.StatusInternalServerError, wire.SaidNotWritten)
		return
	}
	c.headers()
	c.send(wire.Failure(wire.EventWriteFailed, wire.SaidNotWritten, c.id, 1).Encode())
}

// send writes lines at once. A caller that does not read is given up.
func (c *call) send(lines ...[]byte) {
	if c.dead {
		return
	}
	_ = c.rc.SetWriteDeadline(time.Now().Add(stallTimeout)) // where there is no socket there is no deadline
	for _, l := range lines {
		if _, err := c.w.Write(l); err != nil {
			c.dead = true
			return
		}
	}
	if c.rc.Flush() != nil {
		c.dead = true
	}
}

// follow answers with what becomes of the job. It returns early when the caller
// hangs up; the job does not notice but for its idle limit.
func (c *call) follow(j *job) {
	j.attach()
	defer j.detach()
	var beat <-chan time.Time
	if c.stream && c.s.opts.Heartbeat > 0 {
		t := time.NewTicker(c.s.opts.Heartbeat)
		defer t.Stop()
		beat = t.C
	}
	for n := 0; !c.dead; {
		lines, done, lost, changed := j.after(n)
		n += len(lines)
		if c.stream && len(lines) > 0 {
			c.send(lines...)
		}
		switch {
		case done && c.stream:
			return
		case done:
			c.whole(lines[len(lines)-1])
			return
		case lost:
			c.lost()
			return
		}
		select {
		case <-changed:
		case <-beat:
			c.send(wire.Heartbeat().Encode())
		case <-c.r.Context().Done():
			return
		case <-c.s.over.Done():
			if _, done, lost, _ := j.after(n); !done && !lost {
				c.lost()
				return
			}
		}
	}
}

// whole is the one body of a caller that did not want a stream. Why there is no
// reply is for the log alone.
func (c *call) whole(last []byte) {
	l, err := wire.ParseLine(last)
	if err != nil || l.Type != wire.TypeFinal {
		c.s.log.Warn("a bridge request failed", "job", c.id, "code", l.Code, "error", l.Error)
		fail(c.w, http.StatusGatewayTimeout, wire.SaidFailed)
		return
	}
	answer(c.w, http.StatusOK, struct {
		Text      string `json:"text"`
		RequestID string `json:"requestId"`
	}{l.Text, c.id})
}

// lost ends a call whose process ends before its turn.
func (c *call) lost() {
	if !c.stream {
		fail(c.w, http.StatusServiceUnavailable, "the server is shutting down")
		return
	}
	// A stream just ends; without its terminal line the caller asks for the job.
}
