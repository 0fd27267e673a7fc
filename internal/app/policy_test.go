package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/config"
)

func TestPolicyCheck(t *testing.T) {
	for name, c := range map[string]struct {
		opts PolicyCheckOptions
		in   string
		want string
		err  string
	}{
		"for people": {
			opts: PolicyCheckOptions{Commands: []string{"ls; rm -rf /", "cat .env", "ls"}},
			want: "confirm (rm): would delete the root of the file system\n  at: rm -rf /\n" +
				"deny (secret): command references a secret file (.env)\n  at: cat .env\n" +
				"allow: no rule is about it\n",
		},
		"as JSON": {
			opts: PolicyCheckOptions{Commands: []string{"a && b"}, JSON: true},
			want: `{"command":"a && b","reason":"","rule":"","span":"","verdict":"allow"}` + "\n",
		},
		"lines": {
			in: `{"command":"rm -rf .","id":7}` + "\n\n" + `{"command":"rm -rf ~/x; echo $D"}` + "\n",
			want: `{"command":"rm -rf .","id":7,"reason":"would delete the workspace","rule":"rm","span":"rm -rf .","verdict":"confirm"}` + "\n" +
				`{"command":"rm -rf ~/x; echo $D","reason":"","rule":"","span":"","verdict":"allow"}` + "\n",
		},
		"environment":  {opts: PolicyCheckOptions{Commands: []string{`rm -rf "$D/"`}, Environ: []string{"D=/tmp/x"}}, want: "allow: no rule is about it\n"},
		"directory":    {opts: PolicyCheckOptions{Commands: []string{"rm -rf *"}, Cwd: "/tmp/x"}, want: "allow: no rule is about it\n"},
		"not JSON":     {in: "{\n", err: "line 1: "},
		"no command":   {in: "{}\n", err: `line 1: no "command"`},
		"no workspace": {opts: PolicyCheckOptions{Workspace: "data"}, err: "not absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if c.opts.Workspace == "" {
				c.opts.Workspace = "/srv/iris/w"
			}
			c.opts.Home, c.opts.In, c.opts.Out = "/home/x", strings.NewReader(c.in), &out
			err := PolicyCheck(c.opts)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("PolicyCheck = %v, want an error with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPolicyOfTheOperator shows that iris policy check judges with what the
// configuration adds.
func TestPolicyOfTheOperator(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, config.FileName)
	err := os.WriteFile(file, []byte(`[policy]
secret_names = ["id_rsa"]
protected_paths = ["/srv/live"]
protected_branches = ["prod-*"]
deny = ["kubectl delete namespace: a namespace is gone for good"]
confirm = ["npm publish"]
install_root = "/opt/iris"
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(config.Source{Dir: dir, Home: dir})
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"cat ~/.ssh/id_rsa":                      "deny (secret): command references a secret file (id_rsa)",
		"echo x > /srv/live/index.html":          "confirm (protected-file)",
		"git push -f origin prod-eu":             "confirm (git-push)",
		"sudo kubectl -n x delete namespace y":   "deny (",
		"npm publish":                            "confirm (",
		"rm -rf /opt/iris":                       "confirm (rm)",
		"kubectl get pods; git push -f origin x": "allow",
	} {
		var out bytes.Buffer
		if err := PolicyCheck(PolicyCheckOptions{Config: cfg, Workspace: cfg.Workspace, Home: dir, Commands: []string{command}, Out: &out}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %q, want %q", command, out.String(), want)
		}
	}
	var out bytes.Buffer
	err = PolicyCheck(PolicyCheckOptions{Config: cfg, Workspace: cfg.Workspace, Home: dir, Commands: []string{"kubectl delete namespace y"}, Out: &out})
	if err != nil || !strings.Contains(out.String(), "a namespace is gone for good") {
		t.Errorf("%q, %v: the operator's reason is not told", out.String(), err)
	}
}
