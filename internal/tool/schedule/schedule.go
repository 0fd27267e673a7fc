// Package schedule is the tool by which a model makes, lists, pauses and cancels
// what wakes its own conversation later. It never touches the schedules of other
// conversations, and it does not run anything: package internal/schedule does.
package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	events "github.com/iris-operator/iris/internal/schedule"
	"github.com/iris-operator/iris/internal/tool"
)

// Options of the tool.
type Options struct {
	Store *events.Store // required
	// Zone is the IANA name that times without one are meant in. Required.
	Zone string
	Now  func() time.Time // nil: time.Now
	// Max is how many schedules one conversation may have: 50.
	Max int
}

// Tool is the tool "schedule".
type Tool struct{ opts Options }

// New checks opts.
func New(opts Options) (*Tool, error) {
	if opts.Store == nil || opts.Zone == "" {
		return nil, errors.New("tool schedule: a store and a time zone are required")
	}
	if _, err := time.LoadLocation(opts.Zone); err != nil {
		return nil, fmt.Errorf("tool schedule: %w", err)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Max == 0 {
		opts.Max = 50
	}
	return &Tool{opts}, nil
}

const schema = `{"type":"object","properties":{
"action":{"type":"string","enum":["once","every","list","pause","resume","cancel"],"description":"once and every make a schedule; pause, resume and cancel need name"},
"text":{"type":"string","description":"What you will be told then. You will not remember this conversation's reasons: say what to do, for whom and why."},
"at":{"type":"string","description":"For once: date and time, 2027-03-28T09:00 in the local zone or with an offset such as 2027-03-28T09:00:00+02:00"},
"cron":{"type":"string","description":"For every: minute hour day-of-month month day-of-week, such as 0 9 * * 1-5 for weekdays at nine"},
"timezone":{"type":"string","description":"IANA name; the local zone if left out"},
"missed":{"type":"string","enum":["skip","run-once"],"description":"What happens when it was due while the server was down: skip is the default"},
"name":{"type":"string","description":"The schedule, as list shows it"}},
"required":["action"]}`

// Spec describes the tool.
func (t *Tool) Spec() tool.Spec {
	return tool.Spec{
		Name: "schedule",
		Description: "Wake yourself in this conversation later, once or again and again, and manage what is planned here. " +
			"When you are woken and there is nothing to tell, answer [SILENT]. Times without a zone are meant in " + t.opts.Zone + ".",
		Schema: json.RawMessage(schema),
	}
}

// Call does one action.
func (t *Tool) Call(ctx context.Context, call tool.Call) tool.Result {
	args := tool.ParseArguments(call.Args)
	action := args.String("action")
	for _, name := range []string{"text", "at", "cron", "timezone", "missed", "name"} {
		args.Optional(name)
	}
	if err := args.Err(); err != nil {
		return tool.Fail(err.Error())
	}
	if ctx.Err() != nil {
		return tool.Fail("The call was aborted.")
	}
	text, err := "", error(nil)
	switch action {
	case "once", "every":
		text, err = t.add(call, action, args)
	case "list":
		text, err = t.list(call)
	case "pause", "resume", "cancel":
		text, err = t.change(call, action, args)
	default:
		err = fmt.Errorf(`action is %q and can be "once", "every", "list", "pause", "resume" or "cancel"`, action)
	}
	if err != nil {
		return tool.Fail(tool.Valid(err.Error()))
	}
	return tool.Result{Text: tool.Valid(tool.Head(text, tool.MaxLines, tool.MaxBytes).Text)}
}

func (t *Tool) add(call tool.Call, action string, args *tool.Arguments) (string, error) {
	e := events.Event{
		ChannelID: call.Request.Conversation.Channel(), Text: args.String("text"),
		User: call.Request.Message.From.ID, Missed: args.Optional("missed"),
	}
	zone := args.Optional("timezone")
	if zone == "" {
		zone = t.opts.Zone
	}
	if action == "once" {
		e.Type = events.OneShot
		at, err := moment(args.String("at"), zone)
		if args.Err() == nil && err != nil {
			return "", err
		}
		if args.Err() == nil && !at.After(t.opts.Now()) {
			return "", fmt.Errorf("%s is in the past; it is %s now", at.Format(time.RFC3339), t.opts.Now().In(at.Location()).Format(time.RFC3339))
		}
		e.At = at.Format(time.RFC3339)
	} else {
		e.Type, e.Schedule, e.Timezone = events.Periodic, args.String("cron"), zone
	}
	if err := args.Err(); err != nil {
		return "", err
	}
	own, err := t.own(call)
	if err != nil {
		return "", err
	}
	if len(own) >= t.opts.Max {
		return "", fmt.Errorf("this conversation has %d schedules already, the most it may have: cancel one first", len(own))
	}
	it, err := t.opts.Store.Add(e)
	if err != nil {
		return "", err
	}
	next, err := it.Event.Next(t.opts.Now(), 3)
	if err != nil {
		return "", err
	}
	var times []string
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return "", err
	}
	for _, n := range next {
		times = append(times, show(n.In(loc)))
	}
	return fmt.Sprintf("Scheduled as %s. Due: %s", it.Name, strings.Join(times, "; ")), nil
}

// moment reads a time with an offset, or one of the clock in a zone.
func moment(s, zone string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		return time.Time{}, fmt.Errorf("timezone %q is not an IANA name such as Europe/Berlin", zone)
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		at, err := time.ParseInLocation(layout, s, loc)
		if err != nil {
			continue
		}
		if at.Format(layout) != s {
			return time.Time{}, fmt.Errorf("%s does not exist in %s: the clocks are put forward then", s, zone)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("at is %q and must be a date and time such as 2027-03-28T09:00", s)
}

func show(t time.Time) string {
	return t.Format("Mon 2006-01-02 15:04 MST") + " (" + t.UTC().Format("15:04 UTC") + ")"
}

// own lists the schedules of the call's conversation.
func (t *Tool) own(call tool.Call) ([]events.Item, error) {
	all, err := t.opts.Store.List()
	if err != nil {
		return nil, err
	}
	var own []events.Item
	for _, it := range all {
		if it.Problem == "" && it.Event.ChannelID == call.Request.Conversation.Channel() {
			own = append(own, it)
		}
	}
	return own, nil
}

func (t *Tool) list(call tool.Call) (string, error) {
	own, err := t.own(call)
	if err != nil {
		return "", err
	}
	if len(own) == 0 {
		return "Nothing is scheduled in this conversation.", nil
	}
	var b strings.Builder
	for _, it := range own {
		when, next := it.Event.At, "paused"
		if it.Event.Type == events.Periodic {
			when = it.Event.Schedule + " " + it.Event.Timezone
		}
		if it.Next != nil {
			next = "next " + show(*it.Next)
		}
		fmt.Fprintf(&b, "%s: %s (%s), %s: %s\n", it.Name, it.Event.Type, when, next, it.Event.Text)
	}
	return b.String(), nil
}

func (t *Tool) change(call tool.Call, action string, args *tool.Arguments) (string, error) {
	name := args.String("name")
	if err := args.Err(); err != nil {
		return "", err
	}
	own, err := t.own(call)
	if err != nil {
		return "", err
	}
	for _, it := range own {
		if name != it.Name && name+".json" != it.Name && name != it.File {
			continue
		}
		if action == "cancel" {
			_, err = t.opts.Store.Cancel(it.File)
			return "Cancelled " + it.Name + ".", err
		}
		it, err = t.opts.Store.Pause(it.File, action == "pause")
		if err != nil {
			return "", err
		}
		if it.Next == nil {
			return it.Name + " is paused.", nil
		}
		return it.Name + " runs again. Due: " + show(*it.Next), nil
	}
	return "", fmt.Errorf("this conversation has no schedule %q; list shows those it has", name)
}
