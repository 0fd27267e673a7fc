package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
)

// maxFile bounds what is read as a question: a command of 128 KiB whose every
// byte is escaped, and the names in it.
const maxFile = 4 << 20

func (b *Book) path(id string) string { return filepath.Join(b.opts.Dir, id+".json") }

// load reads what an earlier process has left.
func (b *Book) load() error {
	files, err := os.ReadDir(b.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read questions: %w", err)
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok {
			if strings.HasSuffix(f.Name(), ".tmp") {
				_ = os.Remove(filepath.Join(b.opts.Dir, f.Name())) // of a write that a crash cut off
			}
			continue
		}
		q, err := read(b.path(id), id)
		if err != nil {
			b.log.Error("a question is not readable and is left alone", "file", b.path(id), "err", err)
			continue
		}
		b.open[q.ID] = &entry{Question: q}
	}
	return nil
}

// read decodes a question and checks that it is what its name says.
func read(path, id string) (Question, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Question{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return Question{}, errors.New("not a plain file of a question's size")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Question{}, err
	}
	return decode(data, id)
}

func decode(data []byte, id string) (Question, error) {
	var q Question
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&q); err != nil {
		return q, err
	}
	if dec.More() {
		return q, errors.New("more than one value")
	}
	switch _, err := q.Conversation(); {
	case err != nil:
		return q, err
	case q.ID != id || chat.CheckID(id) != nil:
		return q, fmt.Errorf("its id is %.80q", q.ID)
	case q.Hash != Hash(q.Command) || !strings.HasSuffix(q.ID, "-"+q.Hash):
		return q, errors.New("its command is another one than its id says")
	case q.At.IsZero() || !q.At.Before(q.Until):
		return q, errors.New("it has no time")
	}
	return q, nil
}

// write puts a question on disk: when it returns nil it survives a power cut.
func (b *Book) write(q Question) error {
	if err := os.MkdirAll(b.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("keep a question: %w", err)
	}
	data, err := json.MarshalIndent(q, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(b.path(q.ID), append(data, '\n'), durable.Exactly(0o600)); err != nil {
		return fmt.Errorf("keep a question: %w", err)
	}
	return nil
}

func (b *Book) remove(id string) error { return durable.Remove(b.path(id)) }
