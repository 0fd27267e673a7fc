package rehearsal

import (
	"regexp"
	"sync"
)

// A pattern is a regular expression that is compiled when it is first used:
// compiling all of them takes longer than the rest of the start of Iris, and
// most processes never rehearse.
type pattern struct{ re func() *regexp.Regexp }

// lazy makes a pattern of a text that must be right; TestPatternsCompile looks
// at all of them.
func lazy(text string) *pattern {
	return &pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

func (p *pattern) MatchString(s string) bool              { return p.re().MatchString(s) }
func (p *pattern) FindStringIndex(s string) []int         { return p.re().FindStringIndex(s) }
func (p *pattern) FindStringSubmatch(s string) []string   { return p.re().FindStringSubmatch(s) }
func (p *pattern) ReplaceAllString(s, with string) string { return p.re().ReplaceAllString(s, with) }
func (p *pattern) Split(s string, n int) []string         { return p.re().Split(s, n) }
func (p *pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.re().FindAllStringSubmatch(s, n)
}
func (p *pattern) FindStringSubmatchIndex(s string) []int { return p.re().FindStringSubmatchIndex(s) }
