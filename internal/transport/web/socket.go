package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// maxDrain is how much of a frame that is too large is read only to keep the
// socket; a client that sends more is cut.
const maxDrain = 64 << 20

// byeLimit is what a page gets to answer a goodbye.
const byeLimit = time.Second

// person is who writes on the page. Everybody behind the login is one.
var person = chat.Person{ID: "web", Name: "web"}

// upgrades reports whether a request asks for a web socket.
func upgrades(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// socket checks everything before the handshake and then serves the socket
// until either side leaves.
func (s *Site) socket(w http.ResponseWriter, r *http.Request) {
	if !s.logins.valid(cookie(r)) {
		fail(w, http.StatusUnauthorized, "unauthorized")
		return
	}
	if !upgrades(r) {
		fail(w, http.StatusUpgradeRequired, "this path is a web socket")
		return
	}
	c, err := s.newClient(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if !s.enter() {
		fail(w, http.StatusServiceUnavailable, "too many open sockets")
		return
	}
	defer s.exit()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	// The position is taken before the client can say anything.
	events := s.opts.Inbox.Watch(ctx, c.conv, c.since)
	// Origin and Host were checked for every request.
	c.conn, err = websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer c.conn.CloseNow() //nolint:errcheck // it is over either way
	farewell := make(chan struct{})
	stop := context.AfterFunc(s.leaving, func() {
		defer close(farewell)
		defer cancel()
		defer time.AfterFunc(byeLimit, func() { c.conn.CloseNow() }).Stop()
		c.conn.Close(websocket.StatusGoingAway, "restarting") //nolint:errcheck // a courtesy
	})
	defer func() {
		if !stop() {
			<-farewell
		}
	}()
	c.conn.SetReadLimit(-1) // read bounds frames itself, without ending the socket
	done := make(chan struct{}, 2)
	go func() {
		c.listen(ctx)
		cancel()
		done <- struct{}{}
	}()
	go func() {
		c.ping(ctx)
		cancel()
		done <- struct{}{}
	}()
	for seen, err := range events {
		if !c.show(ctx, seen, err) {
			break
		}
	}
	cancel()
	c.conn.CloseNow() //nolint:errcheck // it is over either way
	<-done
	<-done
	c.commands.Wait()
}

// newClient reads what a socket is for from its query.
func (s *Site) newClient(r *http.Request) (*client, error) {
	q := r.URL.Query()
	c := &client{site: s, runner: q.Get("agent"), since: transport.Now, busy: make(chan struct{}, maxCommands)}
	thread := q.Get("thread")
	if a, err := chat.Parse(thread); err == nil && a.Space == chat.Session {
		c.conv = a
	} else if err := chat.CheckID(thread); err != nil {
		return nil, fmt.Errorf("thread %w", err)
	} else {
		c.conv = chat.Address{Space: chat.Web, ID: thread}
	}
	if c.runner != "" {
		if err := chat.CheckID(c.runner); err != nil {
			return nil, fmt.Errorf("agent %w", err)
		}
	}
	if since := q.Get("since"); since != "" {
		n, err := strconv.ParseInt(since, 10, 64)
		if err != nil || n < 0 {
			return nil, errors.New("since must be a whole number from 0")
		}
		c.since = n
	}
	return c, nil
}

// show sends the frame of a record and reports whether the socket goes on.
func (c *client) show(ctx context.Context, seen transport.Seen, err error) bool {
	if errors.Is(err, transport.ErrTruncated) {
		return c.send(ctx, frame{Type: "truncated"}) == nil
	}
	if err != nil {
		c.site.log.Warn("web socket", "channel", c.conv.Channel(), "error", err)
		return false
	}
	f, ok := draw(c.conv.Channel(), seen)
	return !ok || c.send(ctx, f) == nil
}

// send writes a frame in time or fails, which ends the socket.
func (c *client) send(ctx context.Context, f frame) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.site.opts.SendLimit)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, data)
}

func (c *client) complain(ctx context.Context, text string) { c.refuse(ctx, "", text) }

// refuse says why the message id was not taken.
func (c *client) refuse(ctx context.Context, id, text string) {
	_ = c.send(ctx, frame{Type: "error", ID: id, Message: text})
}

// ping notices peers that are gone without having said so.
func (c *client) ping(ctx context.Context) {
	t := time.NewTicker(c.site.opts.PingEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		limit, cancel := context.WithTimeout(ctx, c.site.opts.SendLimit)
		err := c.conn.Ping(limit)
		cancel()
		if err != nil {
			return
		}
	}
}

// errLarge reports a frame that was read to its end and thrown away.
var errLarge = errors.New("frame too large")

// read takes one frame of at most maxFrame bytes.
func (c *client) read(ctx context.Context) ([]byte, error) {
	_, rd, err := c.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(rd, maxFrame+1))
	if err != nil || len(data) <= maxFrame {
		return data, err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(rd, maxDrain))
	if err != nil {
		return nil, err
	}
	if n == maxDrain {
		return nil, fmt.Errorf("frame of more than %d bytes", maxDrain)
	}
	return nil, errLarge
}

// listen acts on what the page sends until the socket ends.
func (c *client) listen(ctx context.Context) {
	for {
		data, err := c.read(ctx)
		switch {
		case errors.Is(err, errLarge):
			c.complain(ctx, fmt.Sprintf("This message is larger than %d MiB. Upload it as a file.", maxFrame>>20))
			continue
		case err != nil:
			return
		}
		var f clientFrame
		known := json.Unmarshal(data, &f) == nil
		if c.conv.Space == chat.Session && f.Type != "answer" {
			c.complain(ctx, fmt.Sprintf("Channel '%s' is read-only over this socket — send messages via the session API", c.conv.Channel()))
			continue
		}
		if !known {
			continue // nothing that was meant for us
		}
		switch f.Type {
		case "message":
			c.message(ctx, f)
		case "command":
			c.command(ctx, f)
		case "answer":
			c.answer(ctx, f)
		}
	}
}

// message submits what a person wrote. The page sees it accepted when its frame
// comes back.
func (c *client) message(ctx context.Context, f clientFrame) {
	m, err := c.compose(ctx, f)
	if err != nil {
		c.refuse(ctx, f.ID, err.Error())
		return
	}
	receipt, err := c.site.opts.Inbox.Submit(ctx, transport.Submission{
		Address: c.conv, Message: m, Origin: turn.FromChat, Runner: c.runner, Direct: true, Proven: true,
	})
	switch {
	case errors.Is(err, transport.ErrUnknownRunner):
		c.refuse(ctx, f.ID, fmt.Sprintf("Unknown agent '%s'", c.runner))
	case errors.Is(err, transport.ErrBusy):
		c.refuse(ctx, f.ID, "Too many messages are waiting. Please wait, or stop the running one.")
	case err != nil:
		c.fault(ctx, "submit", f.ID, err)
	case receipt.Duplicate && f.ID != "":
		_ = c.send(ctx, frame{Type: "ack", ID: f.ID})
	case receipt.Outcome == transport.Commanded && receipt.Reply.Text != "":
		c.say(ctx, f.ID, receipt.Reply.Text)
	}
}

func (c *client) compose(ctx context.Context, f clientFrame) (chat.Message, error) {
	if strings.TrimSpace(f.Text) == "" && len(f.Attachments) == 0 {
		return chat.Message{}, errors.New("the message is empty")
	}
	at := c.site.opts.Now()
	id := c.site.stamps.Next(at)
	if f.ID != "" {
		if chat.CheckID(f.ID) != nil {
			return chat.Message{}, errors.New("the message's id must be 1 to 128 characters of A-Z, a-z, 0-9, _ and -")
		}
		id = f.ID
	}
	m := chat.Message{ID: id, At: at, From: person, Text: f.Text}
	if len(f.Attachments) == 0 {
		return m, nil
	}
	if c.site.opts.CheckFiles == nil {
		return m, errors.New("messages on this page cannot have attachments")
	}
	var locals []string
	for _, a := range f.Attachments {
		locals = append(locals, a.Local)
	}
	files, err := c.site.opts.CheckFiles(ctx, c.conv, locals)
	m.Files = files
	return m, err
}

// maxCommands bounds the commands of one socket that have not returned: a
// compaction takes as long as a turn, and stop must get past it.
const maxCommands = 4

// command acts on the conversation beside whatever runs.
func (c *client) command(ctx context.Context, f clientFrame) {
	verb := transport.Verb(f.Action)
	switch verb {
	case transport.Stop, transport.Compact, transport.Reset:
	default:
		c.complain(ctx, fmt.Sprintf("Unknown command '%.40s'", f.Action))
		return
	}
	select {
	case c.busy <- struct{}{}:
	default:
		c.complain(ctx, "Too many commands at once.")
		return
	}
	c.commands.Go(func() {
		defer func() { <-c.busy }()
		reply, err := c.site.opts.Inbox.Command(ctx, transport.Command{Conversation: c.conv, Verb: verb, From: person})
		if err != nil {
			c.fault(ctx, f.Action, "", err)
			return
		}
		if reply.Text != "" {
			c.say(ctx, "", reply.Text)
		}
	})
}

// answer settles a question that was put to people.
func (c *client) answer(ctx context.Context, f clientFrame) {
	reply, err := c.site.opts.Inbox.Answer(ctx, transport.Answer{
		Ask: f.Ask, Conversation: c.conv, From: person, Yes: f.Yes, Choice: f.Choice, At: c.site.opts.Now(),
	})
	switch {
	case errors.Is(err, transport.ErrUnknownAsk):
		c.complain(ctx, "This question is settled or has expired.")
	case errors.Is(err, transport.ErrNotAllowed):
		c.refuse(ctx, f.Ask, "You may not answer this question; it still waits for somebody who may.")
	case errors.Is(err, transport.ErrBusy):
		c.refuse(ctx, f.Ask, "Too many messages are waiting. Please answer again in a moment.")
	case err != nil:
		c.fault(ctx, "answer", f.Ask, err)
	case reply.Text != "":
		c.say(ctx, "", reply.Text)
	}
}

// say sends a line to this socket alone; id is the message it answers, if any.
func (c *client) say(ctx context.Context, id, text string) {
	_ = c.send(ctx, frame{Type: "thread", ID: id, Text: &text})
}

// fault tells the page as much as it may know and the log the rest.
func (c *client) fault(ctx context.Context, what, id string, err error) {
	if ctx.Err() != nil {
		return
	}
	switch {
	case errors.Is(err, transport.ErrClosing), errors.Is(err, transport.ErrNotAllowed):
		c.refuse(ctx, id, err.Error())
	default:
		c.site.log.Error("web socket", "channel", c.conv.Channel(), "doing", what, "error", err)
		c.refuse(ctx, id, "Something went wrong. The log has the details.")
	}
}
