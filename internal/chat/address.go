package chat

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A Space is a kind of place where people, or programs, see a conversation.
type Space string

// The spaces.
const (
	Slack    Space = "slack"
	Telegram Space = "telegram"
	Web      Space = "web"
	Session  Space = "session"
	Bridge   Space = "bridge"
	Escalate Space = "escalate"
	// SelfHeal is the older name of escalations; accepted, never made.
	SelfHeal Space = "selfheal"
)

// flat lists the spaces whose conversations live directly below the workspace,
// with the prefix of their channel ids.
var flat = []struct {
	space  Space
	prefix string
}{
	{Session, "SESSION-"},
	{Bridge, "BRIDGE-"},
	{Escalate, "ESCALATE-"},
	{SelfHeal, "SELFHEAL-"},
	{Web, "WEBUI-"},
}

// An Address is where people see a conversation. It is comparable, and its
// zero value is no address. Thread is used by Telegram topics only; a Slack
// thread that is a conversation of its own is a Session.
type Address struct {
	Space  Space  `json:"space"`
	ID     string `json:"id"`
	Thread string `json:"thread,omitempty"`
}

// ErrBadID reports an id that may not become part of a path.
var ErrBadID = errors.New("id must be 1 to 128 characters of A-Z, a-z, 0-9, _ and -")

// maxID keeps a channel id, its prefix and an attachment prefix well below the
// 255 bytes a file name may have on Linux.
const maxID = 128

// CheckID is the one gate through which an id from outside becomes a file
// name. It returns an error that wraps ErrBadID and quotes at most the first
// 40 bytes of the id.
func CheckID(id string) error {
	ok := len(id) > 0 && len(id) <= maxID
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		ok = c == '_' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
	}
	if ok {
		return nil
	}
	if len(id) > 40 {
		return fmt.Errorf("%q…: %w", id[:40], ErrBadID)
	}
	return fmt.Errorf("%q: %w", id, ErrBadID)
}

// Parse reads a channel id. Every id it accepts passes CheckID, and
// Parse(a.Channel()) gives a back.
func Parse(channel string) (Address, error) {
	for _, f := range flat {
		if id, ok := strings.CutPrefix(channel, f.prefix); ok {
			if err := CheckID(id); err != nil {
				return Address{}, fmt.Errorf("channel %w", err)
			}
			return Address{Space: f.space, ID: id}, nil
		}
	}
	if err := CheckID(channel); err != nil {
		return Address{}, fmt.Errorf("channel %w", err)
	}
	if rest, ok := strings.CutPrefix(channel, "tg-"); ok {
		return parseTelegram(channel, rest)
	}
	return Address{Space: Slack, ID: channel}, nil
}

// parseTelegram undoes telegramID: what follows the last dash is the topic
// when it is all digits and something precedes it.
func parseTelegram(channel, rest string) (Address, error) {
	id, thread := rest, ""
	if i := strings.LastIndexByte(rest, '-'); i > 0 && digits(rest[i+1:]) {
		id, thread = rest[:i], rest[i+1:]
	}
	num := id
	if neg, ok := strings.CutPrefix(id, "n"); ok {
		num = neg
	}
	if !digits(num) {
		return Address{}, fmt.Errorf("channel %q is not a Telegram chat: %w", channel, ErrBadID)
	}
	if num != id {
		id = "-" + num
	}
	return Address{Space: Telegram, ID: id, Thread: thread}, nil
}

func digits(s string) bool {
	if s == "" {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil && s[0] != '+'
}

// Channel returns the channel id. It does not validate; addresses come from
// Parse or from a transport that checked its ids with CheckID.
func (a Address) Channel() string {
	for _, f := range flat {
		if a.Space == f.space {
			return f.prefix + a.ID
		}
	}
	if a.Space != Telegram {
		return a.ID
	}
	id := a.ID
	if abs, ok := strings.CutPrefix(id, "-"); ok {
		id = "n" + abs
	}
	if a.Thread != "" {
		id += "-" + a.Thread
	}
	return "tg-" + id
}

// Dir returns the directory of the conversation relative to the workspace.
func (a Address) Dir() string {
	switch a.Space {
	case Slack, Telegram:
		return path.Join(string(a.Space), a.Channel())
	}
	return a.Channel()
}

// Headless reports that nobody reads the conversation while a turn runs, so
// that progress is told through events and never as chat messages.
func (a Address) Headless() bool {
	switch a.Space {
	case Session, Bridge, Escalate, SelfHeal:
		return true
	}
	return false
}

// IsZero reports whether a is no address.
func (a Address) IsZero() bool { return a == Address{} }

// String returns the channel id, for logs.
func (a Address) String() string { return a.Channel() }

// threadPrefix begins the ids of sessions that people open by a thread of Slack.
const threadPrefix = "slack-"

// ThreadSession is the session of a thread of Slack: always the same one.
func ThreadSession(channel, ts string) Address {
	return Address{Space: Session, ID: threadPrefix + channel + "-" + strings.ReplaceAll(ts, ".", "-")}
}

// ThreadOf undoes ThreadSession; ok is false for all other addresses.
func ThreadOf(a Address) (channel, ts string, ok bool) {
	rest, found := strings.CutPrefix(a.ID, threadPrefix)
	parts := strings.Split(rest, "-")
	if a.Space != Session || !found || len(parts) != 3 || !IsSlackChannel(parts[0]) {
		return "", "", false
	}
	ts = parts[1] + "." + parts[2]
	return parts[0], ts, IsSlackTime(ts)
}

// IsSlackChannel reports that id can be a conversation of Slack.
func IsSlackChannel(id string) bool {
	if len(id) < 2 || len(id) > 32 || !strings.ContainsRune("CDGW", rune(id[0])) {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// IsSlackTime reports that ts can be the id of a message of Slack.
func IsSlackTime(ts string) bool {
	seconds, micros, ok := strings.Cut(ts, ".")
	return ok && len(micros) == 6 && len(seconds) <= 12 && digits(seconds) && digits(micros)
}
