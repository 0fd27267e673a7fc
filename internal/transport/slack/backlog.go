package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/iris-operator/iris/internal/durable"
)

// marks are what must be known to find out what was said meanwhile.
type marks struct {
	// Alive is when the connection last worked, or was first tried.
	Alive time.Time `json:"alive"`
	// Threads are those somebody wrote in, with the time they last did.
	Threads map[string]time.Time `json:"threads,omitempty"`

	changed bool
}

// Bounds of the backlog.
const (
	// overlap is how far before the last sign of life the history is read: what
	// was on its way then, and clocks that differ. Messages known already cost
	// nothing.
	overlap = 2 * time.Minute
	// maxBacklog is shorter than the Inbox remembers what it has taken.
	maxBacklog = 6 * 24 * time.Hour
	// threadsFor is how long a thread is looked into, maxThreads how many are.
	threadsFor = 3 * 24 * time.Hour
	maxThreads = 200
	// Spec: pages of 1000, three at most.
	backlogPage  = 1000
	backlogPages = 3
	marksEvery   = 5 * time.Second
)

func (s *Slack) marksFile() string { return filepath.Join(s.opts.State, "marks.json") }

func (s *Slack) loadMarks() error {
	m := marks{Threads: map[string]time.Time{}}
	if s.opts.State != "" {
		data, err := os.ReadFile(s.marksFile())
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", s.marksFile(), err)
		}
		if m.Threads == nil {
			m.Threads = map[string]time.Time{}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks.Threads == nil { // a later Serve goes on with what it has
		// From now on something can be missed, also when this process dies before
		// it is connected.
		if s.first = m.Alive.IsZero(); s.first {
			m.Alive, m.changed = s.opts.Now(), true
		}
		s.marks = m
	}
	return nil
}

// saveMarks writes what has changed. A crash loses a few seconds of it, which the
// next backlog reads again.
func (s *Slack) saveMarks() {
	s.mu.Lock()
	if s.opts.State == "" || !s.marks.changed {
		s.mu.Unlock()
		return
	}
	now := s.opts.Now()
	for k, t := range s.marks.Threads {
		if now.Sub(t) > threadsFor {
			delete(s.marks.Threads, k)
		}
	}
	if over := len(s.marks.Threads) - maxThreads; over > 0 {
		keys := make([]string, 0, len(s.marks.Threads))
		for k := range s.marks.Threads {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b string) int { return s.marks.Threads[a].Compare(s.marks.Threads[b]) })
		for _, k := range keys[:over] {
			delete(s.marks.Threads, k)
		}
	}
	data, err := json.Marshal(s.marks)
	s.marks.changed = false
	s.mu.Unlock()
	if err == nil {
		err = os.MkdirAll(s.opts.State, 0o700)
	}
	if err == nil {
		err = durable.Replace(s.marksFile(), data, durable.Keep(0o600))
	}
	if err != nil {
		s.log.Error("remember how far Slack was read", "err", err)
	}
}

func (s *Slack) keepMarks(ctx context.Context) {
	tick := time.NewTicker(marksEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.saveMarks()
		}
	}
}

// alive notes that the connection works, unless a backlog is still to be read.
func (s *Slack) alive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks.Threads != nil && !s.behind {
		s.marks.Alive, s.marks.changed = s.opts.Now(), true
	}
}

// seen notes that somebody wrote in a thread.
func (s *Slack) seen(channel, thread string) {
	if thread == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks.Threads[channel+":"+thread], s.marks.changed = s.opts.Now(), true
}

// stamp writes a time as Slack does.
func stamp(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) }

// missed reads what a channel's history, and its threads, have after a time stamp.
func (s *Slack) missed(ctx context.Context, channel, from string) ([]*event, error) {
	top, err := s.pages(ctx, func(cursor string) ([]slackgo.Message, string, error) {
		r, err := s.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{ChannelID: channel, Cursor: cursor, Oldest: from, Limit: backlogPage})
		if err != nil {
			return nil, "", err
		}
		return r.Messages, r.ResponseMetaData.NextCursor, nil
	})
	if err != nil {
		return nil, err
	}
	threads := map[string]bool{}
	for _, m := range top {
		if m.LatestReply > from {
			threads[m.Timestamp] = true
		}
	}
	s.mu.Lock()
	for k := range s.marks.Threads {
		if c, ts, _ := strings.Cut(k, ":"); c == channel {
			threads[ts] = true
		}
	}
	s.mu.Unlock()
	all := top
	for ts := range threads {
		replies, err := s.pages(ctx, func(cursor string) ([]slackgo.Message, string, error) {
			r, _, next, err := s.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{ChannelID: channel, Timestamp: ts, Cursor: cursor, Oldest: from, Limit: backlogPage})
			return r, next, err
		})
		if word(err) == "thread_not_found" || word(err) == "message_not_found" {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, replies...)
	}
	kind := "channel"
	if strings.HasPrefix(channel, "D") {
		kind = "im"
	}
	events := map[string]*event{}
	for _, m := range all {
		if m.Timestamp > from {
			events[m.Timestamp] = pastEvent(m, channel, kind)
		}
	}
	out := make([]*event, 0, len(events))
	for _, ev := range events {
		out = append(out, ev)
	}
	slices.SortFunc(out, func(a, b *event) int { return cmp.Compare(a.TS, b.TS) })
	return out, nil
}

// pastEvent is a message of a history as the event it was.
func pastEvent(m slackgo.Message, channel, kind string) *event {
	ev := &event{Type: "message", Subtype: m.SubType, Channel: channel, ChannelType: kind, User: m.User, BotID: m.BotID,
		Username: m.Username, Text: m.Text, TS: m.Timestamp, ThreadTS: m.ThreadTimestamp, Hidden: m.Hidden}
	for _, f := range m.Files {
		ev.Files = append(ev.Files, file{ID: f.ID, Name: f.Name, Title: f.Title, Filetype: f.Filetype, Mode: f.Mode, Size: int64(f.Size),
			Private: f.URLPrivate, Download: f.URLPrivateDownload})
	}
	for _, b := range m.Blocks.BlockSet {
		if data, err := json.Marshal(b); err == nil {
			ev.Blocks = append(ev.Blocks, data)
		}
	}
	return ev
}

// pages reads a few pages, and waits where Slack asks for it.
func (s *Slack) pages(ctx context.Context, page func(cursor string) ([]slackgo.Message, string, error)) ([]slackgo.Message, error) {
	var all []slackgo.Message
	cursor := ""
	for range backlogPages {
		var part []slackgo.Message
		var next string
		err := patient(ctx, func() (err error) {
			part, next, err = page(cursor)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
		if cursor = next; cursor == "" {
			break
		}
	}
	return all, nil
}

// patient repeats a reading call for as long as Slack asks to wait.
func patient(ctx context.Context, call func() error) error {
	for {
		err := call()
		var limited *slackgo.RateLimitedError
		if !errors.As(err, &limited) {
			return err
		}
		select {
		case <-time.After(max(limited.RetryAfter, time.Second)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
