package approval

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// A Settlement is an answer on its way to disk. Exactly one call of Done must
// follow.
type Settlement struct {
	Question Question
	Yes      bool
	// By names the person and the message, for records.
	By string
	// Prompt is what the model is told in the turn that the answer starts. It is
	// empty for a live question: its turn goes on, and no other starts.
	Prompt string
	// Loose says of a live question's answer that the words may be meant for
	// somebody else unless Iris was addressed.
	Loose bool
	// outcome is what the asker of a live question gets.
	outcome Outcome

	done func(taken bool)
}

// Done ends the settlement: taken says that the message of the answer is on
// disk, and must be said before its turn can run. Only then is a command
// granted and the question over; otherwise the question stays open.
func (s *Settlement) Done(taken bool) { s.done(taken) }

// Word looks whether what somebody said answers a question of the conversation.
// It does when it affirms or denies by the rules of [Affirms], was said after
// the question was put, and the person is allowed to answer. The newest question
// is meant, unless the message names one by the mark of its id or quotes its
// exact command.
//
// A message that is no answer gives nil and no error. One by a person who may
// not answer gives transport.ErrNotAllowed, and the question stays open.
func (b *Book) Word(conv chat.Address, m chat.Message) (*Settlement, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.answerable(conv, m.At)
	if len(open) == 0 || m.From.Bot {
		return nil, nil
	}
	e, text := choose(open, m.Text)
	if len(m.Text) > maxAnswer+len(e.Command) && len(e.Options) == 0 {
		return nil, nil
	}
	r, ok := reading{}, false
	if e.live != nil {
		r, ok = e.read(text)
		if r.loose && !b.opts.Allowed(conv, m.From) {
			return nil, nil // somebody else talks
		}
	} else {
		var no bool
		r.yes, no = Affirms(text)
		ok = r.yes || no
	}
	if !ok {
		return nil, nil
	}
	return b.settle(e, m.From, r, fmt.Sprintf("message %s", m.ID), m.Text)
}

// maxAnswer bounds the words of an answer beside the command it may quote.
const maxAnswer = 400

// answerable lists the questions of a conversation that were put before a
// message, newest first. mu must be held.
func (b *Book) answerable(conv chat.Address, said time.Time) []*entry {
	now := b.opts.Now()
	var open []*entry
	for _, e := range b.open {
		if e.Channel == conv.Channel() && !e.taken && now.Before(e.Until) && !said.Before(e.At) {
			open = append(open, e)
		}
	}
	slices.SortFunc(open, func(x, y *entry) int { return older(y.Question, x.Question) })
	return open
}

var markWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b[0-9a-f]{8}\b`)
})

// choose finds the question that a text is about and returns the rest of it.
func choose(open []*entry, text string) (*entry, string) {
	for _, e := range open {
		if e.Command == "" {
			continue
		}
		if rest, ok := strings.CutSuffix(strings.TrimSpace(text), e.Command); ok && rest != "" {
			return e, strings.TrimRight(rest, " \t\n`:")
		}
		if quoted := "`" + e.Command + "`"; strings.Contains(text, quoted) {
			return e, strings.Replace(text, quoted, " ", 1)
		}
	}
	for _, word := range markWord().FindAllString(text, -1) {
		for _, e := range open {
			if Mark(e.ID) == word {
				return e, strings.Replace(text, word, " ", 1)
			}
		}
	}
	return open[0], text
}

// Pick answers a question by its id, as buttons and the API do; the empty id is
// the newest of the conversation. Where conv is not zero the question must be one
// of its own. Errors: an [*OverError], transport.ErrNotAllowed.
func (b *Book) Pick(id string, conv chat.Address, from chat.Person, yes bool) (*Settlement, error) {
	return b.Choose(id, conv, from, Choice{Yes: yes})
}

// ErrNoChoice says that a yes to a question with options names none of them.
var ErrNoChoice = errors.New("pick one of the answers, or say it in your own words")

// Choose is Pick for questions that have more answers than yes and no.
func (b *Book) Choose(id string, conv chat.Address, from chat.Person, c Choice) (*Settlement, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == "" {
		open := b.answerable(conv, b.opts.Now())
		if len(open) == 0 {
			return nil, &OverError{}
		}
		id = open[0].ID
	}
	e := b.open[id]
	switch {
	case e == nil || !conv.IsZero() && e.Channel != conv.Channel():
		i := slices.IndexFunc(b.over, func(x ended) bool { return x.id == id })
		if e == nil && i >= 0 {
			return nil, &OverError{b.over[i].state}
		}
		return nil, &OverError{}
	case !b.opts.Now().Before(e.Until):
		return nil, &OverError{Expired}
	case e.taken:
		return nil, &OverError{}
	}
	r, ok := e.choose(c)
	if !ok {
		return nil, ErrNoChoice
	}
	return b.settle(e, from, r, "message "+AnswerID(id), "")
}

// AnswerID is the id of the message that stands for a button or a call of the
// API: a second one is the same message.
func AnswerID(id string) string { return "answer-" + id }

// settle checks who answers and takes the question. mu must be held.
func (b *Book) settle(e *entry, from chat.Person, r reading, how, words string) (*Settlement, error) {
	conv, err := e.Conversation()
	if err != nil {
		return nil, err
	}
	if !b.opts.Allowed(conv, from) {
		b.log.Warn("answer of somebody who may not", "question", e.ID, "conversation", e.Channel, "by", who(from), "how", how)
		return nil, fmt.Errorf("%s may not answer this question: %w", who(from), transport.ErrNotAllowed)
	}
	s := &Settlement{Question: e.Question, Yes: r.yes, By: who(from) + ", " + how}
	if e.live != nil {
		s.Loose = r.loose
		s.outcome = Outcome{State: Declined, By: who(from), Words: words, Picked: r.picked, Always: r.always}
		switch {
		case r.yes && len(e.Options) > 0:
			s.outcome.State = Answered
		case r.yes:
			s.outcome.State = Approved
		}
	} else {
		s.Prompt = prompt(e, r.yes, from, words)
	}
	e.taken = true
	var once sync.Once
	s.done = func(taken bool) { once.Do(func() { b.done(e, s, taken) }) }
	return s, nil
}

// prompt tells the model how a held command was answered.
func prompt(e *entry, yes bool, from chat.Person, words string) string {
	name := "declined"
	if yes {
		name = "approved"
	}
	if words != "" {
		words = "\n\nTheir words: " + words
	}
	return fill(name, "{by}", who(from), "{command}", fenced(e.Command), "{words}", words)
}

func (b *Book) done(e *entry, s *Settlement, taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !taken {
		e.taken = false
		if e.live != nil && e.live.gone {
			b.end(e.ID, Withdrawn)
		}
		b.wake() // its time may have come meanwhile
		return
	}
	if e.live != nil {
		b.finish(e.ID, s.outcome)
		b.log.Info("an agent's question was answered", "question", e.ID, "conversation", e.Channel, "state", s.outcome.State, "by", s.By, "turn", e.Turn)
		return
	}
	state := Declined
	if s.Yes {
		state = Approved
		b.grants[key{e.Channel, e.Hash}] = grant{question: e.Question, by: s.By, until: b.opts.Now().Add(b.opts.Attended)}
	}
	b.end(e.ID, state)
	b.log.Info("command answered", "question", e.ID, "conversation", e.Channel, "state", state, "by", s.By, "turn", e.Turn)
}

// who names a person for records, in one short line.
func who(p chat.Person) string {
	id, name := plain(p.ID), plain(cmp.Or(p.Name, p.Display))
	switch {
	case id == "":
		return cmp.Or(name, "somebody")
	case name == "" || name == id:
		return id
	}
	return name + " (" + id + ")"
}

func plain(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }), " ")
	if runes := []rune(s); len(runes) > 80 {
		s = string(runes[:80])
	}
	return s
}

// fenced quotes a command with a fence longer than any inside.
func fenced(command string) string {
	fence := "```"
	for strings.Contains(command, fence) {
		fence += "`"
	}
	return fence + "\n" + command + "\n" + fence
}
