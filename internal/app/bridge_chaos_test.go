package app_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
)

// Issue C, acceptance: requests through a bridge whose connections are cut,
// stalled and buffered while the agent and Iris are killed, at seeded points:
// every one ends with one reply or one honest error where it was asked, no gap
// in seq, nothing twice. TestSoakBridge is the whole count.
func TestBridgeChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("kills servers for many seconds")
	}
	bridgeChaos(t, 1, 6, 6)
}

// bridgeChaos makes rounds of so many requests at once, each with a fault of its
// own; in each round a process may be killed.
func bridgeChaos(t *testing.T, seed uint64, rounds, width int) {
	rnd := rand.New(rand.NewPCG(seed, 4))
	d := newPair(t)
	m := newMangler(t, d.port, seed)
	d.setVia(t, m.port)
	agent, iris := d.agent.serve(), d.iris.serve()
	faults := map[string]int{}
	failures := map[string]int{}
	begun := time.Now()
	for round := range rounds {
		var sessions, ids []string
		for i := range width {
			s, id := d.iris.session(), fmt.Sprintf("r%dx%d", round, i)
			sessions, ids = append(sessions, s), append(ids, id)
			body := fmt.Sprintf(`{"text":"@billing bill %s in %d steps of 0.0%d"}`, id, rnd.IntN(4), rnd.IntN(9))
			if a := d.iris.do("POST", "/sessions/"+s+"/message", body, "Prefer: respond-async"); a.status != http.StatusAccepted {
				t.Fatalf("POST = %v", a)
			}
		}
		<-time.After(time.Duration(rnd.IntN(250)) * time.Millisecond)
		switch rnd.IntN(4) {
		case 0:
			faults["agent killed"]++
			agent.kill()
			<-time.After(time.Duration(rnd.IntN(100)) * time.Millisecond)
			agent = d.agent.serve()
		case 1:
			faults["Iris killed"]++
			iris.kill()
			<-time.After(time.Duration(rnd.IntN(100)) * time.Millisecond)
			iris = d.iris.serve()
		case 2:
			faults["both killed"]++
			iris.kill()
			agent.kill()
			agent, iris = d.agent.serve(), d.iris.serve()
		}
		for i, s := range sessions {
			until(t, "an end of "+ids[i], func() bool { return d.iris.replies([]string{"SESSION-" + s}) >= 1 })
			until(t, "an end of its job", func() bool { return d.ended(s) })
			if code := d.check(t, s, ids[i], false); code != "" {
				failures[code]++
			}
		}
		if t.Failed() {
			break
		}
	}
	iris.stop()
	agent.stop()
	for what, n := range m.counts() {
		faults[what] += n
	}
	t.Logf("seed %d: %d requests in %v; faults %v; honest errors %v", seed, rounds*width, time.Since(begun).Round(time.Second), faults, failures)
}

// ended reports that the agent's job of a session has its end, or that there is
// none.
func (d *pair) ended(session string) bool {
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/bridge/jobs/SESSION-%s", d.port, session), nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+bridgeToken)
	resp, err := d.agent.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusNotFound {
		return err == nil
	}
	j, err := wire.ParseJob(data)
	return err == nil && j.Done
}

// A mangler stands between two processes and spoils their connections, each in
// its own way.
type mangler struct {
	t    testing.TB
	port int
	to   string
	ln   net.Listener
	wg   sync.WaitGroup
	end  chan struct{}

	// mu guards the fields below.
	mu    sync.Mutex
	rnd   *rand.Rand
	count map[string]int
	conns map[net.Conn]bool
}

func newMangler(t testing.TB, to int, seed uint64) *mangler {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mangler{
		t: t, ln: ln, port: ln.Addr().(*net.TCPAddr).Port, to: "127.0.0.1:" + strconv.Itoa(to), end: make(chan struct{}),
		rnd: rand.New(rand.NewPCG(seed, 5)), count: map[string]int{}, conns: map[net.Conn]bool{},
	}
	m.wg.Go(m.serve)
	t.Cleanup(func() {
		close(m.end)
		ln.Close()
		m.mu.Lock()
		for c := range m.conns {
			c.Close()
		}
		m.mu.Unlock()
		m.wg.Wait()
	})
	return m
}

func (m *mangler) counts() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

func (m *mangler) serve() {
	for {
		c, err := m.ln.Accept()
		if err != nil {
			return
		}
		m.wg.Go(func() { m.connection(c) })
	}
}

// A plan is what happens to one connection: after so many bytes in a direction
// it is cut, or nothing passes for a while, or all of it is kept back.
type plan struct {
	what     string
	up, down int           // bytes before the cut; -1 is none
	pause    time.Duration // of the reader, at down bytes
	keep     time.Duration // how long lines are kept back
}

func (m *mangler) plan() plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := plan{up: -1, down: -1}
	switch m.rnd.IntN(6) {
	case 0:
		p.what, p.down = "answer cut", m.rnd.IntN(900)
	case 1:
		p.what, p.up = "request cut", m.rnd.IntN(400)
	case 2:
		p.what, p.pause, p.down = "reader stalled", time.Duration(m.rnd.IntN(500))*time.Millisecond, m.rnd.IntN(500)
	case 3:
		p.what, p.keep = "proxy buffered", time.Duration(m.rnd.IntN(500))*time.Millisecond
	default:
		p.what = "untouched"
	}
	m.count["connection "+p.what]++
	return p
}

// track remembers a connection so that it is closed at the end.
func (m *mangler) track(c net.Conn) (forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[c] = true
	return func() {
		c.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.conns, c)
	}
}

func (m *mangler) connection(client net.Conn) {
	defer m.track(client)()
	server, err := net.Dial("tcp", m.to)
	if err != nil {
		return // the agent is down: the connection just closes
	}
	defer m.track(server)()
	p := m.plan()
	cut := p.down
	if p.pause > 0 {
		cut = -1
	}
	var both sync.WaitGroup
	both.Go(func() {
		m.pump(server, client, p.up, 0, 0, 0)
		if p.up >= 0 {
			client.Close()
		}
		_ = server.(*net.TCPConn).CloseWrite() // the client has said all it has to say
	})
	both.Go(func() {
		m.pump(client, server, cut, p.down, p.pause, p.keep)
		client.Close()
		server.Close()
	})
	both.Wait()
}

// pump copies until the source ends or limit bytes have passed.
func (m *mangler) pump(to, from net.Conn, limit, stallAt int, stall, keep time.Duration) {
	buf := make([]byte, 4096)
	var kept []byte
	n := 0
	for {
		if keep > 0 {
			// Everything that comes within a while goes on together.
			_ = from.SetReadDeadline(time.Now().Add(keep))
		}
		got, err := from.Read(buf)
		data := buf[:got]
		if limit >= 0 && n+got >= limit {
			_, _ = to.Write(data[:max(limit-n, 0)])
			return
		}
		n += got
		if stall > 0 && n >= stallAt {
			m.wait(stall)
			stall = 0
		}
		kept = append(kept, data...)
		timeout := errors.Is(err, os.ErrDeadlineExceeded)
		if keep == 0 || err != nil {
			if _, werr := to.Write(kept); werr != nil {
				return
			}
			kept = kept[:0]
		}
		if err != nil && !timeout {
			return
		}
	}
}

func (m *mangler) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-m.end:
	}
}
