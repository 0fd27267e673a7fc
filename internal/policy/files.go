package policy

import (
	"path"
	"slices"
	"strings"
)

// files judges programs that move, change and delete files. It reports whether
// name is one.
func (s *shell) files(name string, args []string) bool {
	switch name {
	case "rm":
		s.remove(args)
	case "cp", "gcp", "mv", "gmv", "ln", "install", "ginstall":
		s.copies(name, args)
	case "rsync", "scp", "rclone":
		s.transfers(name, args)
	case "dd":
		s.dd(args)
	case "sed", "gsed":
		s.sed(args)
	case "chmod", "chown", "chgrp", "chattr", "setfacl", "chcon":
		s.permissions(name, args)
	case "touch", "truncate", "fallocate":
		l := grammar{short: "drtsclo", long: " date reference time size length offset "}.split(args)
		s.writes(l.operands)
	case "shred", "wipe", "srm":
		l := grammar{short: "ns", long: " iterations size "}.split(args)
		s.writes(l.operands)
	case "vi", "vim", "nvim", "nano", "emacs", "ed", "ex", "pico", "micro", "joe", "mcedit", "code", "subl", "gedit", "kak", "hx":
		l := grammar{short: "cSsuTU"}.split(args)
		for _, o := range l.options {
			if script, ok := strings.CutPrefix(strings.TrimPrefix(o.value, ":"), "!"); ok && o.name == "c" {
				s.child(s.fork(), plain(script), nil)
			}
		}
		s.reads(l.operands)
		if !l.has("R") {
			s.writes(l.operands)
		}
	case "patch":
		l := grammar{short: "idopBDFrVYzg", long: " input directory output "}.split(args)
		s.writes(l.operands[:min(1, len(l.operands))])
		in, _ := l.value("i", "input")
		s.reads([]string{in})
	case "tar", "bsdtar", "gtar":
		s.tar(args)
	case "zip", "7z", "7za", "rar":
		s.archive(name, args)
	default:
		if oneOf(name, touchOnly) {
			s.touches(args)
			if name == "ls" {
				s.print(s.listed(args))
			}
			return true
		}
		return oneOf(name, mentionOnly)
	}
	return true
}

// listed is what ls prints: its operands with -d; else only those that are
// secret files are surely no directories.
func (s *shell) listed(args []string) string {
	l := grammar{short: "ITw"}.split(args)
	if l.has("d") {
		return strings.Join(l.operands, "\n") + "\n"
	}
	text := ""
	for _, o := range l.operands {
		if s.r.j.secretName(baseName(o)) != "" {
			text += o + "\n"
		}
	}
	return text + someText
}

func (s *shell) remove(args []string) {
	l := grammar{}.split(args)
	recursive := l.has("r", "R", "recursive", "d", "dir")
	force := l.has("f", "force")
	for _, o := range l.operands {
		e := effect{kind: deleteFile, path: s.path(o), recursive: recursive}
		if recursive || force {
			e.kind = deleteTree
		}
		if o != "" {
			s.note(e)
		}
	}
}

// copies judges cp, mv, ln and install: the last operand, or that of -t, is
// written, the others are read.
func (s *shell) copies(name string, args []string) {
	g := grammar{short: "tS", long: " target-directory suffix sparse mode owner group backup "}
	if strings.HasSuffix(name, "install") {
		g.short = "tSmog"
	}
	l := g.split(args)
	if name == "install" && l.has("d", "directory") {
		s.touches(l.operands)
		return
	}
	sources := l.operands
	dest, ok := l.value("t", "target-directory")
	if !ok {
		if len(sources) < 2 {
			s.reads(sources)
			return
		}
		dest, sources = sources[len(sources)-1], sources[:len(sources)-1]
	}
	s.reads(sources)
	if strings.HasSuffix(name, "mv") || strings.HasSuffix(name, "cp") && l.has("r", "R", "a", "recursive", "archive") {
		s.copiesTrees(sources, nil)
	}
	s.destination(dest, sources)
	if strings.HasSuffix(name, "mv") {
		for _, src := range sources {
			s.note(effect{kind: deleteFile, path: s.path(src)})
		}
	}
}

// destination judges what is written when sources are copied to dest, a file or
// a directory.
func (s *shell) destination(dest string, sources []string) {
	p := s.path(dest)
	s.note(effect{kind: writeFile, path: p})
	for _, src := range sources {
		if base := baseName(src); base != "" && known(base) && base != "." && base != ".." {
			s.note(effect{kind: writeFile, path: resolve(p, base)})
		}
	}
}

// transfers judges rsync, scp and rclone. A path behind "host:" is on another
// machine and counts all the same.
func (s *shell) transfers(name string, args []string) {
	g := grammar{short: "cDFiJloPSX", long: " ssh "}
	if name != "scp" {
		g = grammar{short: "efMTB", long: " rsh rsync-path exclude include filter log-file backup-dir suffix partial-dir temp-dir compare-dest copy-dest link-dest compress-level chmod chown max-size min-size bwlimit port password-file files-from exclude-from include-from out-format timeout contimeout address sockopts max-delete skip-compress info debug usermap groupmap "}
	}
	l := g.split(args)
	for _, o := range l.options {
		switch o.name {
		case "e", "rsh":
			if name == "rsync" {
				s.child(s.fork(), plain(o.value)+" -V", nil)
			}
		case "files-from", "exclude-from", "include-from", "password-file", "F", "i":
			s.reads([]string{o.value})
		case "log-file":
			s.writes([]string{o.value})
		}
	}
	operands := l.operands
	if name == "rclone" {
		operands = operands[min(1, len(operands)):]
	}
	if len(operands) < 2 {
		return
	}
	last := len(operands) - 1
	deep := name == "rclone" || l.has("r", "a", "recursive", "archive")
	for _, o := range operands[:last] {
		s.place(o, func(p string) {
			s.note(effect{kind: readFile, path: p})
			if deep {
				s.copiesTree(p, l.values("exclude", "filter", "f"))
			}
		})
	}
	s.place(operands[last], func(p string) {
		s.note(effect{kind: writeFile, path: p})
		for _, src := range operands[:last] {
			if base := baseName(src); !strings.HasSuffix(src, "/") && known(base) && base != "" {
				s.note(effect{kind: writeFile, path: resolve(p, base)})
			}
		}
		if l.has("delete", "del", "delete-after", "delete-before", "delete-during", "delete-excluded") {
			s.note(effect{kind: deleteTree, path: p, filtered: true})
		}
	})
}

// place resolves "path" or "[user@]host:path" and notes the host.
func (s *shell) place(o string, f func(string)) {
	if i := schemeOf(o); i > 0 {
		s.url(o)
		f(resolve(someText, path.Clean(o[i:])))
		return
	}
	colon := strings.IndexByte(o, ':')
	if colon > 0 && !strings.Contains(o[:colon], "/") {
		s.note(effect{kind: connect, path: hostOf(o[:colon])})
		f(resolve(someHome, strings.TrimPrefix(o[colon+1:], "~/")))
		return
	}
	f(s.path(o))
}

func (s *shell) dd(args []string) {
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		switch {
		case !ok || value == "":
		case key == "if":
			s.reads([]string{value})
		case key == "of":
			s.writes([]string{value})
		}
	}
}

func (s *shell) sed(args []string) {
	l := grammar{short: "efl", long: " expression file line-length "}.split(args)
	operands := l.operands
	scripts := 0
	for _, o := range l.options {
		switch o.name {
		case "e", "expression":
			s.sedScript(o.value)
			scripts++
		case "f", "file":
			s.reads([]string{o.value})
			scripts++
		}
	}
	if scripts == 0 && len(operands) > 0 {
		s.sedScript(operands[0])
		operands = operands[1:]
	}
	s.reads(operands)
	inPlace := l.has("i", "in-place")
	for _, o := range l.options {
		inPlace = inPlace || strings.HasPrefix(o.name, "in-place")
	}
	if inPlace {
		s.writes(operands)
	}
	if len(operands) == 0 && len(l.operands) == 1 && s.stdin != nil && len(l.options) == 0 {
		s.print(substituted(plain(l.operands[0]), s.input()))
		return
	}
	s.print(someText)
}

// substituted is the output of "s/text/other/" where the pattern is plain text.
func substituted(script, text string) string {
	if len(script) < 4 || script[0] != 's' || isLetter(script[1]) || !known(script) {
		return someText
	}
	parts := strings.Split(script[2:], script[1:2])
	if len(parts) != 3 || hasAny(parts[0], `\.*[]^$+?(){}|`) || hasAny(parts[1], `\&`) || parts[2] != "" && parts[2] != "g" {
		return someText
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		n := 1
		if parts[2] == "g" {
			n = -1
		}
		lines[i] = strings.Replace(line, parts[0], parts[1], n)
	}
	return strings.Join(lines, "")
}

// sedScript judges the commands of a sed script that open files or run others.
func (s *shell) sedScript(script string) {
	for part := range strings.FieldsFuncSeq(plain(script), func(r rune) bool { return r == ';' || r == '\n' || r == '}' || r == '{' }) {
		part = strings.TrimLeft(part, " \t0123456789,$!~+")
		if strings.HasPrefix(part, "/") {
			if end := strings.LastIndexByte(part, '/'); end > 0 {
				part = strings.TrimLeft(part[end+1:], " ,$!I")
			}
		}
		if len(part) < 3 || part[1] != ' ' {
			continue
		}
		rest := strings.TrimSpace(part[2:])
		switch part[0] {
		case 'r', 'R':
			s.reads([]string{rest})
		case 'w', 'W':
			s.writes([]string{rest})
		case 'e':
			s.child(s.fork(), rest, nil)
		}
	}
}

func (s *shell) permissions(name string, args []string) {
	l := grammar{long: " reference from "}.split(args)
	operands := l.operands
	switch {
	case name == "setfacl":
		l = grammar{short: "mxMX", long: " modify remove "}.split(args)
		operands = l.operands
	case name == "chattr":
		operands = slices.DeleteFunc(operands, func(o string) bool { return hasAny(o[:min(1, len(o))], "+=") })
	case !l.has("reference") && len(operands) > 0:
		operands = operands[1:]
	}
	for _, o := range operands {
		p := s.path(o)
		if l.has("R", "recursive") {
			s.note(effect{kind: openTree, path: p})
		} else {
			s.note(effect{kind: deleteFile, path: p})
		}
		if l.has("R", "recursive") && (covers(p, "/etc/passwd") || covers(p, "/etc/ssh/sshd_config")) {
			s.note(effect{kind: deleteFile, path: "/etc/passwd"})
		}
	}
}

func (s *shell) tee(args []string) {
	l := grammar{}.split(args)
	in := s.input()
	for _, o := range l.operands {
		p := s.path(o)
		s.note(effect{kind: writeFile, path: p})
		if literal(p) {
			s.wrote(p, in, l.has("a", "append"))
		}
	}
	s.print(in)
}

// tar judges an archive's members when one is made, and the archive itself.
func (s *shell) tar(args []string) {
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		args = append([]string{"-" + args[0]}, args[1:]...)
	}
	l := grammar{short: "fCXTIbgHKLNV", long: " file directory exclude exclude-from files-from use-compress-program transform strip-components owner group mode newer exclude-tag anchored wildcards "}.split(args)
	making := l.has("c", "create", "r", "append", "u", "update")
	f := s.fork()
	for _, o := range l.options {
		switch o.name {
		case "C", "directory":
			f.set("PWD", resolve(f.cwd(), o.value))
		case "f", "file":
			if making {
				s.writes([]string{o.value})
			} else {
				s.reads([]string{o.value})
			}
		case "X", "T", "exclude-from", "files-from":
			s.reads([]string{o.value})
		case "I", "use-compress-program", "to-command", "checkpoint-action":
			s.child(s.fork(), plain(strings.TrimPrefix(o.value, "exec=")), nil)
		}
	}
	if making {
		f.reads(l.operands)
		f.copiesTrees(l.operands, l.values("exclude"))
	} else if l.has("O", "to-stdout", "x", "extract", "get") {
		f.toStdout(&l)
	}
}

// toStdout reads members of an archive that are printed.
func (s *shell) toStdout(l *line) {
	if l.has("O", "to-stdout") {
		s.reads(l.operands)
	}
}

// archive judges zip and its like: the first operand is made from the others.
func (s *shell) archive(name string, args []string) {
	var excludes []string
	for i, a := range args {
		if oneOf(a, "-x --exclude -i") {
			args, excludes = args[:i], args[i+1:]
			break
		}
	}
	l := grammar{}.split(args)
	if len(l.operands) > 0 {
		s.writes(l.operands[:1])
		s.reads(l.operands[1:])
		if name != "zip" || l.has("r", "R", "recurse-paths") {
			s.copiesTrees(l.operands[1:], excludes)
		}
	}
}
