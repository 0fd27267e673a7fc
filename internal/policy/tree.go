package policy

import "strings"

// copiesTrees judges operands that are copied with all that is below them.
func (s *shell) copiesTrees(operands, excludes []string) {
	for _, o := range operands {
		if o != "" && schemeOf(o) <= 0 {
			s.copiesTree(s.path(o), excludes)
		}
	}
}

// copiesTree notes what lies below a clean path that no command may read: it must
// not be read by way of a copy either. The workspace itself is copied every day,
// and its secret files are for whoever reads the copy to name.
func (s *shell) copiesTree(p string, excludes []string) {
	if p == "" || p[0] == unknown {
		return
	}
	for _, h := range s.r.hidden() {
		if rest, ok := above(p, h.path); ok && !excluded(rest, excludes) {
			s.note(effect{kind: copyTree, path: show(p) + ", and " + h.name + " with it"})
			return
		}
	}
}

// hidden lists the directories that only a copy of what is above them could read.
func (r *run) hidden() (list []ownPath) {
	ws := r.j.opts.Workspace
	for _, f := range r.j.keyPaths {
		if !within(f, ws) {
			list = append(list, ownPath{f, "the keys of Iris"})
		}
	}
	if r.home != "" {
		list = append(list, ownPath{resolve(r.home, strings.TrimPrefix(keyDir, "/")), "the keys of Iris"})
	}
	return append(list, ownPath{ws, "Iris's own state"})
}

// above reports whether a path, perhaps with globs, is strictly above dir, and
// what of dir is below it. A glob does not name what begins with a dot.
func above(p, dir string) (rest string, ok bool) {
	if p == "/" {
		return dir, true
	}
	for p != "" {
		if dir == "" {
			return "", false
		}
		var have, want string
		have, p = component(p)
		want, dir = component(dir)
		if have != want && (!isGlob(have) || want[0] == '.' && have[0] != '.' || !matches(have, want)) {
			return "", false
		}
	}
	return dir, dir != ""
}

// excluded reports whether one of the patterns leaves out a directory on the way
// from the copied one to rest.
func excluded(rest string, excludes []string) bool {
	for _, e := range excludes {
		e = strings.TrimPrefix(strings.TrimPrefix(e, "- "), "**/")
		e = strings.TrimRight(strings.TrimRight(plain(e), "*"), "/")
		e = e[strings.LastIndexByte(e, '/')+1:]
		for way := rest; way != ""; {
			var name string
			if name, way = component(way); e != "" && matches(activate(e), name) {
				return true
			}
		}
	}
	return false
}
