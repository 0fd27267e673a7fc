package telegramtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A refusal is an answer that is no success.
type refusal struct {
	code   int
	text   string
	params map[string]any
}

func no(text string) *refusal { return &refusal{code: http.StatusBadRequest, text: text} }

// request is what came, whatever its encoding.
type request struct {
	values map[string]string
	name   string // of an uploaded file
	file   []byte
	sent   bool // there was a file
}

func read(r *http.Request) (q request, err error) {
	q.values = map[string]string{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		var raw map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
			return q, err
		}
		for k, v := range raw {
			var s string
			if json.Unmarshal(v, &s) != nil {
				s = string(v)
			}
			q.values[k] = s
		}
		return q, nil
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		if err := r.ParseForm(); err != nil {
			return q, err
		}
		for k, v := range r.Form {
			q.values[k] = v[0]
		}
		return q, nil
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return q, err
	}
	for {
		p, err := parts.NextPart()
		if err == io.EOF {
			return q, nil
		}
		if err != nil {
			// A form without any field has no boundary at all.
			if len(q.values) == 0 {
				return q, nil
			}
			return q, err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return q, err
		}
		if p.FileName() != "" {
			q.name, q.file, q.sent = p.FileName(), data, true
			continue
		}
		q.values[p.FormName()] = string(data)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/file/bot"+s.opts.Token+"/"); ok {
		s.download(w, r, rest)
		return
	}
	method, ok := strings.CutPrefix(path, "/bot"+s.opts.Token+"/")
	if !ok {
		fail(w, http.StatusUnauthorized, "Unauthorized", nil)
		return
	}
	q, err := read(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "Bad Request: "+err.Error(), nil)
		return
	}
	chat := q.values["chat_id"]
	b := s.note(method, chat, q)
	if b != nil && !b.Applied {
		s.breakIt(w, r, *b)
		return
	}
	var result any
	var refused *refusal
	if method == "getUpdates" {
		result, refused = s.getUpdates(r, q)
	} else {
		result, refused = s.do(method, chat, q)
	}
	switch {
	case b != nil:
		s.breakIt(w, r, *b)
	case refused != nil:
		fail(w, refused.code, words(refused.code, refused.text), refused.params)
	default:
		succeed(w, result)
	}
}

// note remembers a call and looks whether it is to break.
func (s *Server) note(method, chat string, q request) *Break {
	s.mu.Lock()
	s.calls = append(s.calls, Call{Method: method, Chat: chat, At: time.Now(), Values: q.values})
	var b *Break
	if list := s.breaks[method]; len(list) > 0 {
		b = &list[0]
		s.breaks[method] = list[1:]
	}
	always := s.always
	s.mu.Unlock()
	if b == nil && always != nil {
		b = always(method, chat)
	}
	if b != nil && b.Status == http.StatusTooManyRequests && chat != "" && s.opts.Gap >= 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		f := s.chats[chat]
		if f == nil {
			f = &flood{}
			s.chats[chat] = f
		}
		// Nobody is told off for being in the wait already: it is a new one.
		f.banned = time.Now().Add(time.Duration(b.After) * time.Second)
	}
	return b
}

func (s *Server) download(w http.ResponseWriter, r *http.Request, path string) {
	if b := s.note("download", "", request{}); b != nil {
		s.breakIt(w, r, *b)
		return
	}
	s.mu.Lock()
	content, ok := s.files[strings.TrimPrefix(path, "documents/")]
	s.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "Not Found", nil)
		return
	}
	_, _ = w.Write(content)
}

// getUpdates waits for updates. A second poller ends the first.
func (s *Server) getUpdates(r *http.Request, q request) (any, *refusal) {
	offset, _ := strconv.ParseInt(q.values["offset"], 10, 64)
	seconds, _ := strconv.Atoi(q.values["timeout"])
	limit, _ := strconv.Atoi(q.values["limit"])
	if limit <= 0 || limit > 100 {
		limit = 100
	}
	s.mu.Lock()
	if s.webhook {
		s.mu.Unlock()
		return nil, &refusal{code: http.StatusConflict, text: "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}
	}
	s.poller++
	me := s.poller
	s.wakeLocked()
	s.offset = max(s.offset, offset)
	s.updates = slices.DeleteFunc(s.updates, func(u Update) bool { return u.ID < offset })
	s.mu.Unlock()
	over := time.NewTimer(time.Duration(seconds) * time.Second)
	defer over.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		out := slices.Clone(s.updates[:min(limit, len(s.updates))])
		mine := s.poller == me
		s.mu.Unlock()
		switch {
		case !mine:
			return nil, &refusal{code: http.StatusConflict, text: "terminated by other getUpdates request; make sure that only one bot instance is running"}
		case len(out) > 0 || seconds == 0:
			return out, nil
		}
		select {
		case <-changed:
		case <-over.C:
			return []Update{}, nil
		case <-r.Context().Done():
			return []Update{}, nil
		}
	}
}

func (s *Server) do(method, chat string, q request) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case "getMe":
		return User{ID: s.opts.BotID, IsBot: true, FirstName: "Iris", Username: s.opts.Username}, nil
	case "getWebhookInfo":
		url := ""
		if s.webhook {
			url = "https://elsewhere.example/hook"
		}
		return map[string]any{"url": url, "has_custom_certificate": false, "pending_update_count": len(s.updates)}, nil
	case "deleteWebhook":
		s.webhook = false
		if q.values["drop_pending_updates"] == "true" {
			s.updates = nil
		}
		return true, nil
	case "setMyCommands":
		var list []struct{ Command, Description string }
		if json.Unmarshal([]byte(q.values["commands"]), &list) != nil {
			return nil, no("can't parse BotCommand")
		}
		s.commands = nil
		for _, c := range list {
			if c.Command == "" || c.Description == "" || strings.ToLower(c.Command) != c.Command {
				return nil, no("BOT_COMMAND_INVALID")
			}
			s.commands = append(s.commands, c.Command)
		}
		return true, nil
	case "answerCallbackQuery":
		id := q.values["callback_query_id"]
		if _, done := s.answered[id]; done || id == "" {
			return nil, no("query is too old and response timeout expired or query ID is invalid")
		}
		if len(q.values["text"]) > 200 {
			return nil, no("MESSAGE_TOO_LONG")
		}
		s.answered[id] = q.values["text"]
		return true, nil
	case "getFile":
		id := q.values["file_id"]
		content, ok := s.files[id]
		switch {
		case !ok:
			return nil, no("invalid file_id")
		case len(content) > 20<<20:
			return nil, no("file is too big")
		}
		return map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_size": len(content), "file_path": "documents/" + id}, nil
	case "sendMessage", "editMessageText", "deleteMessage", "pinChatMessage", "sendDocument", "sendPhoto":
		return s.write(method, chat, q)
	}
	return nil, &refusal{code: http.StatusNotFound, text: "Not Found: method not found"}
}

// write changes a chat. mu must be held.
func (s *Server) write(method, chat string, q request) (any, *refusal) {
	if refused := s.flood(method, chat); refused != nil {
		return nil, refused
	}
	if id := s.migrated[chat]; id != 0 {
		return nil, &refusal{code: http.StatusBadRequest, text: "group chat was upgraded to a supergroup chat", params: map[string]any{"migrate_to_chat_id": id}}
	}
	id, err := strconv.ParseInt(chat, 10, 64)
	if err != nil || id == 0 {
		return nil, no("chat not found")
	}
	thread, _ := strconv.Atoi(q.values["message_thread_id"])
	if s.missing[thread] {
		return nil, no("message thread not found")
	}
	keyboard, refused := keys(q.values["reply_markup"])
	if refused != nil {
		return nil, refused
	}
	message, _ := strconv.Atoi(q.values["message_id"])
	at := slices.IndexFunc(s.messages[id], func(m *Message) bool { return m.ID == message })
	switch method {
	case "deleteMessage":
		if at < 0 {
			return nil, no("message to delete not found")
		}
		s.messages[id] = slices.Delete(s.messages[id], at, at+1)
		return true, nil
	case "pinChatMessage":
		switch {
		case id < 0 && s.mayNotPin[id]:
			return nil, no("not enough rights to manage pinned messages in the chat")
		case at < 0:
			return nil, no("message to pin not found")
		case s.messages[id][at].Pinned:
			return nil, no("CHAT_NOT_MODIFIED")
		}
		s.messages[id][at].Pinned = true
		// The group is told, and so is the bot.
		s.message++
		note := &Message{ID: s.message, Chat: Chat{ID: id, Type: kind(id)}, Date: s.opts.Now().Unix(), From: &User{ID: s.opts.BotID, IsBot: true, FirstName: "Iris", Username: s.opts.Username}}
		if id < 0 {
			s.push(Update{raw: map[string]any{"message_id": note.ID, "chat": note.Chat, "date": note.Date, "from": note.From, "pinned_message": s.messages[id][at]}})
		}
		return true, nil
	case "editMessageText":
		if at < 0 {
			return nil, no("message to edit not found")
		}
		m := s.messages[id][at]
		if m.From == nil || m.From.ID != s.opts.BotID {
			return nil, no("message can't be edited")
		}
		text, entities, refused := parse(q.values["text"], q.values["parse_mode"], 4096)
		if refused != nil {
			return nil, refused
		}
		if m.Text == text && slices.Equal(m.Entities, entities) && same(m.Markup, keyboard) {
			return nil, no("message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
		}
		m.Text, m.Entities, m.Markup, m.Edited = text, entities, keyboard, s.opts.Now().Unix()
		m.Sent, m.Mode = q.values["text"], q.values["parse_mode"]
		return m, nil
	}
	s.message++
	m := &Message{ID: s.message, Thread: thread, Topic: thread != 0, Chat: Chat{ID: id, Type: kind(id)}, Date: s.opts.Now().Unix(), Markup: keyboard,
		From: &User{ID: s.opts.BotID, IsBot: true, FirstName: "Iris", Username: s.opts.Username}}
	if method == "sendMessage" {
		if m.Text, m.Entities, refused = parse(q.values["text"], q.values["parse_mode"], 4096); refused != nil {
			return nil, refused
		}
		m.Sent, m.Mode = q.values["text"], q.values["parse_mode"]
	} else {
		if !q.sent {
			return nil, no("there is no document in the request")
		}
		if len(q.file) == 0 {
			return nil, no("file must be non-empty")
		}
		if q.values["caption"] != "" {
			if m.Caption, _, refused = parse(q.values["caption"], q.values["parse_mode"], 1024); refused != nil {
				return nil, no("message caption is too long")
			}
		}
		file := fmt.Sprintf("sent%d", m.ID)
		s.files[file] = q.file
		m.Document = &File{FileID: file, Unique: "u" + file, FileName: q.name, FileSize: int64(len(q.file))}
	}
	s.messages[id] = append(s.messages[id], m)
	return m, nil
}

func kind(id int64) string {
	if id < 0 {
		return "supergroup"
	}
	return "private"
}

func same(a, b *Keyboard) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// keys checks a keyboard.
func keys(raw string) (*Keyboard, *refusal) {
	if raw == "" {
		return nil, nil
	}
	var k struct {
		InlineKeyboard [][]map[string]any `json:"inline_keyboard"`
	}
	if json.Unmarshal([]byte(raw), &k) != nil {
		return nil, no("can't parse reply keyboard markup JSON object")
	}
	out := &Keyboard{}
	for _, row := range k.InlineKeyboard {
		var keys []Button
		for _, b := range row {
			text, _ := b["text"].(string)
			data, _ := b["callback_data"].(string)
			url, _ := b["url"].(string)
			switch {
			case len(b) != 2:
				return nil, no("text buttons are unallowed in the inline keyboard, or more than one action is given")
			case text == "":
				return nil, no("can't parse inline keyboard button: field \"text\" must be non-empty")
			case len(data) > 64:
				return nil, no("BUTTON_DATA_INVALID")
			}
			keys = append(keys, Button{text, data, url})
		}
		out.InlineKeyboard = append(out.InlineKeyboard, keys)
	}
	if len(out.InlineKeyboard) == 0 {
		return nil, nil
	}
	return out, nil
}

// flood bans who writes too fast, longer every time. mu must be held.
func (s *Server) flood(method, chat string) *refusal {
	if s.opts.Gap < 0 {
		return nil
	}
	f := s.chats[chat]
	if f == nil {
		f = &flood{}
		s.chats[chat] = f
	}
	now := time.Now()
	ban := func() *refusal {
		after := 1 << min(f.bans, 13)
		f.bans++
		f.banned, f.times = now.Add(time.Duration(after)*time.Second), nil
		return &refusal{code: http.StatusTooManyRequests, text: fmt.Sprintf("Too Many Requests: retry after %d", after), params: map[string]any{"retry_after": after}}
	}
	if now.Before(f.banned) {
		s.wrong = append(s.wrong, fmt.Sprintf("%s in %s %v inside the wait", method, chat, f.banned.Sub(now)))
		return ban()
	}
	f.times = slices.DeleteFunc(f.times, func(t time.Time) bool { return now.Sub(t) > s.opts.Gap*time.Duration(s.opts.Burst)/2 })
	if len(f.times) >= s.opts.Burst {
		return ban()
	}
	f.times = append(f.times, now)
	return nil
}
