package route

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Mode says what a channel of Slack is used for.
type Mode string

// The modes.
const (
	// Chat ("dm", or its alias "admin"): one conversation; Iris answers who
	// mentions her. It is also that of channels without an entry.
	Chat Mode = "dm"
	// Leads: one conversation; everything at the top level is answered, bots
	// included.
	Leads Mode = "leads"
	// Thread: every thread is a session, if the API made one for it.
	Thread Mode = "thread"
	// InteractiveThread: every thread is a session; people open them.
	InteractiveThread Mode = "interactive-thread"
	// Passthrough: everything is forwarded to a web address, which answers.
	Passthrough Mode = "passthrough"
	// Agent: every thread that Iris is mentioned in is a conversation with the
	// agent program of a project.
	Agent Mode = "agent"
)

func (m Mode) sessions() bool { return m == Thread || m == InteractiveThread || m == Agent }

// Sessions reports that every thread is a conversation of its own.
func (c Channel) Sessions() bool { return c.Mode.sessions() }

// A Channel is an entry of meta/channels.json.
type Channel struct {
	Mode Mode `json:"mode"`
	// MentionForTop has a message at the top level count only with a mention.
	MentionForTop bool `json:"requireMentionForTopLevel,omitempty"`
	// URL, SecretName, Payload and ReplyPrefix belong to Passthrough: where to
	// post, the name of the secret that is the key, what to post, and what stands
	// before a reply.
	URL         string          `json:"url,omitempty"`
	SecretName  string          `json:"secretName,omitempty"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	ReplyPrefix string          `json:"replyPrefix,omitempty"`
	// Project names the one that answers, with Agent; empty: the first whose lists
	// take the message.
	Project string `json:"project,omitempty"`
	// Listed says that meta/channels.json has an entry for the channel, which then
	// counts more than the lists of projects.
	Listed bool `json:"-"`
}

// Channels are the entries of meta/channels.json by id, or by the beginning of
// ids with a star after it.
type Channels map[string]Channel

// ParseChannels reads meta/channels.json. An entry that cannot be used is left
// out, whole, and named in warnings; the error is about the file itself.
func ParseChannels(data []byte) (all Channels, warnings []string, err error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, nil, fmt.Errorf("channels.json: %w", err)
	}
	all = Channels{}
	for id, entry := range raw {
		var c Channel
		if err := json.Unmarshal(entry, &c); err != nil {
			warnings = append(warnings, fmt.Sprintf("%q is ignored: %v", id, err))
			continue
		}
		switch c.Mode {
		case "admin":
			c.Mode = Chat
		case Chat, Leads, Thread, InteractiveThread, Passthrough:
		case Agent:
			if c.Project == "" {
				warnings = append(warnings, fmt.Sprintf("%q is ignored: mode agent needs the name of a project", id))
				continue
			}
		default:
			warnings = append(warnings, fmt.Sprintf("%q is ignored: there is no mode %q", id, c.Mode))
			continue
		}
		c.Listed = true
		all[id] = c
	}
	slices.Sort(warnings)
	return all, warnings, nil
}

// For returns how a channel is used: by its own entry, else by that of the
// longest beginning, else as a chat.
func (cs Channels) For(id string) Channel {
	if c, ok := cs[id]; ok {
		return c
	}
	found, longest := Channel{Mode: Chat}, -1
	for key, c := range cs {
		if prefix, star := strings.CutSuffix(key, "*"); star && strings.HasPrefix(id, prefix) && len(prefix) > longest {
			found, longest = c, len(prefix)
		}
	}
	return found
}

// Bots reports that what bots say is of interest there.
func (c Channel) Bots() bool { return c.Mode == Leads || c.Mode == InteractiveThread }

// Quiet reports that nobody is told there that the queue is full.
func (c Channel) Quiet() bool { return c.Mode == Leads }
