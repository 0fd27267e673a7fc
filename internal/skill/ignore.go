package skill

import (
	"path"
	"strings"
)

// ignoreFiles are read in every directory that is searched.
var ignoreFiles = []string{".gitignore", ".ignore"}

// A rule is a line of an ignore file. Of gitignore's language it knows
// comments, "!" (take in again), a trailing "/" (directories only), patterns
// with a "/" that count from the file's directory, those without that count
// for every name below, "*", "?", "[…]" and "**" as a whole segment. A
// backslash before "#" or "!" makes them plain.
type rule struct {
	dir     string // of the ignore file, relative to the searched root, "" for it
	parts   []string
	negate  bool
	dirOnly bool
}

func parseIgnore(dir, text string) (rules []rule) {
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		r := rule{dir: dir}
		if line, r.negate = strings.CutPrefix(line, "!"); line == "" {
			continue
		}
		if strings.HasPrefix(line, `\#`) || strings.HasPrefix(line, `\!`) {
			line = line[1:]
		}
		line, r.dirOnly = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		r.parts = strings.Split(strings.TrimPrefix(line, "/"), "/")
		if !anchored {
			r.parts = append([]string{"**"}, r.parts...)
		}
		rules = append(rules, r)
	}
	return rules
}

// ignored applies the rules to a path relative to the searched root; the last
// one that matches decides.
func ignored(rules []rule, rel string, isDir bool) (out bool) {
	for _, r := range rules {
		below := rel
		if r.dir != "" {
			var ok bool
			if below, ok = strings.CutPrefix(rel, r.dir+"/"); !ok {
				continue
			}
		}
		if (isDir || !r.dirOnly) && match(r.parts, strings.Split(below, "/")) {
			out = !r.negate
		}
	}
	return out
}

func match(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		for i := 0; i <= len(name); i++ {
			if match(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && match(pattern[1:], name[1:])
}
