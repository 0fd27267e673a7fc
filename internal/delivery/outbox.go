package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A line is one record of the outbox. Its stream is the conversation; exactly
// one of its pointer fields is set.
type line struct {
	Item string `json:"item"`
	// Open begins an item, Plan says what is to be sent of it, Try that a part
	// is about to be sent, Not that a try had no effect, Sent that the platform
	// has the part, Done ends the item.
	Open *opening `json:"open,omitempty"`
	Plan *plan    `json:"plan,omitempty"`
	Try  *try     `json:"try,omitempty"`
	Not  *not     `json:"not,omitempty"`
	Sent *receipt `json:"sent,omitempty"`
	Done *done    `json:"done,omitempty"`
}

// A kind is what an item is.
type kind string

const (
	kindTurn   kind = "turn" // its placeholder is part 0, its reply the parts from 1
	kindFile   kind = "file"
	kindAsk    kind = "ask"
	kindNotice kind = "notice"
	kindDetail kind = "detail"
	kindSay    kind = "say" // never on disk
)

type opening struct {
	Kind  kind            `json:"kind"`
	Place transport.Place `json:"place"`
	Turn  turn.ID         `json:"turn,omitempty"`
	At    time.Time       `json:"at"`
	// Speaker and Note belong to a turn: who answers, if not Iris herself, and
	// the first words of the placeholder.
	Speaker string `json:"speaker,omitempty"`
	Note    string `json:"note,omitempty"`
	// Said is when somebody wrote what a turn answers, if that was long before it
	// came.
	Said time.Time `json:"said,omitzero"`
	File *fileRef  `json:"file,omitempty"`
	Ask  *turn.Ask `json:"ask,omitempty"`
	Plan *plan     `json:"plan,omitempty"`
}

// A fileRef is a file of the workspace.
type fileRef struct {
	Local string `json:"local"`
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
}

// A plan is what is sent of an item: part 1 is Parts[0]. What has been sent
// already is empty in a plan that replaces another.
type plan struct {
	Show transport.Showing `json:"show,omitempty"`
	// At is when a turn ended.
	At time.Time `json:"at,omitzero"`
	// Closing marks what a question becomes when it is over.
	Closing bool   `json:"closing,omitempty"`
	Parts   []part `json:"parts,omitempty"`
}

// A part is a message, and what the platform has refused of it so far.
type part struct {
	Body  transport.Body `json:"body"`
	Limit int            `json:"limit,omitempty"`
	Plain bool           `json:"plain,omitempty"`
	// File sends Body.Source as a file, Line marks the sentence that stands in
	// for it.
	File bool `json:"file,omitempty"`
	Line bool `json:"line,omitempty"`
}

type try struct {
	Part  int             `json:"part"`
	Place transport.Place `json:"place"`
	At    time.Time       `json:"at"`
}

type not struct {
	Part int `json:"part"`
	// Lost says that it cannot be found out, and that the part is not sent again.
	Lost bool `json:"lost,omitempty"`
}

type receipt struct {
	Part int    `json:"part"`
	ID   string `json:"id"`
}

type done struct {
	// Outcome is "sent", or why it was given up.
	Outcome string `json:"outcome"`
}

// outcomeSent is the outcome of what has arrived.
const outcomeSent = "sent"

// cursorName is the stream and the pin of the place in the journal; no
// conversation has a channel id with a dot.
const cursorName = ".cursor"

// An outbox keeps lines. Everything in it is open as long as it is pinned.
type outbox struct{ j journal.Journal }

// put appends lines of one conversation and returns the number of the last one.
// They are on disk when sync has returned. A line that opens or plans what was
// opened or planned before fails with a *journal.DuplicateError, and with it
// all of them.
func (o outbox) put(conv chat.Address, lines ...line) (int64, error) {
	entries := make([]journal.Entry, len(lines))
	for i, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			return 0, fmt.Errorf("encode a line of the outbox: %w", err)
		}
		e := journal.Entry{Data: data}
		switch {
		case l.Open != nil:
			e.Key, e.Pin = "item:"+l.Item, l.Item
		case l.Done != nil:
			e.Unpin = l.Item
		}
		entries[i] = e
	}
	seq, err := o.j.Append(context.Background(), conv.Channel(), journal.Any, entries...)
	if err != nil {
		return 0, fmt.Errorf("outbox of %s: %w", conv, err)
	}
	return seq, nil
}

func (o outbox) sync() error {
	if err := o.j.Sync(context.Background()); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// opened puts the line that begins an item, and reports whether it is new.
func (o outbox) opened(conv chat.Address, l line) (seq int64, fresh bool, err error) {
	seq, err = o.put(conv, l)
	var dup *journal.DuplicateError
	if errors.As(err, &dup) {
		return 0, false, nil
	}
	return seq, err == nil, err
}

// plan reads what is to be sent of an item from the line with number seq.
func (o outbox) plan(conv chat.Address, seq int64) (plan, error) {
	for r, err := range o.j.Read(context.Background(), conv.Channel(), seq-1) {
		if err != nil {
			return plan{}, fmt.Errorf("outbox of %s: %w", conv, err)
		}
		var l line
		if err := json.Unmarshal(r.Data, &l); err != nil {
			return plan{}, fmt.Errorf("outbox of %s: line %d: %w", conv, r.Seq, err)
		}
		switch {
		case r.Seq != seq:
		case l.Plan != nil:
			return *l.Plan, nil
		case l.Open != nil && l.Open.Plan != nil:
			return *l.Open.Plan, nil
		}
		break
	}
	return plan{}, fmt.Errorf("outbox of %s: line %d is no plan", conv, seq)
}

// move puts the cursor.
func (o outbox) move(seq int64) error {
	data, err := json.Marshal(seq)
	if err == nil {
		_, err = o.j.Append(context.Background(), cursorName, journal.Any, journal.Entry{Data: data, Pin: cursorName, Unpin: cursorName})
	}
	if err != nil {
		return fmt.Errorf("outbox: move the cursor: %w", err)
	}
	return nil
}

// waitName is the stream of what platforms asked to wait.
const waitName = ".wait"

// A pause is what a platform asked to wait.
type pause struct {
	Chat  string    `json:"chat,omitempty"` // empty: everywhere
	Until time.Time `json:"until"`
}

// keep remembers a pause over a restart; one that is over is forgotten.
func (o outbox) keep(p pause, over bool) error {
	data, err := json.Marshal(p)
	e := journal.Entry{Data: data, Unpin: "wait:" + p.Chat}
	if !over {
		e.Pin = e.Unpin
	}
	if err == nil {
		_, err = o.j.Append(context.Background(), waitName, journal.Any, e)
	}
	if err != nil {
		return fmt.Errorf("outbox: keep a pause: %w", err)
	}
	return nil
}

// load reads the cursor (-1 if there is none) and yields, through each, the
// lines of conversations that have open items, from their first open item on.
// Pauses that are pinned go through paused. Its cost follows what is open.
func (o outbox) load(each func(conv chat.Address, seq int64, l line, open bool), paused func(pause)) (cursor int64, err error) {
	cursor = -1
	from, names := map[string]int64{}, map[string]bool{}
	var streams []string
	for _, p := range o.j.Pins() {
		names[p.Name] = true
		if _, ok := from[p.Stream]; !ok {
			from[p.Stream] = p.Seq
			streams = append(streams, p.Stream)
		}
	}
	slices.SortStableFunc(streams, func(a, b string) int { return cmp.Compare(from[a], from[b]) })
	for _, stream := range streams {
		conv, perr := chat.Parse(stream)
		for r, err := range o.j.Read(context.Background(), stream, from[stream]-1) {
			switch {
			case err != nil:
				return 0, fmt.Errorf("read the outbox of %s: %w", stream, err)
			case stream == cursorName:
				err = json.Unmarshal(r.Data, &cursor)
			case stream == waitName:
				var p pause
				if err = json.Unmarshal(r.Data, &p); err == nil && names["wait:"+p.Chat] {
					paused(p)
				}
			case perr != nil:
				err = perr
			default:
				var l line
				if err = json.Unmarshal(r.Data, &l); err == nil {
					each(conv, r.Seq, l, names[l.Item])
				}
			}
			if err != nil {
				return 0, fmt.Errorf("read the outbox of %s: line %d: %w", stream, r.Seq, err)
			}
		}
	}
	return cursor, nil
}
