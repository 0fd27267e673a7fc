package sandboxtest

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
)

// leavers are ways to leave a process behind. Each writes its process id to
// $PIDS when it has become hard to end.
var leavers = map[string]string{
	"child":       `sh -c 'echo $$ >> "$PIDS"; exec sleep 300' &`,
	"setsid":      `setsid sh -c 'echo $$ >> "$PIDS"; exec sleep 300' &`,
	"double fork": `( ( sh -c 'echo $$ >> "$PIDS"; exec sleep 300' & ) & );`,
	"nohup":       `nohup sh -c 'echo $$ >> "$PIDS"; exec sleep 300' > /dev/null 2>&1 &`,
	"trap TERM":   `sh -c 'trap "" TERM HUP INT; echo $$ >> "$PIDS"; while :; do sleep 1; done' &`,
	"stopped":     `sh -c 'echo $$ >> "$PIDS"; kill -STOP $$; sleep 300' &`,
	"all of it": `env -i P="$PIDS" setsid sh -c '(nohup sh -c "trap : TERM; echo \$\$ >> \"\$P\"; while :; do sleep 1; done" ` +
		`< /dev/null > /dev/null 2>&1 3>&- 4>&- &)' < /dev/null > /dev/null 2>&1 &`,
	"chain": `sh -c 'i=0; while [ $i -lt 5 ]; do setsid sh -c "echo \$\$ >> \"$PIDS\"; sleep 300" & i=$((i+1)); done; wait' &`,
}

// wait blocks a script until a leaver has written its id.
const wait = ` until [ -s "$PIDS" ]; do sleep 0.01; done; `

// survivors checks that nothing is left of a command, however it ended.
func survivors(t *testing.T, box Box) {
	for name, leave := range leavers {
		for end, cmd := range map[string]sandbox.Command{
			"own end": {Script: leave + wait + "echo done"},
			"timeout": {Script: leave + wait + "sleep 300", Timeout: 2 * time.Second},
			"abort":   {Script: leave + wait + "echo ready; sleep 300"},
		} {
			t.Run(name+"/"+end, func(t *testing.T) {
				t.Parallel()
				pids := box.Sandbox.Path(filepath.Join(box.Workspace, strings.ReplaceAll(name+end, " ", "")+".pids"))
				cmd.Timeout *= time.Duration(max(box.Slow, 1))
				cmd.Conversation, cmd.Env = conv, append([]string{"PIDS=" + pids}, environ...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if end == "abort" {
					cmd.Stdout = cancelWriter{cancel}
				}
				exit, err := box.Sandbox.Run(ctx, cmd)
				if err != nil {
					t.Fatalf("Run: %v", err)
				}
				if exit.TimedOut != (end == "timeout") || exit.Aborted != (end == "abort") {
					t.Fatalf("exit %+v", exit)
				}
				if end == "own end" && (exit.Code != 0 || exit.Background == 0) {
					t.Errorf("exit %+v, want code 0 and background processes", exit)
				}
				left := script(t, box, `for p in $(cat '`+pids+`'); do kill -0 $p 2>/dev/null && echo $p; done; test -s '`+pids+`'`)
				if left.out != "" || left.exit.Code != 0 {
					t.Errorf("still there: %q (%+v)", left.out, left.exit)
				}
			})
		}
	}
}

// A cancelWriter cancels when the command writes.
type cancelWriter struct{ cancel context.CancelFunc }

func (w cancelWriter) Write(p []byte) (int, error) {
	w.cancel()
	return len(p), nil
}

// background checks that a process left in the background does not hold the
// call, and that a short one may finish.
func background(t *testing.T, box Box) {
	began := time.Now()
	got := script(t, box, "sleep 300 & echo started")
	if got.out != "started\n" || got.exit.Code != 0 || got.exit.Background != 1 {
		t.Errorf("%q, %+v", got.out, got.exit)
	}
	if d := time.Since(began); d > time.Duration(10*max(box.Slow, 1))*time.Second {
		t.Errorf("took %v", d)
	}
	got = script(t, box, "echo first > >(read -r line; echo \"$line, then tee\")")
	if got.out != "first, then tee\n" || got.exit.Background != 0 {
		t.Errorf("%q, %+v: a process substitution did not get to write", got.out, got.exit)
	}
}
