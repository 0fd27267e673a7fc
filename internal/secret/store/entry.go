package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// formatVersion is the only version there is.
const formatVersion = 1

// A document is the file.
type document struct {
	Version int              `json:"version"`
	Secrets map[string]entry `json:"secrets"`
}

// An entry is one secret: AES-256-GCM without additional data, which is what
// the format has, under an IV that is random for every write.
//
// Seal is ours and ignored by the predecessor: a MAC over the name, the flags
// and the ciphertext, so that two entries cannot change places and a flag
// cannot be turned. An entry without one was written by the predecessor and is
// accepted; every write of the file seals what has none.
type entry struct {
	IV            []byte        `json:"iv"`
	Tag           []byte        `json:"tag"`
	Ciphertext    []byte        `json:"ciphertext"`
	CreatedAt     time.Time     `json:"createdAt"`
	UpdatedAt     time.Time     `json:"updatedAt"`
	Origin        secret.Origin `json:"source"`
	ProxyOnly     bool          `json:"proxyOnly"`
	AgentReadable *bool         `json:"agentReadable,omitempty"` // nil: true
	Seal          []byte        `json:"seal,omitempty"`
}

const (
	ivSize  = 12
	tagSize = 16
)

// parse reads a file. Any error means that it is not a store.
func parse(data []byte) (*document, error) {
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		// The error may quote the text.
		return nil, errors.New("it is not JSON of this format")
	}
	if doc.Version != formatVersion {
		return nil, fmt.Errorf("its version is %d and not %d", doc.Version, formatVersion)
	}
	if doc.Secrets == nil {
		return nil, errors.New("it has no secrets")
	}
	for name := range doc.Secrets {
		if err := secret.CheckName(name); err != nil {
			return nil, err
		}
	}
	return &doc, nil
}

// find returns the spelling under which a name is stored, or the name itself and
// false.
func (d *document) find(name string) (string, bool) {
	if _, ok := d.Secrets[name]; ok {
		return name, true
	}
	best, fold := "", secret.Fold(name)
	for n := range d.Secrets {
		if secret.Fold(n) == fold && (best == "" || n < best) {
			best = n
		}
	}
	if best == "" {
		return name, false
	}
	return best, true
}

func (e entry) meta(name string) secret.Meta {
	return secret.Meta{
		Name: name, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, Origin: e.Origin,
		ProxyOnly: e.ProxyOnly, AgentReadable: e.AgentReadable == nil || *e.AgentReadable,
	}
}

// parseKey reads the text of a key file.
func parseKey(text []byte) (*keys, error) {
	raw := make([]byte, 32)
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	if len(text) != 64 {
		return nil, fmt.Errorf("it holds %d characters and not 64 hex digits", len(text))
	}
	if _, err := hex.Decode(raw, text); err != nil {
		return nil, errors.New("it holds something else than 64 hex digits")
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	mac, err := hkdf.Key(sha256.New, raw, nil, "iris secret seal 1", 32)
	return &keys{aead, mac}, err
}

// open decrypts an entry after its seal was checked.
func (k *keys) open(name string, e entry) (string, error) {
	if len(e.IV) != ivSize || len(e.Tag) != tagSize {
		return "", errors.New("IV or tag have another size")
	}
	if err := k.checkSeal(name, e); err != nil {
		return "", err
	}
	plain, err := k.aead.Open(nil, e.IV, slices.Concat(e.Ciphertext, e.Tag), nil)
	if err != nil {
		return "", errors.New("it does not decrypt")
	}
	return string(plain), nil
}

// seal encrypts a value into an entry.
func (k *keys) seal(name string, e *entry, v secret.Value) {
	e.IV = make([]byte, ivSize)
	rand.Read(e.IV) //nolint:errcheck // never fails: it ends the process instead
	out := k.aead.Seal(nil, e.IV, []byte(v.Reveal()), nil)
	e.Ciphertext, e.Tag = out[:len(out)-tagSize], out[len(out)-tagSize:]
	e.Seal = k.mark(name, *e)
}

func (k *keys) checkSeal(name string, e entry) error {
	if len(e.Seal) > 0 && !hmac.Equal(e.Seal, k.mark(name, e)) {
		return errors.New("its seal is broken: name, flags or content are not those it was stored with")
	}
	return nil
}

// mark computes the seal. Every part is preceded by its length, so that no two
// entries have the same text.
func (k *keys) mark(name string, e entry) []byte {
	h := hmac.New(sha256.New, k.mac)
	flags := []byte{0, 0}
	if e.ProxyOnly {
		flags[0] = 1
	}
	if e.AgentReadable == nil || *e.AgentReadable {
		flags[1] = 1
	}
	for _, part := range [][]byte{[]byte(name), flags, e.IV, e.Tag, e.Ciphertext} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) //nolint:gosec // bounded by MaxValue
		h.Write(part)
	}
	return h.Sum(nil)
}

// sealAll seals what the predecessor wrote, as far as it decrypts.
func (k *keys) sealAll(doc *document) {
	for name, e := range doc.Secrets {
		if len(e.Seal) > 0 {
			continue
		}
		if _, err := k.open(name, e); err == nil {
			e.Seal = k.mark(name, e)
			doc.Secrets[name] = e
		}
	}
}
