package rehearsal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

var (
	interval = lazy(`(?i)\b(?:every|each) (?:(\d{1,2}) ?)?(minute|min|hour)s?\b`)
	weekly   = lazy(`(?i)\b(?:every|each|on) (weekday|workday|weekend|day|morning|noon|evening|night|monday|tuesday|wednesday|thursday|friday|saturday|sunday|week|month)s?\b|^(daily|hourly|weekly|monthly|nightly)\b`)
	clock    = lazy(`(?i)\b(?:at|around) (\d{1,2})(?:[:.](\d\d))?(?: ?(am|pm))?(?: o'?clock)?(?:\W|$)`)
	once     = lazy(`(?i)^(?:remind me\b|tomorrow\b|tonight\b|next (?:week|month|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b|in (?:\d+|an?|one|two|five|ten) (?:minutes?|mins?|hours?|days?|weeks?)\b|at \d{1,2}\b)`)
	wakeWord = lazy(`(?i)^(?:schedule|remind me)(?: a| an)?(?: task| job| reminder)?(?: to)?[\s:,]*`)
)

// days gives cron's day of the week, and the hour when no clock time is said.
var days = map[string]struct{ dow, dom, hour string }{
	"weekday": {"1-5", "*", "9"}, "workday": {"1-5", "*", "9"}, "weekend": {"0,6", "*", "9"},
	"day": {"*", "*", "9"}, "daily": {"*", "*", "9"}, "morning": {"*", "*", "8"}, "noon": {"*", "*", "12"},
	"evening": {"*", "*", "18"}, "night": {"*", "*", "22"}, "nightly": {"*", "*", "22"},
	"monday": {"1", "*", "9"}, "tuesday": {"2", "*", "9"}, "wednesday": {"3", "*", "9"}, "thursday": {"4", "*", "9"},
	"friday": {"5", "*", "9"}, "saturday": {"6", "*", "9"}, "sunday": {"0", "*", "9"},
	"week": {"1", "*", "9"}, "weekly": {"1", "*", "9"}, "month": {"*", "1", "9"}, "monthly": {"*", "1", "9"},
}

// cronOf reads "every weekday at 9:30 say hello" as "30 9 * * 1-5" and "say
// hello". ok is false when no repetition is said.
func cronOf(text string) (cron, task string, ok bool) {
	at, hour, minute := clockOf(text)
	switch {
	case weekly.MatchString(text):
		m := weekly.FindStringSubmatchIndex(text)
		word := strings.ToLower(text[m[0]:m[1]])
		word = strings.TrimSuffix(word[strings.LastIndexByte(word, ' ')+1:], "s")
		if word == "hourly" {
			return "0 * * * *", taskOf(text, m[:2], at), true
		}
		d := days[word]
		if at == nil {
			hour = d.hour
		}
		return fmt.Sprintf("%s %s %s * %s", minute, hour, d.dom, d.dow), taskOf(text, m[:2], at), true
	case interval.MatchString(text):
		m := interval.FindStringSubmatchIndex(text)
		step := "*"
		if m[2] >= 0 && text[m[2]:m[3]] != "1" {
			step = "*/" + strings.TrimLeft(text[m[2]:m[3]], "0")
		}
		if step == "*/" {
			return "", "", false
		}
		cron = step + " * * * *"
		if strings.EqualFold(text[m[4]:m[5]], "hour") {
			cron = "0 " + step + " * * *"
		}
		return cron, taskOf(text, m[:2], nil), true
	}
	return "", "", false
}

// clockOf finds a time of day; without one it is nil and minute 0.
func clockOf(text string) (at []int, hour, minute string) {
	m := clock.FindStringSubmatchIndex(text)
	if m == nil {
		return nil, "", "0"
	}
	h, _ := strconv.Atoi(text[m[2]:m[3]])
	mins := 0
	if m[4] >= 0 {
		mins, _ = strconv.Atoi(text[m[4]:m[5]])
	}
	if m[6] >= 0 {
		pm := strings.EqualFold(text[m[6]:m[7]], "pm")
		if h == 12 && !pm {
			h = 0
		} else if pm && h < 12 {
			h += 12
		}
	}
	if h > 23 || mins > 59 {
		return nil, "", "0"
	}
	return m[:2], strconv.Itoa(h), strconv.Itoa(mins)
}

// taskOf is the text without the words about time.
func taskOf(text string, spans ...[]int) string {
	spans = slices.DeleteFunc(spans, func(s []int) bool { return s == nil })
	slices.SortFunc(spans, func(a, b []int) int { return b[0] - a[0] })
	for _, s := range spans {
		text = text[:s[0]] + " " + text[s[1]:]
	}
	text = wakeWord.ReplaceAllString(strings.TrimSpace(text), "")
	text = strings.Trim(strings.Join(strings.Fields(text), " "), " ,.:;!")
	if text == "" {
		return "say hello"
	}
	return text
}

// schedule handles what is to happen later or again and again. It calls a tool
// for it where one is offered, and shows the event file otherwise.
func schedule(text string, b box) (plan, bool) {
	if len(text) > 400 || strings.Contains(text, "`") && !interval.MatchString(text) && !weekly.MatchString(text) {
		return plan{}, false
	}
	cron, task, ok := cronOf(text)
	starts := interval.FindStringIndex(text) != nil || weekly.FindStringIndex(text) != nil
	if !ok || !starts {
		if once.MatchString(text) {
			return plan{say: "Things that happen once at a set time come from a one-shot event. Without a clock I cannot work out the date, " +
				"so write it yourself: a file in the workspace's `events` folder such as\n\n```json\n" +
				`{"type": "one-shot", "channelId": "<this conversation>", "at": "2030-01-31T09:00:00+01:00", "text": ` + quoted(taskOf(text)) + "}\n```"}, true
		}
		return plan{}, false
	}
	for _, name := range sorted(b.tools) {
		if strings.Contains(strings.ToLower(name), "schedule") {
			if c, ok := fill(b.tools[name], cron, task); ok {
				return plan{say: fmt.Sprintf("Scheduling “%s” as `%s`.", short(task, 80), cron), calls: []llm.Call{c}}, true
			}
		}
	}
	return plan{say: fmt.Sprintf("I read that as the schedule `%s` (minute, hour, day of month, month, day of week) with the task “%s”.\n\n"+
		"Schedules come from events: a file in the workspace's `events` folder wakes Iris, and deleting the file ends it. This one would be\n\n```json\n"+
		`{"type": "periodic", "channelId": "<this conversation>", "schedule": %s, "timezone": "UTC", "text": %s}`+"\n```\n\n"+
		"A real model writes such files by itself when you ask.", cron, short(task, 80), quoted(cron), quoted(task))}, true
}

func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil { // strings always encode
		return `""`
	}
	return string(data)
}

// fill answers the properties of a scheduling tool that it can; ok is false
// when a required one remains, or when there is no place for the cron line.
func fill(t llm.ToolSpec, cron, task string) (llm.Call, bool) {
	var schema struct {
		Properties map[string]struct {
			Enum []any `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal(t.Schema, &schema) != nil {
		return llm.Call{}, false
	}
	args := map[string]string{}
	timed := false
	for name, p := range schema.Properties {
		switch strings.ToLower(name) {
		case "label":
			args[name] = "schedule " + short(task, 40)
		case "cron", "schedule":
			args[name], timed = cron, true
		case "text", "prompt", "message", "task", "what":
			args[name] = task
		case "action", "type", "kind", "command":
			for _, v := range p.Enum {
				if s, ok := v.(string); ok && slices.Contains([]string{"periodic", "every", "create", "add"}, s) {
					args[name] = s
					break
				}
			}
		}
	}
	for _, name := range schema.Required {
		if _, ok := args[name]; !ok {
			return llm.Call{}, false
		}
	}
	return call(t.Name, args), timed
}
