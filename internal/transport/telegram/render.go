package telegram

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

const (
	// maxChars is what a message holds. What is measured is the text with its
	// tags, in UTF-16 units: never less than what Telegram counts.
	maxChars = 4096
	// htmlFormat is the parse mode of a formatted Body.
	htmlFormat = "HTML"
	// minChars is the least a part may hold, whatever the limit: a tag and a
	// word.
	minChars = 200
)

// render turns a View into messages.
func render(v transport.View) []transport.Body {
	limit := maxChars
	if v.Limit > 0 {
		limit = min(limit, v.Limit)
	}
	note := clean(v.Note)
	if v.Show == transport.ShowProgress && note != "" {
		note += "..."
	}
	limit = max(minChars, limit-len(transport.RepeatLabel)-1-units(note, true)-len("\n\n<i></i>"))
	src := clean(v.Text)
	if a := v.Ask; a != nil && len(a.Options) > 0 && a.Outcome == "" && v.Text == a.Text {
		src = clean(transport.AskText(a))
	}
	d := document{src: src, runs: []run{{text: src}}}
	if !v.Plain {
		d = parseMarkdown(src)
	}
	if a := v.Ask; a != nil && a.Command != "" && !strings.Contains(v.Text, a.Command) {
		d.append(clean(a.Command), v.Plain)
	}
	var bodies []transport.Body
	for _, p := range split(d, limit, v.Plain) {
		b := transport.Body{Text: p.plain(), Source: p.source}
		if !v.Plain {
			b.Text, b.Format = p.html(d.blocks), htmlFormat
		}
		bodies = append(bodies, b)
	}
	if len(bodies) == 0 {
		bodies = []transport.Body{{Source: src}}
		if !v.Plain {
			bodies[0].Format = htmlFormat
		}
		if note == "" {
			bodies[0].Text = "(empty)"
		}
	}
	last := &bodies[len(bodies)-1]
	if note != "" {
		last.Note = v.Note
		line := note
		if !v.Plain {
			line = "<i>" + escape(note) + "</i>"
		}
		if last.Text != "" {
			last.Text += "\n\n"
		}
		last.Text += line
	}
	if v.Ask != nil && v.Ask.Outcome == "" {
		last.Extra = keyboard(v.Ask)
	} else if len(v.Buttons) > 0 {
		last.Extra = pressKeyboard(v.Buttons)
	}
	return bodies
}

// append adds a command to what is asked.
func (d *document) append(command string, plain bool) {
	if plain {
		d.runs = append(d.runs, run{text: "\n\n" + command, at: -1})
		return
	}
	d.blocks = append(d.blocks, block{})
	if len(d.runs) > 0 {
		d.runs = append(d.runs, run{text: "\n\n", at: -1})
	}
	d.runs = append(d.runs, run{text: command, look: look{block: len(d.blocks)}, at: -1})
}

// clean makes any text one that Telegram takes.
func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case r < ' ' && r != '\n' && r != '\t', r == 0x7f:
			return '\uFFFD'
		}
		return r
	}, s)
}

// A key is a button below a question. The library's own button would send an empty
// second action with every key.
type key struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// A key's data is the beginning of the question's id after the word of its answer:
// a key holds 64 bytes, and ids may be longer. Words stand as their first letter,
// numbers between two marks.
const (
	pickMark = "#"
	shortID  = 40
)

func keyboard(a *turn.Ask) []byte {
	id := a.ID[:min(len(a.ID), shortID)]
	var rows [][]key
	var last []key
	for _, b := range transport.AskButtons(a) {
		label, data := b.Label, b.Word[:1]+id
		if strings.HasPrefix(b.Choice, "#") {
			rows = append(rows, []key{{label, pickMark + b.Word + pickMark + id}})
			continue
		}
		switch {
		case !b.Yes:
			label = "❌ " + label
		case b.Choice == "":
			label = "✅ " + label
		}
		last = append(last, key{label, data})
	}
	out, err := json.Marshal(map[string]any{"inline_keyboard": append(rows, last)})
	if err != nil {
		return nil
	}
	return out
}

// pressed reads the data of a key.
func pressed(data string) (ask string, yes bool, choice string, ok bool) {
	if len(data) < 2 {
		return "", false, "", false
	}
	word, ask := "", data[1:]
	switch data[:1] {
	case "y":
		word = "yes"
	case "n":
		word = "no"
	case "a":
		word = "always"
	case pickMark:
		word, ask, _ = strings.Cut(ask, pickMark)
	}
	yes, choice, ok = transport.PressedWord(word)
	return ask, yes, choice, ok && ask != ""
}

// A part is what one message shows.
type part struct {
	runs   []run
	source string
}

func (p part) plain() string {
	var b strings.Builder
	for _, r := range p.runs {
		b.WriteString(guard(r.text))
	}
	return strings.TrimSpace(b.String())
}

// html writes the runs with their tags: closed in the reverse order they were
// opened in, so that they are balanced whatever the runs are.
func (p part) html(blocks []block) string {
	var b strings.Builder
	var now look
	for _, r := range p.runs {
		if r.look != now {
			b.WriteString(closing(now, r.look, blocks))
			b.WriteString(opening(now, r.look, blocks))
			now = r.look
		}
		if r.block == 0 && !r.code {
			r.text = guard(r.text)
		}
		b.WriteString(escape(r.text))
	}
	b.WriteString(closing(now, look{}, blocks))
	return b.String()
}

// opening and closing are the tags between two looks. A quote goes on.
func opening(from, to look, blocks []block) string {
	var b strings.Builder
	if to.quote && !from.quote {
		b.WriteString("<blockquote>")
	}
	switch {
	case to.block > 0:
		b.WriteString("<pre>")
		if l := blocks[to.block-1].language; l != "" {
			b.WriteString(`<code class="language-` + l + `">`)
		}
	case to.code:
		b.WriteString("<code>")
	default:
		if to.href != "" {
			b.WriteString(`<a href="` + strings.ReplaceAll(escape(to.href), `"`, "&quot;") + `">`)
		}
		for _, t := range to.tags() {
			b.WriteString("<" + t + ">")
		}
	}
	return b.String()
}

func closing(from, to look, blocks []block) string {
	var b strings.Builder
	switch {
	case from.block > 0:
		if blocks[from.block-1].language != "" {
			b.WriteString("</code>")
		}
		b.WriteString("</pre>")
	case from.code:
		b.WriteString("</code>")
	default:
		tags := from.tags()
		for i := len(tags) - 1; i >= 0; i-- {
			b.WriteString("</" + tags[i] + ">")
		}
		if from.href != "" {
			b.WriteString("</a>")
		}
	}
	if from.quote && !to.quote {
		b.WriteString("</blockquote>")
	}
	return b.String()
}

func (l look) tags() (out []string) {
	if l.bold {
		out = append(out, "b")
	}
	if l.italic {
		out = append(out, "i")
	}
	if l.strike {
		out = append(out, "s")
	}
	return out
}

// escape makes text HTML of the Bot API.
func escape(s string) string {
	if !strings.ContainsAny(s, "&<>") {
		return s
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// joiner stands after an @ that would mention somebody. It is not seen.
const joiner = "\u2060"

// guard keeps what a model wrote from mentioning people.
func guard(s string) string {
	if !strings.Contains(s, "@") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteByte(s[i])
		if s[i] == '@' && i+1 < len(s) && wordByte(s[i+1]) && (i == 0 || !wordByte(s[i-1])) {
			b.WriteString(joiner)
		}
	}
	return b.String()
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// units is the length of a text in UTF-16 units, when it is escaped.
func units(s string, formatted bool) (n int) {
	for _, r := range s {
		n += runeUnits(r, formatted)
	}
	return n
}

func runeUnits(r rune, formatted bool) int {
	switch {
	case r == '@':
		return 2 // with its joiner
	case formatted && r == '&':
		return len("&amp;")
	case formatted && (r == '<' || r == '>'):
		return len("&lt;")
	case r == utf8.RuneError:
		return 1
	}
	return max(1, utf16.RuneLen(r))
}
