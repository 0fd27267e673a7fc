package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// fileURL is where the page gets the file that the record seq told of. The
// record is what permits a file outside of the conversation's own directory.
func fileURL(channel, name string, seq int64) string {
	return "/files/" + url.PathEscape(channel) + "/" + url.PathEscape(name) + "?seq=" + strconv.FormatInt(seq, 10)
}

// download serves a file of a conversation: its attachments, its directory, or
// with ?seq= the file that a file event of this conversation named.
func (s *Server) download(w http.ResponseWriter, r *http.Request, _ caller) error {
	conv, err := pageChannel(r.PathValue("channel"))
	if err != nil {
		return err
	}
	name := r.PathValue("file")
	if !plainFile(name) {
		return bad("file must be a plain file name")
	}
	seq := int64(0)
	if q := r.URL.Query().Get("seq"); q != "" {
		if seq, err = strconv.ParseInt(q, 10, 64); err != nil || seq < 1 {
			return bad("seq must be a whole number from 1")
		}
	}
	if seq > 0 {
		if local, ok := s.attached(r.Context(), conv, seq, name); ok {
			return s.serveFile(w, r, name, local)
		}
	}
	for _, local := range []string{path.Join(conv.Dir(), "attachments", name), path.Join(conv.Dir(), name)} {
		if files, err := s.opts.Files.CheckFiles(conv, []string{local}); err == nil && len(files) == 1 {
			return s.serveFile(w, r, files[0].Original, local)
		}
	}
	return missing("not found")
}

// attached finds the path that the file event seq of a conversation names.
func (s *Server) attached(ctx context.Context, conv chat.Address, seq int64, name string) (local string, ok bool) {
	for seen, err := range s.records(ctx, conv, seq-1) {
		e := seen.Record.Event
		if err != nil || seen.Seq != seq || e == nil || e.Kind != turn.FileOut || e.ShownName() != name {
			return "", false
		}
		return e.Local, e.Local != ""
	}
	return "", false
}

// serveFile sends a file as bytes to be saved: what somebody put there is never
// shown as a page of ours.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, name, local string) error {
	f, err := s.opts.Files.OpenFile(local)
	if err != nil {
		return missing("not found")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return missing("not found")
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Content-Disposition", disposition(name))
	http.ServeContent(w, r, "", info.ModTime(), f)
	return nil
}

// disposition offers a file under its name, in any script (RFC 6266).
func disposition(name string) string {
	ascii := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '%' {
			return '_'
		}
		return c
	}, name)
	return fmt.Sprintf(`attachment; filename="%s"; filename*=UTF-8''%s`, ascii, strings.ReplaceAll(url.QueryEscape(name), "+", "%20"))
}
