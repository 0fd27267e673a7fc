package session

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// LogOptions choose lines of a log.
type LogOptions struct {
	// Limit is the largest number of lines, the latest ones; 0 is no limit.
	Limit int
	// Before leaves out lines from the journal record of this number on; 0
	// leaves out none.
	Before int64
}

// Log returns lines of a conversation's log, oldest first. Lines that cannot
// be read are skipped with a warning; a conversation without a log has none.
// With Limit the cost is that of the lines looked at.
func (s *Store) Log(ctx context.Context, addr chat.Address, opts LogOptions) ([]Line, error) {
	c, err := s.acquire(addr)
	if err != nil {
		return nil, err
	}
	defer s.release(c)
	if err := s.catchUp(ctx, c); err != nil {
		return nil, err
	}
	if err := s.loadLog(c); err != nil {
		return nil, err
	}
	h, _, err := s.size(c, logFile)
	if h == nil || err != nil {
		return nil, err
	}
	defer s.files.put(h)
	var out []Line
	counts := opts.Before == 0
	err = backward(h, c.log.end, func(_ int64, line []byte, _ bool) bool {
		l, ok := s.logLine(c, line)
		if !ok || l.Seq > 0 && opts.Before > 0 && l.Seq >= opts.Before {
			return true
		}
		// A line without a number is as old as the numbered one behind it.
		if counts = counts || l.Seq > 0; counts {
			out = append(out, l)
		}
		return opts.Limit <= 0 || len(out) < opts.Limit
	})
	slices.Reverse(out)
	return out, err
}

// Conversations returns the addresses of a space that have a directory, by
// channel id.
func (s *Store) Conversations(_ context.Context, space chat.Space) ([]chat.Address, error) {
	dir := path.Dir(chat.Address{Space: space, ID: "1"}.Dir())
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []chat.Address
	for _, e := range entries {
		if a, err := chat.Parse(e.Name()); err == nil && e.IsDir() && a.Space == space && (space != chat.Slack || slackID(a.ID)) {
			out = append(out, a)
		}
	}
	return out, nil
}

// slackID tells a channel's directory from others beside it ("events"): ids of
// Slack are capitals and digits and begin with C, D, G or W.
func slackID(id string) bool {
	if id == "" || !strings.ContainsRune("CDGW", rune(id[0])) {
		return false
	}
	for _, r := range id {
		if !('0' <= r && r <= '9' || 'A' <= r && r <= 'Z') {
			return false
		}
	}
	return true
}

// A Thread is a conversation of the page.
type Thread struct {
	Address chat.Address
	// Title is the beginning of what a person said first, on one line; empty
	// when nobody has.
	Title   string
	Updated time.Time // of the last line
}

const (
	maxTitle = 80 // characters
	// titleLines bounds how far the first words are looked for.
	titleLines = 20
)

// Threads returns the web conversations that have a log, the latest first.
func (s *Store) Threads(ctx context.Context) ([]Thread, error) {
	addrs, err := s.Conversations(ctx, chat.Web)
	if err != nil {
		return nil, err
	}
	var out []Thread
	for _, a := range addrs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, ok, err := s.thread(ctx, a)
		if err != nil {
			s.opts.Logger.Warn("thread left out", "conversation", a, "err", err)
		} else if ok {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b Thread) int { return b.Updated.Compare(a.Updated) })
	return out, nil
}

func (s *Store) thread(ctx context.Context, addr chat.Address) (Thread, bool, error) {
	last, err := s.Log(ctx, addr, LogOptions{Limit: 1})
	if err != nil || len(last) == 0 {
		return Thread{}, false, err
	}
	t := Thread{Address: addr, Updated: last[0].Date}
	c, err := s.acquire(addr)
	if err != nil {
		return t, false, err
	}
	defer s.release(c)
	h, size, err := s.size(c, logFile)
	if h == nil || err != nil {
		return t, false, err
	}
	defer s.files.put(h)
	n := 0
	err = forward(h, 0, size, func(_ int64, line []byte, _ bool) bool {
		if l, ok := s.logLine(c, line); ok && !l.IsBot {
			t.Title = title(l.Text)
		}
		n++
		return t.Title == "" && n < titleLines
	})
	return t, true, err
}

func title(text string) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) > maxTitle {
		return string(r[:maxTitle-1]) + "…"
	}
	return string(r)
}
