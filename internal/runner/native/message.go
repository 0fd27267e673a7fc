package native

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/turn"
)

const (
	// maxText bounds what one message or result may add to a history: more
	// than any page people paste, a fraction of the smallest window in use.
	maxText = 256 << 10
	// maxMemory bounds a memory file in the volatile block.
	maxMemory = 64 << 10
	// maxImage bounds a picture: providers refuse more than 5 MiB in base64.
	maxImage = 3584 << 10
	// maxImageFile bounds what is read to be reduced: more than cameras make.
	maxImageFile = 64 << 20
	// maxImages bounds the pictures of one message or result.
	maxImages = 16
)

// userMessage builds what the model gets for a message: the volatile block, the
// text with its head, the attachment blocks, the pictures.
func (n *Native) userMessage(ctx context.Context, req turn.Request, notes Notes, model llm.Info) llm.Message {
	var b strings.Builder
	n.dynamic(ctx, &b, notes)
	m := req.Message
	text := m.Text
	if m.Prompt != "" {
		text = m.Prompt
	}
	who := name(m.From.Name)
	if who == "" {
		who = "unknown"
	}
	event := req.Origin == turn.FromSchedule || req.Origin == turn.FromEvent
	at := m.At
	if at.IsZero() {
		at = req.Started
	}
	fmt.Fprintf(&b, "\n\n[%s] [%s]: %s", at.In(n.opts.Location).Format("2006-01-02 15:04:05-07:00"), who, n.clip(fence(text, event)))
	files := n.sort(ctx, req.Conversation, m.Files, model)
	files.write(&b, n.opts.Profile(req.Conversation).AttachmentsTag, model)
	return llm.Message{Role: llm.User, Parts: append([]llm.Part{{Kind: llm.TextPart, Text: b.String()}}, files.images...)}
}

// dynamic writes the block of what changes from turn to turn.
func (n *Native) dynamic(ctx context.Context, b *strings.Builder, notes Notes) {
	b.WriteString(dynamicOpen + "\n## Current Memory\n")
	switch {
	case notes.Memory == "" && notes.ChannelMemory == "":
		b.WriteString("(no working memory yet)\n")
	default:
		section(b, "### Global Workspace Memory", notes.Memory)
		section(b, "### Channel-Specific Memory", notes.ChannelMemory)
	}
	if n.opts.MCPStatus != nil {
		if lines := n.opts.MCPStatus(ctx); len(lines) > 0 {
			fmt.Fprintf(b, "\n## MCP Servers\n%s\n", clean(strings.Join(lines, "\n")))
		}
	}
	now := n.opts.Now().In(n.opts.Location)
	fmt.Fprintf(b, "\n## Today\n%s (%s)\n%s", now.Format("Monday, 2 January 2006"), zone(now), dynamicClose)
}

func zone(t time.Time) string {
	if l := t.Location().String(); l != "Local" {
		return l
	}
	return t.Format("-07:00")
}

func section(b *strings.Builder, title, text string) {
	text = strings.TrimSpace(clean(text))
	if text == "" {
		return
	}
	if len(text) > maxMemory {
		text = cutRunes(text, maxMemory) + "\n[the rest of this memory file is not shown: it is too long]"
	}
	fmt.Fprintf(b, "%s\n%s\n", title, text)
}

// clip bounds what a person's text adds to the history.
func (n *Native) clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%s\n[the message was cut here: %d of its %d bytes are shown]", cutRunes(text, maxText), maxText, len(text))
}

// attachments are the files of a message, sorted by what the model gets of them.
type attachments struct {
	missing, dropped, files []string
	images                  []llm.Part
}

func (n *Native) sort(ctx context.Context, conv chat.Address, files []chat.File, model llm.Info) (a attachments) {
	wait, cancel := context.WithTimeout(ctx, cmp.Or(n.opts.AwaitLimit, 10*time.Second))
	defer cancel()
	for _, f := range files {
		if n.opts.Await != nil && f.Missing == "" && f.Local != "" {
			if err := n.opts.Await(wait, f.Local); err != nil {
				f.Missing = err.Error()
			}
		}
		shown, err := n.locate(ctx, conv, f)
		if err != nil {
			a.missing = append(a.missing, fmt.Sprintf("%s (%s)", pathLine(shown), pathLine(err.Error())))
			continue
		}
		img, isImage := n.image(ctx, f.Local)
		switch {
		case !isImage:
			a.files = append(a.files, pathLine(shown))
		case !model.Images:
			a.dropped = append(a.dropped, pathLine(shown))
		case len(img.Data) > 0 && len(img.Data) <= maxImage && len(a.images) < maxImages:
			a.images = append(a.images, img)
		default: // too big to be seen; tools can still read it
			a.files = append(a.files, pathLine(shown))
		}
	}
	return a
}

// locate returns the path to show for a file, and why it cannot be had.
func (n *Native) locate(ctx context.Context, conv chat.Address, f chat.File) (string, error) {
	shown := n.opts.Workspace + "/" + f.Local
	if f.Local == "" {
		shown = f.Original
	}
	if f.Missing != "" {
		return shown, fmt.Errorf("%s", f.Missing)
	}
	if n.opts.Locate != nil {
		p, err := n.opts.Locate(ctx, conv, f.Local)
		if err != nil {
			return shown, fmt.Errorf("still downloading — try again shortly")
		}
		return p, nil
	}
	p, err := n.opts.Archive.Path(f.Local)
	if err != nil {
		return shown, fmt.Errorf("not available")
	}
	if _, err := os.Stat(p); err != nil {
		return shown, fmt.Errorf("still downloading — try again shortly")
	}
	return filepath.ToSlash(p), nil
}

// image returns a picture of the workspace, reduced. It is one if its first
// bytes say so, whatever its name. A picture that cannot be read, or is
// too large for that, has no data.
func (n *Native) image(ctx context.Context, local string) (part llm.Part, ok bool) {
	p, err := n.opts.Archive.Path(local)
	if err != nil {
		return part, false
	}
	mime := sniff(p)
	if mime == "" {
		return part, false
	}
	part = llm.Part{Kind: llm.ImagePart, Mime: mime}
	if st, err := os.Stat(p); err != nil || st.Size() > maxImageFile {
		return part, true
	}
	data, err := os.ReadFile(p)
	if err != nil {
		return part, true
	}
	if n.opts.ReduceImage != nil {
		m, d, err := n.opts.ReduceImage(ctx, mime, data)
		if err == nil && len(d) > 0 {
			mime, data = m, d
		} else if err != nil {
			n.opts.Logger.Warn("picture not reduced", "file", local, "err", err)
		}
	}
	part.Mime, part.Data = mime, data
	return part, true
}

// sniff returns the type of a picture that models take, "" for all else.
func sniff(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 512)
	k, _ := f.Read(head)
	switch mime := http.DetectContentType(head[:k]); mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return mime
	}
	return ""
}

func (a attachments) write(b *strings.Builder, tag string, model llm.Info) {
	block := func(open, end string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(b, "\n\n<%s>\n%s\n</%s>", open, strings.Join(lines, "\n"), end)
		}
	}
	block("unavailable_attachments", "unavailable_attachments", a.missing)
	block(fmt.Sprintf("dropped_image_attachments reason=\"current model '%s' does not accept image input\"", model.Model), "dropped_image_attachments", a.dropped)
	block(tag, tag, a.files)
}

// heard renders lines of the log that no turn of ours has answered, as one
// message of what was said meanwhile.
func (n *Native) heard(conv chat.Address, lines []session.Line) (m llm.Message, ids []string) {
	var b strings.Builder
	tag := n.opts.Profile(conv).AttachmentsTag
	for _, l := range lines {
		who := name(l.UserName)
		if who == "" {
			who = name(l.User)
		}
		if who == "" {
			who = "unknown"
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "[%s]: %s", who, n.clip(fence(l.Text, false)))
		var files []string
		for _, f := range l.Attachments {
			shown, err := n.locate(context.Background(), conv, f)
			if err != nil {
				shown += " (not available)"
			}
			files = append(files, pathLine(shown))
		}
		attachments{files: files}.write(&b, tag, llm.Info{})
		ids = append(ids, l.TS)
	}
	text := b.String()
	if len(text) > maxText { // what is newest counts
		text = "[older messages are left out]\n" + strings.ToValidUTF8(text[len(text)-maxText:], "")
	}
	return llm.Message{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: text}}}, ids
}
