package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A load is what clients ask of servers that are killed below them, and what
// they have seen.
type load struct {
	t       testing.TB
	p       *place
	cookie  string
	moments moments
	more    func() bool // whether another round of jobs begins

	// mu guards the fields below.
	mu       sync.Mutex
	open     int               // jobs given out and not over
	turns    map[string]string // job → turn, as a client was told
	texts    map[string]string // job → reply, "" for a failed turn
	requests int               // over HTTP and the socket, repeats included
	failures map[string]int    // requests without an answer, by kind
	ends     int               // of turns in sessions, as their watchers saw them
}

func newLoad(t testing.TB, p *place) *load {
	return &load{t: t, p: p, turns: map[string]string{}, texts: map[string]string{}, failures: map[string]int{}}
}

func (l *load) begin(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
}

// busy reports whether a client waits for a job.
func (l *load) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open > 0
}

// done counts the jobs that are over.
func (l *load) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.texts)
}

// watched reports whether the watchers of the sessions have seen every end.
func (l *load) watched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for name := range l.texts {
		if !strings.HasPrefix(name, "chat") {
			n++
		}
	}
	return l.ends >= n
}

// told notes which turn a job is; it must stay that one.
func (l *load) told(name, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was := l.turns[name]; was != "" && was != id {
		l.t.Errorf("job %s was turn %s and is now %s", name, was, id)
	}
	l.turns[name] = id
}

// over notes the end of a job; every client that is told hears the same.
func (l *load) over(name, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.texts[name]; ok {
		if was != text {
			l.t.Errorf("job %s ended with %q and then with %q", name, was, text)
		}
		return
	}
	l.open--
	l.texts[name] = text
}

func (l *load) failed(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[kind]++
}

// pause waits a moment before a request is repeated.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(5 * time.Millisecond):
		return true
	}
}

// ask repeats a request until somebody answers it.
func (l *load) ask(ctx context.Context, method, path, body string, headers ...string) (answer, bool) {
	for {
		l.mu.Lock()
		l.requests++
		l.mu.Unlock()
		a, err := l.p.call(ctx, method, path, body, headers...)
		switch {
		case ctx.Err() != nil:
			return a, false
		case err != nil:
			l.failed("connection")
		case a.status == http.StatusTooManyRequests, a.status == http.StatusServiceUnavailable && !strings.Contains(a.body, `"turn"`):
			l.failed(strconv.Itoa(a.status))
		default:
			if a.status < 300 && method == http.MethodPost {
				l.moments.come(answered)
			}
			return a, true
		}
		if !pause(ctx) {
			return a, false
		}
	}
}

// waits is a client that posts a message and waits for its reply, and repeats
// the request under its key until it has one; now and then once more.
func (l *load) waits(ctx context.Context, session string) {
	for n := 0; l.more(); n++ {
		name := fmt.Sprint("wait", n)
		l.begin(1)
		for range 1 + n%2 {
			a, ok := l.ask(ctx, "POST", "/sessions/"+session+"/message", `{"text":"job `+name+`"}`, "Idempotency-Key: "+name)
			if !ok {
				return
			}
			l.told(name, a.field(l.p, "turn"))
			switch {
			case a.status == http.StatusOK:
				l.over(name, a.field(l.p, "text"))
			case a.field(l.p, "code") == "interrupted":
				l.over(name, "")
			default:
				l.t.Errorf("job %s: %v", name, a)
				return
			}
		}
	}
}

// asks is a client that posts several messages at once and asks what became of
// them.
func (l *load) asks(ctx context.Context, session string) {
	for n := 0; l.more(); n += 3 {
		l.begin(3)
		for i := n; i < n+3; i++ {
			name := fmt.Sprint("ask", i)
			a, ok := l.ask(ctx, "POST", "/sessions/"+session+"/message", `{"text":"job `+name+`"}`, "Idempotency-Key: "+name, "Prefer: respond-async")
			if !ok {
				return
			}
			if a.status != http.StatusAccepted {
				l.t.Errorf("job %s: %v", name, a)
				return
			}
			l.told(name, a.field(l.p, "turn"))
		}
		for i := n; i < n+3; i++ {
			name := fmt.Sprint("ask", i)
			if !l.askUntilOver(ctx, session, name) {
				return
			}
		}
	}
}

func (l *load) askUntilOver(ctx context.Context, session, name string) bool {
	l.mu.Lock()
	id := l.turns[name]
	l.mu.Unlock()
	for {
		a, ok := l.ask(ctx, "GET", "/sessions/"+session+"/turns/"+id, "")
		if !ok {
			return false
		}
		if a.status != http.StatusOK {
			l.t.Errorf("GET the turn of job %s, which was accepted: %v", name, a)
			return false
		}
		if state := a.field(l.p, "state"); state == "ended" {
			l.over(name, a.field(l.p, "text"))
			return true
		}
		if !pause(ctx) {
			return false
		}
	}
}

// A seen event is what a watcher remembers of one.
type seen struct {
	seq        int64
	kind, turn string
	id         string // of a message
}

// streams follows a session's event stream over all connections until ctx ends.
func (l *load) streams(ctx context.Context, session string) (all []seen) {
	last := "0"
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.p.url("/sessions/"+session+"/stream"), nil)
		if err != nil {
			l.t.Error(err)
			return all
		}
		req.Header.Set("Authorization", "Bearer "+operatorToken)
		req.Header.Set("Last-Event-ID", last)
		resp, err := l.p.client.Do(req)
		if err != nil {
			pause(ctx)
			continue
		}
		if resp.StatusCode == http.StatusOK {
			frames(resp.Body, func(id, data string) {
				var e struct{ Kind, Turn string }
				seq, err := strconv.ParseInt(id, 10, 64)
				if err = errors.Join(err, json.Unmarshal([]byte(data), &e)); err != nil {
					l.t.Errorf("event %q %s: %v", id, data, err)
				}
				all = append(all, seen{seq: seq, kind: e.Kind, turn: e.Turn})
				last = id
				l.note(e.Kind)
				if e.Kind == "final" || e.Kind == "error" {
					l.mu.Lock()
					l.ends++
					l.mu.Unlock()
				}
			})
		}
		resp.Body.Close()
		pause(ctx)
	}
	return all
}

// frames reads server-sent events. A frame counts when its empty line has come.
func frames(body io.Reader, event func(id, data string)) {
	in := bufio.NewScanner(body)
	in.Buffer(nil, 4<<20)
	var id, data string
	for in.Scan() {
		switch name, value, _ := strings.Cut(in.Text(), ": "); name {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if data != "" {
				event(id, data)
			}
			id, data = "", ""
		}
	}
}

func (l *load) note(kind string) {
	l.moments.come(eventSeen)
	if kind == "final" || kind == "error" {
		l.moments.come(turnSeenOver)
	}
}

// chats is a page: it writes one message after the other, follows its thread,
// and when the socket breaks opens another one from where it was and sends what
// has not come back yet once more.
func (l *load) chats(ctx context.Context, thread string) (all []seen) {
	c := &chatter{l: l, n: -1}
	c.next()
	for c.name != "" && ctx.Err() == nil {
		head := http.Header{"Cookie": {l.cookie}}
		url := fmt.Sprintf("%s?thread=%s&since=%d", l.p.url("/ws"), thread, c.last)
		conn, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: head, HTTPClient: l.p.client})
		if err != nil {
			if resp != nil && resp.StatusCode == http.StatusUnauthorized {
				l.t.Errorf("the login is gone: %v", err)
				return c.all
			}
			l.failed("socket")
			pause(ctx)
			continue
		}
		conn.SetReadLimit(4 << 20)
		c.talk(ctx, conn)
		conn.CloseNow()
	}
	return c.all
}

type chatter struct {
	l    *load
	n    int
	name string // of the job under way, "" when there are no more
	back bool   // the message has come back: it is accepted
	last int64
	all  []seen
}

func (c *chatter) next() {
	c.name, c.back = "", false
	if !c.l.more() {
		return
	}
	c.n++
	c.name = fmt.Sprint("chat", c.n)
	c.l.begin(1)
}

// talk reads one socket to its end.
func (c *chatter) talk(ctx context.Context, conn *websocket.Conn) {
	say := func() bool {
		text := fmt.Sprintf(`{"type":"message","id":%q,"text":"job %s"}`, c.name, c.name)
		return conn.Write(ctx, websocket.MessageText, []byte(text)) == nil
	}
	if !c.back && !say() {
		return
	}
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var f struct {
			Type, ID, Turn, Text, Message, Code string
			Seq                                 int64
		}
		if err := json.Unmarshal(data, &f); err != nil {
			c.l.t.Errorf("frame %s: %v", data, err)
			return
		}
		if f.Seq == 0 {
			c.l.failed("frame: " + f.Message + f.Text)
			continue
		}
		c.last = f.Seq
		c.all = append(c.all, seen{seq: f.Seq, kind: f.Type, turn: f.Turn, id: f.ID})
		c.l.note(f.Type)
		switch {
		case f.Type == "message" && f.ID == c.name:
			c.back = true
			c.l.told(c.name, f.Turn)
			c.l.moments.come(answered)
		case f.Type == "final", f.Type == "error":
			if f.Type == "error" && f.Code != "interrupted" {
				c.l.t.Errorf("job %s: %s", c.name, data)
			}
			c.l.over(c.name, f.Text)
			if c.next(); c.name == "" || !say() {
				return
			}
		}
	}
}
