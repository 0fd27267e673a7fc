// Package deliverytest holds what tests of delivery share: a strict fake
// platform, a disk that outlives its process, and the suite that every
// transport.Platform passes.
package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// FakeOptions are the settings of a Fake.
type FakeOptions struct {
	Traits transport.Traits
	// CannotTell makes Find say so.
	CannotTell bool
	// Fault decides what becomes of a call. nil: it succeeds.
	Fault func(Call) Fate
	// Gap is how fast one chat may call, Burst how often at once: 1 s, 3. Who is
	// faster is told to wait, and who calls inside the wait is reported.
	Gap   time.Duration
	Burst int
	// Space is where the conversations are that it shows: chat.Slack.
	Space chat.Space
}

// A Call is a call of the platform.
type Call struct {
	Verb string // post, edit, delete, upload, find
	Chat string
	Mark transport.Mark
	Body transport.Body
}

// A Fate is what becomes of a call. The zero value is success.
type Fate struct {
	Err error
	// Applied says that the call has its effect although it fails, after Late.
	Applied bool
	Late    time.Duration
	// Takes is how long the call takes.
	Takes time.Duration
}

// A Shown is a message that people see.
type Shown struct {
	ID     string
	Place  transport.Place
	Mark   transport.Mark
	Text   string
	Source string
	Format string
	Repeat bool
	File   string // name, for an upload
}

// Fake is a platform in memory, strict about what it is told. It renders a text
// as it is.
type Fake struct {
	opts FakeOptions

	mu    sync.Mutex
	next  int
	shown []*Shown
	chats map[string]*fakeChat
	wrong []string
	calls []Call
}

type fakeChat struct {
	busy   bool
	times  []time.Time
	banned time.Time
	bans   int
}

// NewFake returns a platform that nobody has written to.
func NewFake(opts FakeOptions) *Fake {
	if opts.Gap == 0 {
		opts.Gap = time.Second
	}
	if opts.Burst == 0 {
		opts.Burst = 3
	}
	if opts.Space == "" {
		opts.Space = chat.Slack
	}
	if opts.Traits.MaxChars == 0 {
		opts.Traits.MaxChars = 400
	}
	return &Fake{opts: opts, chats: map[string]*fakeChat{}}
}

// Name implements transport.Platform.
func (f *Fake) Name() string { return "fake" }

// Traits implements transport.Platform.
func (f *Fake) Traits() transport.Traits { return f.opts.Traits }

// Place implements transport.Platform: the thread is the one of the address.
func (f *Fake) Place(conv chat.Address, _ *turn.Accepted) (transport.Place, bool) {
	return transport.Place{Chat: conv.ID, Thread: conv.Thread}, conv.Space == f.opts.Space
}

// Render implements transport.Platform.
func (f *Fake) Render(v transport.View) []transport.Body {
	limit := f.opts.Traits.MaxChars
	if v.Limit != 0 {
		limit = v.Limit
	}
	limit -= len(transport.RepeatLabel) + 1 + len(v.Note) + 8
	limit = max(limit, 10)
	format := "markdown"
	if v.Plain {
		format = "plain"
	}
	var bodies []transport.Body
	for text := v.Text; text != "" || len(bodies) == 0; {
		cut := min(len(text), limit)
		for cut < len(text) && text[cut]&0xc0 == 0x80 {
			cut--
		}
		if i := strings.LastIndexByte(text[:cut], ' '); cut < len(text) && i > 0 {
			cut = i + 1
		}
		bodies = append(bodies, transport.Body{Text: text[:cut], Source: text[:cut], Format: format})
		text = text[cut:]
	}
	last := &bodies[len(bodies)-1]
	if strings.TrimSpace(last.Text) == "" && v.Note == "" {
		last.Text = "(empty)"
	}
	if v.Note != "" {
		last.Note = v.Note
		last.Text = strings.TrimPrefix(last.Text+"\n", "\n") + "_" + v.Note + "_"
		if v.Show == transport.ShowProgress {
			last.Text += " ..."
		}
	}
	if v.Ask != nil && v.Ask.Outcome == "" {
		last.Text += " [yes] [no]"
	}
	return bodies
}

// Post implements transport.Platform.
func (f *Fake) Post(ctx context.Context, p transport.Place, m transport.Outgoing) (id string, err error) {
	err = f.call(ctx, Call{Verb: "post", Chat: p.Chat, Mark: m.Mark, Body: m.Body}, func() error {
		if err := f.check(m); err != nil {
			return err
		}
		id = f.add(&Shown{Place: p, Mark: m.Mark, Text: labelled(m), Source: m.Body.Source, Format: m.Body.Format, Repeat: m.Repeat})
		return nil
	})
	return id, err
}

func labelled(m transport.Outgoing) string {
	if m.Repeat {
		return transport.RepeatLabel + "\n" + m.Body.Text
	}
	return m.Body.Text
}

// check refuses what a platform would. mu must be held.
func (f *Fake) check(m transport.Outgoing) error {
	text := labelled(m)
	switch {
	case text == "":
		return &transport.SendError{Fault: transport.Refused, Err: errors.New("no text")}
	case len(text) > f.opts.Traits.MaxChars:
		return &transport.SendError{Fault: transport.TooLong, Err: errors.New("msg_too_long")}
	}
	return nil
}

// add shows a message. mu must be held.
func (f *Fake) add(s *Shown) string {
	f.next++
	s.ID = fmt.Sprintf("m%d", f.next)
	f.shown = append(f.shown, s)
	return s.ID
}

// find returns a message. mu must be held.
func (f *Fake) find(p transport.Place, id string) (*Shown, error) {
	i := slices.IndexFunc(f.shown, func(s *Shown) bool { return s.ID == id && s.Place.Chat == p.Chat })
	if i < 0 {
		return nil, &transport.SendError{Fault: transport.Gone, Err: errors.New("message_not_found")}
	}
	return f.shown[i], nil
}

// Edit implements transport.Platform.
func (f *Fake) Edit(ctx context.Context, p transport.Place, id string, m transport.Outgoing) error {
	return f.call(ctx, Call{Verb: "edit", Chat: p.Chat, Mark: m.Mark, Body: m.Body}, func() error {
		if err := f.check(m); err != nil {
			return err
		}
		s, err := f.find(p, id)
		if err == nil {
			s.Mark, s.Text, s.Source, s.Format = m.Mark, labelled(m), m.Body.Source, m.Body.Format
		}
		return err
	})
}

// Delete implements transport.Platform.
func (f *Fake) Delete(ctx context.Context, p transport.Place, id string) error {
	return f.call(ctx, Call{Verb: "delete", Chat: p.Chat}, func() error {
		s, err := f.find(p, id)
		if err == nil {
			f.shown = slices.DeleteFunc(f.shown, func(x *Shown) bool { return x == s })
		}
		return err
	})
}

// Upload implements transport.Platform.
func (f *Fake) Upload(ctx context.Context, p transport.Place, u transport.Upload) (id string, err error) {
	r, err := u.Open()
	if err != nil {
		return "", &transport.SendError{Fault: transport.Refused, Err: err}
	}
	content, err := io.ReadAll(r)
	r.Close()
	if err != nil || int64(len(content)) != u.Size || f.opts.Traits.NoFiles {
		return "", &transport.SendError{Fault: transport.Refused, Err: fmt.Errorf("%d bytes of %d, error %v", len(content), u.Size, err)}
	}
	err = f.call(ctx, Call{Verb: "upload", Chat: p.Chat, Mark: u.Mark}, func() error {
		id = f.add(&Shown{Place: p, Mark: u.Mark, Source: string(content), File: u.Name, Repeat: u.Repeat})
		return nil
	})
	return id, err
}

// Find implements transport.Platform.
func (f *Fake) Find(ctx context.Context, p transport.Place, m transport.Mark, _ time.Time) (id string, err error) {
	if f.opts.CannotTell {
		return "", transport.ErrCannotTell
	}
	err = f.call(ctx, Call{Verb: "find", Chat: p.Chat, Mark: m}, func() error {
		i := slices.IndexFunc(f.shown, func(s *Shown) bool { return s.Mark == m && s.Place == p })
		if i < 0 {
			return transport.ErrNotThere
		}
		id = f.shown[i].ID
		return nil
	})
	return id, err
}

// call does what every call has in common.
func (f *Fake) call(ctx context.Context, c Call, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var fate Fate
	if f.opts.Fault != nil {
		fate = f.opts.Fault(c)
	}
	f.mu.Lock()
	f.calls = append(f.calls, c)

	ch := f.chats[c.Chat]
	if ch == nil {
		ch = &fakeChat{}
		f.chats[c.Chat] = ch
	}
	if ch.busy && !errors.Is(fate.Err, ErrDead) {
		f.complain("two calls at once in %s", c.Chat)
	}
	if !errors.Is(fate.Err, ErrDead) {
		if err := f.limit(ch, c); err != nil {
			f.mu.Unlock()
			return err
		}
	}
	ch.busy = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		ch.busy = false
		f.mu.Unlock()
	}()
	if fate.Takes > 0 {
		select {
		case <-time.After(fate.Takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case fate.Err == nil:
		f.mu.Lock()
		defer f.mu.Unlock()
		return do()
	case !fate.Applied:
	case fate.Late > 0:
		time.AfterFunc(fate.Late, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			_ = do() // nobody hears of it
		})
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = do()
	}
	return fate.Err
}

// limit bans who is too fast, for longer every time. mu must be held.
func (f *Fake) limit(ch *fakeChat, c Call) error {
	now := time.Now()
	if now.Before(ch.banned) {
		f.complain("%s in %s %v inside the wait", c.Verb, c.Chat, ch.banned.Sub(now))
		ch.bans++
		ch.banned = now.Add(time.Second << min(ch.bans, 12))
		return &transport.SendError{Fault: transport.Limited, After: ch.banned.Sub(now), Err: errors.New("too many requests")}
	}
	if len(ch.times) >= f.opts.Burst+1 {
		ch.times = ch.times[len(ch.times)-f.opts.Burst:]
	}
	if n := len(ch.times); n >= f.opts.Burst && now.Sub(ch.times[n-f.opts.Burst]) < f.opts.Gap*time.Duration(f.opts.Burst)/2 {
		ch.bans++
		ch.banned = now.Add(time.Second << min(ch.bans, 12))
		return &transport.SendError{Fault: transport.Limited, After: ch.banned.Sub(now), Err: errors.New("too many requests")}
	}
	ch.times = append(ch.times, now)
	return nil
}

// Pardon ends all waits. What a process was told to wait dies with it.
func (f *Fake) Pardon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ch := range f.chats {
		ch.banned, ch.times = time.Time{}, nil
	}
}

func (f *Fake) complain(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

// Wrong is what a platform would complain about.
func (f *Fake) Wrong() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.wrong)
}

// Shown is what people see in a chat, oldest first.
func (f *Fake) Shown(chatID string) []Shown {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Shown
	for _, s := range f.shown {
		if s.Place.Chat == chatID {
			all = append(all, *s)
		}
	}
	return all
}

// Calls is what was asked of the platform.
func (f *Fake) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Forget makes a message disappear, as a person may.
func (f *Fake) Forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown = slices.DeleteFunc(f.shown, func(s *Shown) bool { return s.ID == id })
}

var _ transport.Platform = (*Fake)(nil)
