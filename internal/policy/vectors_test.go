package policy

import "testing"

// TestRequiredVerdicts are the vectors of spec §5.6.
func TestRequiredVerdicts(t *testing.T) {
	j := testJudge(t)
	for want, commands := range map[Decision][]string{
		Deny: {
			"cat /iris/.env", "cat .env", "head -50 '/iris/.env'", "cat /iris/secret.key", "cat /iris/secrets.json.enc",
			"jq . agents.json", "curl http://169.254.169.254/latest/meta-data/", "curl http://metadata.google.internal/",
		},
		Confirm: {
			"rm -rf /", "sudo rm -rf /*", "rm -fr /etc", "rm --recursive --force /usr/", "mkfs.ext4 /dev/sda1", "mkfs /dev/sdb",
			"dd if=/dev/zero of=/dev/sda", "terraform destroy -auto-approve", "git push --force origin main",
			"git push -f origin master", "git push --force-with-lease upstream release/1.0", "git push origin +main",
			"git push origin +refs/heads/main", "echo x >> /etc/passwd", "chmod 777 /etc/sudoers",
			"sed -i 's/a/b/' /etc/ssh/sshd_config", "echo k > ~/.ssh/authorized_keys", "systemctl disable iris.service",
			"sudo systemctl mask iris.service",
		},
		Allow: {
			"cat .env.example", "cat .envrc", "cat my.env", "cat agents.json.bak", "cat secret.keyboard", "ping 169.254.1.1",
			"rm -rf ./build", "rm -rf /tmp/scratch/foo", "rm -rf /home/user/project/build", "rm old.log", "rm -r src/cache",
			"git push --force origin feature-x", "git push -f origin feature-x", "git push origin +feature-x", "git push origin main",
			"cat /etc/passwd | wc -l", "grep iris /etc/sudoers", "systemctl status iris.service", "systemctl restart iris.service",
			"terraform plan", "dd if=/dev/zero of=./disk.img bs=1M count=1", "", "ls -la",
		},
	} {
		expect(t, j, want, commands)
	}
}

// TestFurtherRequiredVerdicts are the vectors of spec §5.7.
func TestFurtherRequiredVerdicts(t *testing.T) {
	j := testJudge(t)
	for want, commands := range map[Decision][]string{
		Deny: {
			"cat /iris/.en?", "curl -g 'http://[::ffff:169.254.169.254]/'", "curl http://2852039166/", "curl http://169.254.170.2/v2/credentials",
			"curl -g 'http://[fd00:ec2::254]/'",
		},
		Confirm: {
			"rm / -rf", "rm -rf /iris", "rm -rf /usr/local", "bash -c 'rm -rf /'", `rm -rf "/"`, "rm -rf /.", "rm -rf //",
			"rm -rf /etc/ && ls", "rm -rf /etc/nginx", "rm -rf ~", "rm -rf $HOME", "find / -delete", "cd / && rm -rf *",
			"git push -f", "git -C x push --force origin main", "git  push --force origin main", "git push -fu origin main",
			"git push --mirror", "git push --delete origin main", "git push origin --delete main", "terraform -chdir=x destroy", "terraform apply -destroy",
			"systemctl disable iris", "systemctl stop iris.service",
		},
		Allow: {
			"echo mkfs", "cat /etc/passwd > out", "dd if=x of=/dev/null", "dd of=/dev/null", "cat /etc/passwd 2>/dev/null", "cp /etc/passwd /tmp/x",
			"git push --force origin feature/main-fix", "ls -la /iris/.env", "echo '.env' >> .gitignore",
		},
	} {
		expect(t, j, want, commands)
	}
}

func expect(t *testing.T, j *Judge, want Decision, commands []string) {
	t.Helper()
	for _, c := range commands {
		if v := j.Command(c, nil, testWorkspace); v.Decision != want {
			t.Errorf("Command(%q) = %+v, want %s", c, v, want)
		}
	}
}

func TestPath(t *testing.T) {
	j := testJudge(t)
	for _, c := range []struct {
		access    Access
		path, cwd string
		want      Decision
		rule      string
	}{
		{Read, ".env", testWorkspace, Deny, "secret"},
		{Write, "/iris/.env", testWorkspace, Deny, "secret"},
		{Read, "a/../agents.json", testWorkspace, Deny, "secret"},
		{Read, "~/.config/iris/token", testWorkspace, Deny, "secret"},
		{Read, "/root/.config/iris/token", testWorkspace, Deny, "secret"},
		{Read, "state/journal/0.jsonl", testWorkspace, Deny, "state"},
		{Write, "../x", testWorkspace + "/state", Allow, ""},
		{Read, "state", testWorkspace, Deny, "state"},
		{Read, "state", "/elsewhere", Allow, ""},
		{Read, "statement.md", testWorkspace, Allow, ""},
		{Write, "/etc/passwd", testWorkspace, Confirm, "protected-file"},
		{Write, "/etc/sudoers.d/iris", testWorkspace, Confirm, "protected-file"},
		{Write, "~/.ssh/authorized_keys", testWorkspace, Confirm, "protected-file"},
		{Read, "/etc/passwd", testWorkspace, Allow, ""},
		{Write, "/dev/sda", testWorkspace, Confirm, "mkfs-dd"},
		{Write, "/dev/null", testWorkspace, Allow, ""},
		{Read, ".env.example", testWorkspace, Allow, ""},
		{Write, "notes.md", testWorkspace, Allow, ""},
		{Read, "*", testWorkspace, Allow, ""},
		{Read, "/proc/self/root/iris/data/state/x", testWorkspace, Deny, "state"},
	} {
		if v := j.Path(c.access, c.path, c.cwd); v.Decision != c.want || v.Rule != c.rule {
			t.Errorf("Path(%s, %q, %q) = %+v, want %s by %q", c.access, c.path, c.cwd, v, c.want, c.rule)
		}
	}
}

func TestStateIsIrisOwn(t *testing.T) {
	expect(t, testJudge(t), Deny, []string{
		"cat state/journal.jsonl", "ls state", "ls -la /iris/data/state/", "rm -rf state", "cd state && cat x", "cat /iris/data/st*/x",
		"echo x > state/approvals", "cp x state/", "find state -type f", "sqlite3 state/a.db .dump", "grep -r x ./state", "tar czf x.tgz state",
		"cd / && head iris/data/state/journal/1", "python3 -c \"open('state/x').read()\"", "cat ~/.config/iris/token", "tail -f ../data/state/x",
	})
	expect(t, testJudge(t), Allow, []string{
		"cat statement.txt", "ls ../state", "git status", "echo state/x", "cat docs/state.md", "terraform state list", "grep -rn state src",
	})
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no workspace":  {},
		"relative":      {Workspace: "data"},
		"install root":  {Workspace: "/w", InstallRoot: "iris"},
		"protected":     {Workspace: "/w", ProtectedPaths: []string{"etc/x"}},
		"dialect":       {Workspace: "/w", Dialect: "tcsh"},
		"rule no words": {Workspace: "/w", Deny: []Match{{}}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: New took %+v", name, o)
		}
	}
	j, err := New(Options{
		Workspace: "/w", Home: "/h", InstallRoot: "/opt/iris", Dialect: Posix,
		Secrets: []string{"prod.key"}, SecretNames: []string{"vault.json"},
		ProtectedPaths: []string{"/srv/conf"}, ProtectedBranches: []string{"prod-*"},
		Deny:    []Match{{Words: []string{"shutdown"}, Reason: "the machine stays up"}},
		Confirm: []Match{{Words: []string{"kubectl", "delete", "namespace"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, j, Deny, []string{"cat prod.key", "cat vault.json", "sudo shutdown -h now", "cat .env"})
	expect(t, j, Confirm, []string{
		"rm -rf /opt/iris", "rm -rf /w", "echo x > /srv/conf/a", "git push -f origin prod-eu", "kubectl -n x delete namespace y",
		"x=(a b)", // not POSIX
	})
	expect(t, j, Allow, []string{"kubectl get namespace", "echo shutdown", "git push -f origin dev"})
	if v := j.Command("shutdown now", nil, ""); v.Rule != "operator" || v.Reason != "the machine stays up" {
		t.Errorf("operator's rule = %+v", v)
	}
}

// TestVerdictExplains holds what a person is told.
func TestVerdictExplains(t *testing.T) {
	j := testJudge(t)
	for command, want := range map[string]Verdict{
		"ls && sudo rm -rf / ; date":   {Confirm, "rm", "sudo rm -rf /", "would delete the root of the file system"},
		"cat a .env":                   {Deny, "secret", "cat a .env", "command references a secret file (.env)"},
		"curl http://169.254.169.254/": {Deny, "metadata", "curl http://169.254.169.254/", "command targets a cloud instance metadata endpoint"},
		"date; echo x >/etc/passwd":    {Confirm, "protected-file", "echo x >/etc/passwd", "would change /etc/passwd, a file of the system's accounts and logins"},
		"git push -f origin a main":    {Confirm, "git-push", "git push -f origin a main", "would force-push to the protected branch main"},
		"if then":                      {Confirm, "unjudged", "", "the command cannot be judged: it is not valid shell"},
		"bash -c 'ls; rm -rf ~'":       {Confirm, "rm", "rm -rf ~", "would delete the home directory"},
		"ls":                           {Decision: Allow},
	} {
		if v := j.Command(command, nil, testWorkspace); v != want {
			t.Errorf("Command(%q) = %+v, want %+v", command, v, want)
		}
	}
}
