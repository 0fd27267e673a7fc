package facilitator

import (
	"strconv"
	"strings"

	"github.com/iris-operator/iris/facilitate"
)

// words reads what somebody wrote. Words with a slash stand for what a page does
// with buttons and forms; everything else is what they say:
//
//	/leave  /join                       be away, be back
//	/edit 3 new words   /delete 3       an own public line, by its number
//	/open Lunch?: soup | salad          an item with options
//	/vote soup   /vote lunch: soup      a sealed vote
//	/yes  /no   /yes r2                 the answer to a question for consent
//	/revoke r2                          take words back that were not said yet
//	/opt-out caucus | record | all      no private line, no record, neither
//	/erase                              forget all I said
//
// Those of consent, and the last three, are read on a private line alone.
func words(a *facilitate.Agent, who facilitate.ID, text string, private bool) facilitate.Event {
	say := facilitate.Message(who, text)
	if private {
		say = facilitate.Caucus(who, text)
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(word) {
	case "/leave":
		return facilitate.Leave(who)
	case "/join":
		for _, p := range a.Participants() {
			if p.ID == who {
				return facilitate.Join(facilitate.Participant{ID: who, Name: p.Name, Role: p.Role})
			}
		}
	case "/edit":
		if n, words, ok := number(rest); ok && words != "" {
			return facilitate.Edit(who, n, words)
		}
	case "/delete":
		if n, words, ok := number(rest); ok && words == "" {
			return facilitate.Delete(who, n)
		}
	case "/open":
		if label, options, ok := strings.Cut(rest, ":"); ok {
			return facilitate.OpenItem(who, slug(label), strings.TrimSpace(label), fields(options, "|")...)
		}
	case "/vote":
		if item, value, ok := ballot(a, rest); ok {
			return facilitate.Contribution(who, item, value)
		}
	}
	if !private {
		return say
	}
	switch strings.ToLower(word) {
	case "/yes", "/no":
		if id := pending(a, who, rest); id != "" {
			return facilitate.Consent(who, id, strings.EqualFold(word, "/yes"))
		}
	case "/revoke":
		if rest != "" {
			return facilitate.Revoke(who, rest)
		}
	case "/opt-out":
		if rest == "" {
			rest = "all"
		}
		return facilitate.OptOut(who, rest)
	case "/erase":
		return facilitate.Erase(who)
	}
	return say
}

func number(s string) (n uint64, rest string, ok bool) {
	first, rest, _ := strings.Cut(s, " ")
	n, err := strconv.ParseUint(strings.TrimPrefix(first, "#"), 10, 64)
	return n, strings.TrimSpace(rest), err == nil
}

func fields(s, sep string) (out []string) {
	for f := range strings.SplitSeq(s, sep) {
		if f = strings.TrimSpace(f); f != "" {
			out = append(out, f)
		}
	}
	return out
}

// slug makes an id of a label.
func slug(label string) string {
	id := strings.Join(strings.FieldsFunc(strings.ToLower(label), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }), "-")
	if len(id) > 40 {
		id = strings.Trim(id[:40], "-")
	}
	if id == "" {
		return "item"
	}
	return id
}

// ballot reads "option" or "item: option" against the board, whose newest open
// vote is meant when none is named.
func ballot(a *facilitate.Agent, text string) (item string, value map[string]any, ok bool) {
	cards := a.Canvas()
	if len(cards) == 0 || text == "" {
		return "", nil, false
	}
	item = cards[len(cards)-1].ID
	for _, c := range cards {
		if c.Vote {
			item = c.ID // the last one that is open
		}
	}
	if name, vote, named := strings.Cut(text, ":"); named {
		for _, c := range cards {
			if c.ID == strings.TrimSpace(name) {
				item, text = c.ID, strings.TrimSpace(vote)
			}
		}
	}
	for _, c := range cards {
		if c.ID != item {
			continue
		}
		for _, o := range c.Options["options"] {
			if strings.EqualFold(o, text) {
				text = o
			}
		}
	}
	return item, map[string]any{"vote": text}, true
}

// pending is the question for consent that an answer means: the one it names, or
// the only one.
func pending(a *facilitate.Agent, who facilitate.ID, named string) string {
	own, err := a.Own(facilitate.ForPerson(who), who)
	if err != nil {
		return ""
	}
	var open []string
	for _, r := range own.Releases {
		if r.State == "asked" && (named == "" || r.ID == named) {
			open = append(open, r.ID)
		}
	}
	if len(open) != 1 {
		return ""
	}
	return open[0]
}
