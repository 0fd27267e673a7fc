// Package telegramtest holds a Bot API server for tests, as strict as the real
// one: entities that do not parse, texts that are too long, buttons with too
// much data and calls that come too fast are refused with the words of the real
// one. It can break connections in every way that is known. It owns what people
// in its chats see; it shares no code with the transport it tests.
package telegramtest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are the settings of a Server. The zero value is good.
type Options struct {
	// Token, BotID and Username are the bot's: "42:TEST", 42, "iris_bot".
	Token    string
	BotID    int64
	Username string
	// Gap and Burst are how fast one chat may be written to: 1 s, and 5 at once.
	// A negative Gap: as fast as anybody likes.
	Gap   time.Duration
	Burst int
	// Now is the clock of the messages: time.Now.
	Now func() time.Time
}

// A User is a person or a bot.
type User struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name,omitempty"`
	Username  string `json:"username,omitempty"`
}

// A Chat is where messages are.
type Chat struct {
	ID       int64  `json:"id"`
	Type     string `json:"type"`
	Title    string `json:"title,omitempty"`
	Username string `json:"username,omitempty"`
	IsForum  bool   `json:"is_forum,omitempty"`
}

// A Size is a photo in one size.
type Size struct {
	FileID   string `json:"file_id"`
	Unique   string `json:"file_unique_id"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
	FileSize int64  `json:"file_size,omitempty"`
}

// A File is a document, a sound or a film.
type File struct {
	FileID   string `json:"file_id"`
	Unique   string `json:"file_unique_id"`
	FileName string `json:"file_name,omitempty"`
	MimeType string `json:"mime_type,omitempty"`
	FileSize int64  `json:"file_size,omitempty"`
	Duration int    `json:"duration"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
}

// An Entity is a piece of formatting, in UTF-16 units.
type Entity struct {
	Type     string `json:"type"`
	Offset   int    `json:"offset"`
	Length   int    `json:"length"`
	URL      string `json:"url,omitempty"`
	Language string `json:"language,omitempty"`
}

// A Button is a key below a message.
type Button struct {
	Text         string `json:"text"`
	CallbackData string `json:"callback_data,omitempty"`
	URL          string `json:"url,omitempty"`
}

// A Keyboard is the keys below a message.
type Keyboard struct {
	InlineKeyboard [][]Button `json:"inline_keyboard"`
}

// A Message is one as the Bot API tells it.
type Message struct {
	ID       int       `json:"message_id"`
	Thread   int       `json:"message_thread_id,omitempty"`
	Topic    bool      `json:"is_topic_message,omitempty"`
	From     *User     `json:"from,omitempty"`
	Chat     Chat      `json:"chat"`
	Date     int64     `json:"date"`
	Edited   int64     `json:"edit_date,omitempty"`
	Text     string    `json:"text,omitempty"`
	Entities []Entity  `json:"entities,omitempty"`
	Caption  string    `json:"caption,omitempty"`
	ReplyTo  *Message  `json:"reply_to_message,omitempty"`
	Group    string    `json:"media_group_id,omitempty"`
	Document *File     `json:"document,omitempty"`
	Audio    *File     `json:"audio,omitempty"`
	Voice    *File     `json:"voice,omitempty"`
	Video    *File     `json:"video,omitempty"`
	Photo    []Size    `json:"photo,omitempty"`
	Markup   *Keyboard `json:"reply_markup,omitempty"`
	Migrate  int64     `json:"migrate_to_chat_id,omitempty"`

	// Sent is the text as it was sent, with its tags; Mode its parse mode.
	Sent string `json:"-"`
	Mode string `json:"-"`
	// Pinned says that it is before the others.
	Pinned bool `json:"-"`
}

// A Click is a key that somebody pressed.
type Click struct {
	ID      string   `json:"id"`
	From    User     `json:"from"`
	Message *Message `json:"message,omitempty"`
	Data    string   `json:"data"`
}

// An Update is what a bot is told.
type Update struct {
	ID      int64    `json:"update_id"`
	Message *Message `json:"message,omitempty"`
	Click   *Click   `json:"callback_query,omitempty"`

	raw map[string]any
}

// MarshalJSON is the update as the bot gets it.
func (u Update) MarshalJSON() ([]byte, error) {
	type plain Update
	if u.raw == nil {
		return json.Marshal(plain(u))
	}
	return json.Marshal(map[string]any{"update_id": u.ID, "message": u.raw})
}

// A Call is a request that came in.
type Call struct {
	Method string
	Chat   string
	At     time.Time
	// Values are the fields of the request.
	Values map[string]string
}

// Server is a Bot API server on loopback.
type Server struct {
	opts Options
	http *httptest.Server

	// mu guards the fields below.
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when there are updates, or a second poller
	next     int64
	message  int
	updates  []Update
	offset   int64
	poller   int
	messages map[int64][]*Message
	chats    map[string]*flood
	files    map[string][]byte
	breaks   map[string][]Break
	always   func(method string, chat string) *Break
	webhook  bool
	calls    []Call
	answered map[string]string
	commands []string
	wrong    []string
	missing  map[int]bool // topics that are not there
	migrated map[string]int64
	// mayNotPin are groups in which the bot may not pin.
	mayNotPin map[int64]bool
}

type flood struct {
	times  []time.Time
	banned time.Time
	bans   int
}

// New starts a server. Close it.
func New(opts Options) *Server {
	if opts.Token == "" {
		opts.Token = "42:TEST"
	}
	if opts.BotID == 0 {
		opts.BotID = 42
	}
	if opts.Username == "" {
		opts.Username = "iris_bot"
	}
	if opts.Gap == 0 {
		opts.Gap = time.Second
	}
	if opts.Burst == 0 {
		opts.Burst = 5
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Server{opts: opts, changed: make(chan struct{}), next: 1000, message: 10, messages: map[int64][]*Message{},
		chats: map[string]*flood{}, files: map[string][]byte{}, breaks: map[string][]Break{}, answered: map[string]string{},
		missing: map[int]bool{}, migrated: map[string]int64{}}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ErrorLog = nil
	s.http.Start()
	return s
}

// Close ends the server and all connections.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.wake()
	s.http.Close()
}

// URL is where the server listens.
func (s *Server) URL() string { return s.http.URL }

// Token is the bot's.
func (s *Server) Token() string { return s.opts.Token }

func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked()
}

func (s *Server) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Private is the private chat of a person.
func Private(u User) Chat { return Chat{ID: u.ID, Type: "private", Username: u.Username} }

// Say puts a message of a person into a chat and returns its id.
func (s *Server) Say(c Chat, from User, text string) int {
	return s.Put(Message{Chat: c, From: &from, Text: text})
}

// Put puts any message into its chat and returns its id. ID and Date are filled
// in when they are zero.
func (s *Server) Put(m Message) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.ID == 0 {
		s.message++
		m.ID = s.message
	}
	if m.Date == 0 {
		m.Date = s.opts.Now().Unix()
	}
	s.messages[m.Chat.ID] = append(s.messages[m.Chat.ID], &m)
	s.push(Update{Message: &m})
	return m.ID
}

// push tells the bot. mu must be held.
func (s *Server) push(u Update) {
	s.next++
	u.ID = s.next
	s.updates = append(s.updates, u)
	s.wakeLocked()
}

// Repeat tells the bot once more of its last update, under a new number.
func (s *Server) Repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.updates); n > 0 {
		u := s.updates[n-1]
		s.push(u)
	}
}

// Click presses the key with the data below a message and returns the id of the
// click.
func (s *Server) Click(chat int64, message int, from User, data string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("click%d", s.next+1)
	var m *Message
	for _, x := range s.messages[chat] {
		if x.ID == message {
			m = x
		}
	}
	s.push(Update{Click: &Click{ID: id, From: from, Message: m, Data: data}})
	return id
}

// NoPins takes the right to pin in a group away.
func (s *Server) NoPins(chat int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mayNotPin == nil {
		s.mayNotPin = map[int64]bool{}
	}
	s.mayNotPin[chat] = true
}

// Answered is what a click was answered with; ok is false while it was not.
func (s *Server) Answered(click string) (text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok = s.answered[click]
	return text, ok
}

// AddFile makes a file that can be downloaded.
func (s *Server) AddFile(id string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[id] = content
}

// Messages are those of the bot in a chat, oldest first.
func (s *Server) Messages(chat int64) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages[chat] {
		if m.From != nil && m.From.IsBot && m.From.ID == s.opts.BotID {
			out = append(out, *m)
		}
	}
	return out
}

// Remove makes a message disappear, as a person may.
func (s *Server) Remove(chat int64, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[chat] = slices.DeleteFunc(s.messages[chat], func(m *Message) bool { return m.ID == id })
}

// Calls are the requests that came in.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Wrong is what a server would complain about: calls inside a wait.
func (s *Server) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// Offset is the number of the first update that is not confirmed; Open how many
// are not.
func (s *Server) Offset() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offset
}

// Open is how many updates are not confirmed.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates)
}

// Commands are those of setMyCommands.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

// CloseTopic makes a topic disappear, SetWebhook a webhook stand in the way of
// getUpdates, Migrate a group move.
func (s *Server) CloseTopic(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing[id] = true
}

// SetWebhook puts a webhook in the way of getUpdates.
func (s *Server) SetWebhook() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = true
}

// Migrate makes a group a supergroup with another id.
func (s *Server) Migrate(old, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.migrated[fmt.Sprint(old)] = id
}

// A Break is what becomes of one call instead of an answer.
type Break struct {
	// How is one of Breaks, or empty: then Status and Body are answered.
	How    string
	Status int
	Body   string
	// Applied lets the call have its effect all the same.
	Applied bool
	// After, for Status 429, is the retry_after.
	After int
}

// The ways a connection breaks.
const (
	EOF       = "eof"        // closed without a byte
	RST       = "rst"        // reset
	Half      = "half"       // closed in the middle of the body
	HalfHead  = "half head"  // closed in the middle of the header
	Hang      = "hang"       // no answer for ever
	HangBody  = "hang body"  // a header, half a body, then nothing
	Garbage   = "garbage"    // no HTTP at all
	Trickle   = "trickle"    // a byte now and then
	BadLength = "bad length" // more is promised than comes
)

// Next breaks the next call of a method; called again, the one after it.
func (s *Server) Next(method string, b Break) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaks[method] = append(s.breaks[method], b)
}

// Always asks f about every call; nil breaks none.
func (s *Server) Always(f func(method, chat string) *Break) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = f
}

// Pardon ends all waits, as time would.
func (s *Server) Pardon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats = map[string]*flood{}
}

// apply breaks an answer. It reports whether it did.
func (s *Server) breakIt(w http.ResponseWriter, r *http.Request, b Break) {
	raw := func(f func(c net.Conn)) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		f(c)
	}
	switch b.How {
	case EOF:
		raw(func(net.Conn) {})
	case RST:
		raw(func(c net.Conn) {
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetLinger(0)
			}
		})
	case Half:
		raw(func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"ok\":tr")
		})
	case HalfHead:
		raw(func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Ty") })
	case Garbage:
		raw(func(c net.Conn) { fmt.Fprint(c, "\x16\x03\x01\x02 this is no HTTP\r\n\r\n") })
	case BadLength:
		w.Header().Set("Content-Length", "5000")
		fmt.Fprint(w, `{"ok":true,"result":[]}`)
		raw(func(net.Conn) {})
	case Hang:
		<-r.Context().Done()
	case HangBody:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok":true,"resu`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case Trickle:
		for i := 0; ; i++ {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(200 * time.Millisecond):
				if _, err := fmt.Fprint(w, " "); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}
	default:
		if b.Status == http.StatusTooManyRequests && b.Body == "" {
			fail(w, http.StatusTooManyRequests, fmt.Sprintf("Too Many Requests: retry after %d", b.After), map[string]any{"retry_after": b.After})
			return
		}
		if b.Status == 0 {
			b.Status = http.StatusOK
		}
		w.WriteHeader(b.Status)
		fmt.Fprint(w, b.Body)
	}
}

func fail(w http.ResponseWriter, code int, text string, params map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	out := map[string]any{"ok": false, "error_code": code, "description": text}
	if params != nil {
		out["parameters"] = params
	}
	_ = json.NewEncoder(w).Encode(out)
}

func succeed(w http.ResponseWriter, result any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

func words(code int, text string) string {
	if strings.HasPrefix(text, http.StatusText(code)) {
		return text
	}
	return http.StatusText(code) + ": " + text
}

// PutRaw tells the bot of a message that a Message cannot say.
func (s *Server) PutRaw(message map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(Update{raw: message})
}
