package telegram

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
)

// claimTime is how long a token is good.
const claimTime = 10 * time.Minute

// An Owner is who the bot belongs to, as its file says it.
type Owner struct {
	Claimed bool  `json:"claimed"`
	ChatID  int64 `json:"chatId,omitempty"`
	// OwnerID and OwnerName are of the person who claimed.
	OwnerID   int64     `json:"ownerId,omitempty"`
	OwnerName string    `json:"ownerName,omitempty"`
	Token     string    `json:"pendingToken,omitempty"`
	Expires   time.Time `json:"tokenExpiresAt,omitzero"`
	BotID     int64     `json:"botId,omitempty"`
}

// claims keeps the Owner in a file that agents cannot write: what it says is who
// may talk to Iris.
type claims struct {
	file string
	now  func() time.Time
	mu   sync.Mutex // one read or change at a time
}

func (c *claims) read() (Owner, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load()
}

// load reads the file. A corrupt one is refused and never overwritten.
func (c *claims) load() (o Owner, err error) {
	data, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		if err = json.Unmarshal(data, &o); err != nil {
			err = fmt.Errorf("%s is corrupt: %w; remove it to claim the bot anew", c.file, err)
		}
	}
	return o, err
}

// change lets f change the owner and keeps what it returns nil for.
func (c *claims) change(f func(*Owner) error) (o Owner, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, err = c.load(); err != nil {
		return o, err
	}
	before := o
	if err = f(&o); err != nil || o == before {
		return o, err
	}
	data, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return o, err
	}
	if err = os.MkdirAll(filepath.Dir(c.file), 0o700); err == nil {
		err = durable.Replace(c.file, append(data, '\n'), durable.Exactly(0o600))
	}
	return o, err
}

// renew makes sure that an unclaimed bot has a token that is good.
func renew(o *Owner, now time.Time) error {
	if o.Claimed || o.Token != "" && now.Before(o.Expires) {
		return nil
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return err
	}
	o.Token, o.Expires = hex.EncodeToString(raw), now.Add(claimTime).UTC().Truncate(time.Second)
	return nil
}

// openClaim reads who the bot belongs to, and shows how to claim it.
func (t *Telegram) openClaim(me identity) error {
	o, err := t.claims.change(func(o *Owner) error {
		switch {
		case t.opts.Reclaim && o.Claimed:
			t.log.Warn("the claim is cleared, as IRIS_TELEGRAM_FORCE_RECLAIM says", "chat", o.ChatID)
			*o = Owner{}
		case o.BotID != 0 && o.BotID != me.id:
			t.log.Warn("this is another bot than the one that was claimed: it is to be claimed anew", "bot", me.username)
			*o = Owner{}
		}
		o.BotID = me.id
		return renew(o, t.opts.Now())
	})
	if err != nil {
		return err
	}
	if o.Claimed {
		t.opts.Claimed(address(o.ChatID, 0))
		return nil
	}
	t.opts.Claimed(chat.Address{})
	t.show(o, me)
	return nil
}

// show prints how to claim the bot.
func (t *Telegram) show(o Owner, me identity) {
	if t.opts.Print == nil {
		t.log.Warn("the bot is not claimed: iris telegram claim shows how", "bot", me.username)
		return
	}
	t.opts.Print(Invitation(me.username, o.Token, o.Expires))
}

// Invitation is how to claim a bot, for a terminal.
func Invitation(username, token string, until time.Time) string {
	link := "https://t.me/" + username + "?start=" + token
	return fmt.Sprintf("\nTelegram: @%s belongs to nobody yet. Open this link on the device where you use Telegram, and press Start:\n\n  %s\n\n%s\n"+
		"Or send this to the bot, in private or in the group that it shall serve:\n\n  /start %s\n\nThe token is good until %s.\n",
		username, link, qrText(link), token, until.Local().Format("15:04"))
}

// Invite makes a new token for an unclaimed bot, good for a running server too,
// and returns what to show. release gives a claimed bot up first.
func (t *Telegram) Invite(ctx context.Context, release bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	u, err := t.api.GetMe(ctx)
	if err != nil {
		return "", fault(err)
	}
	o, err := t.claims.change(func(o *Owner) error {
		if o.Claimed && o.BotID == u.ID && !release {
			return fmt.Errorf("@%s is claimed by %s (chat %d)", u.Username, o.OwnerName, o.ChatID)
		}
		*o = Owner{BotID: u.ID}
		return renew(o, t.opts.Now())
	})
	if err != nil {
		return "", err
	}
	return Invitation(u.Username, o.Token, o.Expires), nil
}

// served reports whether a message's author is served in its chat.
func (t *Telegram) served(o Owner, c models.Chat, from *models.User) bool {
	if !o.Claimed || from == nil || from.IsBot {
		return false
	}
	if t.opts.Guest != nil && t.opts.Guest(address(c.ID, 0), strconv.FormatInt(from.ID, 10)) {
		return true
	}
	if c.ID != o.ChatID {
		return false
	}
	if c.Type == models.ChatTypePrivate {
		return from.ID == c.ID
	}
	return from.ID == o.OwnerID || t.member(from.ID)
}

func (t *Telegram) member(id int64) bool {
	for _, m := range t.opts.Members {
		if m == id {
			return true
		}
	}
	return false
}

// claim deals with what is said to a bot that belongs to nobody.
func (t *Telegram) claim(m *models.Message) {
	if m.From == nil || m.From.IsBot || m.Chat.Type == models.ChatTypeChannel {
		return
	}
	token := strings.TrimSpace(m.Text)
	if rest, ok := strings.CutPrefix(token, "/start"); ok {
		if name, after, _ := strings.Cut(rest, " "); name == "" || strings.EqualFold(name, "@"+t.me.username) {
			token = strings.TrimSpace(after)
		}
	}
	conv := address(m.Chat.ID, topic(m))
	if _, err := hex.DecodeString(token); err != nil || len(token) != 64 {
		if t.hint(m.Chat) {
			t.say(conv, "This bot is not claimed yet. Its operator finds the token where Iris was started, or with `iris telegram claim`.")
		}
		return
	}
	expired, wrong := false, false
	o, err := t.claims.change(func(o *Owner) error {
		now := t.opts.Now()
		switch {
		case o.Claimed || subtle.ConstantTimeCompare([]byte(o.Token), []byte(strings.ToLower(token))) != 1:
			wrong = true
			return nil
		case !now.Before(o.Expires):
			expired = true
			o.Token = ""
			return renew(o, now)
		}
		*o = Owner{Claimed: true, ChatID: m.Chat.ID, OwnerID: m.From.ID, OwnerName: person(m.From).Display, BotID: t.me.id}
		return nil
	})
	switch {
	case err != nil:
		t.log.Error("the claim is not kept", "err", err)
		t.say(conv, "The claim could not be written down; see the log of Iris.")
	case wrong:
		if t.hint(m.Chat) {
			t.say(conv, "❌ This token is not the one that Iris has printed.")
		}
	case expired:
		t.show(o, t.me)
		t.say(conv, "❌ Token expired. Iris has printed a new one; `iris telegram claim` shows it, too.")
	default:
		t.log.Info("the bot is claimed", "chat", o.ChatID, "by", o.OwnerID)
		t.opts.Claimed(address(o.ChatID, 0))
		t.say(conv, t.welcome(o, m.Chat))
	}
}

// welcome says whom the bot serves from now on.
func (t *Telegram) welcome(o Owner, c models.Chat) string {
	if c.Type == models.ChatTypePrivate {
		return "✅ Bot claimed. I serve this chat and no other; everybody else is ignored. `help` says what can be said."
	}
	who := "I serve " + o.OwnerName + " here, and nobody else"
	if n := len(t.opts.Members); n > 0 {
		who = "I serve " + o.OwnerName + " here, and the members whose ids are configured: " + ids(t.opts.Members)
	}
	return "✅ Bot claimed by this group. " + who + ". What others write is ignored; `IRIS_TELEGRAM_MEMBERS` names more. " +
		"Those I serve may also approve commands that I hold."
}

func ids(list []int64) string {
	var out []string
	for _, id := range list {
		out = append(out, "`"+strconv.FormatInt(id, 10)+"`")
	}
	return strings.Join(out, ", ")
}

const (
	// hintEvery is how often one chat is told that the bot is not claimed.
	hintEvery = time.Minute
	// maxHinted bounds the chats that are remembered for it.
	maxHinted = 1000
)

// hint reports whether a chat may be told something that it did not earn.
func (t *Telegram) hint(c models.Chat) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.opts.Now()
	if at, ok := t.hinted[c.ID]; ok && now.Sub(at) < hintEvery {
		return false
	}
	if len(t.hinted) >= maxHinted {
		clear(t.hinted)
	}
	t.hinted[c.ID] = now
	return true
}

// move follows a group that has become a supergroup.
func (t *Telegram) move(from, to int64) {
	moved := false
	_, err := t.claims.change(func(o *Owner) error {
		if moved = o.Claimed && o.ChatID == from; moved {
			o.ChatID = to
		}
		return nil
	})
	switch {
	case err != nil:
		t.log.Error("a group has got another id, which is not kept", "chat", to, "err", err)
	case moved:
		t.log.Info("the group has got another id", "chat", to)
		t.opts.Claimed(address(to, 0))
	}
	t.mu.Lock()
	t.moved[strconv.FormatInt(from, 10)] = strconv.FormatInt(to, 10)
	t.mu.Unlock()
}
