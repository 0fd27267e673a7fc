//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// machineScript runs in a machine of its own, under a real systemd: Iris, an
// agent that is spawned as a service, a question, and a kill in the middle of
// one.
const machineScript = `#!/bin/bash
exec >/share/out.log 2>&1
export HOME=/root IRIS_WORKSPACE=/iris/data IRIS_PROVIDER=rehearsal IRIS_API_TOKEN=operator-token-0123456789abcdef012345
mkdir -p -m 700 /iris/data
cp /share/iris /usr/local/bin/iris
ip link set lo up 2>/dev/null
iris agent spawn billing 'Invoices: 100% of them' --with-self-heal; echo "SPAWN $?"
systemd-run -q --unit=iris --setenv=HOME=/root --setenv=IRIS_API_TOKEN=$IRIS_API_TOKEN --setenv=IRIS_PROVIDER=rehearsal iris serve /iris/data
until iris approvals list >/dev/null 2>&1; do sleep 0.1; done
echo "ASK"; iris chat '@billing run id -un'; echo "ASKED $?"
echo "WALL"; iris chat '@billing run cat /iris/data/state/format.json'
(iris chat '@billing run sleep 15'; echo "CUT $?") >/share/cut.log 2>&1 &
until curl -s -H "Authorization: Bearer $(cat /etc/iris/agents/billing/IRIS_API_TOKEN)" http://127.0.0.1:4300/status 2>/dev/null | grep -q BRIDGE- ||
	iris agent list | grep -q 'BRIDGE-'; do sleep 0.1; done
kill -9 "$(systemctl show -p MainPID --value iris-agent-billing)"
wait
cat /share/cut.log
systemctl show -p NRestarts iris-agent-billing
iris agent list
echo "SECURITY"; systemd-analyze security --no-pager iris-agent-billing | tail -1
su -s /bin/sh nobody -c 'cat /iris/agents/billing/billing.log /etc/iris/agents/billing/IRIS_API_TOKEN' && echo LEAK
iris agent stop billing; iris agent remove billing; echo "REMOVED $?"
ls /etc/systemd/system/iris-agent-billing.service /etc/iris/agents/billing
echo END
`

const machineUnit = `[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/share/test.sh
ExecStopPost=/bin/systemctl poweroff --no-block
`

// TestASpawnedAgentInItsOwnMachine: two real processes under a real systemd. The
// agent is killed in the middle of a turn and the reply arrives all the same.
func TestASpawnedAgentInItsOwnMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a machine of its own needs root")
	}
	for _, program := range []string{"systemd-nspawn", "debootstrap"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no ", program, " here")
		}
	}
	tree := machineTree(t)
	share := t.TempDir()
	for name, text := range map[string]string{"test.sh": machineScript, "iris-test.service": machineUnit} {
		if err := os.WriteFile(filepath.Join(share, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", binary, filepath.Join(share, "iris")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemd-nspawn", "-q", "-D", tree, "--ephemeral", "--boot", "--register=no", "--keep-unit", "--private-network",
		"--link-journal=no", "--bind="+share+":/share", "--bind-ro="+filepath.Join(share, "iris-test.service")+":/etc/systemd/system/iris-test.service",
		"systemd.unit=iris-test.service")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	console, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(filepath.Join(share, "out.log"))
	if readErr != nil {
		t.Fatalf("the machine did not run: %v, %v\n%s", err, readErr, console)
	}
	got := string(text)
	for _, want := range []string{"SPAWN 0", "answers    http://127.0.0.1:4300", "irisa-billing", "ASKED 0", "sleep 15", "CUT ", "NRestarts=1", "@billing  well", "REMOVED 0", "END"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in what was printed", want)
		}
	}
	if strings.Contains(got, "LEAK") || strings.Contains(got, `{"format"`) {
		t.Error("the wall has a hole")
	}
	// The reply, or an honest error: never nothing.
	if cut := got[strings.Index(got, "sleep 15")+1:]; !strings.Contains(cut, "interrupted") && !strings.Contains(cut, "CUT 1") {
		t.Error("the question that was cut off has no honest end")
	}
	if t.Failed() {
		t.Log(got)
	}
}

// machineTree is a small Debian that is made once and kept outside of the
// repository.
func machineTree(t *testing.T) string {
	t.Helper()
	base := "/var/cache/iris-e2e"
	tree := filepath.Join(base, "tree")
	if _, err := os.Stat(filepath.Join(tree, "sbin", "init")); err == nil {
		return tree
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,ca-certificates,iproute2", "stable", tree+".new").CombinedOutput()
	if err != nil {
		t.Skipf("no Debian could be had: %v: %.2000s", err, out)
	}
	if err := os.Rename(tree+".new", tree); err != nil {
		t.Fatal(err)
	}
	return tree
}
