package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm/llmtest"
)

// Killed again and again while clients talk to it over HTTP, event streams and
// a web socket, the server loses nothing and does nothing twice. TestSoakKill is
// the long form.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a server for many seconds")
	}
	killAgainAndAgain(t, killPlan{seed: 1, kills: 25, jobs: 12})
}

type killPlan struct {
	seed  uint64
	kills int // at the least, each while somebody waits for a turn
	jobs  int // at the least
}

// killAgainAndAgain runs a load, kills what serves it, and checks everything.
func killAgainAndAgain(t *testing.T, plan killPlan) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	model := llmtest.NewServer(t)
	p := newPlace(t, "IRIS_LLM_RETRY_BASE_MS=10")
	counter := filepath.Join(p.home, "counter")
	l := newLoad(t, p)
	work := worker(counter)
	model.Script(func(r llmtest.Request) llmtest.Answer {
		l.moments.come(modelAsked)
		return work(r)
	})
	k := &killer{load: l, plan: plan, rnd: rand.New(rand.NewPCG(plan.seed, 7)), wires: wires(model), by: map[string]int{}}
	begun := time.Now()

	first := p.serve(k.wires[0]...)
	l.cookie = p.login()
	waits, asks := p.session(), p.session()
	first.stop()

	var mu sync.Mutex
	transcripts := map[string][]seen{}
	keep := func(channel string, all []seen) {
		mu.Lock()
		defer mu.Unlock()
		transcripts[channel] = all
	}
	l.more = func() bool {
		return ctx.Err() == nil && !t.Failed() && (k.count() < plan.kills || l.done() < plan.jobs)
	}
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var clients, watchers sync.WaitGroup
	watchers.Go(func() { l.moments.watchFile(watching, counter) })
	for _, s := range []string{waits, asks} {
		watchers.Go(func() { keep("SESSION-"+s, l.streams(watching, s)) })
	}
	clients.Go(func() { l.waits(ctx, waits) })
	clients.Go(func() { l.asks(ctx, asks) })
	clients.Go(func() { keep("WEBUI-page", l.chats(ctx, "page")) })

	k.run(ctx)
	k.last(ctx, &clients, waits)
	s := p.serve(k.wires[0]...)
	until(t, "the watchers have seen every end", func() bool { return l.watched() || t.Failed() })
	unwatch()
	watchers.Wait()
	logs := []string{"SESSION-" + waits, "SESSION-" + asks, "WEBUI-page"}
	until(t, "every reply is in a log.jsonl", func() bool { return p.replies(logs) >= l.done() || t.Failed() })
	s.stop()

	a := journalOf(t, p)
	a.check(l, counter, transcripts)
	if refused := model.Refused(); len(refused) > 0 {
		t.Errorf("%d histories were refused, the first with: %s", len(refused), refused[0])
	}
	byWire := map[llmtest.Wire]int{}
	for _, r := range model.Requests() {
		byWire[r.Wire]++
	}
	t.Logf("seed %d: %d kills (%v; %d of them while starting) in %v, %d jobs; %s; model requests %v, none refused; client requests %d, of which failed %v",
		plan.seed, k.count(), k.by, k.early, time.Since(begun).Round(time.Second), l.done(), a.summary(), byWire, l.requests, l.failures)
}

// A killer ends servers at seeded points.
type killer struct {
	load  *load
	plan  killPlan
	rnd   *rand.Rand
	wires [][]string
	by    map[string]int
	early int

	mu    sync.Mutex
	kills int // while somebody waited for a turn
}

func (k *killer) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kills
}

// last lets the clients end, and then sends the history that is left once over
// every wire.
func (k *killer) last(ctx context.Context, clients *sync.WaitGroup, session string) {
	l := k.load
	for i, wire := range k.wires {
		s := l.p.serve(wire...)
		clients.Wait()
		name := fmt.Sprint("last", 6*i+3) // a job without calls
		l.begin(1)
		a, ok := l.ask(ctx, "POST", "/sessions/"+session+"/message", `{"text":"job `+name+`"}`, "Idempotency-Key: "+name)
		if !ok || a.status != http.StatusOK {
			l.t.Errorf("the last message with %s: %v", wire[0], a)
			return
		}
		l.told(name, a.field(l.p, "turn"))
		l.over(name, a.field(l.p, "text"))
		s.stop()
	}
}

// run starts and kills servers, each on a wire of its own, until there were
// enough kills and jobs.
func (k *killer) run(ctx context.Context) {
	for k.load.more() {
		s := k.load.p.start(k.wires[k.rnd.IntN(len(k.wires))]...)
		why := k.wait(ctx, s)
		busy := k.load.busy()
		s.kill()
		if busy && why != "" {
			k.mu.Lock()
			k.kills++
			k.mu.Unlock()
			k.by[why]++
		}
	}
}

// wait returns at the point where the server dies, with its kind.
func (k *killer) wait(ctx context.Context, s *server) (why string) {
	delay := func(most time.Duration) <-chan time.Time {
		return time.After(time.Duration(k.rnd.Int64N(int64(most))))
	}
	if k.rnd.IntN(6) == 0 { // while it starts and recovers
		k.early++
		select {
		case <-delay(120 * time.Millisecond):
			return "starting"
		case <-s.exited:
			k.load.t.Errorf("the server ended by itself: %v\n%s", s.err, s.stderr)
			return ""
		}
	}
	kind := k.rnd.IntN(len(allMoments) + 1)
	var point <-chan struct{}
	if kind < len(allMoments) {
		point = k.load.moments.after(allMoments[kind], 1+k.rnd.IntN(5))
	}
	wait, after := delay(400*time.Millisecond), delay(4*time.Millisecond)
	if err := s.ready(ctx); err != nil {
		k.load.t.Error(err)
		return ""
	}
	if point == nil {
		<-wait
		return "any time"
	}
	select {
	case <-point:
		<-after
		return string(allMoments[kind])
	case <-time.After(400 * time.Millisecond):
		return "any time"
	}
}
