package facilitator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// Pressed begins the values of a room's buttons.
const Pressed = "room."

// hold takes the screen of a room, which one at a time uses. release gives it back.
func (x *room) hold(ctx context.Context) (release func(), err error) {
	select {
	case x.screen <- struct{}{}:
		return func() { <-x.screen }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// whisper shows a private effect of Iris on the person's line. The effect comes
// again with the same id until it returns nil; what was shown is not shown twice.
func (r *Rooms) whisper(ctx context.Context, x *room, to chat.Address, e facilitate.PersonEffect) error {
	release, err := x.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	l, err := r.ledger(x)
	if err != nil {
		return err
	}
	v := transport.View{Show: transport.ShowNotice, Text: e.Text}
	if e.Release != "" {
		v.Buttons = []transport.Button{{Label: "Yes, share it", Value: l.button(e.To, "yes", e.Release)}, {Label: "No", Value: l.button(e.To, "no", e.Release)}}
	}
	bodies, ok := r.opts.Screen.Render(to, v)
	if !ok {
		return errNoPlace
	}
	for i, body := range bodies {
		s, known := l.get(fmt.Sprintf("%s/%c", e.ID, 'a'+min(i, 25)))
		if known && s.ID != "" {
			continue // shown; a question for consent may have changed since
		}
		s.Person, s.Over = string(e.To), e.Release == ""
		if i == len(bodies)-1 {
			s.Release = e.Release
		}
		if _, err := r.show(ctx, l, to, s, body); err != nil {
			return err
		}
	}
	return nil
}

// errNoPlace is a private line on a platform that is not there.
var errNoPlace = errors.New("no platform shows this private line")

// button is the value of a button on somebody's line. Nobody can make one without
// the ledger, and it says nothing of what it stands for.
func (l *ledger) button(who facilitate.ID, parts ...string) string {
	return Pressed + l.mac(append([]string{string(who)}, parts...)...)
}

// refresh brings what a room shows on platforms up to date soon, once however
// often it is called meanwhile.
func (r *Rooms) refresh(x *room, after time.Duration) {
	if r.opts.Screen == nil || !x.spec.onPlatform() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || x.looking {
		x.again = true
		return
	}
	x.looking, x.again = true, false
	r.timers.Add(1)
	wait := time.NewTimer(max(after, time.Until(x.looked.Add(r.opts.ShowEvery))))
	go func() {
		defer r.timers.Done()
		defer wait.Stop()
		var err error
		select {
		case <-wait.C:
			err = r.look(r.life, x)
		case <-r.life.Done():
		}
		r.mu.Lock()
		x.looking, x.looked = false, time.Now()
		again := x.again
		if err == nil {
			x.failed = 0
		} else {
			x.failed++
		}
		pause := min(time.Duration(1)<<min(x.failed, 6)*time.Second, time.Minute)
		r.mu.Unlock()
		if err != nil && r.life.Err() == nil {
			var send *transport.SendError
			if errors.As(err, &send) {
				pause = max(pause, send.After)
			}
			r.log.Warn("what a room shows", "room", x.spec.ID, "again in", pause, "err", err)
			r.refresh(x, pause)
		} else if again {
			r.refresh(x, 0)
		}
	}()
}

// onPlatform reports whether any address of the room is on a chat platform.
func (s Spec) onPlatform() bool {
	return slices.ContainsFunc(s.channels(), func(c string) bool {
		a, err := chat.Parse(c)
		return err == nil && a.Space != chat.Session && a.Space != chat.Web
	})
}

// look brings the board and the private lines up to date.
func (r *Rooms) look(ctx context.Context, x *room) error {
	_, a, err := r.open(ctx, x.spec.ID)
	if err != nil {
		return err
	}
	flushed := a.Flush(ctx) // what a private line could not be told before
	if errors.Is(flushed, errNoTurn) {
		flushed = nil // it goes with the next turn
	}
	release, err := x.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	l, err := r.ledger(x)
	if err != nil {
		return err
	}
	errs := []error{flushed, r.board(ctx, x, a, l)}
	for _, p := range x.spec.Participants {
		errs = append(errs, r.line(ctx, x, a, l, p))
	}
	return errors.Join(errs...)
}

// board keeps the board of a room pinned.
func (r *Rooms) board(ctx context.Context, x *room, a *facilitate.Agent, l *ledger) error {
	to := x.spec.Address()
	s, known := l.get("board")
	text := boardText(x.spec.Topic, x.header(a), a.Canvas(), a.Room().Statements)
	if text == "" && !known {
		return nil // nothing to show yet
	}
	bodies, ok := r.opts.Screen.Render(to, transport.View{Show: transport.ShowNotice, Text: text})
	if !ok {
		return nil // the room has another address
	}
	s, err := r.show(ctx, l, to, s, bodies[0])
	if err != nil || s.Pinned {
		return err
	}
	err = r.opts.Screen.Pin(ctx, to, s.ID)
	var send *transport.SendError
	switch {
	case errors.As(err, &send) && (send.Fault == transport.Refused || send.Fault == transport.Gone):
		// Without the right to pin it is a message like others, kept up to date.
		r.log.Warn("the board of a room cannot be pinned", "room", x.spec.ID, "err", err)
	case err != nil:
		return err
	}
	s.Pinned = true
	return l.put(s)
}

// maxBoard keeps the board in one message on every platform.
const maxBoard = 3000

// boardText draws the board, "" when there is nothing on it.
func boardText(topic string, h Header, cards []facilitate.Card, said []facilitate.Statement) string {
	var b strings.Builder
	more := 0
	for _, c := range cards {
		line := cardLine(h, c)
		if b.Len()+len(line) > maxBoard {
			more++
			continue
		}
		b.WriteString(line)
	}
	if more > 0 {
		fmt.Fprintf(&b, "_and %d more_\n", more)
	}
	for _, s := range said {
		if line := "- “" + s.Wording + "”\n"; b.Len()+len(line) <= maxBoard {
			b.WriteString(line)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "**" + strings.TrimSpace("Board: "+topic) + "**\n\n" + strings.TrimSpace(b.String())
}

func cardLine(h Header, c facilitate.Card) string {
	var b strings.Builder
	b.WriteString("- ")
	if c.Pinned {
		b.WriteString("📌 ")
	}
	for i, f := range h.Public {
		switch v := c.Fields[f]; {
		case v == "":
		case i == 0:
			fmt.Fprintf(&b, "**%s**", v)
		default:
			fmt.Fprintf(&b, " · %s: %s", f, v)
		}
	}
	if o := c.Options[h.Options]; len(o) > 0 {
		fmt.Fprintf(&b, " · %s: %s", h.Options, strings.Join(o, ", "))
	}
	var keys []string
	for k := range c.Result {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if k != "notice" {
			fmt.Fprintf(&b, " · %s: %s", k, c.Result[k])
		}
	}
	return b.String() + "\n"
}
