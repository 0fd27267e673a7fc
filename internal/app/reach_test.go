package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/secret/store"
)

// TestCommandsReachIris: a command without network asks Iris at the one socket it
// sees, with the token of its turn; nobody else's token is taken there.
func TestCommandsReachIris(t *testing.T) {
	for _, program := range []string{"bwrap", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s", program)
		}
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "secret.key")
	if err := store.NewKey(key); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "IRIS_SANDBOX=bwrap", "IRIS_SECRETS_MODE=store", "IRIS_SECRET_KEY_FILE="+key, "IRIS_SECRET_STORE_FILE="+filepath.Join(dir, "secrets.json.enc"))
	s := p.serve()
	id := p.session()
	if a := p.do("PUT", "/secrets/TEST-KEY", `{"value":"known-only-here","agentReadable":true}`); a.status >= 300 {
		t.Fatalf("put: %v", a)
	}
	const ask = `curl -s -o /dev/null -w '%{http_code} ' --unix-socket $IRIS_API_SOCKET $IRIS_API_URL`
	for script, want := range map[string]string{
		"find /run /tmp /var /dev ~ /etc 2>/dev/null | while read -r f; do [ -S $f ] && echo $f; done; true": "\n/run/iris/api.sock\n```",
		ask + "/secrets/TEST-KEY -H \"Authorization: Bearer $IRIS_TURN_TOKEN\"":                              "\n200\n",
		ask + "/approvals -H \"Authorization: Bearer $IRIS_TURN_TOKEN\"":                                     "\n403\n",
		ask + "/secrets/TEST-KEY": "\n401\n",
		ask + "/approvals -H 'Authorization: Bearer " + operatorToken[:len(operatorToken)/2] + "'\"" + operatorToken[len(operatorToken)/2:] + "\"": "\n401\n",
		ask + "/api/status -H 'Cookie: iris=x'":                         "\n401\n",
		"curl -s -m 5 $IRIS_API_URL/health; echo $?":                    "7\n",
		"rm -f $IRIS_API_SOCKET; [ -S $IRIS_API_SOCKET ] && echo stays": "stays\n",
	} {
		if out := p.say(id, "run `"+script+"`"); !strings.Contains(out, want) || strings.Contains(out, "known-only-here") {
			t.Errorf("%s: %q, want %q", script, out, want)
		}
	}
	s.stop()
	if _, err := os.Stat(filepath.Join(p.workspace, "state", "api.sock")); err == nil {
		t.Error("the socket is left behind")
	}
}
