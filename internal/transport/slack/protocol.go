package slack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// An envelope is what a frame holds: one of the three, or nothing of interest.
type envelope struct {
	channel string
	event   *event
	slash   *slash
	press   *press
}

// An event is something that happened in a workspace.
type event struct {
	Type        string            `json:"type"`
	Subtype     string            `json:"subtype"`
	Channel     string            `json:"-"`
	ChannelType string            `json:"channel_type"`
	User        string            `json:"user"`
	BotID       string            `json:"bot_id"`
	Username    string            `json:"username"`
	Text        string            `json:"text"`
	TS          string            `json:"ts"`
	ThreadTS    string            `json:"thread_ts"`
	Hidden      bool              `json:"hidden"`
	Files       []file            `json:"files"`
	Blocks      []json.RawMessage `json:"blocks"`
	// RawChannel is an id here and an object there.
	RawChannel json.RawMessage `json:"channel"`
	// LatestReply is that of a thread, in a history.
	LatestReply string `json:"latest_reply"`
}

// A file is one that somebody shared.
type file struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Title    string `json:"title"`
	Filetype string `json:"filetype"`
	Mode     string `json:"mode"`
	Size     int64  `json:"size"`
	Private  string `json:"url_private"`
	Download string `json:"url_private_download"`
	Subject  string `json:"subject"`
	Plain    string `json:"plain_text"`
}

// A slash is a slash command.
type slash struct {
	Command string `json:"command"`
	Text    string `json:"text"`
	Channel string `json:"channel_id"`
	User    string `json:"user_id"`
	Name    string `json:"user_name"`
}

// A press is a button that somebody pressed.
type press struct {
	Type string `json:"type"`
	User struct {
		ID       string `json:"id"`
		Username string `json:"username"`
		Name     string `json:"name"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Message struct {
		TS     string `json:"ts"`
		Thread string `json:"thread_ts"`
	} `json:"message"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
	} `json:"actions"`
}

// parseEnvelope reads what a frame holds.
func parseEnvelope(f frame) (e envelope, err error) {
	switch f.Type {
	case "events_api":
		var p struct {
			Event *event `json:"event"`
		}
		if err = json.Unmarshal(f.Payload, &p); err == nil && p.Event != nil {
			e.event = p.Event
			if json.Unmarshal(p.Event.RawChannel, &p.Event.Channel) != nil {
				p.Event.Channel = "" // of an event about the channel itself
			}
			e.channel = p.Event.Channel
		}
	case "slash_commands":
		if err = json.Unmarshal(f.Payload, &e.slash); err == nil && e.slash != nil {
			e.channel = e.slash.Channel
		}
	case "interactive":
		if err = json.Unmarshal(f.Payload, &e.press); err == nil && e.press != nil {
			e.channel = e.press.Channel.ID
		}
	}
	if err != nil {
		return envelope{}, fmt.Errorf("the payload of %s: %w", f.Type, err)
	}
	return e, nil
}

// pressPrefix begins the action ids of the buttons below a question; the word of
// the answer follows.
const pressPrefix = "iris_"

// answer reads which question a button answers, and how.
func (p *press) answer() (ask string, yes bool, choice string, ok bool) {
	for _, a := range p.Actions {
		word, ours := strings.CutPrefix(a.ID, pressPrefix)
		if yes, choice, ok = transport.PressedWord(word); ours && ok {
			return a.Value, yes, choice, a.Value != "" && p.User.ID != ""
		}
	}
	return "", false, "", false
}

func (ev *event) direct() bool { return ev.ChannelType == "im" || strings.HasPrefix(ev.Channel, "D") }
func (ev *event) bot() bool    { return ev.BotID != "" || ev.Subtype == "bot_message" }

// thread is the thread that ev is a reply in, "" at the top level.
func (ev *event) thread() string {
	if ev.ThreadTS == ev.TS {
		return ""
	}
	return ev.ThreadTS
}

// counts reports that ev is something new that somebody else said: no edit, no
// note of Slack's own, nothing of ours.
func (ev *event) counts(me identity) bool {
	switch ev.Subtype {
	case "", "file_share", "thread_broadcast", "bot_message", "me_message":
	default:
		return false
	}
	own := ev.User != "" && ev.User == me.user || ev.BotID != "" && ev.BotID == me.bot
	return !own && !ev.Hidden && chat.IsSlackTime(ev.TS) && (ev.User != "" || ev.BotID != "")
}

// submission is ev as the Inbox takes it.
func (ev *event) submission(me identity, person func(id string) chat.Person) transport.Submission {
	from := chat.Person{ID: firstOf(ev.User, ev.BotID), Name: ev.Username}
	if ev.User != "" {
		from = person(ev.User)
	}
	from.Bot = ev.bot()
	text := ev.text()
	mention := !ev.direct() && me.user != "" && (ev.Type == "app_mention" || strings.Contains(text, "<@"+me.user+">") || strings.Contains(text, "<@"+me.user+"|"))
	return transport.Submission{
		Address: chat.Address{Space: chat.Slack, ID: ev.Channel}, Origin: turn.FromChat,
		Mention: mention, Direct: ev.direct(), Reply: ev.thread() != "", Proven: !from.Bot,
		Message: chat.Message{ID: ev.TS, From: from, Text: readable(text, me.user, person), At: timeOf(ev.TS), Thread: ev.thread()},
	}
}

// text is what ev says: that of the blocks of a bot where it says more, and that
// of an e-mail that came as a file.
func (ev *event) text() string {
	text := ev.Text
	if ev.bot() {
		var parts []string
		for _, b := range ev.Blocks {
			collect(b, &parts)
		}
		if all := strings.Join(parts, "\n"); len(all) > len(text) {
			text = all
		}
	}
	for _, f := range ev.Files {
		if f.Filetype == "email" && f.Plain != "" {
			mail := "Subject: " + firstOf(f.Subject, f.Title) + "\n" + f.Plain
			text = strings.TrimSpace(text + "\n\n" + mail)
		}
	}
	return text
}

// collect finds the texts of a block, in order.
func collect(raw json.RawMessage, to *[]string) {
	var b struct {
		Text     json.RawMessage   `json:"text"`
		Fields   []json.RawMessage `json:"fields"`
		Elements []json.RawMessage `json:"elements"`
	}
	if json.Unmarshal(raw, &b) != nil {
		return
	}
	var plain string
	if json.Unmarshal(b.Text, &plain) == nil && plain != "" {
		*to = append(*to, plain)
	} else if len(b.Text) > 0 {
		collect(b.Text, to)
	}
	for _, more := range append(b.Fields, b.Elements...) {
		collect(more, to)
	}
}

// tag is what Slack writes between < and >.
var tag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<([^<>\n]+)>`) })

// readable is a text of Slack as people read it. A mention of Iris is left out, as
// she knows that she is meant; others keep their id, with the name beside it.
func readable(text, me string, person func(id string) chat.Person) string {
	text = tag().ReplaceAllStringFunc(text, func(t string) string {
		body, label, labelled := strings.Cut(t[1:len(t)-1], "|")
		switch body[0] {
		case '@':
			if body[1:] == me && me != "" {
				return ""
			}
			if name := person(body[1:]).Name; name != "" {
				return "&lt;" + body + "|" + name + "&gt;"
			}
			return "&lt;" + body + "&gt;"
		case '#':
			if labelled && label != "" {
				return "#" + label
			}
			return "&lt;" + body + "&gt;"
		case '!':
			return "@" + firstOf(strings.TrimPrefix(label, "@"), strings.SplitN(body[1:], "^", 2)[0])
		}
		switch {
		case !labelled, strings.HasSuffix(body, "://"+label), body == "mailto:"+label, body == "tel:"+label:
			return firstOf(label, body)
		}
		return label + " (" + body + ")"
	})
	text = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">").Replace(text)
	return strings.TrimSpace(text)
}

// timeOf reads the id of a message as the time it was said.
func timeOf(ts string) time.Time {
	seconds, micros, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(seconds, 10, 63)
	u, err2 := strconv.ParseInt(micros, 10, 63)
	if err != nil || err2 != nil {
		return time.Time{}
	}
	return time.Unix(s, u*1000)
}
