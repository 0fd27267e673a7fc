package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A Head says where a record ended when its last line was written.
type Head struct {
	Size int64  `json:"size"` // of the file, that line included
	Hash string `json:"hash"` // of that line
	Mark string `json:"mark"` // of the two, under the key
}

// headSize is the length of a head's file: always the same, so that one write in
// place changes it, at a fraction of what a new file costs.
const headSize = 256

func (h Head) mark(key []byte) string {
	return mark(key, fmt.Appendf(nil, "head %d %s", h.Size, h.Hash))
}

// mark is what only the key makes of a text.
func mark(key, text []byte) string {
	m := hmac.New(sha256.New, key)
	m.Write(text)
	return hex.EncodeToString(m.Sum(nil))
}

// ReadHead reads a head. A head that was not written with the key is an error; one
// that is not there wraps fs.ErrNotExist.
func ReadHead(path string, key []byte) (Head, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Head{}, err
	}
	var h Head
	if err := json.Unmarshal(data, &h); err != nil || !hmac.Equal([]byte(h.Mark), []byte(h.mark(key))) {
		return Head{}, fmt.Errorf("%s was not written with this key", path)
	}
	return h, nil
}

func writeHead(path string, key []byte, h Head) error {
	h.Mark = h.mark(key)
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, bytes.Repeat([]byte{' '}, headSize-len(text))...))
	return errors.Join(err, f.Close())
}
