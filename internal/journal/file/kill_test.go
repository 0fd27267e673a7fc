package file

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

const (
	writerEnv     = "IRIS_JOURNAL_TEST_WRITER"
	writerStreams = 4
)

// part is the data of the records that the writer makes: record I of N that
// were appended together, with the number the first of them is to have.
type part struct{ I, N, Round int }

// writer appends to a journal until it is killed, and tells on its standard
// output the last number of every append that was synced.
func writer(dir string) {
	j, err := New(Options{Dir: dir, SegmentBytes: 8 << 10, RecentBytes: 4 << 10})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	for s := range writerStreams {
		wg.Go(func() {
			for round := 0; ; round++ {
				entries := make([]journal.Entry, 1+(round+s)%3)
				for i := range entries {
					entries[i].Data, _ = json.Marshal(part{i, len(entries), round})
				}
				n, err := j.Append(ctx, fmt.Sprint("S", s), journal.Any, entries...)
				if err == nil && round%2 == 0 {
					err = j.Sync(ctx)
				}
				if err != nil {
					fmt.Println("error", err)
					return
				}
				// A killed process loses nothing that is in the kernel, so
				// appends without a sync count as well.
				fmt.Printf("S%d %d\n", s, n)
			}
		})
	}
	wg.Wait()
}

// TestKill kills a writer at random moments. What it had told is there, no
// record is torn and no append is there in part.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(7, 11))
	told := map[string]int64{}
	for round := range 32 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acks, spin := 1+rng.IntN(60), time.Duration(rng.IntN(2000))*time.Microsecond
		sc := bufio.NewScanner(out)
		for n := 0; sc.Scan(); n++ {
			var stream string
			var seq int64
			if _, err := fmt.Sscan(sc.Text(), &stream, &seq); err != nil || stream == "error" {
				t.Errorf("round %d: the writer says %q", round, sc.Text())
				break
			}
			told[stream] = max(told[stream], seq)
			if n == acks {
				for until := time.Now().Add(spin); time.Now().Before(until); {
				}
				cmd.Process.Kill() // what it still told is read to the end
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		j, err := New(Options{Dir: dir, SegmentBytes: 8 << 10})
		if err != nil {
			t.Fatalf("round %d: open after the kill: %v", round, err)
		}
		for s := range writerStreams {
			checkParts(t, j, fmt.Sprint("S", s), told)
		}
		if t.Failed() {
			t.Fatalf("round %d, after %d acknowledgements and %v", round, acks, spin)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func checkParts(t *testing.T, j *Journal, stream string, told map[string]int64) {
	t.Helper()
	var last part
	var seq int64
	for r, err := range j.Read(context.Background(), stream, 0) {
		var p part
		if err == nil {
			err = json.Unmarshal(r.Data, &p)
		}
		if err != nil {
			t.Errorf("%s after %d: %v", stream, seq, err)
			return
		}
		if follows := last.I+1 < last.N; follows && (p.I != last.I+1 || r.Seq != seq+1) || !follows && p.I != 0 {
			t.Errorf("%s: %+v (%d) after %+v (%d)", stream, p, r.Seq, last, seq)
		}
		last, seq = p, r.Seq
	}
	if last.I+1 < last.N {
		t.Errorf("%s ends with %+v: an append in part", stream, last)
	}
	if seq < told[stream] {
		t.Errorf("%s ends with %d, but %d was acknowledged", stream, seq, told[stream])
	}
}
