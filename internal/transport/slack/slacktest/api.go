package slacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A method of the Web API: what the token must be allowed, and what it does. It
// is called with Server.mu held and returns the answer's fields, or an error.
type method struct {
	app    bool
	scopes []string // one of them
	do     func(*Server, url.Values) (map[string]any, string)
}

var histories = []string{"channels:history", "groups:history", "im:history", "mpim:history"}

// methods lists what Iris calls.
func methods() map[string]method {
	return map[string]method{
		"auth.test":                    {do: (*Server).authTest},
		"apps.connections.open":        {app: true, do: (*Server).connectionsOpen},
		"chat.postMessage":             {scopes: []string{"chat:write"}, do: (*Server).post},
		"chat.update":                  {scopes: []string{"chat:write"}, do: (*Server).update},
		"chat.delete":                  {scopes: []string{"chat:write"}, do: (*Server).delete},
		"pins.add":                     {scopes: []string{"pins:write"}, do: (*Server).pin},
		"chat.postEphemeral":           {scopes: []string{"chat:write"}, do: (*Server).postEphemeral},
		"conversations.list":           {scopes: []string{"channels:read"}, do: (*Server).list},
		"users.conversations":          {scopes: []string{"channels:read"}, do: (*Server).list},
		"conversations.info":           {scopes: []string{"channels:read"}, do: (*Server).info},
		"conversations.history":        {scopes: histories, do: (*Server).history},
		"conversations.replies":        {scopes: histories, do: (*Server).replies},
		"users.list":                   {scopes: []string{"users:read"}, do: (*Server).usersList},
		"files.getUploadURLExternal":   {scopes: []string{"files:write"}, do: (*Server).uploadURL},
		"files.completeUploadExternal": {scopes: []string{"files:write"}, do: (*Server).completeUpload},
	}
}

// api answers a call.
func (s *Server) api(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/api/")
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	form := r.Form
	s.mu.Lock()
	var fault Fault
	fate := s.opts.Fault
	s.calls = append(s.calls, Call{name, form})
	s.mu.Unlock()
	if fate != nil {
		fault = fate(name, form)
	}
	if fault.Takes > 0 {
		select {
		case <-time.After(fault.Takes):
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case fault.Cut:
		panic(http.ErrAbortHandler)
	case fault.Status == http.StatusTooManyRequests || fault.RetryAfter > 0:
		tooMany(w, fault.RetryAfter)
		return
	case fault.Status != 0:
		http.Error(w, "upstream", fault.Status)
		return
	case fault.Error != "":
		answer(w, map[string]any{"ok": false, "error": fault.Error})
		return
	}
	token := form.Get("token")
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = t
	}
	s.mu.Lock()
	fields, wait, word := s.call(name, token, form)
	scopes := strings.Join(s.opts.Scopes, ",")
	s.mu.Unlock()
	switch {
	case fault.Lose:
		panic(http.ErrAbortHandler)
	case wait > 0:
		tooMany(w, wait)
		return
	}
	w.Header().Set("X-OAuth-Scopes", scopes)
	if word != "" {
		out := map[string]any{"ok": false, "error": word}
		for k, v := range fields {
			out[k] = v
		}
		answer(w, out)
		return
	}
	if fields == nil {
		fields = map[string]any{}
	}
	fields["ok"] = true
	answer(w, fields)
}

func answer(w http.ResponseWriter, v map[string]any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}

func tooMany(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	w.WriteHeader(http.StatusTooManyRequests)
}

// call checks a call and makes it. mu must be held.
func (s *Server) call(name, token string, form url.Values) (fields map[string]any, wait time.Duration, word string) {
	m, ok := methods()[name]
	switch {
	case !ok:
		s.complain("unknown method %s", name)
		return nil, 0, "unknown_method"
	case token == "":
		return nil, 0, "not_authed"
	case token != BotToken && token != AppToken:
		return nil, 0, "invalid_auth"
	case m.app != (token == AppToken):
		return nil, 0, "not_allowed_token_type"
	case len(m.scopes) > 0 && !slices.ContainsFunc(m.scopes, func(x string) bool { return slices.Contains(s.opts.Scopes, x) }):
		return map[string]any{"needed": m.scopes[0], "provided": strings.Join(s.opts.Scopes, ",")}, 0, "missing_scope"
	}
	if c := s.channels[form.Get("channel")]; c != nil && strings.HasPrefix(name, "chat.") {
		if wait := s.limit(c, name); wait > 0 {
			return nil, wait, ""
		}
	}
	fields, word = m.do(s, form)
	return fields, 0, word
}

// limit says how long a channel does not want to be called. mu must be held.
func (s *Server) limit(c *channel, name string) time.Duration {
	if s.opts.Gap == 0 {
		return 0
	}
	now, burst := time.Now(), max(s.opts.Burst, 1)
	if now.Before(c.banned) {
		s.complain("%s in %s, %v inside the wait", name, c.id, c.banned.Sub(now).Round(time.Millisecond))
		c.bans++
		c.banned = now.Add(s.opts.Gap << min(c.bans, 8))
		return c.banned.Sub(now)
	}
	c.times = append(slices.DeleteFunc(c.times, func(t time.Time) bool { return now.Sub(t) > s.opts.Gap*time.Duration(burst) }), now)
	if len(c.times) > burst+1 {
		c.bans++
		c.banned = now.Add(s.opts.Gap << min(c.bans, 8))
		c.times = nil
		return c.banned.Sub(now)
	}
	return 0
}

func (s *Server) authTest(url.Values) (map[string]any, string) {
	return map[string]any{"url": "https://example.slack.com/", "team": "Example", "team_id": TeamID, "user": "iris", "user_id": BotUser, "bot_id": BotID}, ""
}

func (s *Server) connectionsOpen(url.Values) (map[string]any, string) {
	if len(s.conns) >= maxConns {
		s.complain("more than %d connections", maxConns)
		return nil, "too_many_websockets"
	}
	ticket := fmt.Sprintf("t%d", len(s.calls))
	s.tickets[ticket] = true
	return map[string]any{"url": "ws" + strings.TrimPrefix(s.http.URL, "http") + "/link/" + ticket}, ""
}

// place finds where to write.
func (s *Server) place(form url.Values) (*channel, string) {
	c := s.channels[form.Get("channel")]
	switch {
	case c == nil:
		return nil, "channel_not_found"
	case !c.member:
		return nil, "not_in_channel"
	}
	return c, ""
}

// body checks what a message says.
func (s *Server) body(form url.Values, m *Message) string {
	text := form.Get("text")
	if n := len([]rune(text)); n > s.opts.MaxChars {
		return "msg_too_long"
	}
	if text == "" && form.Get("blocks") == "" {
		return "no_text"
	}
	if err := CheckText(text); err != nil {
		s.complain("text: %v in %.200q", err, text)
		return "invalid_text"
	}
	m.Blocks = nil
	if b := form.Get("blocks"); b != "" && b != "[]" {
		if err := CheckBlocks([]byte(b)); err != nil {
			s.complain("blocks: %v in %.200q", err, b)
			return "invalid_blocks"
		}
		m.Blocks = json.RawMessage(b)
	}
	if meta := form.Get("metadata"); meta != "" {
		var v struct {
			Type    string         `json:"event_type"`
			Payload map[string]any `json:"event_payload"`
		}
		if err := json.Unmarshal([]byte(meta), &v); err != nil || v.Type == "" || v.Payload == nil {
			return "invalid_metadata_format"
		}
		m.Metadata = json.RawMessage(meta)
	}
	m.Text = text
	return ""
}

func (s *Server) post(form url.Values) (map[string]any, string) {
	c, word := s.place(form)
	if word != "" {
		return nil, word
	}
	m := &Message{Type: "message", User: BotUser, BotID: BotID, ThreadTS: form.Get("thread_ts")}
	if m.ThreadTS != "" && !slices.ContainsFunc(c.messages, func(x *Message) bool { return x.TS == m.ThreadTS }) {
		return nil, "thread_not_found"
	}
	if word := s.body(form, m); word != "" {
		return nil, word
	}
	m.TS = s.stamp()
	c.messages = append(c.messages, m)
	s.countReply(c, m)
	return map[string]any{"channel": c.id, "ts": m.TS, "message": m}, ""
}

// own finds a message of the bot.
func (s *Server) own(form url.Values, word string) (*channel, *Message, string) {
	c, bad := s.place(form)
	if bad != "" {
		return nil, nil, bad
	}
	for _, m := range c.messages {
		if m.TS == form.Get("ts") {
			if m.BotID != BotID {
				return nil, nil, word
			}
			return c, m, ""
		}
	}
	return nil, nil, "message_not_found"
}

func (s *Server) update(form url.Values) (map[string]any, string) {
	c, m, word := s.own(form, "cant_update_message")
	if word == "" {
		word = s.body(form, m)
	}
	if word != "" {
		return nil, word
	}
	m.Edited = true
	return map[string]any{"channel": c.id, "ts": m.TS, "text": m.Text}, ""
}

func (s *Server) delete(form url.Values) (map[string]any, string) {
	c, m, word := s.own(form, "cant_delete_message")
	if word != "" {
		return nil, word
	}
	c.messages = slices.DeleteFunc(c.messages, func(x *Message) bool { return x == m })
	return map[string]any{"channel": c.id, "ts": m.TS}, ""
}

// maxPins is what a channel holds.
const maxPins = 100

func (s *Server) pin(form url.Values) (map[string]any, string) {
	c, word := s.place(form)
	if word != "" {
		return nil, word
	}
	if form.Get("timestamp") == "" {
		return nil, "no_item_specified"
	}
	pins := 0
	for _, m := range c.messages {
		if m.Pinned {
			pins++
		}
	}
	for _, m := range c.messages {
		switch {
		case m.TS != form.Get("timestamp"):
		case m.Pinned:
			return nil, "already_pinned"
		case m.Subtype != "":
			return nil, "not_pinnable"
		case pins >= maxPins:
			return nil, "too_many_pins"
		default:
			m.Pinned = true
			return nil, ""
		}
	}
	return nil, "message_not_found"
}

func (s *Server) postEphemeral(form url.Values) (map[string]any, string) {
	c, word := s.place(form)
	if word != "" {
		return nil, word
	}
	if err := CheckText(form.Get("text")); err != nil {
		s.complain("ephemeral: %v", err)
		return nil, "invalid_text"
	}
	s.ephem = append(s.ephem, Ephemeral{c.id, form.Get("user"), form.Get("text")})
	return map[string]any{"message_ts": s.stamp()}, ""
}

func (s *Server) show(c *channel) map[string]any {
	return map[string]any{"id": c.id, "name": c.name, "user": c.user, "is_im": c.user != "", "is_channel": c.user == "", "is_member": c.member}
}

// page cuts one page out of all and names the next.
func page[T any](all []T, form url.Values, most int) ([]T, map[string]any) {
	from, _ := strconv.Atoi(form.Get("cursor")) // "" is the start
	n, err := strconv.Atoi(form.Get("limit"))
	if err != nil || n <= 0 || n > most {
		n = min(100, most)
	}
	from = min(from, len(all))
	to := min(from+n, len(all))
	next := ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[from:to], map[string]any{"next_cursor": next}
}

func (s *Server) list(form url.Values) (map[string]any, string) {
	var all []map[string]any
	for _, c := range s.channels {
		if c.member {
			all = append(all, s.show(c))
		}
	}
	slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	part, meta := page(all, form, 1000)
	return map[string]any{"channels": part, "response_metadata": meta}, ""
}

func (s *Server) info(form url.Values) (map[string]any, string) {
	c := s.channels[form.Get("channel")]
	if c == nil {
		return nil, "channel_not_found"
	}
	return map[string]any{"channel": s.show(c)}, ""
}

// answered lists messages as Slack answers them: newest first for a history.
func (s *Server) answered(all []*Message, form url.Values, newest bool) map[string]any {
	oldest, latest := form.Get("oldest"), form.Get("latest")
	var out []*Message
	for _, m := range all {
		if oldest != "" && m.TS <= oldest || latest != "" && m.TS >= latest {
			continue
		}
		if form.Get("include_all_metadata") != "1" {
			plain := *m
			plain.Metadata = nil
			m = &plain
		}
		out = append(out, m)
	}
	if newest {
		slices.Reverse(out)
	}
	part, meta := page(out, form, 1000)
	return map[string]any{"messages": part, "has_more": meta["next_cursor"] != "", "response_metadata": meta}
}

func (s *Server) history(form url.Values) (map[string]any, string) {
	c, word := s.place(form)
	if word != "" {
		return nil, word
	}
	top := slices.DeleteFunc(slices.Clone(c.messages), func(m *Message) bool { return m.ThreadTS != "" && m.ThreadTS != m.TS })
	return s.answered(top, form, true), ""
}

func (s *Server) replies(form url.Values) (map[string]any, string) {
	c, word := s.place(form)
	if word != "" {
		return nil, word
	}
	ts := form.Get("ts")
	of := slices.DeleteFunc(slices.Clone(c.messages), func(m *Message) bool { return m.TS != ts && m.ThreadTS != ts })
	if len(of) == 0 {
		return nil, "thread_not_found"
	}
	return s.answered(of, form, false), ""
}

func (s *Server) usersList(form url.Values) (map[string]any, string) {
	part, meta := page(s.users, form, 1000)
	return map[string]any{"members": part, "response_metadata": meta}, ""
}

func (s *Server) uploadURL(form url.Values) (map[string]any, string) {
	n, err := strconv.Atoi(form.Get("length"))
	if err != nil || n <= 0 || form.Get("filename") == "" {
		return nil, "invalid_arguments"
	}
	f := &File{ID: fmt.Sprintf("F%d", len(s.files)+1), Name: form.Get("filename"), Size: n}
	s.files[f.ID] = f
	return map[string]any{"upload_url": s.http.URL + "/upload/" + f.ID, "file_id": f.ID}, ""
}

// upload takes the bytes of a file.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	file, _, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[strings.TrimPrefix(r.URL.Path, "/upload/")]
	if err != nil || f == nil || len(content) != f.Size {
		http.Error(w, "the size is not what was said", http.StatusBadRequest)
		return
	}
	f.Content = content
	fmt.Fprintf(w, "OK - %d", len(content))
}

func (s *Server) completeUpload(form url.Values) (map[string]any, string) {
	var files []struct{ ID, Title string }
	if err := json.Unmarshal([]byte(form.Get("files")), &files); err != nil || len(files) == 0 {
		return nil, "invalid_arguments"
	}
	c := s.channels[form.Get("channel_id")]
	switch {
	case c == nil:
		return nil, "channel_not_found"
	case !c.member:
		return nil, "not_in_channel"
	}
	m := &Message{Type: "message", User: BotUser, BotID: BotID, ThreadTS: form.Get("thread_ts"), Text: form.Get("initial_comment"), TS: s.stamp()}
	if err := CheckText(m.Text); err != nil {
		s.complain("initial_comment: %v", err)
		return nil, "invalid_text"
	}
	var out []map[string]any
	for _, x := range files {
		f := s.files[x.ID]
		if f == nil || f.Content == nil {
			return nil, "file_not_found"
		}
		f.Title = x.Title
		m.Files = append(m.Files, *f)
		out = append(out, map[string]any{"id": f.ID, "title": f.Title})
	}
	c.messages = append(c.messages, m)
	s.countReply(c, m)
	return map[string]any{"files": out}, ""
}

// download serves a file to whoever shows the bot token.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.files[strings.TrimPrefix(r.URL.Path, "/files/")]
	may := r.Header.Get("Authorization") == "Bearer "+BotToken && slices.Contains(s.opts.Scopes, "files:read")
	s.mu.Unlock()
	switch {
	case f == nil:
		http.NotFound(w, r)
	case !may || f.HTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!DOCTYPE html><html><body>Sign in to Slack</body></html>")
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(f.Content) // the client has gone
	}
}
