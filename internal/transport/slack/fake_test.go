package slack

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An inbox keeps what is submitted, by the rules of transport.Inbox.
type inbox struct {
	mu      sync.Mutex
	taken   []transport.Submission
	known   map[string]bool
	answers []transport.Answer
	fail    func(transport.Submission) (transport.Receipt, error)
	refuse  error // of Answer
	channel func(string) route.Channel
}

func (b *inbox) Submit(_ context.Context, s transport.Submission) (transport.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		if r, err := b.fail(s); err != nil || r.Outcome != "" {
			return r, err
		}
	}
	key := s.Address.Channel() + ":" + s.Message.ID
	if b.known == nil {
		b.known = map[string]bool{}
	}
	snap := route.Snapshot{Default: "native", Agents: []string{"billing"}}
	if b.channel != nil {
		c := b.channel(s.Address.ID)
		snap.Channel = &c
	}
	d := route.Decide(s, snap)
	r := transport.Receipt{Outcome: map[route.Kind]transport.Outcome{route.Ignore: transport.Ignored, route.Log: transport.Logged,
		route.Command: transport.Commanded, route.Run: transport.Accepted}[d.Kind], Duplicate: b.known[key]}
	if d.Kind == route.Command {
		r.Reply.Text = "_" + string(d.Verb) + " " + d.Argument + "_"
	}
	if !b.known[key] && d.Kind != route.Ignore {
		b.taken = append(b.taken, s)
		b.known[key] = true
	}
	return r, nil
}

func (b *inbox) Command(context.Context, transport.Command) (transport.Reply, error) {
	return transport.Reply{}, errors.New("not asked for")
}

func (b *inbox) Answer(_ context.Context, a transport.Answer) (transport.Reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, a)
	return transport.Reply{}, b.refuse
}

func (b *inbox) Watch(context.Context, chat.Address, int64) iter.Seq2[transport.Seen, error] {
	return func(func(transport.Seen, error) bool) {}
}

func (b *inbox) all() []transport.Submission {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]transport.Submission(nil), b.taken...)
}

// A scene is a Slack with an Iris that serves.
type scene struct {
	*testing.T
	slack *slacktest.Server
	iris  *Slack
	box   *inbox
	mu    sync.Mutex
	said  []string
	end   func()
}

// set makes a scene; more changes the options.
func set(t *testing.T, so slacktest.Options, more func(*Options)) *scene {
	t.Helper()
	c := &scene{T: t, slack: slacktest.New(so), box: &inbox{}}
	t.Cleanup(c.slack.Close)
	c.slack.AddUser("U1", "ann", "Ann Lee")
	c.slack.AddUser("U2", "bob", "Bob Ray")
	c.slack.AddChannel("C1", "general")
	c.slack.AddChannel("D1", "U1")
	c.begin(more)
	return c
}

// begin starts an Iris.
func (c *scene) begin(more func(*Options)) {
	c.Helper()
	opts := Options{AppToken: secret.New(slacktest.AppToken), BotToken: secret.New(slacktest.BotToken), API: c.slack.URL(), Inbox: c.box,
		Backoff: 5 * time.Millisecond}
	if more != nil {
		more(&opts)
	}
	c.box.channel = opts.Channel
	s, err := New(opts)
	if err != nil {
		c.Fatal(err)
	}
	s.SetSay(func(p transport.Place, text string) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.said = append(c.said, p.Chat+"/"+p.Thread+": "+text)
		return nil
	})
	c.iris = s
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- s.Serve(ctx, func() { close(ready) }) }()
	var once sync.Once
	c.end = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil && ctx.Err() == nil {
				c.Errorf("Serve = %v", err)
			}
		})
	}
	c.Cleanup(c.end)
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		c.Fatalf("Serve = %v", err)
	case <-time.After(20 * time.Second):
		c.Fatal("not ready")
	}
}

func (c *scene) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.said...)
}

// until polls: what is waited for happens behind a socket.
func (c *scene) until(what string, f func() bool) {
	c.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("not within 20 s: %s (wrong: %v)", what, c.slack.Wrong())
		}
	}
}

// acked waits until an envelope is acknowledged, and returns with what.
func (c *scene) acked(id string) string {
	c.Helper()
	var answer string
	c.until("an acknowledgement of "+id, func() bool {
		n, a := c.slack.Acks(id)
		answer = a
		return n > 0
	})
	return answer
}

// say has somebody write, and waits for the acknowledgements.
func (c *scene) say(channel string, m slacktest.Message) slacktest.Message {
	c.Helper()
	m, ids := c.slack.Say(channel, m)
	for _, id := range ids {
		c.acked(id)
	}
	return m
}

func first(method string, f slacktest.Fault) func(string, url.Values) slacktest.Fault {
	var once sync.Once
	return func(m string, _ url.Values) (got slacktest.Fault) {
		if m == method || method == "" {
			once.Do(func() { got = f })
		}
		return got
	}
}
