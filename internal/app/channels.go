package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
)

// A channelsFile is meta/channels.json, read again when it has changed. A broken
// edit keeps the last good one and says so.
type channelsFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time
	// projects have channels of their own, where the file has no entry.
	projects []route.Project

	// mu guards the fields below.
	mu      sync.Mutex
	looked  time.Time
	changed time.Time
	size    int64
	all     route.Channels
}

// lookEvery is how often the file is looked at.
const lookEvery = time.Second

func newChannels(path string, log *slog.Logger) *channelsFile {
	return &channelsFile{path: path, log: log, now: time.Now}
}

// For returns how a channel is used.
func (c *channelsFile) For(id string) route.Channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); c.looked.IsZero() || now.Sub(c.looked) >= lookEvery {
		c.looked = now
		c.read()
	}
	ch := c.all.For(id)
	listed := func(p route.Project) bool { return p.In(chat.Address{Space: chat.Slack, ID: id}) }
	if !ch.Listed && slices.ContainsFunc(c.projects, listed) {
		ch.Mode = route.Agent
	}
	return ch
}

// read reads the file if it has changed. mu must be held.
func (c *channelsFile) read() {
	info, err := os.Stat(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		c.all, c.changed, c.size = nil, time.Time{}, 0
		return
	}
	if err == nil {
		if info.ModTime().Equal(c.changed) && info.Size() == c.size {
			return
		}
		c.changed, c.size = info.ModTime(), info.Size()
	}
	data, err := os.ReadFile(c.path)
	var all route.Channels
	var warnings []string
	if err == nil {
		all, warnings, err = route.ParseChannels(data)
	}
	if err != nil {
		c.log.Error("the last good settings of the channels stay", "file", c.path, "err", err)
		return
	}
	for _, w := range warnings {
		c.log.Warn("channels.json", "entry", w)
	}
	c.all = all
}
