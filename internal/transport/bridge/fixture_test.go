package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standard are the limits that people expect.
var standard = wire.Limits{Idle: 180 * time.Second, Max: 600 * time.Second}

// place is a server on a real engine, whose runner does what the message says,
// line by line.
type place struct {
	t       *testing.T
	engine  *engine.Engine
	server  *Server
	journal *enginetest.Journal
	log     *lockedBuffer
	stop    func() // ends the engine, then the server
}

type setup struct {
	dir     string
	journal *enginetest.Journal
	run     enginetest.Runner
	tokens  []secret.Value
	opts    func(*Options)
	engine  func(*engine.Options)
}

func start(t *testing.T, in setup) *place {
	t.Helper()
	p := &place{t: t, journal: in.journal, log: &lockedBuffer{}}
	if p.journal == nil {
		p.journal = enginetest.NewJournal()
	}
	if in.dir == "" {
		in.dir = t.TempDir()
	}
	if in.run == nil {
		in.run = obey
	}
	eopts := engine.Options{Journal: p.journal, Runners: map[string]runner.Runner{"native": in.run}, Grace: time.Millisecond, SalvageLimit: time.Millisecond}
	if in.engine != nil {
		in.engine(&eopts)
	}
	var err error
	if p.engine, err = engine.New(eopts); err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Inbox: p.engine, Journal: p.journal, Dir: filepath.Join(in.dir, "bridge-jobs"), Tokens: in.tokens,
		Limits: standard, Plain: 240 * time.Second, Heartbeat: 15 * time.Second, Retention: 24 * time.Hour,
		Logger: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	if in.opts != nil {
		in.opts(&opts)
	}
	if p.server, err = New(opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ectx, ecancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	ready := make(chan struct{})
	served.Go(func() {
		if err := p.server.Serve(ctx, func() { close(ready) }); err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	<-ready
	ended := make(chan error, 1)
	go func() { ended <- p.engine.Serve(ectx) }()
	<-p.engine.Ready()
	var once sync.Once
	p.stop = func() {
		once.Do(func() {
			ecancel()
			if err := <-ended; err != nil {
				t.Errorf("engine: %v", err)
			}
			cancel()
			served.Wait()
		})
	}
	t.Cleanup(p.stop)
	return p
}

// obey does what the message says: one word and its text on each line.
func obey(ctx context.Context, req turn.Request, sink turn.Sink) error {
	for i, line := range strings.Split(req.Message.Text, "\n") {
		word, text, _ := strings.Cut(line, " ")
		text = strings.ReplaceAll(text, `\n`, "\n")
		var err error
		switch word {
		case "status":
			err = sink.Emit(turn.Event{Kind: turn.Status, Label: text})
		case "tool":
			err = errors.Join(
				sink.Emit(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: fmt.Sprint(i), Name: "bash", Label: text, Phase: turn.Start}}),
				sink.Emit(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: fmt.Sprint(i), Name: "bash", Phase: turn.End, Result: "output"}}))
		case "say":
			err = sink.Emit(turn.Event{Kind: turn.Text, Text: text, Partial: true})
		case "said":
			err = sink.Emit(turn.Event{Kind: turn.Text, Text: text})
		case "think":
			err = sink.Emit(turn.Event{Kind: turn.Thinking, Text: text})
		case "file":
			err = sink.Emit(turn.Event{Kind: turn.FileOut, Filename: text})
		case "ask":
			err = sink.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "a1", Text: "May it run?", Command: text, Until: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}})
		case "state":
			err = sink.Checkpoint(ctx, text)
		case "final":
			return sink.Emit(turn.Event{Kind: turn.Final, Text: text})
		case "fail":
			return errors.New(text)
		case "model":
			return &runner.Error{Code: turn.CodeModel, Text: text}
		case "return":
			return nil
		case "panic":
			panic(text)
		case "wait":
			d, perr := time.ParseDuration(text)
			if perr != nil {
				return perr
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		default:
			return fmt.Errorf("no such word: %q", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An exchange is one request to the handler and what came of it, without a
// socket, so that it can live in a bubble.
type exchange struct {
	leave context.CancelFunc
	ended chan struct{} // closed when the handler has returned

	// mu guards the fields below.
	mu     sync.Mutex
	header http.Header
	status int
	body   bytes.Buffer
	shown  int // of body, by next
	// block, when set, makes writes wait until it is closed.
	block chan struct{}
}

func (x *exchange) Header() http.Header { return x.header }

func (x *exchange) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 {
		x.status = status
	}
}

func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	x.mu.Lock()
	block := x.block
	x.mu.Unlock()
	if block != nil {
		<-block
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.body.Write(p)
}

func (x *exchange) Flush() {}

func (x *exchange) got() (int, string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status, x.body.String()
}

// lines are the lines of a stream, each checked strictly.
func (x *exchange) lines(t testing.TB) []wire.Line {
	t.Helper()
	_, body := x.got()
	var all []wire.Line
	for _, data := range strings.SplitAfter(body, "\n") {
		if data == "" {
			continue
		}
		l, err := wire.CheckLine([]byte(data))
		if err != nil {
			t.Errorf("%v", err)
		}
		all = append(all, l)
	}
	return all
}

func (p *place) send(method, path, body string, header ...string) *exchange {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, method, path, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	x := &exchange{leave: cancel, ended: make(chan struct{}), header: http.Header{}}
	go func() {
		defer cancel()
		defer close(x.ended)
		p.server.ServeHTTP(x, r)
	}()
	return x
}

// stream posts a request and returns while it is answered.
func (p *place) stream(body string, header ...string) *exchange {
	return p.send("POST", "/bridge", body, append([]string{"Accept", wire.StreamType}, header...)...)
}

func (p *place) plain(body string, header ...string) *exchange {
	return p.send("POST", "/bridge", body, header...)
}

// get makes a request that is answered without waiting.
func (p *place) get(path string) (int, string) {
	p.t.Helper()
	x := p.send("GET", path, "")
	<-x.ended
	return x.got()
}

func (p *place) job(id string, since int) wire.Job {
	p.t.Helper()
	status, body := p.get(fmt.Sprintf("/bridge/jobs/%s?since=%d", id, since))
	j, err := wire.ParseJob([]byte(body))
	if status != http.StatusOK || err != nil {
		p.t.Fatalf("job %s: %d %s %v", id, status, body, err)
	}
	return j
}

// file is the log on disk, without its head, each line checked strictly.
func (p *place) file(id string) []wire.Line {
	p.t.Helper()
	data, err := os.ReadFile(p.server.path(id))
	if err != nil {
		p.t.Fatal(err)
	}
	var all []wire.Line
	for i, line := range strings.SplitAfter(string(data), "\n") {
		if line == "" || i == 0 && strings.HasPrefix(line, `{"type":"job"`) {
			continue
		}
		l, err := wire.CheckLine([]byte(line))
		if err != nil {
			p.t.Error(err)
		}
		all = append(all, l)
	}
	return all
}

// ask is a body with a text and a request id.
func ask(id string, text ...string) string {
	return string(wire.Request{Text: strings.Join(text, "\n"), RequestID: id}.Encode())
}

// words are lines as short as can be told apart.
func words(lines []wire.Line) (all []string) {
	for _, l := range lines {
		switch l.Type {
		case wire.TypeStatus:
			all = append(all, fmt.Sprintf("%d %s", l.Seq, l.Text))
		case wire.TypeFinal:
			all = append(all, fmt.Sprintf("%d final %s", l.Seq, l.Text))
		case wire.TypeError:
			all = append(all, fmt.Sprintf("%d %s: %s", l.Seq, l.Code, l.Error))
		default:
			all = append(all, string(l.Type))
		}
	}
	return all
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// bubble runs f where time is faked.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
