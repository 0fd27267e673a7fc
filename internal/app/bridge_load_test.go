package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
)

// A sub is an agent with a bridge of its own, and what calls it.
type sub struct {
	p      *place
	server *server
	url    string
	client *http.Client
}

func newSub(t testing.TB, model *llmtest.Server, width int) *sub {
	t.Helper()
	port := freePort(t)
	p := newPlace(t, append(wires(model)[1], "IRIS_BRIDGE_PORT="+strconv.Itoa(port), "IRIS_LOG_LEVEL=warn")...)
	transport := &http.Transport{MaxIdleConnsPerHost: width, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &sub{p: p, server: p.serve(), url: fmt.Sprintf("http://127.0.0.1:%d/bridge", port), client: &http.Client{Transport: transport}}
}

// post opens a stream and returns it behind its accepted line.
func (s *sub) post(ctx context.Context, id, text string) (*bufio.Reader, io.Closer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(string(wire.Request{Text: text, RequestID: id}.Encode())))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", wire.StreamType)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReaderSize(resp.Body, 512)
	line, err := in.ReadBytes('\n')
	if l, perr := wire.ParseLine(line); err == nil && (perr != nil || l.Type != wire.TypeAccepted) {
		err = fmt.Errorf("the first line is %s", line)
	}
	if err != nil {
		resp.Body.Close()
		return nil, nil, err
	}
	return in, resp.Body, nil
}

// rest reads a stream to its end and returns the last line.
func rest(in *bufio.Reader) (l wire.Line, err error) {
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if l, err = wire.ParseLine(line); err != nil || l.Terminal() {
				return l, err
			}
		}
		if err != nil {
			return l, err
		}
	}
}

var rss = regexp.MustCompile(`VmRSS:\s*([0-9]+) kB`)

// kib is the memory of a process.
func (s *server) kib() int {
	s.p.t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "status"))
	m := rss.FindSubmatch(data)
	if err != nil || m == nil {
		s.p.t.Fatalf("memory of %d: %v", s.cmd.Process.Pid, err)
	}
	n, _ := strconv.Atoi(string(m[1])) // digits
	return n
}

// A thousand open streams, each with a turn that waits for its model: every one
// gets its reply. The bar of issue C is 120 MiB; what is held here is that it gets
// no worse. The race detector takes memory of its own, so under it there are
// fewer streams and no bound.
func TestThousandStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a thousand streams")
	}
	n, limit := 1000, 140<<10
	if detector > 1 {
		n = 50
	}
	model := llmtest.NewServer(t)
	hold := make(chan struct{})
	model.Script(func(r llmtest.Request) llmtest.Answer {
		return llmtest.Answer{Hold: hold, Parts: []llm.Part{llmtest.Text("ok " + r.Text()[strings.LastIndexByte(r.Text(), ' ')+1:])}}
	})
	s := newSub(t, model, 1)
	before := s.server.kib()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	type stream struct {
		in *bufio.Reader
		c  io.Closer
	}
	open := make([]stream, n)
	each(32, n, func(i int) {
		in, c, err := s.post(ctx, fmt.Sprint("s", i), fmt.Sprint("number ", i))
		if err != nil {
			t.Errorf("stream %d: %v", i, err)
			return
		}
		open[i] = stream{in, c}
	})
	if t.Failed() {
		close(hold)
		return
	}
	until(t, "all turns wait for the model", func() bool { return model.Active() == n })
	used := s.server.kib()
	t.Logf("%d open streams: %d MiB, %d MiB before", n, used>>10, before>>10)
	if detector == 1 && used > limit {
		t.Errorf("%d open streams take %d KiB, more than %d", n, used, limit)
	}
	close(hold)
	for i, st := range open {
		if l, err := rest(st.in); err != nil || l.Text != fmt.Sprint("ok ", i) {
			t.Errorf("stream %d: %+v, %v", i, l, err)
		}
		st.c.Close()
	}
}

// each calls f for 0 to n-1, so many at a time.
func each(width, n int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range width {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// Memory that calls leave behind, between call 2,000 and call 6,000 at 16 at
// once: fresh ids, and ids that are used again. The bar is 2 KiB per call.
//
//	go test -run '^$' -bench BridgeMemory -benchtime 1x ./internal/app
func BenchmarkBridgeMemory(b *testing.B) {
	for name, key := range map[string]func(i int) string{
		"fresh":  func(i int) string { return fmt.Sprint("k", i) },
		"reused": func(i int) string { return fmt.Sprint("k", i%16) },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				s := newSub(b, llmtest.NewServer(b), 16)
				at := 0
				calls := func(to int) {
					from := at
					each(16, to-from, func(i int) {
						in, c, err := s.post(b.Context(), key(from+i), "hello")
						if err == nil {
							_, err = rest(in)
							c.Close()
						}
						if err != nil {
							b.Errorf("call %d: %v", from+i, err)
						}
					})
					at = to
					<-time.After(2 * time.Second)
				}
				calls(2000)
				before := s.server.kib()
				calls(6000)
				b.ReportMetric(float64(s.server.kib()-before)/4000, "KiB/call")
				s.server.stop()
			}
		})
	}
}
