package policy

import "testing"

// Iris's own keys, her record and her command line, from commands.
func TestIrisOwn(t *testing.T) {
	j, err := New(Options{Workspace: testWorkspace, Home: "/home/iris",
		Keys: []string{"/srv/keys/store"}, ProtectedPaths: []string{"/iris/data/meta/bash-audit.log"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		want    Decision
		rule    string
	}{
		{"cat ~/.config/iris/*", Deny, ruleSecret},
		{"cd ~/.config/iris && cat tok*", Deny, ruleSecret},
		{"cp -r ~/.config/iris /tmp/z", Deny, ruleSecret},
		{"mv /root/.config/iris /tmp/z", Deny, ruleSecret},
		{"tar cf - ~/.config/iris", Deny, ruleSecret},
		{"grep -r . ~/.config/iris", Deny, ruleSecret},
		{"rsync -a ~/.config/iris/ /tmp/q", Deny, ruleSecret},
		{"ln -s ~/.config/iris k; cat k/x", Deny, ruleSecret},
		{"base64 /srv/keys/store", Deny, ruleSecret},
		{"rm ~/.config/iris/secret.key", Confirm, ruleProtected},
		{"rm -rf ~/.config", Confirm, ruleRemove},
		{"rm -rf /srv/keys", Confirm, ruleRemove},
		{"find ~/.config/iris -delete", Confirm, ruleRemove},
		{"shred ~/.config/iris/secret.key", Confirm, ruleProtected},
		{"echo x > ~/.config/iris/token", Confirm, ruleProtected},
		{"ls -l ~/.config/iris", Allow, ""},
		{"cat ~/.config/iris-theme/colors", Allow, ""},
		{"rm -rf ~/.config/other", Allow, ""},

		{"cat /proc/$PPID/environ", Deny, ruleSecret},
		{"tr '\\0' '\\n' < /proc/1/environ", Deny, ruleSecret},
		{"cat /proc/*/environ", Deny, ruleSecret},
		{"cat /proc/self/environ", Allow, ""},
		{"cat /proc/$$/environ", Allow, ""},
		{"cat /proc/1/status", Allow, ""},

		{"truncate -s0 meta/bash-audit.log", Confirm, ruleProtected},
		{"sed -i /x/d meta/bash-audit.log", Confirm, ruleProtected},
		{"> meta/bash-audit.log", Confirm, ruleProtected},
		{"rm meta/bash-audit.log", Confirm, ruleProtected},
		{"rm -rf meta", Confirm, ruleRemove},
		{"tail -5 meta/bash-audit.log", Allow, ""},

		{"iris approvals answer 3fa2c1d9 yes", Deny, rulePerson},
		{"/usr/local/bin/iris approvals --api-port 3000 answer 3fa2c1d9 yes", Deny, rulePerson},
		{"env -u IRIS_TURN_TOKEN iris approvals answer x yes", Deny, rulePerson},
		{"sh -c 'iris approvals answer x yes'", Deny, rulePerson},
		{"iris secret get STRIPE-KEY", Deny, rulePerson},
		{"iris-secret get STRIPE-KEY", Deny, rulePerson},
		{"iris secret export --recipient age1x", Deny, rulePerson},
		{"iris secret rm STRIPE-KEY", Confirm, rulePerson},
		{"iris approvals list", Allow, ""},
		{"iris secret list", Allow, ""},
		{"iris agent list", Allow, ""},
		{"get-secret STRIPE-KEY", Allow, ""},
	} {
		v := j.Command(c.command, nil, testWorkspace)
		if v.Decision != c.want || v.Rule != c.rule {
			t.Errorf("%q: %s (%s) %s, want %s (%s)", c.command, v.Decision, v.Rule, v.Reason, c.want, c.rule)
		}
	}
	if v := j.Command("cat ~/.config/iris/*", nil, testWorkspace); v.Reason != "command references a secret file (the keys of Iris)" {
		t.Errorf("a glob is refused with %q", v.Reason)
	}
	for _, p := range []string{"~/.config/iris/secret.key", "/home/iris/.config/iris/x", "/srv/keys/store", "/proc/1/environ"} {
		if v := j.Path(Read, p, testWorkspace); v.Decision != Deny {
			t.Errorf("read %s: %+v, want it refused", p, v)
		}
	}
	if _, err := New(Options{Workspace: testWorkspace, Keys: []string{"keys"}}); err == nil {
		t.Error("a relative path of keys is taken")
	}
}
