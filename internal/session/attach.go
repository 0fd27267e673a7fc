package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/iris-operator/iris/internal/chat"
)

const (
	// MaxFile is the largest attachment where the caller sets no limit.
	MaxFile = 25 << 20
	// maxOriginal is what is kept of the name a sender gave, in bytes.
	maxOriginal = 255
	// maxStored bounds the name on disk without its prefix.
	maxStored = 120
	// namesFile holds the original names of stored files whose name on disk
	// differs.
	namesFile = ".names.jsonl"
)

// AddFile stores an upload among a conversation's attachments, on disk when it
// returns nil. limit is in bytes; 0 means MaxFile. The name is kept as data in
// File.Original; the file lies under a name of our own, so two equal names are
// two files. ErrBadFile: the name is empty or holds "/" or "..", or there are
// no bytes. ErrTooLarge: more bytes than limit. Nothing stays behind after an
// error. It reads r to its end or the limit and does not close it.
func (s *Store) AddFile(ctx context.Context, addr chat.Address, name string, r io.Reader, limit int64) (chat.File, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return chat.File{}, fmt.Errorf("%w: the file has no name", ErrBadFile)
	case strings.Contains(name, "/") || strings.Contains(name, ".."):
		return chat.File{}, fmt.Errorf("%w: the file name %s is a path", ErrBadFile, shown(name))
	}
	return s.Receive(ctx, addr, "", name, r, limit)
}

// Receive is AddFile for files of a platform: any name will do, as the sender
// cannot be asked for a better one, and stem is what the platform calls the
// file ("msg42"); it becomes the beginning of the stored name. An empty stem
// is the present in milliseconds.
func (s *Store) Receive(ctx context.Context, addr chat.Address, stem, name string, r io.Reader, limit int64) (chat.File, error) {
	dir, err := dirOf(addr)
	if err != nil {
		return chat.File{}, err
	}
	if stem != "" {
		if err := chat.CheckID(stem); err != nil {
			return chat.File{}, fmt.Errorf("stem %w", err)
		}
	}
	if limit <= 0 {
		limit = MaxFile
	}
	original := originalName(name)
	f, p, err := s.reserve(path.Join(dir, attachments), stem, storedName(original))
	if err != nil {
		return chat.File{}, fmt.Errorf("store %s: %w", shown(original), err)
	}
	err = fill(ctx, f, r, limit)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.keepName(addr, p, original)
	}
	if err == nil {
		err = s.syncPath(path.Dir(p))
	}
	if err != nil {
		s.root.Remove(p)
		return chat.File{}, fmt.Errorf("store %s: %w", shown(original), err)
	}
	return chat.File{Original: original, Local: p}, nil
}

// reserve makes a file of a name that is not taken.
func (s *Store) reserve(dir, stem, name string) (*os.File, string, error) {
	if err := s.root.MkdirAll(dir, dirMode); err != nil {
		return nil, "", err
	}
	now := s.opts.Now().UnixMilli()
	for i := int64(0); ; i++ {
		prefix := strconv.FormatInt(now+i, 10)
		if stem != "" {
			prefix = stem
			if i > 0 {
				prefix += "-" + strconv.FormatInt(i+1, 10)
			}
		}
		p := path.Join(dir, prefix+"_"+name)
		f, err := s.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if !errors.Is(err, fs.ErrExist) {
			return f, p, err
		}
	}
}

// fill copies at most limit bytes and puts them on disk.
func fill(ctx context.Context, f *os.File, r io.Reader, limit int64) error {
	n, err := io.Copy(f, io.LimitReader(&guarded{ctx, r}, limit+1))
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w: the file is empty", ErrBadFile)
	case n > limit:
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return f.Sync()
}

// guarded reads until ctx ends.
type guarded struct {
	ctx context.Context
	r   io.Reader
}

func (g *guarded) Read(p []byte) (int, error) {
	if err := context.Cause(g.ctx); err != nil {
		return 0, err
	}
	return g.r.Read(p)
}

// originalName is what is kept of a sender's name: Unicode in its composed
// form, cut at a character.
func originalName(name string) string {
	name = norm.NFC.String(strings.ToValidUTF8(name, "\uFFFD"))
	if len(name) <= maxOriginal {
		return name
	}
	cut := maxOriginal
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut]
}

// storedName replaces every character that is not a letter, a digit, a dot, a
// dash or an underscore of ASCII, and keeps the extension of a long name.
func storedName(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	out := b.String()
	if len(out) <= maxStored {
		return out
	}
	ext := path.Ext(out)
	if len(ext) > 16 {
		ext = ""
	}
	return out[:maxStored-len(ext)] + ext
}

// A naming is a line of namesFile.
type naming struct {
	Stored   string `json:"stored"`
	Original string `json:"original"`
}

// keepName remembers a name that the file on disk does not show.
func (s *Store) keepName(addr chat.Address, p, original string) error {
	if fileName(p) == original {
		return nil
	}
	c, err := s.acquire(addr)
	if err != nil {
		return err
	}
	defer s.release(c)
	var buf bytes.Buffer
	if err := encode(&buf, naming{path.Base(p), original}); err != nil {
		return err
	}
	names := path.Join(path.Dir(p), namesFile)
	f, err := s.root.OpenFile(names, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(buf.Bytes())
	if err == nil && !s.files.wrote(names) {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// fileName is the name of a stored file without our prefix.
func fileName(p string) string {
	base := path.Base(p)
	if stem, rest, ok := strings.Cut(base, "_"); ok && rest != "" {
		if _, err := strconv.ParseUint(stem, 10, 63); err == nil {
			return rest
		}
	}
	return base
}

// original finds the name a stored file had.
func (s *Store) original(p string) string {
	f, err := s.root.Open(path.Join(path.Dir(p), namesFile))
	if err != nil {
		return fileName(p)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fileName(p)
	}
	out, base := fileName(p), path.Base(p)
	err = backward(f, info.Size(), func(_ int64, line []byte, _ bool) bool {
		var n naming
		if json.Unmarshal(line, &n) != nil || n.Stored != base {
			return true
		}
		out = n.Original
		return false
	})
	if err != nil {
		s.opts.Logger.Warn("original name not found", "file", p, "err", err)
	}
	return out
}

// CheckFiles turns handles that came with a message into files. Each must name
// a file inside the conversation's own directory; the first that does not is an
// ErrBadFile whose text names it and says why.
func (s *Store) CheckFiles(addr chat.Address, locals []string) ([]chat.File, error) {
	dir, err := dirOf(addr)
	if err != nil {
		return nil, err
	}
	out := make([]chat.File, 0, len(locals))
	for _, local := range locals {
		rel, ok := strings.CutPrefix(local, dir+"/")
		if !ok {
			return nil, fmt.Errorf("%w: %s is not inside %s", ErrBadFile, shown(local), dir)
		}
		rel = path.Clean(rel)
		if !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("%w: %s escapes the session directory", ErrBadFile, shown(local))
		}
		if err := s.checkFile(dir, rel); err != nil {
			return nil, fmt.Errorf("%w: %s %s", ErrBadFile, shown(local), err)
		}
		clean := path.Join(dir, rel)
		out = append(out, chat.File{Original: s.original(clean), Local: clean})
	}
	return out, nil
}

// checkFile looks for a file without ever leaving dir; its error completes a
// sentence about the file.
func (s *Store) checkFile(dir, rel string) error {
	own, err := s.root.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("does not exist")
	}
	if err != nil {
		return errors.New("escapes the session directory")
	}
	defer own.Close()
	info, err := own.Stat(rel)
	switch {
	case err == nil && info.Mode().IsRegular():
		return nil
	case err == nil:
		return errors.New("is not a file")
	}
	if link, lerr := own.Lstat(rel); lerr == nil && link.Mode()&fs.ModeSymlink != 0 && !errors.Is(err, fs.ErrNotExist) || escapes(own, rel) {
		return errors.New("escapes the session directory")
	}
	return errors.New("does not exist")
}

// escapes reports whether a directory on the way is a link that leads out.
func escapes(own *os.Root, rel string) bool {
	for d := path.Dir(rel); d != "."; d = path.Dir(d) {
		if info, err := own.Lstat(d); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if _, err := own.Stat(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return true
			}
		}
	}
	return false
}

// OpenFile opens a file of the workspace for reading, given by its path
// relative to it. Links are followed inside the workspace only, and what lies
// in state/ is refused. The caller closes it. ErrNotFound: no such file;
// ErrBadFile: the path may not be used.
func (s *Store) OpenFile(local string) (*os.File, error) {
	if _, err := s.Path(local); err != nil {
		return nil, err
	}
	return s.root.Open(path.Clean(local))
}

// Path returns where a file of the workspace lies on this machine, links
// resolved. The rules and errors are those of OpenFile, which is to be
// preferred where the file is read at once.
func (s *Store) Path(local string) (string, error) {
	if !filepath.IsLocal(local) {
		return "", fmt.Errorf("%w: %s is outside of the workspace", ErrBadFile, shown(local))
	}
	_, err := s.root.Stat(path.Clean(local))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", shown(local), ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s cannot be reached inside the workspace: %v", ErrBadFile, shown(local), err)
	}
	base, err := filepath.EvalSymlinks(s.opts.Root)
	if err != nil {
		return "", err
	}
	if base, err = filepath.Abs(base); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(base, local))
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(base, real)
	if err != nil || !filepath.IsLocal(rel) || rel == stateDir || strings.HasPrefix(rel, stateDir+"/") {
		return "", fmt.Errorf("%w: %s is not a file for reading", ErrBadFile, shown(local))
	}
	return real, nil
}

// shown renders a path from outside in a message: as it is when that cannot
// mislead, else quoted; long ones cut.
func shown(p string) string {
	if len(p) > 300 {
		p = strings.ToValidUTF8(p[:300], "") + "…"
	}
	if q := strconv.Quote(p); q != `"`+p+`"` {
		return q
	}
	return p
}
