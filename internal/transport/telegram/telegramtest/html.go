package telegramtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Units is the length of a text as the Bot API counts it.
func Units(s string) int { return len(utf16.Encode([]rune(s))) }

// Parse reads a text in a parse mode, "" or "HTML". The error is what the Bot
// API would say.
func Parse(text, mode string) (visible string, entities []Entity, err error) {
	visible, entities, refused := parse(text, mode, 4096)
	if refused != nil {
		//lint:ignore ST1005 these are the words of the Bot API
		return "", nil, fmt.Errorf("Bad Request: %s", refused.text)
	}
	return visible, entities, nil
}

func parse(text, mode string, most int) (string, []Entity, *refusal) {
	if !utf8.ValidString(text) {
		return "", nil, no("strings must be encoded in UTF-8")
	}
	var entities []Entity
	switch mode {
	case "":
	case "HTML":
		p := parser{src: text}
		if err := p.run(); err != nil {
			return "", nil, no("can't parse entities: " + err.Error())
		}
		text, entities = p.out.String(), p.entities
	default:
		return "", nil, no("unsupported parse_mode")
	}
	left := strings.TrimLeft(text, " \t\r\n")
	cut := Units(text[:len(text)-len(left)])
	text = strings.TrimRight(left, " \t\r\n")
	for i := range entities {
		entities[i].Offset -= cut
	}
	switch n := Units(text); {
	case text == "" || strings.Trim(text, "\u200b\u2060\ufeff\u00a0 \n\t") == "":
		return "", nil, no("message text is empty")
	case n > most:
		return "", nil, no("message is too long")
	}
	return text, entities, nil
}

var known = []string{"b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "tg-spoiler", "a", "code", "pre", "blockquote", "span", "tg-emoji"}

var meaning = map[string]string{"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
	"s": "strikethrough", "strike": "strikethrough", "del": "strikethrough", "tg-spoiler": "spoiler", "span": "spoiler", "a": "text_link",
	"code": "code", "pre": "pre", "blockquote": "blockquote", "tg-emoji": "custom_emoji"}

// A parser reads HTML of the Bot API, and nothing more lenient: what the real
// one repairs in silence is an error here.
type parser struct {
	src      string
	at       int
	out      strings.Builder
	units    int
	open     []tag
	entities []Entity
}

type tag struct {
	name     string
	begin    int
	url      string
	language string
}

func (p *parser) run() error {
	for p.at < len(p.src) {
		switch p.src[p.at] {
		case '<':
			if err := p.tag(); err != nil {
				return err
			}
		case '>':
			return fmt.Errorf("character '>' is not escaped at byte offset %d", p.at)
		case '&':
			r, n, err := reference(p.src[p.at:])
			if err != nil {
				return fmt.Errorf("%w at byte offset %d", err, p.at)
			}
			p.at += n
			p.write(r)
		default:
			r, n := utf8.DecodeRuneInString(p.src[p.at:])
			p.at += n
			p.write(r)
		}
	}
	if n := len(p.open); n > 0 {
		return fmt.Errorf("can't find end tag corresponding to start tag %q", p.open[n-1].name)
	}
	slices.SortStableFunc(p.entities, func(a, b Entity) int { return a.Offset - b.Offset })
	return nil
}

func (p *parser) write(r rune) {
	p.out.WriteRune(r)
	p.units += max(utf16.RuneLen(r), 1)
}

// reference reads a character reference.
func reference(s string) (rune, int, error) {
	end := strings.IndexByte(s, ';')
	if end < 2 || end > 10 {
		return 0, 0, fmt.Errorf("character '&' is not escaped")
	}
	switch name := s[1:end]; name {
	case "lt":
		return '<', end + 1, nil
	case "gt":
		return '>', end + 1, nil
	case "amp":
		return '&', end + 1, nil
	case "quot":
		return '"', end + 1, nil
	default:
		digits, ok := strings.CutPrefix(name, "#")
		base := 10
		if hex, isHex := strings.CutPrefix(digits, "x"); isHex {
			digits, base = hex, 16
		}
		n, err := strconv.ParseInt(digits, base, 32)
		if !ok || err != nil || n == 0 || !utf8.ValidRune(rune(n)) {
			return 0, 0, fmt.Errorf("unknown character reference %q", name)
		}
		return rune(n), end + 1, nil
	}
}

func (p *parser) tag() error {
	begin := p.at
	end := strings.IndexByte(p.src[begin:], '>')
	if end < 0 {
		return fmt.Errorf("unclosed start tag at byte offset %d", begin)
	}
	body := p.src[begin+1 : begin+end]
	p.at = begin + end + 1
	if name, ok := strings.CutPrefix(body, "/"); ok {
		return p.close(strings.TrimSpace(name), begin)
	}
	name, rest, _ := strings.Cut(body, " ")
	if !slices.Contains(known, name) {
		return fmt.Errorf("unsupported start tag %q at byte offset %d", name, begin)
	}
	t := tag{name: name, begin: p.units}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		key, more, ok := strings.Cut(rest, "=\"")
		value, after, closed := strings.Cut(more, "\"")
		if key == "expandable" && !ok {
			break
		}
		if !ok || !closed || strings.ContainsAny(value, "<>") {
			return fmt.Errorf("attribute of %q is broken at byte offset %d", name, begin)
		}
		clean, err := unescape(value)
		if err != nil {
			return fmt.Errorf("%w in an attribute at byte offset %d", err, begin)
		}
		switch {
		case name == "a" && key == "href":
			t.url = clean
		case name == "code" && key == "class" && strings.HasPrefix(clean, "language-"):
			t.language = strings.TrimPrefix(clean, "language-")
		case name == "span" && key == "class" && clean == "tg-spoiler":
		default:
			return fmt.Errorf("attribute %q of %q at byte offset %d", key, name, begin)
		}
		rest = after
	}
	if name == "a" && !strings.HasPrefix(t.url, "http://") && !strings.HasPrefix(t.url, "https://") {
		return fmt.Errorf("a link to %q at byte offset %d", t.url, begin)
	}
	if err := p.nesting(t); err != nil {
		return fmt.Errorf("%w at byte offset %d", err, begin)
	}
	p.open = append(p.open, t)
	return nil
}

// nesting holds what the Bot API says of entities inside each other.
func (p *parser) nesting(t tag) error {
	for i, o := range p.open {
		last := i == len(p.open)-1
		switch {
		case o.name == "pre" && !(t.name == "code" && last && t.begin == o.begin):
			return fmt.Errorf("%q inside of %q", t.name, o.name)
		case o.name == "code":
			return fmt.Errorf("%q inside of %q", t.name, o.name)
		case meaning[o.name] == meaning[t.name]:
			return fmt.Errorf("%q inside of %q", t.name, o.name)
		case (t.name == "code" || t.name == "pre") && o.name != "pre" && o.name != "blockquote":
			return fmt.Errorf("%q inside of %q", t.name, o.name)
		}
	}
	return nil
}

func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '&' {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, n, err := reference(s[i:])
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
		i += n
	}
	return b.String(), nil
}

func (p *parser) close(name string, at int) error {
	n := len(p.open)
	switch {
	case n == 0:
		return fmt.Errorf("unexpected end tag at byte offset %d", at)
	case p.open[n-1].name != name:
		return fmt.Errorf("unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", at, p.open[n-1].name, name)
	}
	t := p.open[n-1]
	p.open = p.open[:n-1]
	if p.units > t.begin {
		p.entities = append(p.entities, Entity{Type: meaning[t.name], Offset: t.begin, Length: p.units - t.begin, URL: t.url, Language: t.language})
	}
	return nil
}
