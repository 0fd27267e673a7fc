package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxNamed bounds the paths of a command that are looked at.
	maxNamed = 64
	// maxContent bounds the files whose content is compared; of larger ones it
	// is which file it is.
	maxContent = 16 << 20
)

// A Scene is what a command meets: its directory, its environment, and the
// things on this machine that its words name literally (programs, scripts,
// directories, files). It is compared between the question and the run, so that
// the yes to ./clean.sh is none to another ./clean.sh. What a command finds
// through a variable, a glob, a function or another program is not seen.
type Scene struct {
	Dir   string  `json:"dir"`
	Env   string  `json:"env"` // a hash
	Named []Named `json:"named,omitempty"`
}

// Named is a path and what was there.
type Named struct {
	Path string `json:"path"`
	Is   string `json:"is"`
}

// look takes a scene. host says where a path of the command is on this machine;
// nil means at the same path.
func look(command, dir string, env []string, host func(string) (string, bool)) Scene {
	env = slices.Sorted(slices.Values(env))
	l := looker{vars: map[string]string{}, bases: []string{dir}, seen: map[string]bool{}, host: host}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		l.vars[name] = value
	}
	l.scene = Scene{Dir: dir, Env: Hash(strings.Join(env, "\x00"))}
	if filepath.IsAbs(dir) {
		l.note(dir, true)
	}
	for _, call := range calls(command, l.vars) {
		l.call(call)
	}
	return l.scene
}

// A looker goes through the calls of a command.
type looker struct {
	scene Scene
	vars  map[string]string
	// bases are the directories that relative paths may be relative to: the
	// first one, and those that cd names.
	bases []string
	seen  map[string]bool
	host  func(string) (string, bool)
}

// call looks at the words of one simple command.
func (l *looker) call(words []string) {
	for i, w := range words {
		path := w
		if _, value, ok := strings.Cut(w, "="); ok && strings.Contains(value, "/") {
			path = value // if=disk.img, --chdir=/x
		}
		if rest, ok := strings.CutPrefix(path, "~/"); ok && l.vars["HOME"] != "" {
			path = filepath.Join(l.vars["HOME"], rest)
		}
		if i == 0 && !strings.Contains(path, "/") {
			path = l.find(path, l.vars["PATH"])
		}
		switch {
		case path == "":
		case filepath.IsAbs(path):
			l.note(path, strings.Contains(w, "/"))
		default:
			for _, base := range l.bases {
				if filepath.IsAbs(base) {
					l.note(filepath.Join(base, path), strings.Contains(w, "/"))
				}
			}
		}
	}
	if len(words) > 1 && (words[0] == "cd" || words[0] == "pushd") && len(l.bases) < 8 {
		to := words[len(words)-1]
		if !filepath.IsAbs(to) {
			to = filepath.Join(l.bases[len(l.bases)-1], to)
		}
		l.bases = append(l.bases, to)
	}
}

// note looks at a path; a word that names nothing is only noted if it is one.
func (l *looker) note(path string, isPath bool) {
	if l.seen[path] || strings.ContainsRune(path, 0) || len(l.scene.Named) >= maxNamed {
		return
	}
	l.seen[path] = true
	if is := l.thing(path); is != absent || isPath {
		l.scene.Named = append(l.scene.Named, Named{path, is})
	}
}

// differs names what is different in another scene, "" if nothing is.
func (s Scene) differs(now Scene) string {
	switch {
	case s.Dir != now.Dir:
		return "the directory it runs in"
	case s.Env != now.Env:
		return "the environment it runs in"
	}
	for i, n := range now.Named {
		if i >= len(s.Named) || s.Named[i] != n {
			return "what is at " + n.Path
		}
	}
	if len(s.Named) > len(now.Named) {
		return "what is at " + s.Named[len(now.Named)].Path
	}
	return ""
}

const absent = "nothing"

// thing describes what a command finds at a path. Of a path that cannot be seen
// from here, such as one of a container's own, nothing is known.
func (l *looker) thing(path string) string {
	if l.host == nil {
		return thing(path)
	}
	end, ok := l.follow(path)
	if !ok {
		return absent
	}
	at, ok := l.host(end)
	switch {
	case ok:
		return thing(at)
	case end != filepath.Clean(path):
		return "a link to " + end
	}
	return absent
}

// follow follows links where the command is: an absolute one leads to a path of
// its own, which means something else on this machine.
func (l *looker) follow(path string) (string, bool) {
	rest, at := filepath.Clean(path), "/"
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := filepath.Join(at, name)
		if here, ok := l.host(next); ok {
			if to, err := os.Readlink(here); err == nil {
				if links++; links > 40 {
					return "", false
				}
				if !filepath.IsAbs(to) {
					to = filepath.Join(at, to)
				}
				rest, at = filepath.Join(to, rest), "/"
				continue
			}
		}
		at = next
	}
	return at, true
}

// thing describes what is at a path: a directory by its identity, a file by its
// content, both behind whatever links lead there.
func thing(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return absent
	}
	info, err := os.Stat(real)
	if err != nil {
		return absent
	}
	id := ""
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	switch {
	case info.IsDir():
		return "directory " + id + " " + real
	case !info.Mode().IsRegular():
		return "device " + id + " " + real
	case info.Size() > maxContent:
		return "file " + id + " " + real
	}
	sum, err := content(real)
	if err != nil {
		return "unreadable file " + id + " " + real
	}
	return fmt.Sprintf("file %s of %d bytes %s", sum, info.Size(), real)
}

func content(path string) (string, error) {
	// A pipe that took the file's place would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxContent+1)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// find is where a program without a slash comes from, "" if from nowhere. What is
// out of sight is not searched.
func (l *looker) find(name, search string) string {
	for _, dir := range filepath.SplitList(search) {
		p := filepath.Join(dir, name)
		if l.host != nil {
			if is := l.thing(p); strings.HasPrefix(is, "file ") {
				return p
			}
			continue
		}
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// calls lists the words of all simple commands, as far as they are known without
// running anything; "" stands for one that is not. What is read by a redirection
// is a call of its own, what is written is left out: it is expected to change.
func calls(command string, vars map[string]string) (list [][]string) {
	defer func() {
		if recover() != nil {
			list = rough(command) // a defect of the parser
		}
	}()
	tree, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return rough(command)
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			var words []string
			for _, w := range n.Args {
				words = append(words, literal(w.Parts, vars))
			}
			list = append(list, words)
		case *syntax.Redirect:
			if n.Op == syntax.RdrIn && n.Word != nil {
				list = append(list, []string{"", literal(n.Word.Parts, vars)})
			}
		}
		return true
	})
	return list
}

// rough cuts a command that cannot be parsed wherever a word might end. Each may
// be a program.
func rough(command string) (list [][]string) {
	for w := range strings.FieldsFuncSeq(command, func(r rune) bool { return strings.ContainsRune(" \t\n;|&()<>{}'\"`$", r) }) {
		if list = append(list, []string{w}); len(list) == 8*maxNamed {
			break
		}
	}
	return list
}

// literal is the text of a word that is known as a whole, else "".
func literal(parts []syntax.WordPart, vars map[string]string) string {
	var b strings.Builder
	for _, p := range parts {
		text := ""
		switch p := p.(type) {
		case *syntax.Lit:
			text = unescape(p.Value)
		case *syntax.SglQuoted:
			if !p.Dollar {
				text = p.Value
			}
		case *syntax.DblQuoted:
			text = literal(p.Parts, vars)
		case *syntax.ParamExp:
			if p.Param != nil && p.Exp == nil && p.Index == nil && p.Slice == nil && p.Repl == nil && !p.Length && !p.Excl {
				text = vars[p.Param.Value]
			}
		}
		if text == "" {
			return ""
		}
		b.WriteString(text)
	}
	return b.String()
}

// unescape takes the backslashes off that quote one character.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
