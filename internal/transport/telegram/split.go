package telegram

import (
	"strings"
	"unicode/utf8"
)

// A line is the runs up to a line break, or a piece of a line that is longer than
// a message. start says that it begins one, paragraph that an empty line or a
// code block's border is before it.
type line struct {
	runs             []run
	start, paragraph bool
}

// split cuts a document into parts of at most limit units each, tags included:
// between paragraphs where that wastes less than half a message, else between
// lines, else between words, else anywhere but inside a character.
func split(d document, limit int, plain bool) []part {
	m := measure{blocks: d.blocks, plain: plain}
	lines := m.lines(d.runs, limit)
	var cuts []int // indexes of lines
	for from := 0; from < len(lines); {
		cuts = append(cuts, from)
		from = m.take(lines, from, limit)
	}
	var parts []part
	for k, from := range cuts {
		to := len(lines)
		if k+1 < len(cuts) {
			to = cuts[k+1]
		}
		var p part
		for _, l := range lines[from:to] {
			p.runs = append(p.runs, l.runs...)
		}
		parts = append(parts, p)
	}
	return sources(d, trim(parts))
}

// trim drops what nobody sees: space at the ends of a part, and parts of nothing
// else.
func trim(parts []part) []part {
	var out []part
	for _, p := range parts {
		for len(p.runs) > 0 && strings.Trim(p.runs[0].text, " \t\n") == "" {
			p.runs = p.runs[1:]
		}
		for n := len(p.runs); n > 0 && strings.Trim(p.runs[n-1].text, " \t\n") == ""; n-- {
			p.runs = p.runs[:n-1]
		}
		if n := len(p.runs); n > 0 && !blank(p.runs) {
			p.runs[n-1].text = strings.TrimRight(p.runs[n-1].text, " \t\n")
			out = append(out, p)
		}
	}
	return out
}

// blank reports that Telegram would call the text empty.
func blank(runs []run) bool {
	for _, r := range runs {
		if strings.Trim(r.text, " \t\n\u200b\u2060\ufeff\u00a0") != "" {
			return false
		}
	}
	return true
}

// sources gives every part its piece of the source. Together they are all of it,
// but for the fences of a code block that is cut.
func sources(d document, parts []part) []part {
	starts := make([]int, len(parts)+1)
	starts[len(parts)] = len(d.src)
	for i := 1; i < len(parts); i++ {
		starts[i] = max(starts[i-1], begin(d, parts[i-1], parts[i]))
	}
	for i := len(parts) - 1; i > 0; i-- {
		if starts[i] < 0 {
			starts[i] = starts[i+1]
		}
	}
	for i := range parts {
		p := &parts[i]
		if p.source = d.src[min(starts[i], starts[i+1]):starts[i+1]]; p.source == "" {
			continue
		}
		if i > 0 && torn(d, parts[i-1], *p) {
			p.source = fence(d, *p) + d.blocks[p.runs[0].block-1].language + "\n" + p.source
		}
		if i+1 < len(parts) && torn(d, *p, parts[i+1]) {
			p.source = strings.TrimSuffix(p.source, "\n") + "\n" + fence(d, *p)
		}
	}
	return parts
}

// torn reports that a fenced code block goes on from one part to the next.
func torn(d document, before, after part) bool {
	b := after.runs[0].block
	return b > 0 && d.blocks[b-1].fenced && before.runs[len(before.runs)-1].block == b
}

// fence is longer than any in the part.
func fence(d document, p part) string {
	f := "```"
	for strings.Contains(p.source, f) && len(f) < 40 {
		f += "`"
	}
	return f
}

// begin is where the source of a part begins.
func begin(d document, before, p part) int {
	for _, r := range p.runs {
		if r.at < 0 {
			continue
		}
		at := r.at
		if r.block > 0 && before.runs[len(before.runs)-1].block != r.block {
			at = d.blocks[r.block-1].begin
			if !d.blocks[r.block-1].fenced && at == 0 {
				at = r.at
			}
		}
		// Marks such as a bullet stand before the first text of a line.
		start := strings.LastIndexByte(d.src[:at], '\n') + 1
		if lead := d.src[start:at]; start > 0 && !strings.ContainsFunc(lead, func(c rune) bool { return c >= utf8.RuneSelf || wordByte(byte(c)) && (c < '0' || c > '9') }) {
			return start
		}
		return at
	}
	return -1
}

// measure counts what is sent.
type measure struct {
	blocks []block
	plain  bool
}

// tags is what the change to a look costs, its end included.
func (m measure) tags(from, to look) int {
	if m.plain || from == to {
		return 0
	}
	return units(opening(look{}, to, m.blocks), false) + units(closing(to, look{}, m.blocks), false)
}

// add is what a line costs after a look, and the look it ends with.
func (m measure) add(l line, from look) (int, look) {
	n := 0
	for _, r := range l.runs {
		n += units(r.text, !m.plain) + m.tags(from, r.look)
		from = r.look
	}
	return n, from
}

// take returns the line after the last that fits a message which begins with the
// line from. It takes one at least.
func (m measure) take(lines []line, from, limit int) int {
	total, paragraph, start := 0, 0, 0
	half := 0
	var now look
	for i := from; i < len(lines); i++ {
		if i > from {
			switch {
			case lines[i].paragraph && total*2 >= limit:
				paragraph = i
			case lines[i].paragraph && paragraph == 0:
				half = i
			}
			if lines[i].start && total*3 >= limit {
				start = i
			}
		}
		n, next := m.add(lines[i], now)
		if total+n > limit && i > from {
			switch {
			case paragraph > 0:
				return paragraph
			case start > 0:
				return start
			case half > 0 && !lines[i].start:
				return half
			}
			return i
		}
		total, now = total+n, next
	}
	return len(lines)
}

// lines cuts runs after every line break, and lines that are too long.
func (m measure) lines(runs []run, limit int) []line {
	var out []line
	cur := line{start: true, paragraph: true}
	size, empty := 0, true // the line so far; whether it shows nothing
	var now look
	end := func(start, paragraph bool) {
		if len(cur.runs) > 0 {
			out = append(out, cur)
		}
		cur, size, now = line{start: start, paragraph: paragraph}, 0, look{}
	}
	inBlock := 0
	for _, r := range runs {
		for text := r.text; text != ""; {
			if r.block != inBlock {
				// A code block keeps together, if it can.
				if n := len(cur.runs); n == 0 {
					cur.paragraph = cur.paragraph || cur.start
				}
				inBlock = r.block
			}
			room := limit - size - m.tags(now, r.look)
			piece, broken := m.cut(text, room, limit)
			if piece == "" {
				end(false, false)
				if room >= limit-m.tags(look{}, r.look) { // not even one character
					_, n := utf8.DecodeRuneInString(text)
					piece = text[:n]
				} else {
					continue
				}
			}
			size += units(piece, !m.plain) + m.tags(now, r.look)
			now = r.look
			cur.runs = append(cur.runs, run{piece, r.look, r.at})
			if r.at >= 0 {
				r.at += len(piece)
			}
			text = text[len(piece):]
			if strings.Trim(piece, " \t\n") != "" {
				empty = false
			}
			switch {
			case strings.HasSuffix(piece, "\n"):
				end(true, r.block == 0 && (empty || strings.HasSuffix(piece, "\n\n")))
				empty = true
			case broken:
				end(false, false)
			}
		}
	}
	end(false, false)
	return out
}

// cut returns the beginning of text up to its line break, or as much of it as
// room holds; broken says that more of the line follows. Where less than a
// quarter of a message would be used it returns nothing: the next one has more
// room.
func (m measure) cut(text string, room, limit int) (piece string, broken bool) {
	n, space := 0, 0
	for i, r := range text {
		n += runeUnits(r, !m.plain)
		if n > room {
			if space > 0 && (space*2 > i || room < limit) {
				return text[:space], true
			}
			if room*4 < limit && room < limit/4 {
				return "", true
			}
			return text[:i], true
		}
		if r == '\n' {
			end := i + 1
			for end < len(text) && text[end] == '\n' {
				end++
			}
			return text[:end], false
		}
		if r == ' ' {
			space = i + 1
		}
	}
	return text, false
}
