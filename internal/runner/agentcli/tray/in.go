package tray

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// InOptions are fixed by NewIn.
type InOptions struct {
	// Dir holds the in-trays; it is made when needed, 0700. Required, absolute.
	Dir string
	// MaxFile is the largest file, in bytes: 25 MiB; MaxFiles how many of one message
	// are taken: 20; MaxAll the bytes of all of them: 100 MiB.
	MaxFile, MaxAll int64
	MaxFiles        int
	// Age is how long a file is kept: 7 days.
	Age time.Duration
	Now func() time.Time // nil: time.Now
}

// An In is the in-trays of all conversations. It is safe for concurrent use.
type In struct{ opts InOptions }

// NewIn checks the options. It makes nothing.
func NewIn(opts InOptions) (*In, error) {
	if !filepath.IsAbs(opts.Dir) {
		return nil, fmt.Errorf("tray: the directory %q is not absolute", opts.Dir)
	}
	if opts.MaxFile == 0 {
		opts.MaxFile = 25 << 20
	}
	if opts.MaxAll == 0 {
		opts.MaxAll = 100 << 20
	}
	if opts.MaxFiles == 0 {
		opts.MaxFiles = 20
	}
	if opts.Age == 0 {
		opts.Age = 7 * 24 * time.Hour
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &In{opts: opts}, nil
}

// Dir is the in-tray of a conversation, which its program may read.
func (n *In) Dir(conv chat.Address) string { return filepath.Join(n.opts.Dir, session(conv)) }

// A File is one that somebody sent: its name, and how to read it.
type File struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Place copies the files of a turn's message into the in-tray, 0600, under their own
// names as far as a directory can hold them; of two with one name the second is
// numbered. paths are those that arrived, missed says in a sentence each why others did
// not. The error is that of the tray itself.
func (n *In) Place(ctx context.Context, conv chat.Address, id turn.ID, files []File) (paths, missed []string, err error) {
	if len(files) == 0 {
		return nil, nil, nil
	}
	dir := filepath.Join(n.Dir(conv), string(id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	left := n.opts.MaxAll
	for i, f := range files {
		if ctx.Err() != nil {
			return paths, missed, context.Cause(ctx)
		}
		miss := func(why string) { missed = append(missed, shown(f.Name)+" did not arrive: "+why) }
		if i >= n.opts.MaxFiles {
			miss(fmt.Sprintf("a message may hold %d files", n.opts.MaxFiles))
			continue
		}
		name, size, err := n.place(root, f, min(n.opts.MaxFile, left))
		var no *refusal
		switch {
		case errors.As(err, &no):
			miss(no.why)
		case err != nil:
			miss("it could not be stored")
		default:
			left -= size
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, missed, nil
}

// place copies one file.
func (n *In) place(root *os.Root, f File, limit int64) (name string, size int64, err error) {
	r, err := f.Open()
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	head := make([]byte, 512)
	got, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", 0, err
	}
	head = head[:got]
	if why := Mismatch(f.Name, head); why != "" {
		return "", 0, &refusal{why}
	}
	out, name, err := reserve(root, readable(f.Name))
	if err != nil {
		return "", 0, err
	}
	size, err = io.Copy(out, io.LimitReader(io.MultiReader(bytes.NewReader(head), r), limit+1))
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil && size > limit {
		err = &refusal{"it is too large"}
	}
	if err != nil {
		_ = root.Remove(name) // Sweep takes what this leaves
		return "", 0, err
	}
	return name, size, nil
}

// readable is a name as people know it, as far as a shell and a directory can take it:
// letters of every script stay.
func readable(name string) string {
	name = strings.TrimLeft(shown(name), ".- ")
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if strings.ContainsRune("\"'`$<>|*?;&:!", r) {
			return '_'
		}
		return r
	}, name))
	for len(name) > 200 {
		ext := filepath.Ext(name)
		if len(ext) > 16 {
			ext = ""
		}
		stem := []rune(strings.TrimSuffix(name, ext))
		name = string(stem[:len(stem)-1]) + ext
	}
	if name == "" {
		return "file"
	}
	return name
}

// reserve makes a file of a name that is not taken.
func reserve(root *os.Root, name string) (*os.File, string, error) {
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for i := 2; ; i++ {
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
		name = stem + " (" + strconv.Itoa(i) + ")" + ext
	}
}

// kinds are what a file begins with whose name ends so.
var kinds = map[string]string{
	".png": "image/", ".jpg": "image/", ".jpeg": "image/", ".gif": "image/", ".webp": "image/", ".bmp": "image/", ".ico": "image/",
	".pdf": "application/pdf", ".gz": "application/x-gzip", ".tgz": "application/x-gzip",
	".zip": "application/zip", ".docx": "application/zip", ".xlsx": "application/zip", ".pptx": "application/zip", ".odt": "application/zip", ".jar": "application/zip",
}

// Mismatch says why a file cannot be what its name says, by its first bytes; empty if
// it can. A platform answers with a page to log in when it does not want to hand out a
// file, and a model would take that for the file.
func Mismatch(name string, head []byte) string {
	want, known := kinds[strings.ToLower(filepath.Ext(name))]
	if !known {
		return ""
	}
	is := http.DetectContentType(head)
	switch {
	case len(head) == 0:
		return "it is empty"
	case strings.HasPrefix(is, want):
		return ""
	case strings.HasPrefix(is, "text/html"):
		return "what came is a web page and not the file"
	}
	return "its content is not what its name says"
}

// Sweep deletes what is older than InOptions.Age. What cannot be deleted is in the error;
// the rest is.
func (n *In) Sweep() error {
	convs, err := os.ReadDir(n.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	oldest := n.opts.Now().Add(-n.opts.Age)
	var errs []error
	for _, c := range convs {
		path := filepath.Join(n.opts.Dir, c.Name())
		turns, err := os.ReadDir(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, t := range turns {
			if info, err := t.Info(); err == nil && info.ModTime().Before(oldest) {
				errs = append(errs, os.RemoveAll(filepath.Join(path, t.Name())))
			}
		}
		_ = os.Remove(path) // if nothing is left in it
	}
	return errors.Join(errs...)
}
