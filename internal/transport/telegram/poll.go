package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/iris-operator/iris/internal/durable"
)

const (
	// settle is how long the loop waits at first for what has come to be on disk
	// before it asks again, and settleMost in the end, while a download runs:
	// as long as something is open the server answers at once.
	settle     = 100 * time.Millisecond
	settleMost = time.Second
)

// poll asks for updates until ctx ends. It waits for no turn and no download.
func (t *Telegram) poll(ctx context.Context, ready func()) error {
	offset := t.loadOffset()
	wait, failures := settle, 0
	first, last := true, t.opts.Now()
	for ctx.Err() == nil {
		span := t.opts.PollTime
		if first {
			span = 0 // to know at once whether it works
		}
		raw, err := t.updates(ctx, offset, span)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.failed(err)
			if errors.Is(err, errConflict) && failures == 0 {
				t.removeWebhook(ctx)
			}
			_ = sleep(ctx, pause(failures, err))
			failures++
			continue
		default:
			failures = 0
			t.answered()
			if first {
				first = false
				ready()
			}
		}
		if ctx.Err() == nil {
			t.dispatch(ctx, raw)
		}
		t.mu.Lock()
		idle, busy := t.handling.idle, len(t.handling.open) > 0
		if now := t.opts.Now(); len(raw) > 0 || busy {
			last = now
		} else if now.Sub(last) > offsetAge {
			t.handling.reset() // the numbers may begin anew
			offset, last = 0, now
		}
		t.mu.Unlock()
		if busy {
			timer := time.NewTimer(wait)
			select {
			case <-idle:
				wait = settle
			case <-timer.C:
				wait = min(2*wait, settleMost)
			case <-ctx.Done():
			}
			timer.Stop()
		} else {
			wait = settle
		}
		t.mu.Lock()
		if n := t.handling.offset(); n > offset {
			offset = n
		}
		t.mu.Unlock()
		t.saveOffset(offset)
	}
	return nil
}

// dispatch hands updates on. It blocks for nothing.
func (t *Telegram) dispatch(ctx context.Context, raw []json.RawMessage) {
	var batch []*incoming
	for _, r := range raw {
		var u models.Update
		err := json.Unmarshal(r, &u)
		if u.ID == 0 {
			var only struct {
				ID int64 `json:"update_id"`
			}
			if json.Unmarshal(r, &only) != nil || only.ID == 0 {
				continue
			}
			u.ID = only.ID
		}
		t.mu.Lock()
		fresh := t.handling.begin(u.ID)
		t.mu.Unlock()
		if !fresh {
			continue
		}
		switch {
		case err != nil:
			t.log.Error("an update cannot be read and is left out", "update", u.ID, "err", err)
			t.end(u.ID)
		case u.CallbackQuery != nil:
			t.tasks.Go(func() {
				defer t.end(u.ID)
				t.click(ctx, u.CallbackQuery)
			})
		case u.Message != nil:
			if in := t.sort(ctx, u.ID, u.Message); in != nil {
				batch = append(batch, in)
			}
		default:
			t.end(u.ID)
		}
	}
	t.enqueue(ctx, batch)
}

// end says that an update is dealt with: on disk, or of no interest.
func (t *Telegram) end(ids ...int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.handling.end(id)
	}
}

// open is how many updates are not dealt with.
func (t *Telegram) open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.handling.open)
}

func (t *Telegram) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trouble != nil {
		t.log.Info("messages flow")
	}
	t.polled, t.polledOnce, t.trouble = t.opts.Now(), true, nil
}

// failed notes why there is no answer. The first of a kind is logged loudly.
func (t *Telegram) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	level := t.log.Debug
	if t.trouble == nil || kindOf(t.trouble) != kindOf(err) {
		level = t.log.Warn
	}
	t.trouble = err
	level("no answer from Telegram", "err", err)
}

// kindOf tells the failures apart that ask for different cures.
func kindOf(err error) string {
	switch e := fault(err); {
	case errors.Is(err, errConflict):
		return "conflict"
	default:
		return string(e.Fault)
	}
}

// removeWebhook lets getUpdates work where a webhook was set up once. What waits
// is kept.
func (t *Telegram) removeWebhook(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	info, err := t.api.GetWebhookInfo(ctx)
	if err != nil || info.URL == "" {
		return
	}
	t.log.Warn("a webhook got the messages of this bot; it is removed", "webhook", info.URL)
	if _, err := t.api.DeleteWebhook(ctx, &bot.DeleteWebhookParams{}); err != nil {
		t.log.Warn("the webhook is not removed", "err", fault(err))
	}
}

// commands are shown to people who type a slash.
var commands = []models.BotCommand{
	{Command: "stop", Description: "End the running turn"},
	{Command: "reset", Description: "Forget this conversation and start afresh"},
	{Command: "compact", Description: "Shorten the context"},
	{Command: "verbose", Description: "Show tool calls: on, off or status"},
	{Command: "help", Description: "What can be said"},
}

// announceCommands tells Telegram what the commands are; without it they work
// all the same.
func (t *Telegram) announceCommands(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if _, err := t.api.SetMyCommands(ctx, &bot.SetMyCommandsParams{Commands: commands}); err != nil && ctx.Err() == nil {
		t.log.Warn("the commands are not announced", "err", fault(err))
	}
}

// offsetAge is how long a kept offset is good. Telegram numbers anew after a week
// without updates, and an offset above the new numbers would confirm what nobody
// has read.
const offsetAge = 24 * time.Hour

type offsetFile struct {
	Bot    int64     `json:"bot"`
	Offset int64     `json:"offset"`
	At     time.Time `json:"at"`
}

// loadOffset is where to begin: what Telegram itself knows, if there is nothing
// better.
func (t *Telegram) loadOffset() int64 {
	data, err := os.ReadFile(filepath.Join(t.opts.Dir, "offset.json"))
	var f offsetFile
	if err != nil || json.Unmarshal(data, &f) != nil || f.Bot != t.me.id {
		return 0
	}
	if age := t.opts.Now().Sub(f.At); age < 0 || age > offsetAge {
		return 0
	}
	return f.Offset
}

// saveOffset keeps the offset. It is an aid: what is read twice is known by its
// id.
func (t *Telegram) saveOffset(offset int64) {
	t.mu.Lock()
	same := t.saved == offset
	t.saved = offset
	me := t.me.id
	t.mu.Unlock()
	if same {
		return
	}
	data, err := json.Marshal(offsetFile{me, offset, t.opts.Now()})
	if err == nil {
		err = durable.Replace(filepath.Join(t.opts.Dir, "offset.json"), data, durable.Keep(0o600))
	}
	if err != nil {
		t.log.Debug("the offset is not kept", "err", err)
	}
}
