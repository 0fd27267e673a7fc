package telegram

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/go-telegram/bot/models"

	"github.com/iris-operator/iris/internal/chat"
)

// An attachment is a file that came with a message, not yet downloaded.
type attachment struct {
	id, name string
	size     int64
	message  int
}

// attachments lists the files of a message.
func attachments(m *models.Message) []attachment {
	var out []attachment
	add := func(id, name, otherwise string, size int64) {
		if name == "" {
			name = otherwise
		}
		out = append(out, attachment{id, name, size, m.ID})
	}
	if n := len(m.Photo); n > 0 {
		best := m.Photo[0]
		for _, p := range m.Photo[1:] {
			if p.Width*p.Height > best.Width*best.Height {
				best = p
			}
		}
		add(best.FileID, "", "photo.jpg", int64(best.FileSize))
	}
	switch {
	case m.Document != nil: // an animation is one, too
		add(m.Document.FileID, m.Document.FileName, "file", m.Document.FileSize)
	case m.Audio != nil:
		add(m.Audio.FileID, m.Audio.FileName, "audio.mp3", m.Audio.FileSize)
	case m.Voice != nil:
		add(m.Voice.FileID, "", "voice.ogg", m.Voice.FileSize)
	case m.Video != nil:
		add(m.Video.FileID, m.Video.FileName, "video.mp4", m.Video.FileSize)
	case m.VideoNote != nil:
		add(m.VideoNote.FileID, "", "video.mp4", int64(m.VideoNote.FileSize))
	}
	return out
}

// receive downloads the files of a message, side by side and within their time.
// What cannot be had is said to be missing.
func (t *Telegram) receive(ctx context.Context, in *incoming) []chat.File {
	if len(in.files) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.opts.DownloadTime)
	defer cancel()
	out := make([]chat.File, len(in.files))
	var all sync.WaitGroup
	for i, a := range in.files {
		all.Go(func() {
			f, err := t.receiveOne(ctx, in.conv, a)
			if err != nil {
				t.log.Warn("a file cannot be had", "conversation", in.conv, "message", a.message, "err", err)
				f = chat.File{Original: a.name, Missing: missing(err)}
			}
			out[i] = f
		})
	}
	all.Wait()
	return out
}

var errTooBig = errors.New("larger than the 20 MB that a bot may download")

func (t *Telegram) receiveOne(ctx context.Context, conv chat.Address, a attachment) (chat.File, error) {
	switch {
	case t.opts.Store == nil:
		return chat.File{}, errors.New("files are not kept here")
	case a.size > maxFile:
		return chat.File{}, errTooBig
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return chat.File{}, ctx.Err()
	}
	content, err := t.download(ctx, a.id)
	if err != nil {
		return chat.File{}, err
	}
	defer content.Close()
	return t.opts.Store(ctx, conv, "msg"+strconv.Itoa(a.message), a.name, content)
}

// missing is why a file is not there, for people and for the model.
func missing(err error) string {
	switch {
	case errors.Is(err, errTooBig):
		return errTooBig.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "the download took too long"
	}
	return fmt.Sprintf("download failed: %s", cut(oneLine(short(err).Error()), 200))
}
