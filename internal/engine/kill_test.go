package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// victimDir names the journal of a process that is going to be killed.
const victimDir = "IRIS_ENGINE_TEST_VICTIM"

// victim serves an engine on a real journal when this process is a re-executed
// test binary. It takes "<conversation> <message id>" lines from stdin, prints
// "ack <message id> <turn>" for each receipt and a line at every step of every
// turn, and ends in good order when stdin does and nothing is open.
func victim() bool {
	dir := os.Getenv(victimDir)
	if dir == "" {
		return false
	}
	if err := runVictim(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func runVictim(dir string) error {
	j, err := file.New(file.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer j.Close()
	var mu sync.Mutex
	out := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	e, err := engine.New(engine.Options{Journal: j, Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
		for step := len(req.Resume); step < 4; step++ {
			out("run %s %d %d", req.ID, req.Attempt, step)
			if err := errors.Join(
				s.Emit(turn.Event{Kind: turn.Text, Text: "piece", Partial: true}),
				s.Emit(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: fmt.Sprint(step), Phase: turn.Start}}),
				s.Checkpoint(ctx, step),
			); err != nil {
				return err
			}
		}
		out("last %s", req.ID)
		err := s.Emit(turn.Event{Kind: turn.Final, Text: "re: " + req.Message.ID})
		out("end %s", req.ID)
		return err
	})})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	var all sync.WaitGroup
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		conv, id, _ := strings.Cut(in.Text(), " ")
		all.Go(func() {
			for {
				r, err := e.Submit(ctx, submission(chat.Address{Space: chat.Session, ID: conv}, id, id))
				if errors.Is(err, transport.ErrBusy) {
					for _, p := range j.Pins() { // come back when one has ended
						if p.Stream == "SESSION-"+conv {
							_, _ = e.Wait(ctx, turn.ID(p.Name))
							break
						}
					}
					continue
				}
				if err != nil {
					out("error %v", err)
					return
				}
				out("ack %s %s", id, r.Turn)
				return
			}
		})
	}
	all.Wait()
	for _, p := range j.Pins() {
		if _, err := e.Wait(ctx, turn.ID(p.Name)); err != nil {
			return err
		}
	}
	cancel()
	return <-served
}

// Promises 1 and 2: the process is killed again and again at seeded points,
// senders repeat what they got no receipt for, and in the end every message was
// accepted once and every turn has exactly one end.
func TestKilledAgainAndAgain(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(2027, 5))
	acked := map[string]turn.ID{}
	var pending []string // "<conversation> <message id>"
	next := 0
	const kills = 10
	for life := range kills + 1 {
		for range 12 {
			pending = append(pending, fmt.Sprintf("c%d m%d", next%4, next))
			next++
		}
		after := 1 + rnd.IntN(60)
		if life == kills {
			after = -1
		}
		for _, line := range live(t, dir, pending, after) {
			if rest, ok := strings.CutPrefix(line, "ack "); ok {
				id, tid, _ := strings.Cut(rest, " ")
				if was := acked[id]; was != "" && was != turn.ID(tid) {
					t.Errorf("message %s was turn %s and is now %s", id, was, tid)
				}
				acked[id] = turn.ID(tid)
			}
			if strings.HasPrefix(line, "error") {
				t.Error(line)
			}
		}
		var rest []string
		for _, p := range pending {
			if _, id, _ := strings.Cut(p, " "); acked[id] == "" || rnd.IntN(4) == 0 { // and some receipts are lost
				rest = append(rest, p)
			}
		}
		pending = rest
	}
	if len(acked) != next {
		t.Errorf("%d of %d messages have a receipt", len(acked), next)
	}

	j, err := file.New(file.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if pins := j.Pins(); len(pins) != 0 {
		t.Errorf("%d turns are open", len(pins))
	}
	accepted, over, begun := map[string][]turn.ID{}, map[turn.ID]int{}, map[turn.ID]int{}
	resumed := 0
	for c := range 4 {
		for r, err := range j.Read(ctx, fmt.Sprintf("SESSION-c%d", c), 0) {
			if err != nil {
				t.Fatal(err)
			}
			var rec turn.Record
			if err := json.Unmarshal(r.Data, &rec); err != nil {
				t.Fatal(err)
			}
			switch {
			case rec.Accepted != nil:
				accepted[rec.Accepted.Message.ID] = append(accepted[rec.Accepted.Message.ID], rec.Turn)
			case rec.Begun != nil:
				if begun[rec.Turn]++; rec.Begun.Attempt != begun[rec.Turn] {
					t.Errorf("turn %s: attempt %d after %d", rec.Turn, rec.Begun.Attempt, begun[rec.Turn]-1)
				}
				if rec.Begun.Attempt > 1 {
					resumed++
				}
			case rec.Event != nil && rec.Event.Terminal():
				over[rec.Turn]++
			case over[rec.Turn] > 0:
				t.Errorf("turn %s goes on after its end: %s", rec.Turn, r.Data)
			}
		}
	}
	for i := range next {
		id := fmt.Sprint("m", i)
		if turns := accepted[id]; len(turns) != 1 || turns[0] != acked[id] || over[turns[0]] != 1 {
			t.Errorf("message %s: turns %v, receipt %s, %d ends", id, turns, acked[id], over[acked[id]])
		}
	}
	if resumed == 0 {
		t.Error("no turn was ever interrupted: the test kills nothing")
	}
	t.Logf("%d messages, %d lives, %d resumed attempts", next, kills+1, resumed)
}

// live runs one process: it is killed after so many lines of output, or ends by
// itself if after is negative. It returns what it printed.
func live(t *testing.T, dir string, submit []string, after int) (lines []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(in, strings.Join(submit, "\n")+"\n")
		_ = in.Close()
	}()
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		lines = append(lines, sc.Text())
		if len(lines) == after {
			_ = cmd.Process.Kill() // what is in the pipe was said before
		}
	}
	if err := cmd.Wait(); err != nil && after < 0 {
		t.Fatalf("the last life: %v", err)
	}
	return lines
}

func BenchmarkInstantTurn(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprint("sessions=", sessions), func(b *testing.B) {
			j, err := file.New(file.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			e, stop := enginetest.Start(b, engine.Options{Journal: j})
			defer stop()
			work := make(chan struct{}, sessions)
			var wg sync.WaitGroup
			for i := range sessions {
				conv := chat.Address{Space: chat.Session, ID: fmt.Sprint(i)}
				wg.Go(func() {
					for range work {
						r, err := e.Submit(ctx, submission(conv, "", "hello"))
						if err == nil {
							_, err = e.Wait(ctx, r.Turn)
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			before := cpu(b)
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/turn")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
		})
	}
}

// cpu is the processor time this process has used.
func cpu(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
