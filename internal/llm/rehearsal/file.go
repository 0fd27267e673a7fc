package rehearsal

import (
	"path"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// pathPattern is a quoted path or one word.
const pathPattern = `(?:the |my |your |our |a |an |this )?(?:new |empty )*(?:file )?(?:called |named )?("[^"\n]+"|'[^'\n]+'|\x60[^\x60\n]+\x60|[^\s"'\x60]+)(?: file)?`

var (
	reading = []*pattern{
		lazy(`(?i)^(read|open|view|print|show me|show|display|look at|look into|summari[sz]e) ` + pathPattern + `[?!]*$`),
		lazy(`(?i)^(what(?:'s| is)(?: written| inside)? in|what does) ` + pathPattern + `(?: say| contain| look like)?[?!]*$`),
	}
	severally = lazy(`(?i)^(?:read|open|view|print|show me|show|display) (?:the |my |your )?(?:files? )?([^\n"'\x60]+\.\w{1,10})[?!]*$`)
	listComma = lazy(`(?i),? and |, ?`)
	attaching = lazy(`(?i)^(attach|upload|send me|send|share|give me|download) ` + pathPattern + `(?: to me| here| as a file)*[?!]*$`)
	writeLast = lazy(`(?is)^(?:write|save|put|store) (.+) (?:to|into|in|as) ` + pathPattern + `\s*$`)
	writeHead = lazy(`(?is)^(?:write|save|put|store)(?: this)? (?:to|into|in) ` + pathPattern + `\s*[:\n]\s*(.+)$`)
	creating  = lazy(`(?is)^(?:create|make|write) ` + pathPattern + ` (?:with|containing|saying|that says)(?: the)?(?: text| contents?| words?| line)?\s*:?\s+(.+)$`)
	touching  = lazy(`(?i)^(?:create|make|touch) ` + pathPattern + `\s*$`)
	making    = lazy(`(?i)^(?:create|make) (?:the |a |an )?(?:new |empty )*(?:folder|directory|dir) (?:called |named )?("[^"\n]+"|'[^'\n]+'|\x60[^\x60\n]+\x60|[^\s"'\x60]+)\s*$`)
	adding    = lazy(`(?is)^(?:append|add) (.+) to ` + pathPattern + `\s*$`)
	editFirst = lazy(`(?is)^(?:edit|in|change|update|open) ` + pathPattern + `\s*[:,]?\s*(?:and )?(?:replace|change|swap|substitute|turn) (.+?) (?:with|by|to|into|for) (.+)$`)
	editLast  = lazy(`(?is)^(?:replace|change|swap|substitute|turn) (.+?) (?:with|by|to|into) (.+) in ` + pathPattern + `\s*$`)
	editAlone = lazy(`(?i)^(?:edit|change|update) ` + pathPattern + `\s*$`)
	removing  = lazy(`(?i)^(?:delete|remove|erase) ` + pathPattern + `\s*$`)
	extension = lazy(`\.[A-Za-z0-9_]{1,10}$`)
	wellKnown = lazy(`^(?:README|LICENSE|Makefile|Dockerfile|CHANGELOG|NOTICE|TODO|MEMORY|\.[\w.-]+)$`)
	fenced    = lazy("(?s)^```[a-zA-Z0-9_+-]*\n(.*?)\n?```$")
)

// looksLikeFile tells a path from an English word.
func looksLikeFile(s string) bool {
	return strings.ContainsAny(s, "/") && !strings.HasSuffix(s, "/") || extension.MatchString(s) || wellKnown.MatchString(s)
}

// bare takes quotes and the punctuation of a sentence off a path.
func bare(s string) string {
	if q := unquote(s); q != s {
		return q
	}
	if t := strings.TrimRight(s, ".,;:!?"); t != "" {
		return t
	}
	return s
}

// unquote takes one pair of quotes, or a code fence, off.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if m := fenced.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	for _, pair := range []string{`""`, "''", "``", "“”"} {
		q := []rune(pair)
		open, end := string(q[0]), string(q[1])
		if len(s) >= len(pair) && strings.HasPrefix(s, open) && strings.HasSuffix(s, end) {
			inner := s[len(open) : len(s)-len(end)]
			if !strings.Contains(inner, open) && !strings.Contains(inner, end) && inner != "" {
				return inner
			}
		}
	}
	return s
}

func read(text string, b box) (plan, bool) {
	for _, re := range reading {
		m := re.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		p, verb := bare(m[2]), strings.ToLower(m[1])
		named := verb == "read" || verb == "open"
		if !looksLikeFile(p) && !(named && !isFolderWord(p)) {
			return plan{}, false
		}
		return b.reads(p), true
	}
	m := severally.FindStringSubmatch(text)
	if m == nil {
		return plan{}, false
	}
	all := listComma.Split(m[1], -1)
	for _, p := range all {
		if !looksLikeFile(p) || strings.Contains(p, " ") && len(all) > 1 || len(all) > 8 {
			return plan{}, false
		}
	}
	return b.reads(all...), true
}

// reads plans the reading of files, side by side.
func (b box) reads(paths ...string) plan {
	p := plan{say: "Let me read " + strings.Join(paths, " and ") + ".", path: paths[len(paths)-1]}
	for _, name := range paths {
		if !b.has("read") && b.has("bash") {
			p.calls = append(p.calls, b.bash("", "cat -- "+shellQuote(name)).calls...)
			continue
		}
		p.calls = append(p.calls, call("read", map[string]string{"label": "read " + path.Base(name), "path": name}))
	}
	return b.offered(p)
}

func attach(text string, b box) (plan, bool) {
	m := attaching.FindStringSubmatch(text)
	if m == nil {
		return plan{}, false
	}
	p := bare(m[2])
	if !looksLikeFile(p) && !strings.EqualFold(m[1], "attach") {
		return plan{}, false
	}
	return b.offered(plan{say: "Here comes " + path.Base(p) + ".", path: p, calls: []llm.Call{
		call("attach", map[string]string{"label": "attach " + path.Base(p), "path": p})}}), true
}

func write(text string, b box) (plan, bool) {
	if m := making.FindStringSubmatch(text); m != nil {
		return b.bash("Making the folder.", "mkdir -p -- "+shellQuote(bare(m[1]))), true
	}
	if m := adding.FindStringSubmatch(text); m != nil && looksLikeFile(bare(m[2])) {
		p := bare(m[2])
		done := b.bash("Adding a line to "+p+".", "printf '%s\\n' "+shellQuote(unquote(m[1]))+" >> "+shellQuote(p))
		done.path = p
		return done, true
	}
	p, content := "", ""
	if m := writeHead.FindStringSubmatch(text); m != nil && looksLikeFile(bare(m[1])) {
		p, content = bare(m[1]), unquote(m[2])
	} else if m := creating.FindStringSubmatch(text); m != nil && looksLikeFile(bare(m[1])) {
		p, content = bare(m[1]), unquote(m[2])
	} else if m := writeLast.FindStringSubmatch(text); m != nil {
		p, content = bare(m[2]), unquote(m[1])
	} else if m := touching.FindStringSubmatch(text); m != nil && looksLikeFile(bare(m[1])) {
		p = bare(m[1])
	} else {
		return plan{}, false
	}
	return b.offered(plan{say: "Writing " + p + ".", path: p, calls: []llm.Call{
		call("write", map[string]string{"label": "write " + path.Base(p), "path": p, "content": content})}}), true
}

func edit(text string, b box) (plan, bool) {
	p, old, next := "", "", ""
	if m := editFirst.FindStringSubmatch(text); m != nil && looksLikeFile(bare(m[1])) {
		p, old, next = bare(m[1]), unquote(m[2]), unquote(m[3])
	} else if m := editLast.FindStringSubmatch(text); m != nil {
		p, old, next = bare(m[3]), unquote(m[1]), unquote(m[2])
	} else if m := editAlone.FindStringSubmatch(text); m != nil && looksLikeFile(bare(m[1])) {
		return plan{say: "Tell me what to change, for example: replace hello with goodbye in " + bare(m[1])}, true
	} else {
		return plan{}, false
	}
	return b.offered(plan{say: "Editing " + p + ".", path: p, calls: []llm.Call{
		call("edit", map[string]string{"label": "edit " + path.Base(p), "path": p, "oldText": old, "newText": next})}}), true
}

func remove(text string, b box) (plan, bool) {
	m := removing.FindStringSubmatch(text)
	if m == nil || !looksLikeFile(bare(m[1])) {
		return plan{}, false
	}
	return b.bash("Removing "+bare(m[1])+".", "rm -- "+shellQuote(bare(m[1]))), true
}
