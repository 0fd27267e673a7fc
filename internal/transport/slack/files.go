package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// Files keeps what people attach. *session.Store is one.
type Files interface {
	// Expect names the place of a file that is on its way; here says that it has
	// come.
	Expect(conv chat.Address, stem, name string) (f chat.File, here bool, err error)
	// Fulfil stores it, whole or not at all.
	Fulfil(ctx context.Context, conv chat.Address, f chat.File, r io.Reader, limit int64) error
}

// maxFile is the largest file that is fetched.
const maxFile = 100 << 20

// A fetch is a file that is to be fetched.
type fetch struct {
	conv chat.Address
	file chat.File
	url  string
}

// expect names the files of a message in its submission and returns those that
// are to be fetched once it is kept.
func (s *Slack) expect(ev *event, sub *transport.Submission) (all []fetch, err error) {
	for _, f := range ev.Files {
		name := firstOf(f.Name, f.Title, "file")
		if f.Filetype == "email" && f.Plain != "" {
			continue // its text is in the message
		}
		link := firstOf(f.Download, f.Private)
		missing := ""
		switch {
		case s.opts.Files == nil:
			missing = "attachments are not kept"
		case f.Mode == "tombstone" || f.Mode == "hidden_by_limit" || link == "":
			missing = "not available in Slack"
		case f.Size > maxFile:
			missing = fmt.Sprintf("larger than %d MiB", maxFile>>20)
		case chat.CheckID(f.ID) != nil:
			missing = "it has no id"
		}
		if missing != "" {
			sub.Message.Files = append(sub.Message.Files, chat.File{Original: name, Missing: missing})
			continue
		}
		stem := fmt.Sprintf("%d-%s", sub.Message.At.UnixMilli(), f.ID)
		kept, here, err := s.opts.Files.Expect(sub.Address, stem, name)
		if err != nil {
			return nil, err
		}
		sub.Message.Files = append(sub.Message.Files, kept)
		if !here {
			all = append(all, fetch{conv: sub.Address, file: kept, url: link})
		}
	}
	return all, nil
}

// downloads are the files on their way.
type downloads struct {
	// mu guards the fields below.
	mu    sync.Mutex
	life  context.Context
	tasks *sync.WaitGroup
	slots chan struct{}
	all   map[string]*download
}

type download struct {
	done chan struct{}
	err  error // once done is closed
}

// Bounds of downloads.
const (
	downloadsAtOnce = 4
	downloadTries   = 3
	// rememberFor is how long the fate of a download is known.
	rememberFor = 10 * time.Minute
)

func (d *downloads) start(life context.Context, tasks *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life, d.tasks, d.slots = life, tasks, make(chan struct{}, downloadsAtOnce)
	if d.all == nil {
		d.all = map[string]*download{}
	}
}

// addDownload fetches a file in the background, unless it is on its way.
func (s *Slack) addDownload(f fetch) {
	d := &s.downloads
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[f.file.Local] != nil || d.life.Err() != nil {
		return
	}
	one := &download{done: make(chan struct{})}
	d.all[f.file.Local] = one
	d.tasks.Go(func() {
		defer close(one.done)
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		case <-d.life.Done():
			one.err = d.life.Err()
			return
		}
		if one.err = s.fetch(d.life, f); one.err != nil {
			s.log.Warn("a file is not fetched", "file", f.file.Local, "err", one.err)
		}
		time.AfterFunc(rememberFor, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.all, f.file.Local)
		})
	})
}

// Wait returns when a file of a message is there or cannot be had, which the
// error says for people to read, and at the latest with ctx. A file that is not
// on its way is nothing to wait for.
func (s *Slack) Wait(ctx context.Context, local string) error {
	s.downloads.mu.Lock()
	one := s.downloads.all[local]
	s.downloads.mu.Unlock()
	if one == nil {
		return nil
	}
	select {
	case <-one.done:
		if one.err != nil {
			return errors.New("download failed")
		}
		return nil
	case <-ctx.Done():
		return errors.New("still downloading — try again shortly")
	}
}

// fetch gets a file with the bot token.
func (s *Slack) fetch(ctx context.Context, f fetch) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.DownloadLimit)
	defer cancel()
	for i := range downloadTries {
		if err = s.fetchOnce(ctx, f); err == nil || ctx.Err() != nil || errors.Is(err, errSignIn) {
			return err
		}
		select {
		case <-time.After(time.Duration(i+1) * time.Second):
		case <-ctx.Done():
		}
	}
	return err
}

// errSignIn is what Slack answers to a token that may not read files.
var errSignIn = errors.New("Slack answers with its sign-in page: the scope files:read is missing")

func (s *Slack) fetchOnce(ctx context.Context, f fetch) error {
	if !s.trusted(f.url) {
		return fmt.Errorf("%q is not an address of Slack", f.url)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.opts.BotToken.Reveal())
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(resp.Body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	head = head[:n]
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/html" && !strings.HasSuffix(strings.ToLower(f.file.Original), ".html") && !strings.HasSuffix(strings.ToLower(f.file.Original), ".htm") {
		return errSignIn
	}
	return s.opts.Files.Fulfil(ctx, f.conv, f.file, io.MultiReader(bytes.NewReader(head), resp.Body), maxFile)
}

// trusted reports that the bot token may be shown to an address: Slack's own, or
// where the Web API is.
func (s *Slack) trusted(link string) bool {
	u, err := url.Parse(link)
	if err != nil {
		return false
	}
	api, err := url.Parse(s.opts.API)
	if err == nil && u.Scheme == api.Scheme && u.Host == api.Host {
		return true
	}
	host := strings.ToLower(u.Hostname())
	return u.Scheme == "https" && (host == "slack.com" || strings.HasSuffix(host, ".slack.com"))
}
