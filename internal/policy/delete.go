package policy

import (
	"slices"
	"strings"
)

// A search is a find command taken apart.
type search struct {
	starts  []string
	names   []string // patterns of -name that select
	filter  bool     // something else selects as well
	below   bool     // -mindepth leaves the starts out
	actions [][]string
	dirs    []bool // whether an action is -execdir
	delete  bool
	writes  []string
	null    bool
}

const (
	findFilters = "-iname -path -ipath -wholename -iwholename -regex -iregex -mtime -mmin -ctime -cmin -atime -amin -newer -newermt -newerct -size -user -group -uid -gid -perm -inum -links -samefile -lname"
	findValues  = "-name -type -xtype -maxdepth -mindepth -fstype -printf -regextype -used -context " + findFilters
)

// parseFind reads the arguments of find.
func parseFind(args []string) (q search) {
	i := 0
	for i < len(args) && oneOf(args[i], "-H -L -P -O1 -O2 -O3") {
		i++
	}
	for i < len(args) && args[i] != "" && args[i][0] != '-' && args[i] != "(" && args[i] != "!" {
		q.starts = append(q.starts, args[i])
		i++
	}
	if len(q.starts) == 0 {
		q.starts = []string{"."}
	}
	negated := false
	for ; i < len(args); i++ {
		a := args[i]
		value := ""
		if oneOf(a, findValues) && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch {
		case a == "!" || a == "-not":
			negated = true
			continue
		case a == "-delete":
			q.delete = true
		case a == "-print0":
			q.null = true
		case a == "-mindepth":
			q.below = q.below || value != "0"
		case a == "-empty":
			q.filter = q.filter || !negated
		case a == "-name" || a == "-iname":
			if !negated && value != "*" {
				q.names = append(q.names, activate(value))
			}
		case oneOf(a, findFilters):
			q.filter = q.filter || !negated
		case oneOf(a, "-fprint -fprint0 -fls -fprintf") && i+1 < len(args):
			i++
			q.writes = append(q.writes, args[i])
		case oneOf(a, "-exec -execdir -ok -okdir"):
			end := execEnd(args, i+1)
			q.actions = append(q.actions, args[i+1:end])
			q.dirs = append(q.dirs, strings.HasSuffix(a, "dir"))
			i = end
		}
		negated = false
	}
	return q
}

// execEnd finds the ";" or "+" that ends an -exec.
func execEnd(args []string, from int) int {
	for i := from; i < len(args); i++ {
		if args[i] == ";" || args[i] == "+" && args[i-1] == "{}" {
			return i
		}
	}
	return len(args)
}

// found lists what a search selects below one start.
func (q *search) found(start string) []string {
	dir := strings.TrimRight(start, "/")
	var out []string
	for _, n := range q.names {
		out = append(out, dir+"/"+n, dir+"/"+someText+"/"+n)
	}
	if len(q.names) > 0 {
		return out
	}
	if !q.filter && !q.below {
		out = append(out, start)
	}
	return append(out, dir+"/"+someText)
}

func (s *shell) findFiles(args []string) {
	q := parseFind(args)
	s.touches(q.starts)
	s.writes(q.writes)
	filtered := q.filter || len(q.names) > 0
	var printed []string
	for _, start := range q.starts {
		p := s.path(start)
		if q.delete {
			s.note(effect{kind: deleteTree, path: p, recursive: true, filtered: filtered})
		}
		items := q.found(start)
		for i, argv := range q.actions {
			if removes(argv) {
				s.note(effect{kind: deleteTree, path: p, recursive: true, filtered: filtered})
			}
			if slices.ContainsFunc(argv, func(w string) bool { return oneOf(baseName(w), "chmod chown chgrp") }) {
				s.note(effect{kind: openTree, path: p, filtered: filtered})
			}
			f := s.fork()
			f.funcs, f.alias = nil, nil
			if q.dirs[i] {
				f.set("PWD", someText)
			}
			for _, item := range items {
				words := slices.Clone(argv)
				for k, w := range words {
					words[k] = strings.ReplaceAll(w, "{}", item)
				}
				f.run(words)
			}
		}
		printed = append(printed, items...)
	}
	if s.out != nil && len(q.actions) == 0 {
		sep := "\n"
		if q.null {
			sep = "\x00"
		}
		s.print(strings.Join(printed, sep) + sep)
	}
}

// removes reports whether a command deletes what it is given.
func removes(argv []string) bool {
	return slices.ContainsFunc(argv, func(w string) bool { return baseName(w) == "rm" })
}
