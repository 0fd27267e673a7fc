package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Source is where secrets come from. The packages below this one are the
// sources there are (store, env, broker); secrettest holds the suite.
//
// Implementations must
//   - accept the names that CheckName accepts and refuse all others with
//     ErrName before they look anywhere;
//   - find a name that is spelled exactly so first and else the one that
//     differs from it in hyphens and underscores alone ([Fold]); Put and Delete
//     act on the spelling there is;
//   - on an overwrite keep what Put does not say: the time of making, the flags
//     and, without a Source of its own, the origin;
//   - never put a value, or a part of one, into an error or a log;
//   - give Get of a proxy-only secret to whoever calls: who may have it is
//     decided by the caller, from the Meta. A source that stands before another
//     process (broker) gets ErrForbidden from there and returns it;
//   - be safe for concurrent use, also by several processes where they share a
//     place.
type Source interface {
	Get(ctx context.Context, name string) (Value, Meta, error)
	// Meta is Get without the value.
	Meta(ctx context.Context, name string) (Meta, error)
	// List returns what there is, sorted by name.
	List(ctx context.Context) ([]Meta, error)
	// Put stores a value under a name and returns what is known of it then.
	// The empty Value is refused with ErrEmpty.
	Put(ctx context.Context, name string, v Value, p Put) (Meta, error)
	// Delete removes a secret; ErrNotFound if there is none.
	Delete(ctx context.Context, name string) error
}

// Meta is what is known of a secret besides its value.
type Meta struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	Origin    Origin    `json:"source"`
	// ProxyOnly means that nobody may read the value; the broker's gateway
	// puts it into requests.
	ProxyOnly bool `json:"proxyOnly"`
	// AgentReadable means that the API may give the value to agents. Without
	// it the value is for Iris's own use, and nobody gets it over the API.
	AgentReadable bool `json:"agentReadable"`
}

// Put says what a write wants besides the value.
type Put struct {
	// Origin says who wrote; empty keeps what there is, or is FromAPI.
	Origin Origin
	// ProxyOnly and AgentReadable; nil keeps what there is. A new secret is
	// not proxy-only and is agent-readable.
	ProxyOnly, AgentReadable *bool
}

// An Origin says how a secret came in. The words are those of the store's file.
type Origin string

// The origins.
const (
	FromDrop   Origin = "drop"
	FromAPI    Origin = "api"
	FromCLI    Origin = "cli"
	FromImport Origin = "import"
	FromEnv    Origin = "env" // never in a file: a variable of the environment
)

// What callers branch on. Every other error means that the source could not
// answer: try later, or tell the operator.
var (
	// ErrName: the name cannot name a secret.
	ErrName = errors.New("invalid secret name")
	// ErrNotFound: there is no such secret.
	ErrNotFound = errors.New("secret not found")
	// ErrEmpty: a value must not be empty.
	ErrEmpty = errors.New("missing value")
	// ErrValue: the value cannot be stored.
	ErrValue = errors.New("value cannot be stored")
	// ErrForbidden: there is such a secret and this caller may not have it.
	ErrForbidden = errors.New("secret may not be read")
	// ErrDamaged: there is an entry and it is not what was stored. It counts
	// as not found, and never gives way to another source.
	ErrDamaged = fmt.Errorf("%w: its entry is damaged", ErrNotFound)
	// ErrReadOnly: the source cannot be written.
	ErrReadOnly = errors.New("no place to store secrets")
	// ErrCorrupt: the place is not readable as a store and is left as it is.
	ErrCorrupt = errors.New("the secret store is corrupt")
	// ErrDisabled: the place is there and cannot be used, for want of a key.
	ErrDisabled = errors.New("the secret store is disabled")
	// ErrUnreachable: the process that keeps the secrets did not answer.
	ErrUnreachable = errors.New("the secret broker cannot be reached")
)

// MaxValue bounds a value in bytes: what a form may send.
const MaxValue = 64 << 10

// maxName is the longest name.
const maxName = 128

// CheckName returns ErrName, with the name, unless it is 1 to 128 letters,
// digits, hyphens and underscores.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	if !ok {
		return fmt.Errorf("%w: %.140q (1 to %d letters, digits, - and _)", ErrName, name, maxName)
	}
	return nil
}

// CheckValue returns ErrEmpty, or what is wrong with a value: it is too large, or
// no text, which JSON could not carry.
func CheckValue(v Value) error {
	if v.IsZero() {
		return ErrEmpty
	}
	if n := len(v.Reveal()); n > MaxValue {
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrValue, n, MaxValue)
	}
	if !utf8.ValidString(v.Reveal()) {
		return fmt.Errorf("%w: it is not UTF-8 text; store it in base64", ErrValue)
	}
	return nil
}

// Fold maps a name and its variants to the same text. Case counts.
func Fold(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Chain asks the first source and, for what that does not have, the second,
// which is never written. A damaged entry, and a first source that cannot
// answer, do not give way: what is asked for might be there.
type Chain struct{ First, Second Source }

var _ Source = Chain{}

// Get is the first source's, else the second's.
func (c Chain) Get(ctx context.Context, name string) (Value, Meta, error) {
	v, m, err := c.First.Get(ctx, name)
	if gaveWay(err) {
		return c.Second.Get(ctx, name)
	}
	return v, m, err
}

// Meta is the first source's, else the second's.
func (c Chain) Meta(ctx context.Context, name string) (Meta, error) {
	m, err := c.First.Meta(ctx, name)
	if gaveWay(err) {
		return c.Second.Meta(ctx, name)
	}
	return m, err
}

// List is the first source's: what lies in the second was not put there as a
// secret.
func (c Chain) List(ctx context.Context) ([]Meta, error) { return c.First.List(ctx) }

// Put writes to the first source.
func (c Chain) Put(ctx context.Context, name string, v Value, p Put) (Meta, error) {
	return c.First.Put(ctx, name, v, p)
}

// Delete removes from the first source.
func (c Chain) Delete(ctx context.Context, name string) error { return c.First.Delete(ctx, name) }

func gaveWay(err error) bool {
	return errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDamaged)
}
