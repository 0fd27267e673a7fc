package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// A peer is the agent program's side of the pipes, played by the test.
type peer struct {
	t     *testing.T
	agent *Agent
	sent  chan message // what the driver wrote
	out   *io.PipeWriter
	ended chan error

	mu      sync.Mutex
	events  []agentcli.Event
	seen    int // events that await has passed
	changed chan struct{}
	// each, if set, is called with every event, inside of Read.
	each func(agentcli.Event)
}

// join attaches an agent of the preset to a peer.
func join(t *testing.T, opts Options, s agentcli.Setup) *peer {
	t.Helper()
	if s.WorkDir == "" {
		s.WorkDir = t.TempDir()
	}
	if s.Mode == "" {
		s.Mode = agentcli.Manual
	}
	opts.Env = append(opts.Env, "PATH="+os.Getenv("PATH"))
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	a, err := d.Attach(s, agentcli.Pipes{In: inW, Out: outR})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, agent: a.(*Agent), sent: make(chan message, 1000), out: outW, ended: make(chan error, 1), changed: make(chan struct{}, 1)}
	go func() {
		defer close(p.sent)
		sc := bufio.NewReader(inR)
		for {
			line, err := sc.ReadBytes('\n')
			if err != nil {
				return
			}
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				panic(fmt.Sprintf("the driver wrote %q: %v", line, err))
			}
			p.sent <- m
		}
	}()
	go func() {
		err := a.Read(func(e agentcli.Event) {
			if p.each != nil {
				p.each(e)
			}
			p.mu.Lock()
			p.events = append(p.events, e)
			p.mu.Unlock()
			select {
			case p.changed <- struct{}{}:
			default:
			}
		})
		inR.Close()
		p.ended <- err
	}()
	t.Cleanup(func() { p.hangUp() })
	return p
}

// hangUp ends the agent's output and returns what Read returned.
func (p *peer) hangUp() error {
	p.out.Close()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(patience):
		p.t.Error("Read did not return")
		return nil
	}
}

// feed plays a line and returns when the driver has understood it.
func (p *peer) feed(format string, args ...any) {
	p.t.Helper()
	p.line(fmt.Sprintf(format, args...))
}

func (p *peer) line(line string) {
	p.t.Helper()
	for _, s := range []string{line + "\n", "\n"} { // the second is taken when the first is done with
		if _, err := io.WriteString(p.out, s); err != nil {
			p.t.Fatalf("feed: %v", err)
		}
	}
}

// next is what the driver writes next; want is its method, empty for a response.
func (p *peer) next(want string) message {
	p.t.Helper()
	select {
	case m, ok := <-p.sent:
		if !ok {
			p.t.Fatalf("the driver has hung up; want %q", want)
		}
		if m.Method != want {
			p.t.Fatalf("the driver sent %q %s %s %v, want %q", m.Method, m.ID, m.Result, m.Error, want)
		}
		return m
	case <-time.After(patience):
		p.t.Fatalf("the driver sent nothing, want %q", want)
		return message{}
	}
}

// quiet fails if the driver wrote anything.
func (p *peer) quiet() {
	p.t.Helper()
	select {
	case m, ok := <-p.sent:
		if ok {
			p.t.Fatalf("the driver sent %q %s %s", m.Method, m.Params, m.Result)
		}
	default:
	}
}

// await is the next event of the kind.
func (p *peer) await(kind agentcli.Kind) agentcli.Event {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		for p.seen < len(p.events) {
			e := p.events[p.seen]
			p.seen++
			if e.Kind == kind {
				p.mu.Unlock()
				return e
			}
		}
		p.mu.Unlock()
		select {
		case <-p.changed:
		case <-deadline:
			p.t.Fatalf("no event %q; there were:\n%s", kind, p.log())
		}
	}
}

func (p *peer) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, e := range p.events {
		b.WriteString(show(e) + "\n")
	}
	return b.String()
}

// open plays a handshake with the given results.
func (p *peer) open(caps, session string) {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.agent.Open(context.Background()) }()
	m := p.next("initialize")
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, caps)
	m = p.next("session/new")
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, session)
	if err := <-done; err != nil {
		p.t.Fatalf("Open: %v", err)
	}
	p.await(agentcli.Session)
}

const plainCaps = `{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":true}}}`

// ready is a peer after a handshake, with the prompt "p1" under way. The returned
// id is that of the prompt's request.
func ready(t *testing.T, opts Options, s agentcli.Setup) (*peer, json.RawMessage) {
	t.Helper()
	p := join(t, opts, s)
	p.open(plainCaps, `{"sessionId":"s"}`)
	return p, p.prompt("p1", "hello")
}

func (p *peer) prompt(id, text string) json.RawMessage {
	p.t.Helper()
	if err := p.agent.Send(context.Background(), agentcli.Prompt{ID: id, Text: text}); err != nil {
		p.t.Fatalf("Send: %v", err)
	}
	return p.next("session/prompt").ID
}

// update plays a session/update of the session "s".
func (p *peer) update(update string) {
	p.t.Helper()
	p.feed(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}`, update)
}

// show is an event as the goldens have it.
func show(e agentcli.Event) string {
	b := &strings.Builder{}
	fmt.Fprint(b, e.Kind)
	add := func(name string, v any) {
		if s := fmt.Sprint(v); s != "" && s != "false" && s != "[]" {
			fmt.Fprintf(b, " %s=%q", name, s)
		}
	}
	add("id", e.ID)
	add("text", clip(e.Text, 80))
	add("parent", e.Parent)
	if t := e.Tool; t.ID != "" || t.Name != "" {
		add("tool", t.Name)
		add("what", string(t.What))
		add("command", t.Command)
		add("paths", t.Paths)
		add("always", t.Always)
		add("granted", t.Granted)
		add("outside", t.Outside)
		add("result", clip(t.Result, 80))
		add("failed", t.Failed)
	}
	add("prompts", e.Prompts)
	add("reason", e.Reason)
	add("failure", e.Failure)
	add("interrupted", e.Interrupted)
	if u := e.Usage; u != nil {
		fmt.Fprintf(b, " usage=%d/%d/%d/%d/%d", u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Window)
	}
	return b.String()
}
