package mrkdwn

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// bits are what random documents are made of; %d is a word that must survive.
var bits = []string{
	"w%dw ", "**w%dw** ", "_w%dw_ ", "`w%dw` ", "~~w%dw~~ ", "[w%dw](https://example.org/?a=1&b=<2>) ", "[w%dw](x y) ", "![w%dw](https://example.org/i|j.png) ",
	"\n\n", "\n", "\n# w%dw\n", "\n- w%dw\n", "\n  - w%dw\n", "\n1. w%dw\n", "\n> w%dw\n", "\n> > w%dw\n", "\n```go\nw%dw <a> & b\n", "\n```\n", "\n~~~\n", "\n````\n",
	"<!channel> ", "<@U1> ", "@here ", "@everyone ", "&amp; ", "& ", "< ", "> ", "<b>w%dw</b> ", "\\`\\`\\` ", "``` ", "` ", "* ", "** ", "__ ", "\\", "| w%dw | w%dw |\n|---|---|\n| w%dw | w%dw |\n",
	"报告 🙂 ", "\u202e", "\t", "    ", "\x01", "https://example.org/a_b_c?x=1&y=2 ", "<https://example.org/w%dw> ", "a**w%dw**b ", "***w%dw*** ", "[ref][1] ", "\n---\n", "\r\n", "\xff", "{{w%dw}} ",
}

var (
	everybody = regexp.MustCompile(`@(here|everyone)\b|<[!@]`)
	spans     = regexp.MustCompile("`[^`\n]*`")
)

func document(r *rand.Rand) (doc string, words []string) {
	var b strings.Builder
	for range r.IntN(60) {
		bit := bits[r.IntN(len(bits))]
		for strings.Contains(bit, "%d") {
			word := fmt.Sprintf("w%dw", len(words))
			words = append(words, word)
			bit = strings.Replace(bit, "w%dw", word, 1)
		}
		b.WriteString(bit)
		if r.IntN(40) == 0 {
			for range r.IntN(100) {
				b.WriteString("x y")
			}
		}
	}
	return b.String(), words
}

// TestRandomDocumentsAreTaken draws random documents: the strict parser takes
// every piece, no word is lost or doubled, nobody is called.
func TestRandomDocumentsAreTaken(t *testing.T) {
	for seed := range documents {
		r := rand.New(rand.NewPCG(1, uint64(seed)))
		doc, words := document(r)
		limit := []int{4000, 4000, 4000, 400, 100}[r.IntN(5)]
		all := ""
		for _, p := range Render(doc, limit) {
			if err := slacktest.CheckText(p.Text); err != nil {
				t.Fatalf("seed %d: %v\nsource %q\ntext %q", seed, err, p.Source, p.Text)
			}
			if n := Length(p.Text); n > limit || n == 0 {
				t.Fatalf("seed %d: %d characters of %d: %q", seed, n, limit, p.Text)
			}
			all += p.Text
			for i, part := range strings.Split(p.Text, "```") {
				if i%2 == 0 && everybody.MatchString(spans.ReplaceAllString(part, "")) { // code calls nobody
					t.Fatalf("seed %d: everybody is called: %q", seed, p.Text)
				}
			}
		}
		for _, w := range words {
			// What a fence's info says is not shown, and a short limit may cut a word.
			if n := strings.Count(all, w); n == 0 && limit == 4000 && !hidden(doc, w) {
				t.Fatalf("seed %d: %s is lost\nsource %q\ntext %q", seed, w, doc, all)
			} else if n > 2 || n > 1 && !strings.Contains(doc, "<https://example.org/"+w) {
				t.Fatalf("seed %d: %s is there %d times\nsource %q\ntext %q", seed, w, n, doc, all)
			}
		}
	}
}

// hidden reports that a word stands on a line where Markdown shows nothing: the
// info of a fence, or cells beyond the columns of a table.
func hidden(doc, word string) bool {
	for _, line := range strings.Split(strings.ReplaceAll(doc, "\r\n", "\n"), "\n") {
		if strings.Contains(line, word) {
			return strings.Contains(line, "```") || strings.Contains(line, "~~~") || strings.Contains(line, "|")
		}
	}
	return false
}

func FuzzRender(f *testing.F) {
	for _, b := range bits {
		f.Add(b, 100)
	}
	f.Fuzz(func(t *testing.T, doc string, limit int) {
		limit = 64 + limit&0xfff
		for _, all := range [][]Piece{Render(doc, limit), Plain(doc, limit)} {
			for _, p := range all {
				if err := slacktest.CheckText(p.Text); err != nil {
					t.Fatalf("%v in %q", err, p.Text)
				}
				if n := Length(p.Text); n > limit {
					t.Fatalf("%d characters of %d", n, limit)
				}
			}
		}
	})
}
