package telegram

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// An incoming is a message on its way to the inbox. An album is one.
type incoming struct {
	updates []int64
	conv    chat.Address
	message *models.Message
	group   string
	files   []attachment
	late    time.Duration // how old it was when it came; 0: not late
}

// sort looks whose a message is. It returns what is to be submitted, or ends the
// update.
func (t *Telegram) sort(ctx context.Context, update int64, m *models.Message) *incoming {
	owner, err := t.claims.read()
	if err != nil {
		t.failed(err) // nothing is lost: it stays unconfirmed
		t.mu.Lock()
		t.handling.forget(update)
		t.mu.Unlock()
		return nil
	}
	switch {
	case m.MigrateToChatID != 0:
		t.move(m.Chat.ID, m.MigrateToChatID)
	case !owner.Claimed:
		t.claim(m)
	case t.served(owner, m.Chat, m.From):
		in := &incoming{updates: []int64{update}, conv: address(m.Chat.ID, topic(m)), message: m, group: m.MediaGroupID, files: attachments(m)}
		if age := t.opts.Now().Sub(time.Unix(int64(m.Date), 0)); age > t.opts.Late {
			in.late = age
		}
		if text, ok := t.unaddress(spoken(m)); !ok {
			break // a command for another bot
		} else if stops(text) {
			t.tasks.Go(func() { t.deliver(ctx, in) }) // beside everything that waits
			return nil
		} else {
			return in
		}
	}
	t.end(update)
	return nil
}

// topic is the topic of a forum that a message is in. In other groups the same
// number names a thread of replies.
func topic(m *models.Message) int {
	if m.IsTopicMessage {
		return m.MessageThreadID
	}
	return 0
}

// unaddress takes the bot's name off a command. ok is false for a command that
// is for another bot.
func (t *Telegram) unaddress(s string) (_ string, ok bool) {
	if !strings.HasPrefix(s, "/") {
		return s, true
	}
	word, rest, more := strings.Cut(s, " ")
	command, name, named := strings.Cut(word, "@")
	if !named {
		return s, true
	}
	if !strings.EqualFold(name, t.me.username) {
		return s, false
	}
	if more {
		return command + " " + rest, true
	}
	return command, true
}

func stops(text string) bool {
	return strings.EqualFold(strings.TrimPrefix(strings.TrimSpace(text), "/"), "stop")
}

// A queue is what waits in one conversation. Guarded by Telegram.mu.
type queue struct{ items []*incoming }

// enqueue hands messages to their conversations. What came together is there
// together, so that an album can be put back into one.
func (t *Telegram) enqueue(ctx context.Context, batch []*incoming) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range batch {
		q := t.queues[in.conv]
		if q == nil {
			q = &queue{}
			t.queues[in.conv] = q
			conv := in.conv
			t.tasks.Go(func() { t.work(ctx, conv, q) })
		}
		q.items = append(q.items, in)
	}
}

// work delivers what waits in a conversation, in order.
func (t *Telegram) work(ctx context.Context, conv chat.Address, q *queue) {
	for {
		t.mu.Lock()
		if len(q.items) == 0 || ctx.Err() != nil {
			delete(t.queues, conv)
			t.mu.Unlock()
			return
		}
		in := q.items[0]
		q.items = q.items[1:]
		for in.group != "" && len(q.items) > 0 && q.items[0].group == in.group {
			next := q.items[0]
			q.items = q.items[1:]
			in.updates, in.files = append(in.updates, next.updates...), append(in.files, next.files...)
			if spoken(in.message) == "" {
				in.message.Caption = spoken(next.message)
			}
		}
		t.mu.Unlock()
		t.deliver(ctx, in)
	}
}

const (
	// crowd is how many updates may wait for room in a queue: the server tells
	// of a hundred at most, and a stop among them must be seen.
	crowd = 60
	// again is how often a message that was not taken is submitted again.
	again = 500 * time.Millisecond
	// full is what people read whose message was not taken.
	full = "_Too many messages queued. Please wait._"
)

// deliver brings a message to the inbox and ends its updates. When ctx ends
// before, they stay open: the server tells of them again.
func (t *Telegram) deliver(ctx context.Context, in *incoming) {
	if in.late > t.opts.MaxAge {
		t.say(in.conv, fmt.Sprintf("_Your message of %s reached me only now. It is too old to be acted on: send it again if it still matters._",
			time.Unix(int64(in.message.Date), 0).UTC().Format("2 January 15:04 MST")))
		t.end(in.updates...)
		return
	}
	s := t.submission(in)
	s.Message.Files = t.receive(ctx, in)
	for n := 0; ctx.Err() == nil; n++ {
		r, err := t.opts.Inbox.Submit(ctx, s)
		switch {
		case err == nil:
			if r.Reply.Text != "" && !r.Duplicate {
				t.say(in.conv, r.Reply.Text)
			}
			t.end(in.updates...)
			return
		case errors.Is(err, transport.ErrBusy) && (in.late == 0 || t.open() > crowd):
			t.say(in.conv, full)
			t.end(in.updates...)
			return
		case errors.Is(err, transport.ErrUnknownRunner), errors.Is(err, chat.ErrBadID):
			t.log.Error("a message is not taken", "conversation", in.conv, "message", s.Message.ID, "err", err)
			t.say(in.conv, "_This message was not taken: "+err.Error()+"_")
			t.end(in.updates...)
			return
		case errors.Is(err, transport.ErrClosing):
			return
		case !errors.Is(err, transport.ErrBusy) && ctx.Err() == nil && n == 0:
			t.log.Warn("a message is submitted again", "conversation", in.conv, "message", s.Message.ID, "err", err)
		}
		_ = sleep(ctx, min(again<<min(n, 4), 5*time.Second))
	}
}

// submission is what the inbox gets. The log keeps what was said; what was
// answered to, and from where it was forwarded, is for the model.
func (t *Telegram) submission(in *incoming) transport.Submission {
	m := in.message
	said, _ := t.unaddress(spoken(m))
	s := transport.Submission{
		Address: in.conv, Origin: turn.FromChat, Direct: true,
		Reply: m.ReplyToMessage != nil && !root(m),
		// Somebody else's words, passed on, answer nothing.
		Proven:  m.ForwardOrigin == nil && m.ViaBot == nil,
		Message: chat.Message{ID: strconv.Itoa(m.ID), From: person(m.From), Text: said, At: t.said(m)},
	}
	var before strings.Builder
	if in.late > 0 {
		fmt.Fprintf(&before, "[This message was sent at %s, %s before you could receive it.]\n",
			time.Unix(int64(m.Date), 0).UTC().Format(time.RFC3339), in.late.Round(time.Minute))
	}
	before.WriteString(replying(m))
	if m.ForwardOrigin != nil {
		before.WriteString("[Forwarded: the following was written by somebody else]\n")
	}
	if before.Len() > 0 {
		s.Message.Prompt = before.String() + said
	}
	return s
}

// said is when a message was written. Telegram tells whole seconds; the end of
// that second is meant, so that an answer is not older than its question.
func (t *Telegram) said(m *models.Message) time.Time {
	at, now := time.Unix(int64(m.Date), 999_000_000), t.opts.Now()
	if at.After(now) {
		return now
	}
	return at
}

func person(u *models.User) chat.Person {
	return chat.Person{ID: strconv.FormatInt(u.ID, 10), Name: u.Username, Display: strings.TrimSpace(u.FirstName + " " + u.LastName), Bot: u.IsBot}
}

// root reports that a message only seems to answer one: in a topic all answer
// the one that opened it.
func root(m *models.Message) bool {
	r := m.ReplyToMessage
	return r.ForumTopicCreated != nil || topic(m) != 0 && r.ID == m.MessageThreadID
}

// maxQuote is how much is quoted of what was answered to.
const maxQuote = 1000

// replying is the line that tells what a message answers.
func replying(m *models.Message) string {
	r := m.ReplyToMessage
	if r == nil || root(m) {
		return ""
	}
	who := "the earlier message"
	if r.From != nil {
		if who = oneLine(r.From.FirstName); r.From.Username != "" {
			who = "@" + r.From.Username
		}
		if who == "" {
			who = "the earlier message"
		}
	}
	what := oneLine(strings.ReplaceAll(spoken(r), `"`, "'"))
	if m.Quote != nil && m.Quote.Text != "" {
		what = oneLine(strings.ReplaceAll(m.Quote.Text, `"`, "'"))
	}
	switch {
	case what != "":
		what = cut(what, maxQuote)
	case len(r.Photo) > 0:
		what = "[a photo]"
	case r.Document != nil:
		what = "[a file: " + cut(oneLine(strings.NewReplacer("[", "(", "]", ")", `"`, "'").Replace(r.Document.FileName)), 200) + "]"
	case r.Audio != nil:
		what = "[an audio file]"
	case r.Voice != nil:
		what = "[a voice message]"
	case r.Video != nil:
		what = "[a video]"
	default:
		return ""
	}
	return fmt.Sprintf("[Replying to %s: %q]\n", who, quoted(what))
}

// quoted prints as it is with %q's marks around it.
type quoted string

// Format implements fmt.Formatter.
func (q quoted) Format(f fmt.State, _ rune) { fmt.Fprintf(f, `"%s"`, string(q)) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// spoken is what a message says in words.
func spoken(m *models.Message) string {
	switch {
	case m.Text != "":
		return m.Text
	case m.Caption != "":
		return m.Caption
	case m.Sticker != nil:
		return m.Sticker.Emoji
	case m.Location != nil:
		return fmt.Sprintf("[location: %.6f, %.6f]", m.Location.Latitude, m.Location.Longitude)
	case m.Contact != nil:
		return oneLine(fmt.Sprintf("[contact: %s %s %s]", m.Contact.FirstName, m.Contact.LastName, m.Contact.PhoneNumber))
	}
	return ""
}
