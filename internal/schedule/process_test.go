package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	leasefile "github.com/iris-operator/iris/internal/lease/file"
	"github.com/iris-operator/iris/internal/transport"
)

// A test binary with this variable is a scheduler on the workspace it names.
const asScheduler = "IRIS_TEST_SCHEDULER"

func TestMain(m *testing.M) {
	if root := os.Getenv(asScheduler); root != "" {
		if err := serve(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// sharedInbox appends what it is given to a file: the engine of this test. It
// takes the same message twice, so that every second run is seen.
type sharedInbox struct {
	inbox
	file string
}

func (b *sharedInbox) Submit(_ context.Context, s transport.Submission) (transport.Receipt, error) {
	f, err := os.OpenFile(b.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return transport.Receipt{}, err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%d %s %s\n", os.Getpid(), s.Message.ID, strings.Fields(s.Message.Text)[1])
	return transport.Receipt{Turn: s.Turn}, err
}

func serve(root string) error {
	leases, err := leasefile.New(leasefile.Options{Dir: filepath.Join(root, "state", "leases")})
	if err != nil {
		return err
	}
	s, err := New(Options{Workspace: root, Leases: leases, Inbox: &sharedInbox{file: filepath.Join(root, "runs")}, TakeOver: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	return s.Serve(context.Background(), func() {})
}

// Three processes share one directory of schedules; whichever acts is killed, and
// every slot runs once, by its message's id.
func TestThreeProcessesRunEachSlotOnce(t *testing.T) {
	root := t.TempDir()
	const slots = 60
	start := time.Now().Add(time.Second)
	if err := os.MkdirAll(filepath.Join(root, "events"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range slots {
		e := Event{Type: OneShot, ChannelID: "C1", Text: fmt.Sprintf("n%d", i), At: start.Add(time.Duration(i) * 50 * time.Millisecond).Format(time.RFC3339Nano)}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "events", fmt.Sprintf("n%d.json", i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	procs := map[int]*exec.Cmd{}
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asScheduler+"="+root)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		procs[cmd.Process.Pid] = cmd
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	runs := func() []string {
		data, _ := os.ReadFile(filepath.Join(root, "runs"))
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	killed := 0
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for {
		lines := runs()
		ids := map[string]bool{}
		for _, l := range lines {
			if f := strings.Fields(l); len(f) == 3 {
				ids[f[1]] = true
			}
		}
		if len(ids) == slots && killed == 2 {
			break
		}
		// Kill whoever acts after a third and after two thirds.
		if len(ids) > (killed+1)*slots/3 && killed < 2 {
			var pid int
			if _, err := fmt.Sscan(lines[len(lines)-1], &pid); err == nil && procs[pid] != nil {
				_ = procs[pid].Process.Kill()
				_ = procs[pid].Wait()
				delete(procs, pid)
				killed++
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d of %d slots ran, %d killed", len(ids), slots, killed)
		}
	}
	// A process that is killed between the submission and its note submits again
	// with the same id, which the engine takes once: that is at most one line for
	// each kill.
	if lines := runs(); len(lines) > slots+killed {
		t.Errorf("%d submissions for %d slots and %d kills", len(lines), slots, killed)
	}
	if by := len(procs); by != 1 {
		t.Errorf("%d processes are left", by)
	}
}
