package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/chat"
)

// The types of event files.
const (
	Immediate = "immediate" // due now
	OneShot   = "one-shot"  // due at At
	Periodic  = "periodic"  // due by Schedule in Timezone, until the file is deleted
)

// What is done about an occurrence that was missed.
const (
	Skip    = "skip"     // nothing: the default
	RunOnce = "run-once" // the latest one that was missed runs late
)

// Bounds of an event file.
const (
	MaxFile = 256 << 10 // bytes
	MaxText = 64 << 10  // bytes of Text
)

// An Event is the content of an event file. Fields that are not listed are
// ignored, so that other programs can keep data of theirs there.
type Event struct {
	Type      string `json:"type"`
	ChannelID string `json:"channelId"`
	Text      string `json:"text"`
	// At is when a one-shot is due: RFC 3339 with an offset.
	At string `json:"at,omitempty"`
	// Schedule and Timezone are a cron line of five fields and an IANA name.
	Schedule string `json:"schedule,omitempty"`
	Timezone string `json:"timezone,omitempty"`
	// User is for whom it was made; it travels with the message.
	User string `json:"user,omitempty"`
	// Missed is Skip, RunOnce or empty for Skip.
	Missed string `json:"missed,omitempty"`
	// Quiet are hours of the day in which it does not run but waits for their
	// end, "22:00-07:00", or "off". Empty: the configured ones for a periodic
	// event, none for the others.
	Quiet string `json:"quiet,omitempty"`
	// Paused events stay where they are and do not run.
	Paused bool `json:"paused,omitempty"`
}

// A due Event is one that was checked.
type checked struct {
	Event
	conv  chat.Address
	at    time.Time // of a one-shot
	rule  *Rule     // of a periodic event
	quiet *quiet    // its own; nil: the configured ones
}

// ParseEvent reads and checks an event file. The error says what is wrong in
// words for whoever wrote it.
func ParseEvent(data []byte) (Event, error) {
	c, err := parse(data)
	return c.Event, err
}

func parse(data []byte) (checked, error) {
	var e Event
	if len(data) > MaxFile {
		return checked{}, fmt.Errorf("the file has %d bytes, more than %d", len(data), MaxFile)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return checked{}, errors.New("the file is empty")
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return checked{}, fmt.Errorf("not an event: %w", err)
	}
	return e.check()
}

// Check says what is wrong with an event, in words for whoever wrote it.
func (e Event) Check() error {
	_, err := e.check()
	return err
}

func (e Event) check() (checked, error) {
	c := checked{Event: e}
	var err error
	switch {
	case e.ChannelID == "":
		return c, errors.New("channelId is required")
	case strings.TrimSpace(e.Text) == "":
		return c, errors.New("text is required")
	case len(e.Text) > MaxText:
		return c, fmt.Errorf("text has %d bytes, more than %d", len(e.Text), MaxText)
	case !utf8.ValidString(e.Text) || !utf8.ValidString(e.User):
		return c, errors.New("text is not UTF-8")
	}
	if c.conv, err = chat.Parse(e.ChannelID); err != nil {
		return c, fmt.Errorf("channelId: %w", err)
	}
	if e.Missed != "" && e.Missed != Skip && e.Missed != RunOnce {
		return c, fmt.Errorf("missed is %q and can be %s or %s", e.Missed, Skip, RunOnce)
	}
	switch e.Type {
	case Immediate:
	case OneShot:
		if c.at, err = time.Parse(time.RFC3339, e.At); err != nil {
			return c, fmt.Errorf("at is %q and must be a date and time with an offset, such as 2027-03-28T09:00:00+02:00", e.At)
		}
	case Periodic:
		loc, err := zone(e.Timezone)
		if err != nil {
			return c, err
		}
		if c.rule, err = ParseRule(e.Schedule, loc); err != nil {
			return c, err
		}
	default:
		return c, fmt.Errorf("type is %q and can be %s, %s or %s", e.Type, Immediate, OneShot, Periodic)
	}
	if e.Quiet != "" {
		q, err := parseQuiet(e.Quiet)
		if err != nil {
			return c, err
		}
		c.quiet = &q
	}
	return c, nil
}

// prompt is the text that the conversation gets.
func (c *checked) prompt(file string) string {
	when := map[string]string{Immediate: Immediate, OneShot: c.At, Periodic: c.Schedule}[c.Type]
	return fmt.Sprintf("[EVENT:%s:%s:%s] %s", file, c.Type, when, c.Text)
}

// Next returns up to n times at which the event is due after t, in its own zone.
func (e Event) Next(t time.Time, n int) ([]time.Time, error) {
	c, err := e.check()
	if err != nil {
		return nil, err
	}
	switch e.Type {
	case Immediate:
		return []time.Time{t}, nil
	case OneShot:
		if c.at.After(t) {
			return []time.Time{c.at}, nil
		}
		return nil, nil
	}
	var out []time.Time
	for len(out) < n {
		if t = c.rule.Next(t); t.IsZero() {
			break
		}
		out = append(out, t)
	}
	return out, nil
}
