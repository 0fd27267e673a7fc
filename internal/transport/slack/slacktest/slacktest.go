// Package slacktest is a Slack on loopback: the Web API and Socket Mode, as far
// as Iris uses them and as strict as the real one, or stricter. It checks tokens
// and scopes, counts a message's length as Slack does, redelivers what nobody
// acknowledged, and writes down what a client did wrong.
package slacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Names of the workspace that every Server has.
const (
	BotUser = "U0BOT"
	BotID   = "B0BOT"
	TeamID  = "T0TEAM"
	// BotToken and AppToken are the ones that are taken.
	BotToken = "xoxb-test-bot"
	AppToken = "xapp-test-app"
)

// AllScopes are those an Iris asks for.
var AllScopes = []string{"app_mentions:read", "channels:history", "channels:read", "chat:write", "commands", "files:read", "files:write",
	"groups:history", "groups:read", "im:history", "im:read", "im:write", "mpim:history", "mpim:read", "pins:write", "reactions:write", "users:read"}

// Options of a Server. The zero value is a Slack in a good mood.
type Options struct {
	// Scopes of the bot token; nil: AllScopes.
	Scopes []string
	// MaxChars is the longest text of a message, counted after escaping: 4000.
	MaxChars int
	// Gap is how often one channel takes a call of chat.*, after Burst at once;
	// 0: no limit. A call inside the wait is wrong and makes it longer.
	Gap   time.Duration
	Burst int
	// AckWait is how long an envelope waits for its acknowledgement: 3 s.
	AckWait time.Duration
	// Retries is how often an envelope is sent again: 3.
	Retries int
	// Fault decides what becomes of a call of the Web API; nil: nothing special.
	Fault func(method string, form url.Values) Fault
}

// A Fault is what becomes of a call. The zero value is none.
type Fault struct {
	// Error is the error of the answer, Status its HTTP status, RetryAfter the
	// header of a 429.
	Error      string
	Status     int
	RetryAfter time.Duration
	// Lose cuts the connection after the call had its effect, Cut before.
	Lose, Cut bool
	// Takes is how long it takes.
	Takes time.Duration
}

// A Message is one of a channel.
type Message struct {
	Type     string          `json:"type"`
	Subtype  string          `json:"subtype,omitempty"`
	TS       string          `json:"ts"`
	ThreadTS string          `json:"thread_ts,omitempty"`
	User     string          `json:"user,omitempty"`
	BotID    string          `json:"bot_id,omitempty"`
	Text     string          `json:"text"`
	Blocks   json.RawMessage `json:"blocks,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Files    []File          `json:"files,omitempty"`
	Edited   bool            `json:"-"`
	Pinned   bool            `json:"-"`
	// ReplyCount and LatestReply are those of a thread's first message.
	ReplyCount  int    `json:"reply_count,omitempty"`
	LatestReply string `json:"latest_reply,omitempty"`
}

// A File is one that was shared.
type File struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Title    string `json:"title,omitempty"`
	Mimetype string `json:"mimetype,omitempty"`
	Filetype string `json:"filetype,omitempty"`
	Size     int    `json:"size"`
	Private  string `json:"url_private,omitempty"`
	Download string `json:"url_private_download,omitempty"`
	Plain    string `json:"plain_text,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Content  []byte `json:"-"`
	// HTML answers a download with the sign-in page, as for a missing scope.
	HTML bool `json:"-"`
}

type channel struct {
	id, name, user string
	member         bool
	messages       []*Message
	times          []time.Time
	banned         time.Time
	bans           int
}

type user struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Deleted bool   `json:"deleted"`
	IsBot   bool   `json:"is_bot"`
	Profile struct {
		RealName string `json:"real_name"`
		Display  string `json:"display_name"`
	} `json:"profile"`
}

// A Server is a Slack. It is safe for concurrent use.
type Server struct {
	opts Options
	http *httptest.Server

	// mu guards the fields below.
	mu       sync.Mutex
	closed   bool
	last     int64
	channels map[string]*channel
	users    []*user
	files    map[string]*File
	conns    map[*conn]struct{}
	tickets  map[string]bool
	opened   int
	envs     map[string]*envelope
	queue    []*envelope // without a connection
	nextEnv  int
	wrong    []string
	calls    []Call
	ephem    []Ephemeral
	paused   bool
	timers   sync.WaitGroup
}

// A Call is one of the Web API.
type Call struct {
	Method string
	Form   url.Values
}

// An Ephemeral is a message that one person sees.
type Ephemeral struct{ Channel, User, Text string }

// New starts a Server; Close ends it.
func New(opts Options) *Server {
	if opts.Scopes == nil {
		opts.Scopes = AllScopes
	}
	if opts.MaxChars == 0 {
		opts.MaxChars = 4000
	}
	if opts.AckWait == 0 {
		opts.AckWait = 3 * time.Second
	}
	if opts.Retries == 0 {
		opts.Retries = 3
	}
	s := &Server{opts: opts, channels: map[string]*channel{}, files: map[string]*File{}, conns: map[*conn]struct{}{},
		tickets: map[string]bool{}, envs: map[string]*envelope{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/", s.api)
	mux.HandleFunc("/link/", s.socket)
	mux.HandleFunc("/files/", s.download)
	mux.HandleFunc("/upload/", s.upload)
	s.http = httptest.NewServer(mux)
	s.AddUser("U0BOT", "iris", "Iris")
	return s
}

// URL is the base of the Web API, with a slash at its end.
func (s *Server) URL() string { return s.http.URL + "/api/" }

// Close ends the Server and all connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	all := s.connsLocked()
	for _, e := range s.envs {
		e.stop()
	}
	s.mu.Unlock()
	for _, c := range all {
		c.drop()
	}
	s.http.CloseClientConnections()
	s.http.Close()
	s.timers.Wait()
}

// Fault sets Options.Fault.
func (s *Server) Fault(f func(method string, form url.Values) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Fault = f
}

// Pace sets Options.Gap and Burst, and ends all waits.
func (s *Server) Pace(gap time.Duration, burst int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Gap, s.opts.Burst = gap, burst
	for _, c := range s.channels {
		c.times, c.banned, c.bans = nil, time.Time{}, 0
	}
}

// Revoke takes scopes from the bot token.
func (s *Server) Revoke(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Scopes = slices.DeleteFunc(slices.Clone(s.opts.Scopes), func(x string) bool { return slices.Contains(scopes, x) })
}

// AddUser adds a person.
func (s *Server) AddUser(id, name, real string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &user{ID: id, Name: name}
	u.Profile.RealName = real
	s.users = append(s.users, u)
}

// AddChannel adds a channel that the bot is in. An id with D is a private chat
// with the user called name.
func (s *Server) AddChannel(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &channel{id: id, name: name, member: true}
	if strings.HasPrefix(id, "D") {
		c.name, c.user = "", name
	}
	s.channels[id] = c
}

// Leave takes the bot out of a channel.
func (s *Server) Leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[id].member = false
}

// Messages are what people see in a channel, oldest first.
func (s *Server) Messages(id string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Message
	if c := s.channels[id]; c != nil {
		for _, m := range c.messages {
			all = append(all, *m)
		}
	}
	return all
}

// Own are the bot's messages among Messages.
func (s *Server) Own(id string) []Message {
	return slices.DeleteFunc(s.Messages(id), func(m Message) bool { return m.BotID != BotID })
}

// FileContent returns what was uploaded.
func (s *Server) FileContent(id string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[id]; f != nil {
		return f.Content
	}
	return nil
}

// Calls are those of the Web API until now.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Ephemerals are the messages that one person saw.
func (s *Server) Ephemerals() []Ephemeral {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ephem)
}

// Wrong is what a client did that it should not.
func (s *Server) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// complain writes down what is wrong. mu must be held.
func (s *Server) complain(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// stamp makes a message id. mu must be held.
func (s *Server) stamp() string {
	s.last = max(s.last+1, time.Now().UnixMicro())
	return Stamp(s.last)
}

// Stamp writes microseconds as a message id.
func Stamp(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6) }

// AddFile puts a file on the server, to be part of a message.
func (s *Server) AddFile(f File) File {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.ID = fmt.Sprintf("F%d", len(s.files)+1)
	f.Size = len(f.Content)
	f.Private = s.http.URL + "/files/" + f.ID
	f.Download = f.Private
	s.files[f.ID] = &f
	return f
}

// Put adds a message to a channel without telling anybody, as in the time of an
// outage. An empty TS is made.
func (s *Server) Put(id string, m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.TS == "" {
		m.TS = s.stamp()
	}
	m.Type = "message"
	c := s.channels[id]
	c.messages = append(c.messages, &m)
	slices.SortStableFunc(c.messages, func(a, b *Message) int { return strings.Compare(a.TS, b.TS) })
	s.countReply(c, &m)
	return m
}

// countReply keeps a thread's first message up to date. mu must be held.
func (s *Server) countReply(c *channel, m *Message) {
	if m.ThreadTS == "" || m.ThreadTS == m.TS {
		return
	}
	for _, p := range c.messages {
		if p.TS == m.ThreadTS {
			p.ThreadTS = p.TS
			p.ReplyCount++
			p.LatestReply = max(p.LatestReply, m.TS)
		}
	}
}

// Say has somebody write, and sends the events of it. It returns the message and
// the ids of the envelopes.
func (s *Server) Say(id string, m Message) (Message, []string) {
	m = s.Put(id, m)
	return m, s.Tell(id, m)
}

// Tell sends the events of a message.
func (s *Server) Tell(id string, m Message) []string {
	kind := "channel"
	switch id[0] {
	case 'D':
		kind = "im"
	case 'G':
		kind = "group"
	}
	event := func(typ string) map[string]any {
		var e map[string]any
		data, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		if err != nil {
			panic(err)
		}
		e["type"], e["channel"], e["event_ts"] = typ, id, m.TS
		if typ == "message" {
			e["channel_type"] = kind
		}
		return e
	}
	ids := []string{s.Event(event("message"))}
	if kind != "im" && strings.Contains(m.Text, "<@"+BotUser+">") {
		ids = append(ids, s.Event(event("app_mention")))
	}
	return ids
}

// Event sends an event and returns its envelope's id.
func (s *Server) Event(event map[string]any) string {
	return s.Send("events_api", map[string]any{"type": "event_callback", "team_id": TeamID, "event": event,
		"event_id": "Ev" + fmt.Sprint(time.Now().UnixNano()), "event_time": time.Now().Unix()}, false)
}

// Slash sends a slash command.
func (s *Server) Slash(channelID, userID, command, text string) string {
	return s.Send("slash_commands", map[string]any{"command": command, "text": text, "channel_id": channelID, "user_id": userID,
		"user_name": userID, "team_id": TeamID}, true)
}

// Press presses a button below a message.
func (s *Server) Press(channelID, userID string, m Message, action, value string) string {
	return s.Send("interactive", map[string]any{"type": "block_actions", "user": map[string]any{"id": userID, "username": userID},
		"channel": map[string]any{"id": channelID}, "message": map[string]any{"ts": m.TS, "thread_ts": m.ThreadTS},
		"container": map[string]any{"type": "message", "channel_id": channelID, "message_ts": m.TS},
		"actions":   []map[string]any{{"action_id": action, "value": value, "type": "button"}}}, false)
}
