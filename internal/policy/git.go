package policy

import (
	"slices"
	"strings"
)

// git judges git commands: pushes that overwrite, and what opens files.
func (s *shell) git(args []string) {
	l := grammar{short: "Cc", long: " git-dir work-tree namespace config-env super-prefix attr-source ", first: true}.split(args)
	f := s.fork()
	var aliases []option
	for _, o := range l.options {
		switch o.name {
		case "C":
			f.set("PWD", resolve(f.cwd(), o.value))
		case "c":
			key, value, _ := strings.Cut(o.value, "=")
			if name, ok := strings.CutPrefix(strings.ToLower(key), "alias."); ok {
				aliases = append(aliases, option{name, value})
			} else if oneOf(strings.ToLower(key), "core.sshcommand core.pager core.editor core.fsmonitor diff.external sequence.editor gpg.program") {
				f.child(f.fork(), plain(value), nil)
			}
		}
	}
	if len(l.operands) == 0 {
		return
	}
	verb, rest := l.operands[0], l.operands[1:]
	for _, a := range aliases {
		if a.name == verb {
			f.gitAlias(plain(a.value), rest)
			return
		}
	}
	f.gitVerb(verb, rest)
	f.print(someText)
}

// gitAlias runs an alias: a script behind "!", else words of git.
func (s *shell) gitAlias(value string, rest []string) {
	if script, ok := strings.CutPrefix(value, "!"); ok {
		for _, a := range rest {
			script += " " + quote(a)
		}
		s.child(s.fork(), script, nil)
		return
	}
	s.git(append(strings.Fields(value), rest...))
}

func (s *shell) gitVerb(verb string, args []string) {
	switch verb {
	case "push":
		s.push(args)
	case "rm", "check-ignore", "ls-files", "checkout", "restore", "reset", "update-index", "branch", "tag", "status", "fetch", "remote", "config", "rev-parse", "switch", "merge", "check-attr", "sparse-checkout", "init", "worktree", "cherry-pick", "revert", "reflog", "describe", "shortlog":
		s.touches(args)
	case "clean":
		s.clean(args)
	case "commit", "notes":
		l := grammar{short: "mFCct", long: " message file author date template trailer reuse-message fixup squash cleanup "}.split(args)
		file, _ := l.value("F", "file")
		template, _ := l.value("t", "template")
		s.reads(append([]string{file, template}, l.operands...))
	case "log", "whatchanged", "rev-list":
		l := grammar{short: "nSGL", long: " grep author since until format pretty "}.split(args)
		if l.has("p", "patch", "u", "L") {
			s.objects(l.operands)
		}
	case "grep":
		s.search("grep", args)
	case "clone":
		l := grammar{short: "bocu", long: " branch origin depth config reference "}.split(args)
		for _, o := range l.operands[:min(1, len(l.operands))] {
			s.place(o, func(p string) {})
		}
	case "filter-branch":
		for i, a := range args {
			if strings.HasSuffix(a, "-filter") && i+1 < len(args) {
				s.child(s.fork(), plain(args[i+1]), nil)
			}
		}
	case "bisect", "submodule":
		if i := slices.IndexFunc(args, func(a string) bool { return oneOf(a, "run foreach") }); i >= 0 && i+1 < len(args) {
			rest := slices.DeleteFunc(slices.Clone(args[i+1:]), func(a string) bool { return a == "--recursive" || a == "--quiet" })
			s.child(s.fork(), plain(strings.Join(rest, " ")), nil)
		}
	case "rebase":
		l := grammar{short: "xsXC", long: " exec onto strategy "}.split(args)
		if text, ok := l.value("x", "exec"); ok {
			s.child(s.fork(), plain(text), nil)
		}
	default: // add, diff, show, blame, cat-file, archive, stash, hash-object, …
		s.objects(args)
	}
}

// clean judges git clean: with -x or -X what is ignored goes, and that is where
// settings, keys and databases are. Named paths, or a pattern that keeps secret
// files, say that somebody thought of it.
func (s *shell) clean(args []string) {
	l := grammar{short: "e", long: " exclude "}.split(args)
	s.touches(l.operands)
	if len(l.operands) > 0 || !l.has("x", "X") || !l.has("f", "force") || l.has("n", "dry-run", "i", "interactive") {
		return
	}
	for _, e := range l.values("e", "exclude") {
		if s.r.j.secretName(baseName(e)) != "" {
			return
		}
	}
	s.note(effect{kind: cleanTree})
}

// objects judges operands that are files, or files of a commit ("HEAD:.env").
func (s *shell) objects(args []string) {
	for _, a := range args {
		if strings.HasPrefix(a, ":(") || strings.HasPrefix(a, ":!") || strings.HasPrefix(a, ":^") {
			continue // a pathspec that leaves files out, or has magic
		}
		s.operands([]string{a})
	}
}

// push judges git push.
func (s *shell) push(args []string) {
	l := grammar{short: "o", long: " push-option repo receive-pack exec recurse-submodules signed "}.split(args)
	force, mirror, remove, all := false, false, false, false
	for _, o := range l.options {
		switch o.name {
		case "f", "force", "force-with-lease":
			force = true
		case "no-force", "no-force-with-lease":
			force = false
		case "mirror":
			mirror = true
		case "no-mirror":
			mirror = false
		case "d", "delete":
			remove = true
		case "all", "branches", "a":
			all = true
		case "receive-pack", "exec":
			s.child(s.fork(), plain(o.value), nil)
		}
	}
	refs := l.operands[min(1, len(l.operands)):]
	switch {
	case mirror:
		s.note(effect{kind: forcePush, path: "overwrite every branch of the remote"})
		return
	case force && all:
		s.note(effect{kind: forcePush, path: "force-push every branch"})
		return
	case force && len(refs) == 0:
		s.note(effect{kind: forcePush, path: "force-push a branch that is not named"})
		return
	}
	for i, ref := range refs {
		if ref == "tag" || i > 0 && refs[i-1] == "tag" {
			continue
		}
		if !known(ref) && force {
			s.note(effect{kind: forcePush, path: "force-push a branch that is not known"})
			continue
		}
		s.refspec(ref, force, remove)
	}
}

// refspec judges one refspec.
func (s *shell) refspec(ref string, force, remove bool) {
	ref = plain(ref)
	plus := strings.HasPrefix(ref, "+")
	src, dest, pair := strings.Cut(strings.TrimPrefix(ref, "+"), ":")
	if !pair {
		dest = src
	}
	gone := remove || pair && src == "" && dest != ""
	if !force && !plus && !gone {
		return
	}
	if !pair && (src == "HEAD" || src == "@") {
		s.note(effect{kind: forcePush, path: "force-push the branch that is checked out"})
		return
	}
	if pair && src == "" && dest == "" {
		s.note(effect{kind: forcePush, path: "force-push every branch that both sides have"})
		return
	}
	if !s.protectedBranch(dest) {
		return
	}
	verb := "force-push to "
	if gone {
		verb = "delete "
	}
	s.note(effect{kind: forcePush, path: verb + "the protected branch " + show(dest)})
}

// protectedBranch reports whether a destination is or covers a protected branch.
func (s *shell) protectedBranch(dest string) bool {
	dest = strings.TrimPrefix(dest, "refs/")
	if strings.HasPrefix(dest, "tags/") {
		return false
	}
	dest = strings.TrimPrefix(dest, "heads/")
	for _, b := range s.r.j.branches {
		if matches(activate(b), dest) || matches(activate(dest), strings.TrimSuffix(b, "*")) {
			return true
		}
	}
	return false
}
