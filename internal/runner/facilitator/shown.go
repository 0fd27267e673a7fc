package facilitator

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/transport"
)

// A Screen is the chats of the platforms, by address. Its errors are those of
// transport.Platform.
type Screen interface {
	// Render draws v for an address; false when no platform shows that.
	Render(to chat.Address, v transport.View) ([]transport.Body, bool)
	Post(ctx context.Context, to chat.Address, m transport.Outgoing) (id string, err error)
	Edit(ctx context.Context, to chat.Address, id string, m transport.Outgoing) error
	Find(ctx context.Context, to chat.Address, m transport.Mark, since time.Time) (id string, err error)
	// Pin puts a message before the others of its chat.
	Pin(ctx context.Context, to chat.Address, id string) error
}

// A sign is a message of a room on a platform, as far as it is known here: that it
// is there, and never what it says. What it says is in the room's own store.
type sign struct {
	Key    string `json:"key"`
	Person string `json:"person,omitempty"` // whose private line it is on
	// Release is set for a question for consent, Item for a ballot.
	Release string `json:"release,omitempty"`
	Item    string `json:"item,omitempty"`
	// Tried is when a post of it began, ID what the platform calls it. One that
	// was tried and has no ID may be there.
	Tried time.Time `json:"tried,omitzero"`
	ID    string    `json:"id,omitempty"`
	// Print is a fingerprint of what it shows, under the secret of the ledger.
	Print  string `json:"print,omitempty"`
	Pinned bool   `json:"pinned,omitempty"`
	// Over says that it does not change any more.
	Over bool `json:"over,omitempty"`
}

// A ledger is what a room has on platforms: intent before a post, receipt after.
// The room's screen is held while it is used.
type ledger struct {
	path string
	kept ledgerFile
}

type ledgerFile struct {
	Secret string `json:"secret"` // keys fingerprints and the values of buttons
	Signs  []sign `json:"signs"`
}

// keptSigns is how many signs that are over are remembered. One that is forgotten
// would be posted again if the room's store still had it to deliver; it has a few.
const keptSigns = 400

// readLedger reads what was kept; a room that never showed anything has none.
func readLedger(path string) (*ledger, error) {
	l := &ledger{path: path}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &l.kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("what the room shows, in %s: %w", path, err)
	}
	if l.kept.Secret == "" {
		secret := make([]byte, 16)
		rand.Read(secret)
		l.kept.Secret = hex.EncodeToString(secret)
		return l, l.write()
	}
	return l, nil
}

func (l *ledger) write() error {
	data, err := json.Marshal(l.kept)
	if err != nil {
		return err
	}
	if err := durable.Replace(l.path, append(data, '\n'), durable.Keep(0o600)); err != nil {
		return fmt.Errorf("what the room shows: %w", err)
	}
	return nil
}

func (l *ledger) get(key string) (sign, bool) {
	i := slices.IndexFunc(l.kept.Signs, func(s sign) bool { return s.Key == key })
	if i < 0 {
		return sign{Key: key}, false
	}
	return l.kept.Signs[i], true
}

// put keeps a sign, on disk when it returns nil.
func (l *ledger) put(s sign) error {
	if i := slices.IndexFunc(l.kept.Signs, func(o sign) bool { return o.Key == s.Key }); i >= 0 {
		l.kept.Signs[i] = s
	} else {
		l.kept.Signs = append(l.kept.Signs, s)
	}
	over := 0
	for i := len(l.kept.Signs) - 1; i >= 0; i-- {
		if l.kept.Signs[i].Over {
			if over++; over > keptSigns {
				l.kept.Signs = slices.Delete(l.kept.Signs, i, i+1)
			}
		}
	}
	return l.write()
}

// mac is a fingerprint of parts.
func (l *ledger) mac(parts ...string) string {
	h := hmac.New(sha256.New, []byte(l.kept.Secret))
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}

// ledger returns that of a room. Its screen is held.
func (r *Rooms) ledger(x *room) (*ledger, error) {
	if x.shown != nil {
		return x.shown, nil
	}
	l, err := readLedger(filepath.Join(r.opts.Dir, x.spec.ID+".shown.json"))
	if err == nil {
		x.shown = l
	}
	return l, err
}

// show makes one message of a chat say body: it posts it, edits it, or leaves it
// as it is. An earlier try whose end is not known is looked for, and where the
// platform cannot tell, the repeat is labelled as one. The screen of x is held.
func (r *Rooms) show(ctx context.Context, l *ledger, to chat.Address, s sign, body transport.Body) (sign, error) {
	print := l.mac(body.Text, string(body.Extra))
	out := transport.Outgoing{Body: body, Mark: transport.Mark{Part: "room." + s.Key}}
	if s.ID == "" && !s.Tried.IsZero() {
		id, err := r.opts.Screen.Find(ctx, to, out.Mark, s.Tried)
		switch {
		case err == nil:
			s.ID = id
			if err := l.put(s); err != nil {
				return s, err
			}
		case errors.Is(err, transport.ErrCannotTell):
			out.Repeat = true
		case !errors.Is(err, transport.ErrNotThere):
			return s, err
		}
	}
	if s.ID != "" {
		if s.Print == print {
			return s, nil
		}
		err := r.opts.Screen.Edit(ctx, to, s.ID, out)
		if !gone(err) {
			if err == nil {
				s.Print = print
				err = l.put(s)
			}
			return s, err
		}
		s.ID, s.Pinned = "", false // somebody has deleted it
	}
	s.Tried = time.Now()
	if err := l.put(s); err != nil {
		return s, err
	}
	id, err := r.opts.Screen.Post(ctx, to, out)
	if err != nil {
		var send *transport.SendError
		if errors.As(err, &send) && !send.Maybe && !out.Repeat {
			s.Tried = time.Time{}
			return s, errors.Join(err, l.put(s))
		}
		return s, err
	}
	s.ID, s.Print = id, print
	return s, l.put(s)
}

func gone(err error) bool {
	var send *transport.SendError
	return errors.As(err, &send) && send.Fault == transport.Gone
}
